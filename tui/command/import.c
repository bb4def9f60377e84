/* `anneal import`: histories from files, as a new run. */

#include "runs/exchange/import.h"
#include "core/base/text.h"
#include "tui/command/command.h"

struct options {
    const char *name;
};

static enum status run(const void *options, const struct words *words, struct err *err)
{
    struct store *store = NULL;
    struct import_outcome outcome;
    enum status status = store_open(NULL, false, &store, err);
    if (!status)
        status = import_files(store, words->words, (size_t)words->count,
                              ((const struct options *)options)->name, &outcome, err);
    store_close(store);
    if (status) return status;
    const char *id = CLEAN_LINE(outcome.id);
    puts(id);
    fprintf(stderr, "imported %lld step%s and %lld evaluation%s; see: %s show %s\n", (long long)outcome.steps,
            text_plural(outcome.steps), (long long)outcome.evals, text_plural(outcome.evals), TEXT_PROGRAM,
            id);
    return STATUS_OK;
}

static const struct option_spec options[] = {
    OPTION("name", OPTION_TEXT, AT(name), "NAME",
           "the name of the new run (default: the name of the run or of the folder that the files come "
           "from). A run from anneal's CSV keeps its id unless that id is taken"),
    {0},
};

const struct command command_import = COMMAND(
    "import", "FILE...", 1, -1, options, "make a run from CSV, TensorBoard's scalars or llm.c's main.log",
    run, (struct options){0},
    .about =
        "Makes one new run, with status finished, from the history in the files, and prints its id. The "
        "commands runs, show, watch, compare and export treat it like any other run. If a file is bad, "
        "nothing is imported.\n\n"
        "  anneal's CSV   what `anneal export` wrote: any of its tables, of one run, several files at once\n"
        "  TensorBoard    scalars as CSV, Wall time,Step,Value; the metric is the file's name: loss.csv,\n"
        "                 run-7-tag-val_loss.csv; known are loss, lr, grad_norm, clip_scale, "
        "tokens_per_sec,\n"
        "                 step_ms, mfu, epoch, tokens, val_loss, val_perplexity, eval_ms, and some names\n"
        "                 of other programs (train/loss, learning_rate, validation_loss, perplexity, ...)\n"
        "  llm.c          its main.log: s:STEP trl:LOSS lr:LR norm:NORM, s:STEP tel:LOSS, s:STEP eval:X",
    .notes = "  anneal import results/*.csv\n"
             "  anneal import log124M/main.log --name gpt2-124M\n"
             "  anneal import scalars/*.csv --name other");
