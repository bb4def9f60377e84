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
#ifndef ANNEAL_RUNS_EXCHANGE_EXPORT_JSON_H
#define ANNEAL_RUNS_EXCHANGE_EXPORT_JSON_H

#include "runs/store.h"

/* `path` as in export.h. */
enum status export_json(struct store *store, const char *run_id, const char *path, struct err *err);

#endif
