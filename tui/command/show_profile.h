/* `anneal show RUN --profile`: where the time of a run's steps goes, as a tree or as one JSON object. */
#ifndef ANNEAL_TUI_COMMAND_SHOW_PROFILE_H
#define ANNEAL_TUI_COMMAND_SHOW_PROFILE_H

#include "runs/profile.h"
#include "runs/run.h"

/* The tree phase → operation, or with rows read by layer phase → layer → operation, of an average profiled
 * step; one sentence where there is none. */
void show_profile_print(const struct run_info *run, struct profile *profile);

/* Prints one JSON object: run, steps, last_step, step_ms, rows. */
enum status show_profile_json(const struct run_info *run, const struct profile *profile, struct err *err);

#endif
