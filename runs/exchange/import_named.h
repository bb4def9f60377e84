/* Private to runs/exchange: rows of numbers under names, as programs write them to CSV or JSON, with the step
 * as one of the numbers. The names are those of import_metrics.h.
 *
 * A reader gives all rows twice, as to import_scalars.h: first with scalars.survey set, then, after
 * import_named_begin, to be stored. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_NAMED_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_NAMED_H

#include "runs/exchange/import_scalars.h"

/* Zero it, but for `scalars`, before its first use. */
struct import_named {
    struct import_scalars scalars;
    const char *step_name, *time_name; /* those of the step and of the wall time; NULL: none yet */
    int step_rank;                     /* the place of step_name among the names for a step */
    int64_t step;                      /* of the newest row */
};

struct import_number {
    const char *name;
    double value;
};

/* The place of a name among those for a step, from 0; -1: it is none of them. */
int import_named_step_rank(const char *name);

/* Notes or stages a row. Without a step it belongs to that of the row before. */
enum status import_named_row(struct import_named *named, const struct import_number *row, size_t count);

/* Ends the survey. STATUS_CORRUPT: no number is a step. */
enum status import_named_begin(struct import_named *named);

#endif
