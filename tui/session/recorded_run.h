/* A run of the store as the command line names it: who it is, what it was trained by, its checkpoints; and
 * RUN|FOLDER, the folder of a model. For the commands that go on from something trained. */
#ifndef ANNEAL_TUI_SESSION_RECORDED_RUN_H
#define ANNEAL_TUI_SESSION_RECORDED_RUN_H

#include <limits.h>

#include "core/model/config.h"
#include "runs/run.h"

struct recorded_run {
    struct run_info info;
    char checkpoints[PATH_MAX];
    struct config config; /* finished */
    char *config_text;    /* owned; of `config`, so with the keys that have come since it was stored */
};

/* RUN as a user types it. Release it also after a failure. */
enum status recorded_run_read(const char *word, struct recorded_run *out, struct err *err);
void recorded_run_release(struct recorded_run *run);

/* Checks that the keys which a checkpoint depends on are unchanged: else it would load other shapes or
 * tokens. `how`: "resumed". STATUS_USAGE names the key, and what it was. */
enum status recorded_run_check(const struct recorded_run *run, const struct config *config, const char *how,
                               struct err *err);

/* Whether a newer checkpoint below `checkpoints` than `found`, which checkpoint_find gave, is damaged: then a
 * sentence that says so, and what goes on from `found` ("generating"). Else "". */
bool recorded_run_passed_over(const char *checkpoints, const char *found, const char *doing, char *buf,
                              size_t size);

/* The checkpoint of `run` (id) that is wanted is there and cannot be used, for the reason in `err`: adds
 * which other one can, or that none can and what to do then. Returns err's status. */
enum status recorded_run_refuse(const char *checkpoints, const char *run, struct err *err);

/* The folder of the run's checkpoint of `step`, -1: the newest that is whole; then `passed_over` is what
 * recorded_run_passed_over says, else "". */
enum status recorded_run_checkpoint(const struct recorded_run *run, int64_t step, const char *doing,
                                    char *folder, size_t size, char *passed_over, size_t passed_size,
                                    struct err *err);

/* RUN|FOLDER on the command line: a run, and which of its checkpoints; or the folder of a checkpoint, ours or
 * any checkout with a config.json, which stands for itself; or an imported model where no run is called so.
 */
struct model_choice {
    const char *doing; /* for messages: "generating" */
    const char *source;
    int64_t step; /* of the checkpoint; -1: the newest */
    bool best;    /* that of the lowest validation loss; where it is gone, the best before it */
};

/* The folder that is meant. A newest checkpoint that is damaged is passed over with a warning on standard
 * error. `allocator` (or NULL): memory.allocator of the run's configuration; of what is no run, and where the
 * configuration cannot be read, the key's default. */
enum status model_choice_find(const struct model_choice *choice, char *folder, size_t size,
                              enum allocator_kind *allocator, struct err *err);

#endif
