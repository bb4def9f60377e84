/* Histories from files, as new runs:
 *
 *   our own CSV             any of the tables (export.h) of one run, recognised by the header; several files
 *   TensorBoard's scalars   `Wall time,Step,Value`, one metric per file, named by the file: loss.csv,
 *                           run-1-tag-val_loss.csv; a later record of a step wins
 *   TensorBoard's event files  (events.out.tfevents.…): their scalars; names as above, and other names become
 *                           measures of the evaluations (import_metrics.h); import_paths.h has the rule for
 *                           those in several folders
 *   wandb's offline runs (run-ID.wandb): the history as TensorBoard's scalars, the configuration as keys
 *                           wandb.…, numbers of the summary that the history lacks as measures at the end
 *   other CSV               with a column step, global_step, iteration or epoch, and metrics in the others
 *   JSON                    objects with such a number, one in a line or in a list, and Hugging Face's
 *                           trainer_state.json; metrics as in event files
 *   llm.c's main.log        lines `s:STEP trl:LOSS lr:LR norm:NORM`, `s:STEP tel:LOSS`, `s:STEP eval:ACC`
 *                           (a measure); a step that goes back begins a new segment: a resume
 *
 * Always: the run has the status `finished` and its rollups when it is whole. A long history is stored in
 * many transactions, in which its status is `created`; a killed import leaves it marked in `message`, and the
 * next import of the same files replaces it. After a failure nothing is left. Values that a file does not
 * contain are absent, not zero. Exporting an imported table gives the same bytes again, except for the run's
 * id if that was in use; of the table `runs` only name, device, precision, parameters, note and parent are
 * imported, the rest is computed from the history. The table `params` restores the configuration,
 * `checkpoints` is a list without the files. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "runs/run.h"

struct import_outcome {
    char id[RUN_ID_MAX];
    char name[RUN_NAME_CLEAN_MAX], wanted[RUN_NAME_CLEAN_MAX]; /* its name, and that which is taken;
                                                                  "": was given, none */
    bool again;       /* that one was imported from files of the same paths */
    bool here, grown; /* nothing was stored, as this is the run `id`; the log has more values by now */
    int64_t steps, evals, measures; /* rows stored, or read where it is here */
    char remark[300];               /* about something that was left out; "": nothing */
    char
        names[300]; /* "loss is train/loss, …": of metrics whose name here is not plain; "": there are none */
};

/* Makes one run from all the files, which must be of one kind. `name` NULL: the name of the run or folder
 * they come from, with -2, -3, … if a run has that name. An own CSV without `name` keeps the id of its run if
 * that is free. STATUS_CORRUPT: bad content, with file and line. STATUS_USAGE: files of several runs or
 * kinds. */
enum status import_files(struct store *store, const char *const *paths, size_t count, const char *name,
                         struct import_outcome *out, struct err *err);

/* One of several runs whose logs are in folders. */
struct import_source {
    const char *folder;
    const char
        *name; /* its path below the folder that was searched: the name of its run unless the log has one */
};

/* The runs whose logs of TensorBoard or wandb, or metrics.csv of Lightning, are in and below these folders,
 * ordered by name. *count 0: the paths are files, or what is to make one run, or there are no logs: it is for
 * import_files. */
enum status import_find(const char *const *paths, size_t path_count, struct arena *arena,
                        struct import_source **out, size_t *count, struct err *err);

/* As import_files, but a run that was imported before is left out. It is known by its start and its name or
 * path, or by its path alone where its log has no times. */
enum status import_once(struct store *store, const struct import_source *source, struct import_outcome *out,
                        struct err *err);

#endif
