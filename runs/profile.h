/* The time of a run's steps by phase, layer and operation: an average over the profiled steps that the
 * trainer recorded in `layer_profile` since the run was last resumed; of these only the rows that count
 * (table.h). */
#ifndef ANNEAL_RUNS_PROFILE_H
#define ANNEAL_RUNS_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "runs/store.h"

/* The average covers at most this many of the newest profiled steps. */
enum { PROFILE_STEPS_MAX = 200 };
/* The first profile of a run is the average over this many of the first, before it was resumed. */
enum { PROFILE_FIRST_STEPS = 10 };

/* One operation in an average profiled step. */
struct profile_row {
    const char *phase; /* as in struct profile_record, or any text from an imported file */
    int layer;         /* -1: not part of a layer, or the sum over all layers */
    const char *op;
    double calls;    /* a step */
    double time_us;  /* a step, all calls together */
    double bytes;    /* a step; NaN: unknown */
    double flops;    /* a step; NaN: unknown */
    double first_us; /* time_us in the run's first profile; 0: not known */
};

struct profile {
    struct arena arena;       /* owns the rows and their texts */
    struct profile_row *rows; /* in the order of the phases of a step, then by layer, then slowest first */
    size_t count;             /* 0: no step was profiled */
    int64_t steps;            /* profiled steps that were averaged */
    int64_t last_step;        /* the newest of them; -1: none */
    double step_us;           /* time of an average step: the sum of the rows' time_us */
};

/* Zero `out` before its first use and release it even after a failure; reading again replaces its contents.
 * `layers`: one row per layer and operation; else one row per operation of a phase, summed over the
 * layers. */
enum status profile_read(struct store *store, const char *run_id, bool layers, struct profile *out,
                         struct err *err);
/* Fills first_us of the rows that profile_read has read with the same `layers`. A run with no more profiled
 * steps than its first profile has is not compared. */
enum status profile_read_first(struct store *store, const char *run_id, bool layers, struct profile *profile,
                               struct err *err);
void profile_release(struct profile *profile);

/* The achieved rate of a row, in 10^9 per second, of `amount` bytes or FLOPs; NaN: unknown, 0: it moves or
 * computes nothing. */
double profile_rate(double amount, double time_us);

#endif
