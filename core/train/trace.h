/* One training step as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open: JSON of the Trace
 * Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (its array
 * "traceEvents" of complete events, "ph": "X", times in microseconds).
 *
 * Process 1 is the step as marked by the trainer: on one thread the step, nested in it phases, layers and
 * operations, each with its least bytes and FLOPs and their rates. Process 2 is what the device itself
 * recorded, one thread per stream: kernels, each with its grid and block, what it takes of registers and
 * shared memory, and the occupancy that follows; and copies. Events of a thread are nested or disjoint. Both
 * processes' clocks begin with the step and agree except for the time to start the first kernel.
 *
 * Of several ranks each has two processes of its own in one file, and operations that exchange memory
 * are "collective": rank 0 takes the events of the others into its trace.
 *
 * Everything stays in memory until trace_close writes the file. */
#ifndef ANNEAL_CORE_TRAIN_TRACE_H
#define ANNEAL_CORE_TRAIN_TRACE_H

#include "core/base/err.h"
#include "core/train/profiler.h"

struct trace;

struct trace_origin {
    int64_t step;
    const char *device; /* "NVIDIA H200", the name of process 2 */
    const char *host;   /* of one of several ranks; NULL: one process */
    int rank;
    double at; /* seconds of the clock of all ranks at which this rank's step begins, at least 0 */
};

enum status trace_open(const struct trace_origin *origin, struct trace **out, struct err *err);

/* Adds process 1. step_us: the duration of the step; its event is longer if a span ends later. Each span
 * begins where the previous one ends. */
void trace_spans(struct trace *trace, double step_us, const struct span *spans, int count);

/* Adds an event of process 2; `trace` is a struct trace *, as passed by activity_end of backend.h. Events of
 * one stream must not overlap. */
void trace_activity(void *trace, const struct activity *activity);

/* The events so far as text, for another rank: *size bytes in memory of the trace. */
const char *trace_text(struct trace *trace, size_t *size);
/* Adds such a text of another rank, with a NUL at its end. */
void trace_add(struct trace *trace, const char *text);

/* Writes the file and frees the trace. With `path` NULL nothing is written. */
enum status trace_close(struct trace *trace, const char *path, struct err *err);

#endif
