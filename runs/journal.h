/* Private to runs/: puts records into the tables of one segment of one run, and keeps the run's row and
 * rollups in step with them. The writer's thread uses it; so may anything that brings a history in.
 *
 * Every journal_* call but begin and end belongs between store_begin and store_commit. When that transaction
 * fails, put back the copy of struct journal made before it (it is plain data) and do the calls again. */
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
    bool has_steps; /* this segment has recorded one */
    struct rollup rollup;
    int64_t steps; /* done */
    enum run_status status;
    bool counted_steps, counted_evals; /* the run's row knows all that are recorded */
};

/* Opens segment max+1 of the run in a transaction of its own: marks the run `running` with our pid, and
 * answers the orders that an earlier trainer left unanswered. STATUS_NOT_FOUND for an unknown run. */
enum status journal_begin(struct journal *journal, struct store *store, const char *run_id, struct err *err);

/* Ends the segment in a transaction of its own: the final status and message. */
enum status journal_end(struct journal *journal, enum run_status status, const char *message,
                        struct err *err);

/* Inside a transaction, unlike these two: the same trainer goes on in a new segment, after the one before has
 * failed; orders that wait go on waiting. */
enum status journal_next_segment(struct journal *journal, struct err *err);

/* A record of a table of run and segment. */
enum status journal_add(struct journal *journal, enum store_table table, const void *record, struct err *err);

/* Brings the run's row up to date: what is recorded, the status, a sign of life. */
enum status journal_row(struct journal *journal, struct err *err);

/* Counts the steps or the evaluations into the run's row: progress and the newest loss, or the best one. */
enum status journal_count_steps(struct store *store, const char *run_id, struct err *err);
enum status journal_count_evals(struct store *store, const char *run_id, struct err *err);

#endif
