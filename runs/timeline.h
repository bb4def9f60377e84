/* Private to runs/: the rows of `steps` or `evals` that count, in step order.
 *
 * Always: of a step that several segments recorded, the newest one's row comes (segment.h), once. */
#ifndef ANNEAL_RUNS_TIMELINE_H
#define ANNEAL_RUNS_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>

#include "runs/segment.h"

struct timeline {
    sqlite3_stmt *row; /* the current row: the columns asked for; the store's */
    struct store *store;
    const char *run_id;
    bool evals;
    struct segment_list segments;
    size_t next;   /* range to read after the current one */
    int64_t first; /* where it begins */
    int64_t low, high;
};

/* `columns` as SQL, "step, loss". Read it inside one store_read_begin, before another of the same columns,
 * and close it in any case. */
enum status timeline_open(struct timeline *timeline, struct store *store, const char *run_id, bool evals,
                          const char *columns, struct err *err);
/* The same, of the steps `low` to `high` alone. */
enum status timeline_open_part(struct timeline *timeline, struct store *store, const char *run_id, bool evals,
                               const char *columns, int64_t low, int64_t high, struct err *err);
/* *row says whether there is one. */
enum status timeline_next(struct timeline *timeline, bool *row, struct err *err);
void timeline_close(struct timeline *timeline); /* harmless on a zeroed struct */

#endif
