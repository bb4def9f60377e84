/* Private to runs/: metrics as other programs name and log them, one value at a time, as rows of steps, evals
 * and measures (import_metrics.h says which name becomes what).
 *
 * A reader gives all values twice: first with `survey` set, when only names and ranges are noted, then to be
 * stored. Without a survey the names that come first have the columns.
 *
 * A later value of the same step replaces the earlier one. But an evaluation that is made again before the
 * step goes on is left out: after training, Hugging Face's trainer evaluates the best model once more at the
 * last step. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_SCALARS_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_SCALARS_H

#include "runs/exchange/import_stage.h"
#include "runs/exchange/protobuf.h"
#include "runs/exchange/record_file.h"

/* Zero it, but for `import`, before its first use. */
struct import_scalars {
    struct import *import;
    bool survey;
    struct import_rows rows[24]; /* of the columns met so far, the measures among them */
    int count;
};

/* Reads all records of a log from the first one on, and gives each to `take`. */
enum status import_scalars_read(struct import_scalars *scalars, struct record_file *file, bool survey,
                                enum status (*take)(void *context, struct protobuf record), void *context);

/* Notes or stages a value. `wall_time` not finite: unknown. `step` counts those before it, or with
 * import->steps_done also its own; evaluations are after as many steps. */
enum status import_scalar(struct import_scalars *scalars, const char *name, int64_t step, double wall_time,
                          double value);

/* After the last value: stages an event for each metric whose name here is not plain from that in the log,
 * and makes a sentence of them; "": there are none. Adds to the remark what was left out. */
enum status import_scalars_end(struct import *import, char *names, size_t size);

#endif
