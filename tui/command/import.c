/* `anneal import`: histories from files, as a new run. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "runs/exchange/import.h"
#include "tui/command/clean.h"
#include "tui/command/run_commands.h"

static void print_help(void)
{
    puts(
        "usage: anneal import FILE... [--name NAME]\n"
        "\n"
        "Makes one new run, with status finished, of the history in the files, and prints its id. Then runs, "
        "show,\n"
        "watch, compare and export work on it as on any other. Bad input leaves nothing behind.\n"
        "\n"
        "  our own CSV    what `anneal export` wrote: any of its tables, of one run, several files at once\n"
        "  TensorBoard    scalars as CSV, Wall time,Step,Value; the metric is the file's name: loss.csv,\n"
        "                 run-7-tag-val_loss.csv; known are loss, lr, grad_norm, clip_scale, "
        "tokens_per_sec,\n"
        "                 step_ms, mfu, epoch, tokens, val_loss, val_perplexity, eval_ms, and some "
        "spellings\n"
        "                 of others (train/loss, learning_rate, validation_loss, perplexity, ...)\n"
        "  llm.c          its main.log: s:STEP trl:LOSS lr:LR norm:NORM, s:STEP tel:LOSS, s:STEP eval:X\n"
        "\n"
        "  --name NAME    what to call it; without it, as the run or the folder that the files come from.\n"
        "                 A CSV's run keeps its id where that is free\n"
        "\n"
        "  anneal import results/*.csv\n"
        "  anneal import log124M/main.log --name gpt2-124M\n"
        "  anneal import scalars/*.csv --name theirs");
}

int command_import(int argc, char **argv)
{
    static const struct option options[] = {
        {"name", required_argument, NULL, 'n'}, {"help", no_argument, NULL, 'h'}, {0}};
    const char *name = NULL;
    opterr = 0;
    optind = 0;
    for (int option; (option = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        if (option == 'h') {
            print_help();
            return 0;
        }
        if (option != 'n') return run_option_error(argv, option);
        name = optarg;
    }
    if (optind == argc) return command_usage("import", "needs a FILE");
    for (int i = optind; i < argc; i++)
        if (!*argv[i]) return command_usage("import", "the name of a FILE is empty");
    if (name && !*name) return command_usage("import", "--name needs a name");

    struct store *store = NULL;
    struct import_outcome outcome;
    struct err err = {0};
    enum status status = run_open_store(&store, &err);
    if (!status)
        status = import_files(store, (const char *const *)argv + optind, (size_t)(argc - optind), name,
                              &outcome, &err);
    if (!status) {
        char id[3 * sizeof outcome.id];
        clean_line(id, sizeof id, outcome.id);
        puts(id);
        fprintf(stderr, "imported %lld step%s and %lld evaluation%s; see: anneal show %s\n",
                (long long)outcome.steps, outcome.steps == 1 ? "" : "s", (long long)outcome.evals,
                outcome.evals == 1 ? "" : "s", id);
        status = run_check_stdout(&err);
    }
    store_close(store);
    return status ? command_fail(&err) : 0;
}
