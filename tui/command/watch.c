/* anneal watch: opens the workbench, on the list of runs or on one run. `anneal` alone is the same. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/model/config.h"
#include "tui/command/command.h"
#include "tui/command/commands.h"
#include "tui/command/form_preview.h"
#include "tui/command/run_commands.h"
#include "tui/view/keys.h"
#include "tui/view/session.h"

/* What the form of a new run offers: the keys used most. An empty field is left to the trainer; the defaults
 * shown are those of the configuration, except for the two that are no keys of it. */
static const struct form_field offered[] = {
    {"name", "name", "the preset's", "how the run is called; its id adds date and time", NULL},
    {"model.preset", "preset", NULL, "size of the model", NULL},
    {"data.train", "data", NULL, "a recipe (kjv), token files or texts: a name, a folder, a pattern, a list",
     NULL},
    {"data.tokenizer", "tokenizer", NULL, "bytes, bpe:N or a tokenizer.json", NULL},
    {"train.total_steps", "steps", NULL, "optimizer steps until the run is finished", NULL},
    {"train.batch_size", "batch size", NULL, "sequences a micro-batch", NULL},
    {"train.seq_len", "sequence length", NULL, "tokens a sequence", NULL},
    {"train.learning_rate", "learning rate", NULL, "the peak of the schedule", NULL},
    {"train.optimizer", "optimizer", NULL, "how gradients become steps", NULL},
    {"train.schedule", "schedule", NULL, "how the learning rate goes on after warm-up", NULL},
    {"train.warmup_steps", "warm-up", NULL, "steps until the learning rate is at its peak", NULL},
    {"eval.every", "evaluate every", NULL, "steps between evaluations on the held-out text", NULL},
    {"eval.early_stopping_patience", "patience", NULL,
     "evaluations without improvement until it stops; 0: never", NULL},
    {"sample.prompt", "sample prompt", NULL, "how the sample texts begin", NULL},
    {"train.seed", "seed", NULL, "the same seed gives the same run", NULL},
    {"device", "device", "auto", "where to train", "auto|cpu|cuda"},
};
enum { OFFERED = sizeof offered / sizeof *offered };

static void fill_defaults(struct form_field fields[OFFERED], char text[OFFERED][64])
{
    struct config config;
    config_init(&config);
    for (int i = 0; i < OFFERED; i++) {
        fields[i] = offered[i];
        if (*config_words(fields[i].key)) fields[i].choices = config_words(fields[i].key);
        if (fields[i].fallback) continue;
        if (!config_get(&config, fields[i].key, text[i], 64)) text[i][0] = '\0';
        fields[i].fallback = text[i];
    }
}

int command_watch(int argc, char **argv)
{
    static const struct option options[] = {
        {"keys", no_argument, NULL, 'k'}, {"help", no_argument, NULL, 'h'}, {0}};
    opterr = 0;
    optind = 0;
    for (int option; (option = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        switch (option) {
        case 'k':
            keys_print_markdown(stdout);
            return 0;
        case 'h':
            puts("usage: anneal watch [RUN]\n"
                 "Opens the workbench, on the list of runs or on RUN: an id, a unique prefix of one, a name, "
                 "or latest.\n"
                 "Leaving it (q, Ctrl-C) stops no run. --keys prints the keys as a Markdown table.");
            return 0;
        default:
            return run_option_error(argv, option);
        }
    }
    if (argc - optind > 1) return command_usage("watch", "more than one run was named");
    struct err err = {0};
    char home[4096];
    char defaults[OFFERED][64];
    struct form_field fields[OFFERED];
    fill_defaults(fields, defaults);
    struct workbench_options workbench = {.home = home,
                                          .run_id = argc > optind ? argv[optind] : NULL,
                                          .fields = fields,
                                          .field_count = OFFERED,
                                          .preview = form_preview_make};
    if (file_anneal_home(home, sizeof home, &err) || session_run(&workbench, &err)) return command_fail(&err);
    return 0;
}
