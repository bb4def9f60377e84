/* The health of a run, judged from what is known after each step. Six detectors, each switched off by a limit
 * of 0 (numbers that are not finite are always reported):
 *
 * Not finite: the loss or the gradient norm is NaN or infinite. Over after 16 finite steps in a row. Apart
 * from that, where it is not reported already: a validation loss. Over after a finite one.
 *
 * Loss spike: the loss lies more than `loss_spike` deviations above the median of the 64 steps before; a
 * deviation is 1.4826 times their median absolute deviation (a Gaussian's standard deviation), and at least 1
 * % of the median. Judged once 32 steps are known. Over after 8 steps in a row above by less than half of
 * that, or after 64 steps: then the new level is what later losses are compared with.
 *
 * Divergence, from the first step on, where no spike is under way: the loss is more than twice the first one
 * and more than 1.5 times what guessing gives. Over after 8 steps in a row below. Off with loss_spike.
 *
 * Plateau: of the last `plateau_steps`, in 32 groups, the median of the newer 16 groups' mean losses is not
 * lower than that of the older 16 by the share `plateau_delta`, by more than the noise of the groups lets
 * expect of a loss that falls by as much. Over when it is lower by four times that share and twice the
 * noise's error, for 8 groups in a row.
 *
 * Throughput: the median of the last 8 steps' tokens/s has been below that of the 64 steps before by the
 * share `throughput_drop`, for at least 5 seconds of training. Over after 32 steps in a row within half of
 * that share, or after 256 steps: then the new speed is what is usual.
 *
 * Starvation: of the time of the last 32 steps the share `starvation` went by waiting for batches, for at
 * least 5 seconds of training. Over when it is below half of that share.
 *
 * The first 8 steps count for neither throughput nor starvation: memory is touched for the first time then.
 * An incident is reported once, when it is recognised, and names the step it began at. Pure: the same steps
 * give the same events; nothing is allocated, and what is judged is not influenced. */
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
    HEALTH_EVENTS_MAX = 6,                      /* of one step: each detector at most one */
};

struct health_event {
    int64_t step;      /* where the incident began: where to look */
    const char *level; /* "warning" or "error"; static */
    char text[320];    /* what, how much, since when, and what to do */
};

/* Set `limits` and `guess` of a zeroed struct; the rest but the events is private. */
struct health {
    struct health_event events[HEALTH_EVENTS_MAX]; /* of what was judged last */
    int event_count;
    struct config_health limits;
    double guess;                                   /* the loss of who knows nothing; 0: not known */
    bool not_finite, spiking, flat, slow, starving; /* incidents that have been reported and are not over */
    bool not_finite_evaluation;                     /* likewise */
    int finite_steps;                               /* in a row */
    double losses[HEALTH_WINDOW];                   /* a ring of `loss_count` */
    int64_t loss_count, spike_steps, calm_steps;
    double groups[HEALTH_GROUPS]; /* a ring of mean losses */
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
    double first_loss; /* the first finite one, where known */
    bool begun, diverged;
    int64_t sound_steps; /* in a row */
};

/* Takes one step into account, as it is reported, and the seconds of it in which there was no batch. */
void health_judge(struct health *health, const struct step_record *step, double waited);

/* The same for the validation loss after `step` steps: at most one event. */
void health_judge_evaluation(struct health *health, int64_t step, double val_loss);

#endif
