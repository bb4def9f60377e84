/* Tables as CSV through libcsv: RFC 4180 (records end with CR LF), a header line, '.' decimals, shortest
 * round-trip floats, nan and inf spelled so, empty for an absent value. Columns and their order are fixed;
 * new ones are only ever appended. */
#ifndef ANNEAL_RUNS_EXCHANGE_EXPORT_H
#define ANNEAL_RUNS_EXCHANGE_EXPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "runs/columns.h"
#include "runs/store.h"

/* Writes one table of the given runs (ids), rows in (run, segment, step) order. The table has a CSV. The file
 * at `path` is replaced whole or not at all: a full disk leaves no half file and an old one untouched. A
 * device or a pipe is written to as it is; "-" is standard output. */
enum status export_csv(struct store *store, const char *const *run_ids, size_t run_count,
                       enum store_table table, const char *path, struct err *err);

/* The metrics, one value a record, as other tools read them: the columns of the CSV tables `steps` (epoch,
 * tokens, step_ms, loss, lr, grad_norm, clip_scale, tokens_per_sec, mfu) and `evals` (val_loss,
 * val_perplexity, eval_ms). Of a step that a resumed run recorded twice the newest segment's value comes,
 * once; steps rise; a value that is absent has no record. Memory does not grow with the run. */
enum { METRIC_FILES_MAX = 16 }; /* at least the number of metrics */

/* Which of the two tables' metrics. */
struct metric_choice {
    bool steps, evals;
};

/* `run,step,wall_time,metric,value`: run by run, metric by metric, by rising step. */
enum status export_long(struct store *store, const char *const *run_ids, size_t run_count,
                        struct metric_choice choice, const char *path, struct err *err);

/* TensorBoard's scalars, one file a metric of one run, "FOLDER/loss.csv", with the header `Wall
 * time,Step,Value`; a metric without a value gets none. The folder must be there. written[0..*count) are the
 * names of the metrics written. */
enum status export_tensorboard(struct store *store, const char *run_id, struct metric_choice choice,
                               const char *folder, const char *written[METRIC_FILES_MAX], size_t *count,
                               struct err *err);

/* A run as one JSON document, for programs that want everything at once:
 *
 *     {"run_id", "model_name", "config": {section: {key: value}},
 *      "training": {"total_time_sec", "total_steps", "epochs_completed", "final_loss", "best_val_loss",
 *                   "avg_tokens_per_sec", "steps": [{the columns of the CSV but run}],
 *                   "profiler_report": {"total_time_ms", "avg_step_ms", "phase_breakdown": {phase:
 * {"time_ms", "share"}}, "top_operations": [{"op", "calls", "time_ms", "share"}]}, "evals": [{the columns of
 * the CSV but run}]}, "inference": [{"step", "prompt", "text"}]}
 *
 * Always: valid JSON and UTF-8 whatever was recorded; numbers are the shortest that read back the same; what
 * is absent, NaN or infinite is null (JSON has no other word for it; the CSV tells them apart); of a step
 * that a resumed run recorded twice the newest segment's comes, once. Memory does not grow with the run.
 * total_time_sec is how long its trainers lived; epochs_completed counts whole ones; avg_tokens_per_sec is
 * over the time the steps took; the profiler's report is over the profiled steps, with ten operations. */
enum status export_json(struct store *store, const char *run_id, const char *path, struct err *err);

#endif
