/* Steps and evaluations as the tests of health write them, and the events that come of one. */
#ifndef ANNEAL_TESTS_CORE_TRAIN_JUDGED_H
#define ANNEAL_TESTS_CORE_TRAIN_JUDGED_H

#include <string.h>

#include "core/train/health.h"

struct health_step {
    int64_t step;
    double loss, grad_norm, seconds, tokens_per_sec, waited;
    bool skipped;
};

static inline int judge_evaluation(struct health *health, int64_t step, double val_loss,
                                   struct health_event *event)
{
    health_judge_evaluation(health, step, val_loss);
    *event = health->events[0];
    return health->event_count;
}

static inline int judge(struct health *health, const struct health_step *s, struct health_event *events)
{
    struct step_record record = {.step = s->step,
                                 .loss = s->loss,
                                 .grad_norm = s->grad_norm,
                                 .step_ms = s->seconds * 1e3,
                                 .tokens_per_sec = s->tokens_per_sec,
                                 .clip_scale = s->skipped ? 0 : 1};
    health_judge(health, &record, s->waited);
    memcpy(events, health->events, sizeof health->events);
    return health->event_count;
}

#endif
