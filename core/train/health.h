/* The health of a run, judged after each step. Six detectors; a limit of 0 turns one off (numbers that are
 * not finite are always reported):
 *
 * Not finite: the loss or the gradient norm is NaN or infinite. Over after 16 finite steps in a row. A
 * validation loss is an incident of its own, unless one is reported already; over after a finite one.
 *
 * Loss spike: the loss is more than `loss_spike` deviations above the median of the last 64 steps; a
 * deviation is 1.4826 times their median absolute deviation (a Gaussian's standard deviation), at least 1 %
 * of the median. Judged once 32 steps are known. Over after 8 steps in a row with less than half that
 * distance, or after 64 steps: then later losses are compared with the new level. With on_spike = skip the
 * device skips the update of a step whose loss is above the limit; it compares with the median of the losses
 * up to the second step before, because the step before may still be computing when this one is queued.
 *
 * Divergence, from the first step on, except during a spike: the loss is more than twice the first one and
 * more than 1.5 times the loss of guessing. Over after 8 steps in a row below. loss_spike = 0 turns it off,
 * too.
 *
 * Plateau: of the last `plateau_steps`, in 32 groups, the median of the newer 16 groups' mean losses is not
 * lower than that of the older 16 by the share `plateau_delta`, allowing for the noise between groups. Over
 * when it is lower by four times that share plus twice the error of the noise, for 8 groups in a row.
 *
 * Throughput: the median tokens/s of the last 8 steps is below that of the 64 steps before by the share
 * `throughput_drop`, for at least 5 seconds of training. Over after 32 steps in a row within half of that
 * share, or after 256 steps: then the new speed counts as usual.
 *
 * Starvation: the last 32 steps waited for batches for the share `starvation` of their time, for at least 5
 * seconds of training. Over below half of that share.
 *
 * The first 8 steps do not count for throughput and starvation: they touch memory for the first time. An
 * incident is reported once, when it is recognised, with the step it began at. Pure: the same steps give the
 * same events, and the same limits of the loss; nothing is allocated. */
#ifndef ANNEAL_CORE_TRAIN_HEALTH_H
#define ANNEAL_CORE_TRAIN_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/record.h"
#include "core/model/config.h"

enum {
    HEALTH_WINDOW = 64,
    HEALTH_RECENT = 8,
    HEALTH_WAITS = 32,
    HEALTH_GROUPS = CONFIG_PLATEAU_STEPS_LEAST, /* at least a step in each */
    HEALTH_EVENTS_MAX = 6,                      /* of one step: at most one per detector */
};

struct health_event {
    int64_t step;      /* where the incident began */
    const char *level; /* "warning" or "error"; static */
    char text[320];    /* what, how much, since when, and what to do */
    bool diverged;     /* it says that training diverges */
};

/* The usual losses and the present spike. Checkpoints hold them, so that a resumed run judges its losses as
 * one in a single piece does. */
struct loss_level {
    double losses[HEALTH_WINDOW]; /* a ring of `count` */
    int64_t count, spike_steps;   /* spike_steps: since a spike began; 0: there is none */
    int64_t calm_steps;           /* of them, in a row */
    double limit, previous_limit; /* with on_spike = skip: of the loss, for the second step after the last
                                   * one judged, and for the one before that; 0: none is known */
};

/* Set `limits`, `guess` and `level` of a zeroed struct; everything else except the events is private. */
struct health {
    struct health_event events[HEALTH_EVENTS_MAX]; /* of the last step or evaluation judged */
    int event_count;
    struct config_health limits;
    double guess;                          /* the loss of guessing; 0: unknown */
    struct loss_level *level;              /* borrowed: a part of the state that checkpoints hold */
    bool not_finite, flat, slow, starving; /* reported incidents that are not over */
    bool not_finite_evaluation;            /* likewise */
    int finite_steps;                      /* in a row */
    double groups[HEALTH_GROUPS];          /* a ring of mean losses */
    int64_t group_count, group_steps, first_step;
    int falling; /* groups in a row */
    double group_sum;
    int64_t group_began[HEALTH_GROUPS]; /* first step of each */
    double speeds[HEALTH_WINDOW], recent[HEALTH_RECENT];
    int64_t speed_count, recent_count, slow_since, slow_steps, calm_speed;
    double slow_seconds;
    double waits[HEALTH_WAITS], times[HEALTH_WAITS];
    int64_t wait_count, starving_since;
    double starving_seconds;
    int64_t seen;      /* steps */
    double first_loss; /* the first finite one, if known */
    bool begun, diverged;
    int64_t sound_steps; /* in a row */
};

/* Judges one reported step; `waited`: the seconds of it spent waiting for a batch. */
void health_judge(struct health *health, const struct step_record *step, double waited);

/* Judges the validation loss after `step` steps: at most one event. */
void health_judge_evaluation(struct health *health, int64_t step, double val_loss);

#endif
