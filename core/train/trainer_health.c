/* The trainer's look at its own health: each step as it is told, and what is found as events. */
#include "core/train/trainer_parts.h"

#include "core/base/clock.h"

void trainer_health_init(struct trainer *t)
{
    const struct config *c = t->setup.config;
    struct health_limits limits = {.stop_on_nan = c->health.on_nan == ON_NAN_STOP,
                                   .loss_spike = c->health.loss_spike,
                                   .plateau_steps = c->health.plateau_steps,
                                   .plateau_delta = c->health.plateau_delta,
                                   .throughput_drop = c->health.throughput_drop,
                                   .starvation = c->health.starvation};
    health_init(&t->health, &limits);
}

static void tell(struct trainer *t, const struct health_event *events, int count)
{
    struct train_observer *o = &t->setup.observer;
    for (int i = 0; i < count; i++) {
        struct event_record event = {events[i].step, clock_wall(), events[i].level, events[i].text};
        o->event(o->context, &event);
    }
}

void trainer_judge_health(struct trainer *t, const struct step_record *record)
{
    struct health_event events[HEALTH_EVENTS_MAX];
    double waited = prefetch_waits(t->train_batches).seconds;
    struct health_step step = {.step = record->step,
                               .loss = record->loss,
                               .grad_norm = record->grad_norm,
                               .seconds = record->step_ms * 1e-3,
                               .tokens_per_sec = record->tokens_per_sec,
                               .waited = waited - t->waited,
                               .skipped = record->clip_scale == 0};
    t->waited = waited;
    tell(t, events, health_judge(&t->health, &step, events));
    if (t->health.limits.stop_on_nan && t->health.not_finite) t->halted = true;
}

void trainer_judge_evaluation(struct trainer *t, const struct eval_record *record)
{
    struct health_event event;
    tell(t, &event, health_judge_evaluation(&t->health, record->step, record->val_loss, &event));
    if (t->health.limits.stop_on_nan && t->health.not_finite_evaluation) t->halted = true;
}
