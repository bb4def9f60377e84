/* anneal train: a new run. */
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/model/imported_model.h"
#include "tui/command/command.h"
#include "tui/command/commands.h"
#include "tui/command/dry_run.h"
#include "tui/command/training_words.h"
#include "tui/view/launch.h"

static const char help[] =
    "usage: anneal train [CONFIG.ini] [--section.key=value ...] [options]\n"
    "\n"
    "Trains a language model from scratch and records every step. Without a configuration it trains the "
    "preset\n"
    "`shakespeare` on the King James Bible.\n"
    "\n"
    "  --name NAME        what to call the run (default: the preset's name)\n"
    "  --device D         auto | cpu | cuda\n"
    "  --wait             until the device has room, where other anneal processes hold its memory: first "
    "come,\n"
    "                     first served; only what is short (generate, evaluate, bench) passes who waits, "
    "and no\n"
    "                     more of that once nothing else stands in the way of the first\n"
    "  --dry-run          checks configuration, data and device, prints what would be trained, how large "
    "and with which\n"
    "                     learning rate, and leaves no run behind; --json: as one JSON value\n"
    "  --watch            train in the background and open the workbench on it\n"
    "  --progress P       auto | bar | plain | json | none (auto: a bar on a terminal, plain lines "
    "elsewhere)\n"
    "                     json: one object a line on standard output, the first says which run it is, the "
    "last "
    "how it\n"
    "                     ended; between them step, eval, sample, checkpoint, event, order, status\n"
    "  --check-allocations\n"
    "                     fails in the first step, after step 1, that allocates memory: of the heap, by the "
    "training\n"
    "                     thread, or of the device or page-locked, by any. Not watched: evaluations, "
    "samples, "
    "saves and\n"
    "                     the recording of CUDA graphs between steps; on the heap, the threads that read "
    "batches, write\n"
    "                     checkpoints and record, and a traced step on a GPU, where NVIDIA's CUPTI "
    "allocates\n"
    "  --help-config      all configuration keys with default, unit and accepted values\n"
    "\n"
    "  anneal train                                             the default run\n"
    "  anneal train my.ini --train.learning_rate=1e-3           a file, and a key that overrides it\n"
    "  anneal train --data.train=corpus.txt --data.tokenizer=bpe:4096 --model.vocab_size=4096\n"
    "  anneal train --data.train='shards/train_*.bin' --data.val='shards/val_*.bin' "
    "--model.vocab_size=50257\n"
    "\n"
    "What a run takes of a device it reserves first, beside all your runs on this host, of whatever "
    "ANNEAL_HOME;\n"
    "ANNEAL_LEDGER=/FOLDER, the same for all, makes it all users' who may write there.\n"
    "\n"
    "Ctrl-C saves a checkpoint and leaves (twice: leaves at once); `anneal resume RUN` goes on from there.\n";

/* Starts the same command without --watch in the background, waits for its run, opens the workbench on it. */
static int train_and_watch(int argc, char **argv)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    const char *arguments[SETTINGS_MAX + 16];
    int count = 0;
    arguments[count++] = "anneal";
    struct launch launch = {0};
    struct store *store = NULL;
    struct err err = {0};
    for (int i = 0; i < argc && count < SETTINGS_MAX + 12; i++)
        if (strcmp(argv[i], "--watch") != 0) arguments[count++] = argv[i];
    arguments[count++] = "--progress=none";
    arguments[count] = NULL;
    enum status status = isatty(STDOUT_FILENO)
                             ? file_anneal_home(home, sizeof home, &err)
                             : err_set(&err, STATUS_FAILED,
                                       "--watch: the workbench needs a terminal, and standard output is none "
                                       "(without --watch it trains and prints its progress)");
    if (!status) status = store_open(home, &store, &err);
    if (!status) status = launch_start(&launch, home, arguments, &err);
    if (!status) fputs("preparing the corpus and the model...\n", stderr);
    while (!status && (status = launch_poll(&launch, store, id, &err)) == STATUS_BUSY) {
        poll(NULL, 0, 50);
        status = STATUS_OK;
    }
    launch_release(&launch);
    store_close(store);
    if (status) return command_fail(&err);
    char *words[] = {(char *)"watch", id, NULL};
    return command_watch(2, words);
}

int command_train(int argc, char **argv)
{
    struct training_words words;
    struct training_options options = {0};
    struct train_report report;
    struct err err = {0};
    enum status status = training_words_parse(argc, argv, &words, &err);
    if (!status && !words.help && !words.help_config && words.json && !words.dry_run)
        status = err_set(&err, STATUS_USAGE, "--json: only with --dry-run (a run speaks --progress json)");
    if (!status && words.dry_run && words.watch)
        status = err_set(&err, STATUS_USAGE, "--watch: a dry run leaves nothing to look at");
    if (status) return command_usage("train", err.text);
    if ((words.help || words.help_config)) {
        if (words.help)
            fputs(help, stdout);
        else
            config_print_help(stdout);
        return 0;
    }
    config_init(&options.config);
    if (words.positional) status = config_read_file(&options.config, words.positional, &err);
    if (!status) status = training_words_take(&words, &options, &report, &err);
    if (status) return command_fail(&err);
    if (words.watch) return train_and_watch(argc, argv);
    options.name = words.name;
    char hidden[PATH_MAX];
    if (words.name && imported_model_find(words.name, hidden, sizeof hidden))
        fprintf(stderr,
                "anneal: warning: --name %s: from now on means the run, and no longer the imported model "
                "(whose folder is %s)\n",
                words.name, hidden);
    status = words.dry_run ? training_try(&options, dry_run_print, &words.json, &err)
                           : training_start(&options, &err);
    return training_words_exit(status, &report, &err);
}
