/* A run of the store as what another training can begin from: who it is, what it was trained by, where its
 * checkpoints lie. For `resume`, `fork` and `model`. */
#ifndef ANNEAL_TUI_SESSION_RECORDED_RUN_H
#define ANNEAL_TUI_SESSION_RECORDED_RUN_H

#include <limits.h>

#include "core/model/config.h"
#include "runs/run.h"

struct recorded_run {
    struct run_info info;
    struct config config; /* finished */
    char *config_text;    /* owned; of `config`, so with the keys that have come since it was stored */
    char checkpoints[PATH_MAX];
};

/* RUN as a user types it. Release it also after a failure. */
enum status recorded_run_read(const char *word, struct recorded_run *out, struct err *err);
void recorded_run_release(struct recorded_run *run);

/* Checks that the keys which a checkpoint depends on are unchanged: else it would load other shapes or
 * tokens. `how`: "resumed". STATUS_USAGE names the key, and what it was. */
enum status recorded_run_check(const struct recorded_run *run, const struct config *config, const char *how,
                               struct err *err);

#endif
