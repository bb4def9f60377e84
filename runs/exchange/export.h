/* Tables as CSV through libcsv: RFC 4180 (records end with CR LF), a header line, '.' decimals, shortest
 * round-trip floats, "nan" and "inf", empty for an absent value. Columns and their order are fixed; new
 * columns are only appended. */
#ifndef ANNEAL_RUNS_EXCHANGE_EXPORT_H
#define ANNEAL_RUNS_EXCHANGE_EXPORT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/arena.h"
#include "runs/columns.h"
#include "runs/rollup.h"
#include "runs/store.h"

/* Writes one table of the given runs (ids), rows in (run, segment, step) order. The table must have a CSV.
 * The file at `path` is replaced as a whole or not at all: a full disk leaves an old file untouched and no
 * partial one. A device or a pipe is written to directly; "-" is standard output. */
enum status export_csv(struct store *store, const char *const *run_ids, size_t run_count,
                       enum store_table table, const char *path, struct err *err);

/* The metrics, one value per record, for other tools: the columns of the CSV tables `steps` (epoch, tokens,
 * step_ms, loss, lr, grad_norm, clip_scale, tokens_per_sec, mfu, perplexity) and `evals` (val_loss,
 * val_perplexity, eval_ms), and the rows of `measures` under their names. If a resumed run recorded a step
 * twice, only the newest segment's value is exported; steps are in rising order; an absent value has no
 * record. Memory does not grow with the run. */

/* Selects the metrics of one or both tables; measures belong to evals. */
struct metric_choice {
    bool steps, evals;
    const char *names; /* only these, with commas between and blanks around them or not; NULL: all */
};

/* `run,step,wall_time,metric,value`: run by run, metric by metric, by rising step. STATUS_NOT_FOUND: no
 * run has a value under one of the names chosen. */
enum status export_long(struct store *store, const char *const *run_ids, size_t run_count,
                        struct metric_choice choice, const char *path, struct err *err);

/* A curve of a chart, as it is drawn: a point may stand for several steps, and lie at other numbers. */
struct export_curve {
    const char *name;
    const struct series_point *points; /* count of them */
    size_t count;
    const double *smooth; /* count values; NULL: none */
};

/* `curve,first_step,last_step,mean,min,max,last,smoothed`; `counted`: what the points lie at instead of
 * "step", such as "tokens" for first_tokens,last_tokens. */
enum status export_curves(const struct export_curve *curves, size_t count, const char *counted,
                          const char *path, struct err *err);

/* TensorBoard's scalars: one file per metric of a run, "FOLDER/loss.csv", with the header `Wall
 * time,Step,Value`; a metric without values gets no file. The folder must exist. written[0..*count) are the
 * names of the metrics written, in `arena`. */
enum status export_tensorboard(struct store *store, const char *run_id, struct metric_choice choice,
                               const char *folder, struct arena *arena, const char ***written, size_t *count,
                               struct err *err);

/* An event file of TensorBoard in the folder, which must exist, with the metrics as scalars under their names
 * (of a measure that has the name of a column, with _2 behind), rounded to floats. The path is the same each
 * time; *count: how many values it has, without any of which no file is written. */
enum status export_events(struct store *store, const char *run_id, struct metric_choice choice,
                          const char *folder, char path[PATH_MAX], int64_t *count, struct err *err);

/* A run as one JSON document, for programs that want everything at once:
 *
 *     {"run_id", "model_name", "config": {section: {key: value}},
 *      "training": {"total_time_sec", "total_steps", "epochs_completed", "final_loss", "best_val_loss",
 *                   "avg_tokens_per_sec", "steps": [{the columns of the CSV but run}],
 *                   "profiler_report": {"total_time_ms", "avg_step_ms",
 *                                       "phase_breakdown": {phase: {"time_ms", "share"}},
 *                                       "top_operations": [{"op", "calls", "time_ms", "share"}]},
 *                   "evals": [{the columns of the CSV but run}],
 *                   "measures": [{the columns of the CSV but run}], "classes": [...],
 *                   "confusion": [...]},
 *      "samples": [{"step", "prompt", "text"}],
 *      "inference": [{the columns of the CSV but run}]}
 *
 * Always valid JSON and UTF-8, whatever was recorded. Numbers have the fewest digits that read back the same;
 * absent, NaN and infinite values are null (JSON has no other word for them; the CSV distinguishes them). If
 * a resumed run recorded a step twice, only the newest segment's is exported. Memory does not grow with the
 * run. total_time_sec is the time that its trainers ran; epochs_completed counts whole epochs;
 * avg_tokens_per_sec is over the time the steps took; the profiler's report covers the profiled steps and
 * lists ten operations. */
enum status export_json(struct store *store, const char *run_id, const char *path, struct err *err);

#endif
