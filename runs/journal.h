/* Private to runs/: puts records into the tables of one segment of one run, and keeps the run's row and
 * rollups up to date with them. The writer's thread uses it, and recovery.c.
 *
 * Call every journal_* function except begin and end between store_begin and store_commit. If that
 * transaction fails, restore the copy of struct journal made before it (it is plain data) and repeat the
 * calls. */
#ifndef ANNEAL_RUNS_JOURNAL_H
#define ANNEAL_RUNS_JOURNAL_H

#include "core/base/record.h"
#include "runs/database.h"
#include "runs/rollup.h"
#include "runs/run.h"

struct journal {
    struct store *store; /* borrowed */
    char run_id[RUN_ID_MAX];
    int segment;
    bool has_steps; /* this segment has recorded a step */
    struct rollup rollup;
    int64_t steps; /* done */
    enum run_status status;
    bool late; /* the trainer has ended: its rows come from its file of records, see recovery.h */
    bool counted_steps, counted_evals; /* the run's row includes all that are recorded */
};

/* Opens segment max+1 of the run in a transaction of its own: marks the run `running` with our pid, and
 * answers the orders that an earlier trainer left unanswered. STATUS_NOT_FOUND for an unknown run. */
enum status journal_begin(struct journal *journal, struct store *store, const char *run_id, struct err *err);

/* Ends the segment in a transaction of its own, with the final status and message. */
enum status journal_end(struct journal *journal, enum run_status status, const char *message,
                        struct err *err);

/* Adds a record to a table that has a run and a segment. */
enum status journal_add(struct journal *journal, enum store_table table, const void *record, struct err *err);

/* Carries out a message of the trainer (message.h). After MESSAGE_SEGMENT waiting orders stay in the queue.
 */
enum status journal_take(struct journal *journal, int kind, const void *message, struct err *err);

/* Adds the row of a late journal's segment, if there is none. */
enum status journal_add_segment(struct journal *journal, double started_at, struct err *err);

/* Updates the run's row: progress, status and heartbeat. */
enum status journal_row(struct journal *journal, struct err *err);

/* Computes the run's row from its steps (progress, newest loss) or from its evaluations (best loss, and the
 * best of eval.metric). */
enum status journal_count_steps(struct store *store, const char *run_id, struct err *err);
enum status journal_count_evals(struct store *store, const char *run_id, struct err *err);

#endif
