/* One training step as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open: JSON of the Trace
 * Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (its array
 * "traceEvents" of complete events, "ph": "X", times in microseconds).
 *
 * Process 1 is the step as the trainer marked it: on one thread the step, in it its phases, in them layers,
 * in them operations, each with the bytes it must move, the FLOPs it must do, and the rates of that. Process
 * 2 is what the device itself saw, a thread a stream: kernels and copies. Events of a thread are nested or
 * apart, never overlapping in part. The two processes' clocks both begin with the step, and agree to within
 * what starting the first kernel takes.
 *
 * Everything is kept in memory until trace_close writes the file whole. */
#ifndef ANNEAL_CORE_TRAIN_TRACE_H
#define ANNEAL_CORE_TRAIN_TRACE_H

#include "core/base/err.h"
#include "core/train/profiler.h"

struct trace;

/* device: "NVIDIA H200", the name of process 2. */
enum status trace_open(int64_t step, const char *device, struct trace **out, struct err *err);

/* Process 1. step_us: what the step took; its event is longer where a span ends later. Each span begins where
 * the one before ends. */
void trace_spans(struct trace *trace, double step_us, const struct span *spans, int count);

/* One event of process 2; `trace` is a struct trace *, as backend.h's activity_end hands it through. Those of
 * one stream must not overlap. */
void trace_activity(void *trace, const struct activity *activity);

/* Writes the file and frees the trace. With `path` NULL nothing is written. */
enum status trace_close(struct trace *trace, const char *path, struct err *err);

#endif
