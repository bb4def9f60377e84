/* Three runs to compare, export and import. */
#ifndef ANNEAL_TESTS_TUI_COMMAND_THREE_RUNS_H
#define ANNEAL_TESTS_TUI_COMMAND_THREE_RUNS_H

#include <limits.h>
#include <stdint.h>

#include "runs/run.h"

/* A fresh home, also in the environment. */
void three_runs_home(const char *name, char home[PATH_MAX]);

/* Adds a run with this configuration: 100 steps whose last loss is `loss`, one evaluation, `bytes` of
 * weights. */
void three_runs_add(const char *home, const char *name, const char *config, double loss, double val_loss,
                    double tokens_per_sec, int64_t bytes, char id[RUN_ID_MAX]);

/* Adds "base"; "fast", of another learning rate; and "odd", of another text, whose losses are no numbers. */
void three_runs_make(const char *home, char ids[3][RUN_ID_MAX]);

#endif
