/* The profiler: what every operation of some steps takes, one step in N, without making the step wait. It
 * observes the network while such a step is queued: before each operation a mark of the device's own is set
 * (struct event: a clock on the CPU, an event in the stream on CUDA), and the time to the next mark is the
 * operation's. What the host does between two operations counts to the first where the device does the work
 * at once, and does not count where it has work queued.
 *
 * Always: nothing is allocated after profiler_open; the device is never waited for; training gives
 * the same bits with and without. */
#ifndef ANNEAL_CORE_TRAIN_PROFILER_H
#define ANNEAL_CORE_TRAIN_PROFILER_H

#include "core/base/record.h"
#include "core/network/network.h"

/* The most marks of a step; time beyond them is unattributed. */
enum { PROFILER_MARKS_MAX = 1 << 18 };

/* One operation of one layer in one phase of a step: when, and for how long. */
struct span {
    enum phase phase;
    int layer;       /* -1: not part of any layer */
    const char *op;  /* static text: "attention", "gemm gate_up", … */
    double start_us; /* microseconds since the step began, on the clock of the device */
    double time_us;  /* until the next span's start */
    int64_t bytes;   /* moved to and from memory at least, by the operation's shapes */
    int64_t flops;   /* two for a multiply-add */
};

struct profiler;

struct profiler_options {
    const struct backend *backend; /* borrowed */
    struct device *device;         /* borrowed */
    int64_t every;                 /* profile one step in so many; 0: only what is wished for */
    int64_t warmup_steps;          /* of this profiler's life that are not profiled */
    int64_t marks;                 /* most of a step, rounded down to PROFILER_MARKS_MAX */
    int64_t rows;                  /* different (phase, layer, op) of a step; more are unattributed */
};

enum status profiler_open(const struct profiler_options *options, struct profiler **out, struct err *err);
void profiler_close(struct profiler *profiler); /* NULL is harmless */

/* Whether the next step is due while the one profiled before has not been collected: who wants every step
 * that is due collects that one first. NULL: false. */
bool profiler_is_held_up(const struct profiler *profiler);

/* A step begins, its work will be queued on `stream`; up to its end the operations of `network` mark
 * themselves, NULL: of none. The profiler if it is to be profiled, NULL if not: during warm-up, between, and
 * while the profiled step before has not been collected. A step that is wished for is profiled, whatever is
 * due; one that has not been collected by then is given up. A profiler NULL gives NULL. */
struct profiler *profiler_begin(struct profiler *profiler, int64_t step, struct stream *stream,
                                struct network *network, bool wished);

/* The operation before ends here and this one begins; `op` is static text. Between begin and end. Phase and
 * operation are also ranges for the vendor's tools. */
void profiler_mark(struct profiler *profiler, enum phase phase, int layer, const char *op, int64_t bytes,
                   int64_t flops);

/* The last operation ends here. NULL is harmless. */
void profiler_end(struct profiler *profiler);

/* Once it is known that `step` took step_us microseconds: its rows, one a (phase, layer, op) in the order of
 * their first calls, and last what is unattributed, so that they add up to step_us. *count 0: it was not
 * profiled, the device has not come to its end, or failed. Borrowed until the next profiler_begin. */
const struct profile_record *profiler_collect(struct profiler *profiler, int64_t step, double step_us,
                                              int *count);

/* The operations of the step last collected, in their order, each beginning where the one before ended.
 * Borrowed likewise. */
const struct span *profiler_spans(const struct profiler *profiler, int *count);

#endif
