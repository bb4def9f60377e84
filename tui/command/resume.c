/* anneal resume: goes on with a run that was stopped, crashed or stopped early, as a new segment of the same
 * run. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "tui/command/command.h"
#include "tui/command/commands.h"
#include "tui/command/training_words.h"

static const char help[] =
    "usage: anneal resume RUN [--section.key=value ...] [--progress P]\n"
    "\n"
    "Goes on from the newest checkpoint of RUN (an id, a unique prefix of one, a name, or `latest`), as a "
    "new segment of\n"
    "the same run. Unchanged, the losses that follow are bit for bit those of a run that was never "
    "interrupted.\n"
    "The model, the data and the optimizer must stay as they are; anything else may be changed:\n"
    "\n"
    "  anneal resume latest                                 go on where it stopped\n"
    "  anneal resume latest --train.total_steps=4000        train on\n"
    "  anneal resume latest --eval.early_stopping_patience=10\n";

/* What a checkpoint depends on; a change would load other shapes or other tokens. */
static enum status refuse_changes(const struct config *old, const struct config *new, struct err *err)
{
    static const char *const keys[] = {"model.preset",
                                       "model.vocab_size",
                                       "model.hidden_dim",
                                       "model.num_layers",
                                       "model.num_heads",
                                       "model.num_kv_heads",
                                       "model.head_dim",
                                       "model.rope_base",
                                       "model.intermediate_dim",
                                       "model.tie_weights",
                                       "model.qk_norm",
                                       "model.qkv_bias",
                                       "model.norm_eps",
                                       "train.optimizer",
                                       "data.train",
                                       "data.tokenizer",
                                       "data.val_fraction",
                                       "data.shuffle",
                                       "train.seq_len",
                                       "train.seed",
                                       "data.val",
                                       "data.padding",
                                       "model.rope_scaling",
                                       "model.rope_factor",
                                       "model.rope_low_freq_factor",
                                       "model.rope_high_freq_factor",
                                       "model.rope_original_len"};
    char before[CONFIG_TEXT_MAX], after[CONFIG_TEXT_MAX];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        config_get(old, keys[i], before, sizeof before);
        config_get(new, keys[i], after, sizeof after);
        if (strcmp(before, after) != 0)
            return err_set(err, STATUS_USAGE,
                           "%s = %.80s: the run was trained with %.80s, a resumed run must keep that",
                           keys[i], after, before);
    }
    return STATUS_OK;
}

static enum status read_run(const char *word, struct run_info *run, struct config *config, struct err *err)
{
    char home[PATH_MAX], *text = NULL;
    struct store *store = NULL;
    enum status status = file_anneal_home(home, sizeof home, err);
    if (!status) status = store_open(home, &store, err);
    if (!status) status = run_find(store, word, run, err);
    if (!status) status = run_config(store, run->id, &text, err);
    config_init(config);
    if (!status) status = config_read_effective(config, text, run->id, err);
    if (!status) status = config_finish(config, err);
    free(text);
    store_close(store);
    return status;
}

int command_resume(int argc, char **argv)
{
    struct training_words words;
    struct training_options options = {0};
    struct run_info run;
    struct config old;
    struct err err = {0};
    enum status status = training_words_parse(argc, argv, &words, &err);
    if (!status && words.help) {
        fputs(help, stdout);
        return 0;
    }
    if (!status && !words.positional) return command_usage("resume", "which run?");
    if (!status && words.name) status = err_set(&err, STATUS_USAGE, "--name: a resumed run keeps its name");
    if (!status && words.watch)
        status = err_set(&err, STATUS_USAGE, "--watch: only for train; open `anneal watch` beside it");
    if (!status) status = read_run(words.positional, &run, &old, &err);
    if (status) return command_fail(&err);
    options.config = old;
    options.device = words.device;
    options.progress = words.progress;
    options.wait = words.wait;
    options.check_allocations = words.check_allocations;
    status = training_words_apply(&words, &options.config, &err);
    if (!status) status = refuse_changes(&old, &options.config, &err);
    return status ? command_fail(&err) : training_resume(&options, &run);
}
