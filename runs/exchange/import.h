/* Histories from files, as new runs:
 *
 *   our own CSV             any of the tables (export.h) of one run, recognised by the header; several files
 *   TensorBoard's scalars   `Wall time,Step,Value`, one metric per file, named by the file: loss.csv,
 *                           run-1-tag-val_loss.csv; a later record of a step wins
 *   llm.c's main.log        lines `s:STEP trl:LOSS lr:LR norm:NORM`, `s:STEP tel:LOSS`, `s:STEP eval:ACC`
 *                           (kept as an event); a step that goes back begins a new segment: a resume
 *
 * Always: the run appears whole, with status `finished` and its rollups, or not at all. Values that a file
 * does not contain are absent, not zero. Exporting an imported table gives the same bytes again, except for
 * the run's id if that was in use; of the table `runs` only name, device, precision and parameters are
 * imported, the rest is computed from the history. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_H

#include <stddef.h>
#include <stdint.h>

#include "runs/run.h"

struct import_outcome {
    char id[RUN_ID_MAX];
    int64_t steps, evals; /* rows stored */
};

/* Makes one run from all the files, which must be of one kind. `name` NULL: the name of the run or folder
 * they come from. An own CSV without `name` keeps the id of its run if that is free. STATUS_CORRUPT: bad
 * content, with file and line. STATUS_USAGE: files of several runs or kinds. */
enum status import_files(struct store *store, const char *const *paths, size_t count, const char *name,
                         struct import_outcome *out, struct err *err);

#endif
