/* The history of a run as lists, for pages and panels. */
#ifndef ANNEAL_RUNS_HISTORY_H
#define ANNEAL_RUNS_HISTORY_H

#include "runs/order.h"
#include "runs/run.h"

struct stopping_row {
    struct stopping_record record;
    int segment;
};

struct run_history {
    struct eval_record *evals;
    struct measure_record *measures;
    struct class_record *classes;       /* of the newest evaluation, the last label first */
    struct confusion_record *confusion; /* likewise */
    struct rank_record *ranks;          /* of the newest report, the slowest first */
    struct stopping_row *stopping;
    struct sample_record *samples;
    struct event_record *events;
    struct checkpoint_record *checkpoints; /* only the newest of each path */
    struct order_row *orders;
    size_t eval_count, measure_count, class_count, confusion_count, rank_count, stopping_count, sample_count,
        event_count, checkpoint_count, order_count;
};

/* Reads all lists, newest first, each of at most `limit` rows, with rows and texts in `arena`; but
 * HISTORY_LEAST events, orders, measures and samples at least, all classes and ranks, and the whole confusion
 * matrix, or none of it if it has more than `limit` classes. Of a resumed run, only the evaluations,
 * measures, early stopping and samples that count (table.h). */
enum { HISTORY_LEAST = 2048 };
enum status run_history_read(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                             struct run_history *out, struct err *err);

/* The list of early stopping alone. */
enum status run_stopping_read(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                              struct stopping_row **out, size_t *count, struct err *err);

/* The measure `name` in the evaluation at `step`; NULL: it is not listed. */
const struct measure_record *run_history_find(const struct run_history *history, int64_t step,
                                              const char *name);
/* Its value; NaN: it is not listed. */
double run_history_measure(const struct run_history *history, int64_t step, const char *name);

/* Lists the steps whose newest checkpoint was written as the best one; a later segment may have written
 * another kind. The one that a fork began with is among them while no evaluation of the fork was better. */
enum status run_best_checkpoints(struct store *store, const char *run_id, struct arena *arena,
                                 struct checkpoint_record **out, size_t *count, struct err *err);
/* Lists the checkpoints that the run has written, without those whose steps were trained anew, newest first.
 * One that was deleted has the kind "deleted"; of the others the trainer keeps the newest, the best and as
 * many as configured. */
enum status run_checkpoints_read(struct store *store, const char *run_id, struct arena *arena,
                                 struct checkpoint_record **out, size_t *count, struct err *err);
/* *listed: how many rows the checkpoint at `step` has, unless it was deleted. */
enum status run_lists_checkpoint(struct store *store, const char *run_id, int64_t step, int64_t *listed,
                                 struct err *err);
/* Whether the folder of a listed checkpoint, or what a link in its place leads to, is there. Its path is only
 * believed where it is the one that trainers write. */
bool run_has_checkpoint(struct store *store, const char *run_id, const struct checkpoint_record *checkpoint);
/* Peak memory in bytes: the sum of the highest value of each category; -1 when none is recorded. */
enum status run_peak_memory(struct store *store, const char *run_id, int64_t *bytes, struct err *err);
/* The measure `name` ("": val_loss) of the last evaluation after at most `step` steps; NaN: there is none. */
enum status run_measure(struct store *store, const char *run_id, const char *name, int64_t step,
                        double *value, struct err *err);
/* How many ranks the trainer had that recorded the newest step, and on how many hosts; 1 each: it was one
 * process. */
struct run_ranks {
    int64_t count, hosts;
};
enum status run_ranks(struct store *store, const char *run_id, struct run_ranks *out, struct err *err);
/* Steps that no segment has recorded, although the run has done later ones, or (`done`) this many of them; in
 * order. Of a run that was not trained here (an import) none is missing. The array is in `arena`. */
struct step_range {
    int64_t first, last;
};
enum status run_missing_steps(struct store *store, const struct run_info *run, int64_t done,
                              struct arena *arena, struct step_range **out, size_t *count, struct err *err);
/* The newest step that counts (table.h). */
enum status run_last_step(struct store *store, const char *run_id, struct step_record *out, struct err *err);

#endif
