/* Where the time of some steps goes, told to the observer operation by operation. */
#include "core/train/trainer_parts.h"

enum status trainer_profile_open(struct trainer *t, struct err *err)
{
    const struct config *c = t->setup.config;
    const int64_t *calls = t->plan.step_calls;
    struct profiler_options options = {.backend = t->setup.backend,
                                       .device = t->setup.device,
                                       .every = c->profile.every,
                                       .warmup_steps = c->profile.warmup_steps,
                                       .marks = calls[0] * c->train.accumulation_steps + calls[1],
                                       .rows = calls[0] + calls[1]};
    return profiler_open(&options, &t->profiler, err);
}

void trainer_profile_begin(struct trainer *t, int64_t step)
{
    bool watched = trainer_allocations_watch(t, false); /* a trace may allocate */
    trainer_trace_begin(t, step);
    trainer_allocations_watch(t, watched && !trainer_trace_listens(t));
    t->profiling = profiler_begin(t->profiler, step, t->network.stream);
    profiler_observe(t->profiling, &t->network);
}

void trainer_profile_end(struct trainer *t)
{
    profiler_end(t->profiling);
    t->profiling = NULL; /* evaluations and samples are no part of a step */
    bool listened = trainer_trace_listens(t), watched = trainer_allocations_watch(t, false);
    trainer_trace_end(t);
    trainer_allocations_watch(t, watched || listened); /* nobody does from here on */
}

void trainer_profile_tell(struct trainer *t, const struct step_record *step)
{
    const struct train_observer *o = &t->setup.observer;
    int count;
    const struct profile_record *rows =
        profiler_collect(t->profiler, step->step, step->step_ms * 1e3, &count);
    for (int i = 0; i < count; i++) o->profile(o->context, &rows[i]);
    if (count > 0) {
        const struct span *spans = profiler_spans(t->profiler, &count);
        trainer_trace_tell(t, step, spans, count);
    } else {
        trainer_trace_tell(t, step, NULL, 0);
    }
}
