/* What the trainer reports beside its records of steps: events, what training really holds beside what was
 * planned, and its health, judged from each step as it is reported. */
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/train/trainer_parts.h"

enum { TAGS_MAX = 64 };

/* ---- events ---- */

static void report_event(struct trainer *t, int64_t step, const char *level, const char *text)
{
    struct event_record record = {step, clock_wall(), level, text};
    t->setup.observer.event(t->setup.observer.context, &record);
}

void trainer_event(struct trainer *t, const char *level, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    report_event(t, t->state.step, level, text);
}

enum status trainer_device_status(struct trainer *t, struct err *err)
{
    return t->setup.backend->stream_wait(t->network.stream, err);
}

void trainer_tolerate(struct trainer *t, const char *level, const struct err *problem)
{
    if (!trainer_device_status(t, NULL)) trainer_event(t, level, "%s; training goes on", problem->text);
}

/* ---- memory: at the start of each segment, with evaluations and checkpoints, and every hundred steps ----
 */

/* The plan's category of that name; PLAN_CATEGORIES: none has it. */
static int category_of(const char *tag)
{
    int i = 0;
    while (i < PLAN_CATEGORIES && strcmp(tag, plan_category_name((enum plan_category)i)) != 0) i++;
    return i;
}

void trainer_report_used(struct trainer *t)
{
    struct allocator_usage sum = {0};
    int64_t host = 0;
    if (t->network.allocator) {
        allocator_sum(t->network.allocator, &sum);
        if (t->plan.input.host_counts) host = (int64_t)(t->plan.total_bytes - plan_device_bytes(&t->plan));
    }
    t->setup.observer.used(t->setup.observer.context, sum.reserved + host);
}

void trainer_report_memory(struct trainer *t)
{
    struct train_observer *o = &t->setup.observer;
    struct allocator_usage tags[TAGS_MAX];
    int count = allocator_tags(t->network.allocator, tags, TAGS_MAX);
    t->last_memory_step = t->state.step;
    for (int i = 0; i < count; i++) {
        int category = category_of(tags[i].tag);
        int64_t planned = category < PLAN_CATEGORIES ? (int64_t)t->plan.category_bytes[category] : 0;
        struct memory_record record = {t->state.step, tags[i].tag, planned, tags[i].live, tags[i].peak};
        o->memory(o->context, &record);
    }
    trainer_report_used(t);
}

/* ---- health ---- */

static void report_health(struct trainer *t, const struct health_event *events, int count, bool not_finite)
{
    for (int i = 0; i < count; i++) report_event(t, events[i].step, events[i].level, events[i].text);
    if (not_finite && t->health.limits.stop_on_nan) t->not_finite = true;
}

void trainer_judge_step(struct trainer *t, const struct step_record *record)
{
    struct health_event events[HEALTH_EVENTS_MAX];
    double waited = t->task->waited(t->data);
    struct health_step step = {.step = record->step,
                               .loss = record->loss,
                               .grad_norm = record->grad_norm,
                               .seconds = record->step_ms * 1e-3,
                               .tokens_per_sec = record->tokens_per_sec,
                               .waited = waited - t->waited,
                               .skipped = record->clip_scale == 0};
    t->waited = waited;
    int count = health_judge(&t->health, &step, events);
    report_health(t, events, count, t->health.not_finite);
}

void trainer_judge_evaluation(struct trainer *t, const struct eval_record *record)
{
    struct health_event event;
    int count = health_judge_evaluation(&t->health, record->step, record->val_loss, &event);
    report_health(t, &event, count, t->health.not_finite_evaluation);
}

bool trainer_weights_are_in_doubt(const struct trainer *t)
{
    return t->not_finite || t->state.skipped_in_a_row > 0;
}
