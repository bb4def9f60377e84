/* Where the time of a run's steps goes: its profiled steps averaged, phase → layer → operation. Reads what
 * the trainer recorded in `layer_profile`; of a resumed run only what counts (table.h). */
#ifndef ANNEAL_RUNS_PROFILE_H
#define ANNEAL_RUNS_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "runs/store.h"

/* The average is over so many newest profiled steps at most. */
enum { PROFILE_STEPS_MAX = 200 };

/* One operation in an average profiled step. */
struct profile_row {
    const char *phase; /* as in struct profile_record, or whatever an imported file said */
    int layer;         /* -1: of no layer, or of all together */
    const char *op;
    double calls;   /* a step */
    double time_us; /* a step, all calls together */
    double bytes;   /* a step; NaN: unknown */
    double flops;   /* a step; NaN: unknown */
};

struct profile {
    struct arena arena;       /* owns the rows and their texts */
    struct profile_row *rows; /* by phase in the order of a step, then by layer, then the slowest first */
    size_t count;             /* 0: no step was profiled */
    int64_t steps;            /* profiled steps that were averaged */
    int64_t last_step;        /* the newest of them; -1: none */
    double step_us;           /* an average one: the sum of the rows' time_us */
};

/* Zero `out` before its first use and release it in any case; reading again replaces what it held. `layers`:
 * a row for each layer; else a row for each operation of a phase, its layers together. */
enum status profile_read(struct store *store, const char *run_id, bool layers, struct profile *out,
                         struct err *err);
void profile_release(struct profile *profile);

/* The rates that a row achieved, in 10^9 a second; NaN: unknown, 0: it moves or computes nothing. */
double profile_gigabytes_per_second(const struct profile_row *row);
double profile_gigaflops_per_second(const struct profile_row *row);

#endif
