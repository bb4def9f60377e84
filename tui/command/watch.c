/* anneal watch: opens the workbench, on the list of runs or on one run. `anneal` alone is the same. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "runs/run.h"
#include "tui/command/command.h"
#include "tui/command/commands.h"
#include "tui/view/keys.h"
#include "tui/view/session.h"

/* What the form of a new run offers: the keys used most. An empty field is left to the trainer's default. */
static const struct form_field fields[] = {
    {"name", "name", "made from preset", "how the run is called in lists; its id adds date and time", NULL},
    {"model.preset", "preset", "shakespeare", "size of the model", "tiny|small|medium|shakespeare"},
    {"data.train", "data", "kjv", "a recipe (kjv), a .tok file, a text file or a folder of texts", NULL},
    {"data.tokenizer", "tokenizer", "bpe:2048", "bytes, bpe:N or a tokenizer.json", NULL},
    {"train.total_steps", "steps", "2000", "optimizer steps until the run is finished", NULL},
    {"train.batch_size", "batch size", "16", "sequences a micro-batch", NULL},
    {"train.seq_len", "sequence length", "256", "tokens a sequence", NULL},
    {"train.learning_rate", "learning rate", "3e-4", "the peak of the schedule", NULL},
    {"train.optimizer", "optimizer", "adamw", "how gradients become steps", "adamw|lion"},
    {"train.schedule", "schedule", "cosine", "how the learning rate goes on after warm-up",
     "constant|warmup_constant|cosine|linear|inverse_sqrt"},
    {"train.warmup_steps", "warm-up", "100", "steps until the learning rate is at its peak", NULL},
    {"eval.every", "evaluate every", "100", "steps between evaluations on the held-out text", NULL},
    {"eval.early_stopping_patience", "patience", "0",
     "evaluations without improvement until it stops; 0: never", NULL},
    {"sample.prompt", "sample prompt", "In the beginning", "how the sample texts begin", NULL},
    {"train.seed", "seed", "1337", "the same seed gives the same run", NULL},
    {"device", "device", "auto", "where to train", "auto|cpu|cuda"},
};

int command_watch(int argc, char **argv)
{
    static const struct option options[] = {
        {"keys", no_argument, NULL, 'k'}, {"help", no_argument, NULL, 'h'}, {0}};
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
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
            return command_usage("watch", NULL);
        }
    }
    if (argc - optind > 1) return command_usage("watch", "more than one run was named");
    struct err err = {0};
    char home[4096];
    struct workbench_options workbench = {.home = home,
                                          .run_id = argc > optind ? argv[optind] : NULL,
                                          .fields = fields,
                                          .field_count = sizeof fields / sizeof *fields};
    if (file_anneal_home(home, sizeof home, &err) || session_run(&workbench, &err)) return command_fail(&err);
    return 0;
}
