/* Histories from files, as new runs:
 *
 *   our own CSV             any of its tables (export.h), recognised by the header line; one run's, several
 * files TensorBoard's scalars   `Wall time,Step,Value`, a metric a file, named by the file: loss.csv,
 *                           run-1-tag-val_loss.csv; a later record of a step wins
 *   llm.c's main.log        lines `s:STEP trl:LOSS lr:LR norm:NORM`, `s:STEP tel:LOSS`, `s:STEP
 * eval:ACCURACY` (kept as an event); a step that goes back begins a new segment: a resume
 *
 * Always: the run appears whole, with status `finished` and its rollups, or not at all. What a file does not
 * say is absent, not zero. A table that export_csv wrote and import read is written again byte for byte, but
 * for the run's id where that is taken; of the table `runs` only name, device, precision and parameters are
 * taken over, the rest is counted from the history. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_H

#include <stddef.h>
#include <stdint.h>

#include "runs/run.h"

struct import_outcome {
    char id[RUN_ID_MAX];
    int64_t steps, evals; /* rows stored */
};

/* One run from all the files, which are of one kind. `name` NULL: after the run or folder they come from. An
 * own CSV without `name` keeps the id of its run when that is free. Errors name the file and the line
 * (STATUS_CORRUPT), STATUS_USAGE when files of several runs or kinds are mixed. */
enum status import_files(struct store *store, const char *const *paths, size_t count, const char *name,
                         struct import_outcome *out, struct err *err);

#endif
