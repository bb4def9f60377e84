/* The profiler: times every operation of one step in N, without making the step wait. While such a step is
 * queued, it observes the network and sets a mark of the device before each operation (struct event: a clock
 * on the CPU, an event in the stream on CUDA); an operation's time lasts until the next mark. Host time
 * between two operations counts for the first if the device works synchronously, and not if the device has
 * work queued.
 *
 * Nothing is allocated after profiler_open; the host never waits for the device; training gives the same bits
 * with and without a profiler. */
#ifndef ANNEAL_CORE_TRAIN_PROFILER_H
#define ANNEAL_CORE_TRAIN_PROFILER_H

#include "core/base/record.h"
#include "core/network/network.h"
#include "kernels/device/world.h"

/* The maximum of marks per step; time beyond them is unattributed. */
enum { PROFILER_MARKS_MAX = 1 << 18 };

/* One operation of one layer in one phase of a step: when, and for how long. */
struct span {
    enum phase phase;
    int layer;       /* -1: not part of any layer */
    const char *op;  /* static text: "attention", "gemm gate_up", … */
    double start_us; /* microseconds since the step began, on the clock of the device */
    double time_us;  /* until the next span's start */
    int64_t bytes;   /* least memory traffic, computed from the shapes */
    int64_t flops;   /* two for a multiply-add */
    bool collective; /* ranks exchange memory in it */
    double wait_us;  /* of a collective: how much of time_us it waited for other ranks; 0 on a GPU */
};

/* The row of a phase in which a rank on a CPU waited for others; the rows of its collectives have the rest.
 */
#define PROFILE_WAIT "wait for other ranks"

struct profiler;

struct profiler_options {
    const struct backend *backend; /* borrowed */
    struct device *device;         /* borrowed */
    int64_t every;                 /* profile one step in this many; 0: only on request */
    int64_t warmup_steps;          /* first steps that are not profiled */
    int64_t marks;                 /* maximum per step, at most PROFILER_MARKS_MAX */
    int64_t rows;                  /* maximum of different (phase, layer, op); more are unattributed */
    const struct world *world;     /* borrowed; NULL: one process */
    double
        span; /* the length of the sequences, whatever the rows: what attention computes; 0: that of rows */
};

enum status profiler_open(const struct profiler_options *options, struct profiler **out, struct err *err);
void profiler_close(struct profiler *profiler); /* NULL is harmless */

/* Whether the next step is due but the last profiled one has not been collected: to get every due step,
 * collect that one first. NULL: false. */
bool profiler_is_held_up(const struct profiler *profiler);

/* Call when a step begins, with the stream for its work and the network to observe (NULL: none). Returns the
 * profiler if the step is profiled, else NULL: during warm-up, between due steps, and while the last profiled
 * step has not been collected. A `wished` step is always profiled; an uncollected one is then dropped. */
struct profiler *profiler_begin(struct profiler *profiler, int64_t step, struct stream *stream,
                                struct network *network, bool wished);

/* Between begin and end: ends the last operation and begins this one; `op` is static text. Phases and
 * operations are also ranges for the vendor's tools. */
void profiler_mark(struct profiler *profiler, enum phase phase, int layer, const char *op, int64_t bytes,
                   int64_t flops);

/* Ends the last operation. NULL is harmless. */
void profiler_end(struct profiler *profiler);

/* Drops the last profiled step, of which no record will come. NULL is harmless. */
void profiler_forget(struct profiler *profiler);

/* Call when it is known that `step` took step_us microseconds. Returns its rows, one per (phase, layer, op)
 * in the order of their first calls, and last the unattributed rest, so that they add up to step_us. *count
 * 0: the step was not profiled, has not finished on the device, or failed. Borrowed until profiler_begin. */
const struct profile_record *profiler_collect(struct profiler *profiler, int64_t step, double step_us,
                                              int *count);

/* The operations of the step last collected, each beginning where the previous one ended. Borrowed. */
const struct span *profiler_spans(const struct profiler *profiler, int *count);

#endif
