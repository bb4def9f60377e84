/* What training really holds, told beside what was planned: at the start of each segment, after evaluations
 * and after checkpoints, and a hundred steps after it was told last, by the tags of the network's allocator.
 */
#include "core/train/trainer_parts.h"

#include <string.h>

enum { TAGS_MAX = 64, STEPS_BETWEEN = 100 };

/* The plan's category of that name; PLAN_CATEGORIES: none has it. */
static int category_of(const char *tag)
{
    int i = 0;
    while (i < PLAN_CATEGORIES && strcmp(tag, plan_category_name((enum plan_category)i)) != 0) i++;
    return i;
}

void trainer_tell_used(struct trainer *t)
{
    struct train_observer *o = &t->setup.observer;
    struct allocator_usage tags[TAGS_MAX], sum = {0};
    int count = t->network.allocator ? allocator_tags(t->network.allocator, tags, TAGS_MAX) : 0;
    int64_t host = 0;
    for (int i = 0; t->plan.input.host_counts && i < count; i++) {
        int category = category_of(tags[i].tag);
        if (category < PLAN_CATEGORIES && plan_category_is_host((enum plan_category)category))
            host += tags[i].live;
    }
    if (t->network.allocator) allocator_sum(t->network.allocator, &sum);
    o->used(o->context, sum.reserved + host);
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
    trainer_tell_used(t);
}

void trainer_report_memory_due(struct trainer *t)
{
    if (t->state.step - t->last_memory_step >= STEPS_BETWEEN) trainer_report_memory(t);
}
