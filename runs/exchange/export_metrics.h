/* Metrics, one value a record, as other tools read them: the long table, and TensorBoard's scalars.
 *
 * Metrics are the columns of the CSV tables `steps` (epoch, tokens, step_ms, loss, lr, grad_norm, clip_scale,
 * tokens_per_sec, mfu) and `evals` (val_loss, val_perplexity, eval_ms). Always: of a step that a resumed run
 * recorded twice the newest segment's value comes, once; steps rise; a value that is absent has no record;
 * numbers are written as in the CSV (nan and inf spelled so). Memory does not grow with the run. */
#ifndef ANNEAL_RUNS_EXCHANGE_EXPORT_METRICS_H
#define ANNEAL_RUNS_EXCHANGE_EXPORT_METRICS_H

#include <stdbool.h>
#include <stddef.h>

#include "runs/store.h"

enum { METRIC_FILES_MAX = 16 }; /* at least the number of metrics */

/* Which of the two tables' metrics. */
struct metric_choice {
    bool steps, evals;
};

/* `run,step,wall_time,metric,value`: run by run, metric by metric, by rising step. `path` as in export.h. */
enum status export_long(struct store *store, const char *const *run_ids, size_t run_count,
                        struct metric_choice choice, const char *path, struct err *err);

/* One file a metric of one run, "FOLDER/loss.csv", with the header `Wall time,Step,Value`; a metric without a
 * value gets none. The folder must be there. written[0..*count) are the names of the metrics written. */
enum status export_tensorboard(struct store *store, const char *run_id, struct metric_choice choice,
                               const char *folder, const char *written[METRIC_FILES_MAX], size_t *count,
                               struct err *err);

#endif
