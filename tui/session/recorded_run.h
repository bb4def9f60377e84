/* A run of the store as the command line names it, with its configuration and checkpoints; and RUN|FOLDER,
 * the folder of a model. For the commands that continue from trained weights. */
#ifndef ANNEAL_TUI_SESSION_RECORDED_RUN_H
#define ANNEAL_TUI_SESSION_RECORDED_RUN_H

#include <limits.h>

#include "core/checkpoint/hold.h"
#include "core/model/config.h"
#include "runs/history.h"
#include "runs/run.h"

struct recorded_run {
    struct run_info info;
    char checkpoints[PATH_MAX];
    struct run_ranks ranks;
    struct config config; /* finished */
    char *config_text;    /* owned; text of `config`, with keys added since it was stored */
};

/* Reads RUN as a user types it, or the run with this folder, which the database need not know. Release it
 * even after a failure. */
enum status recorded_run_read(const char *word, struct recorded_run *out, struct err *err);
void recorded_run_release(struct recorded_run *run);

/* If the file that the run's data.tokenizer names is gone, as after its model was moved, names the newest
 * checkpoint's copy instead. */
void recorded_run_find_tokenizer(const struct recorded_run *run, struct config *config);

/* Checks that no key on which a checkpoint depends has changed, since that would load other shapes or tokens.
 * The base of adapters may have moved: loading the checkpoint compares its weights.
 * `how`: "resumed". STATUS_USAGE names the key and its old value, or says that the run keeps no checkpoints.
 */
enum status recorded_run_check(const struct recorded_run *run, const struct config *config, const char *how,
                               struct err *err);

/* Whether a checkpoint below `checkpoints` is damaged and newer than `found`, from checkpoint_find. If so,
 * `buf` gets a sentence about it, and that `doing` ("generating") uses `found`; else "". */
bool recorded_run_passed_over(const char *checkpoints, const char *found, const char *doing, char *buf,
                              size_t size);

/* The id of the run of this home that a checkpoint's folder belongs to; false: it belongs to none. */
bool recorded_run_of(const char *folder, char id[RUN_ID_MAX]);

/* For a checkpoint of `run` (id) that exists and cannot be used, for the reason in `err`: adds which other
 * one can be, or that none can and the remedy. Returns err's status. */
enum status recorded_run_refuse(const char *checkpoints, const char *run, struct err *err);

/* Finds the folder of the run's checkpoint of `step`. -1: the newest intact one, and `passed_over` becomes
 * the sentence of recorded_run_passed_over, else "". The caller ends the hold when it is read. */
enum status recorded_run_checkpoint(const struct recorded_run *run, int64_t step, const char *doing,
                                    char *folder, size_t size, struct checkpoint_hold *hold,
                                    char *passed_over, size_t passed_size, struct err *err);

/* RUN|FOLDER on the command line: a run and one of its checkpoints; the folder of a checkpoint, ours or any
 * checkout with a config.json; or an imported model if no run has its name. */
struct model_choice {
    const char *doing; /* for messages: "generating" */
    const char *source;
    int64_t step;                /* of the checkpoint; -1: the newest */
    bool best;                   /* the one that is best by eval.metric; if gone, the best before it */
    struct checkpoint_hold hold; /* from model_choice_find */
};

/* Finds the folder. Passes over a damaged newest checkpoint with a warning on standard error. `allocator` (or
 * NULL): memory.allocator of the run's configuration; without a run or a readable configuration, the key's
 * default. Its trainer leaves a run's checkpoint until checkpoint_hold_end for choice->hold, which the caller
 * calls when all is read, or has failed. */
enum status model_choice_find(struct model_choice *choice, char *folder, size_t size,
                              enum allocator_kind *allocator, struct err *err);

/* Replaces names in model.from and lora.from by the folders that they stand for: a run's newest checkpoint,
 * or an imported model. Then as trainable_follow_adapters. */
enum status model_choice_of_config(struct config *config, struct err *err);

#endif
