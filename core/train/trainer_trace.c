/* The trainer's trace: one step written down operation by operation, with what the device saw of it, because
 * the configuration or an order asks for it. The step computes the same bits as any other; that it is waited
 * for, before and after, changes only its time. */
#include "core/train/trainer_parts.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/file.h"

bool trainer_trace_order(struct trainer *t, const struct order *order)
{
    if (t->tracing.ordered) return false;
    t->tracing.ordered = true;
    t->tracing.order_id = order->id;
    return true;
}

bool trainer_trace_wants(const struct trainer *t)
{
    int64_t configured = t->setup.config->profile.trace_step;
    return t->tracing.ordered || t->tracing.running || (configured > 0 && configured == trainer_queued(t));
}

bool trainer_trace_listens(const struct trainer *t)
{
    return t->tracing.running && !t->tracing.problem.status && t->setup.backend->queues;
}

void trainer_trace_begin(struct trainer *t, int64_t step)
{
    struct tracing *tracing = &t->tracing;
    int64_t configured = t->setup.config->profile.trace_step;
    if (!tracing->ordered && (configured == 0 || configured != step)) return;
    if (trainer_device_status(t, NULL)) return; /* what is queued of earlier steps is not this one's */
    tracing->running = true;
    tracing->step = step;
    tracing->problem = (struct err){0};
    if (t->profiler || !trainer_profile_open(t, &tracing->problem)) profiler_wish(t->profiler);
    if (!trace_open(step, t->device.name, &tracing->trace, &tracing->problem))
        t->setup.backend->activity_begin(t->setup.device, &tracing->problem);
}

void trainer_trace_end(struct trainer *t)
{
    struct tracing *tracing = &t->tracing;
    struct err *problem = tracing->problem.status ? NULL : &tracing->problem;
    if (!tracing->running) return;
    trainer_device_status(t, NULL); /* whose failure is the step's to tell */
    if (tracing->trace)
        t->setup.backend->activity_end(t->setup.device, trace_activity, tracing->trace, problem);
}

/* The order that asked, if one did. */
static void answer(struct trainer *t, int64_t step, const char *result)
{
    struct train_observer *o = &t->setup.observer;
    if (t->tracing.ordered) o->order_done(o->context, t->tracing.order_id, step, result);
    t->tracing.ordered = false;
}

/* Adds the spans and writes the file. */
static enum status write_trace(struct trainer *t, const struct step_record *step, const struct span *spans,
                               int count, struct err *err)
{
    struct trace *trace = t->tracing.trace;
    char path[4096];
    t->tracing.trace = NULL;
    if (!trace) return err_set(err, t->tracing.problem.status, "%s", t->tracing.problem.text);
    enum status status =
        file_format_path(path, sizeof path, err, "%s/step-%" PRId64 ".json", t->setup.traces, step->step);
    if (!status) status = trace_spans(trace, step->step_ms * 1e3, spans, count, err);
    if (!status) return trace_close(trace, path, err);
    trace_close(trace, NULL, NULL);
    return status;
}

void trainer_trace_tell(struct trainer *t, const struct step_record *step, const struct span *spans,
                        int count)
{
    struct tracing *tracing = &t->tracing;
    struct err err = {0};
    char result[sizeof err.text + 64];
    if (!tracing->running || tracing->step != step->step) return;
    tracing->running = false;
    bool lacking = tracing->problem.status, failed = write_trace(t, step, spans, count, &err);
    if (failed)
        snprintf(result, sizeof result, "no trace: %s", err.text);
    else
        snprintf(result, sizeof result, "written to traces/step-%" PRId64 ".json%s%s", step->step,
                 lacking ? "; " : "", tracing->problem.text);
    char text[sizeof result + 64];
    snprintf(text, sizeof text, "trace of step %" PRId64 ": %s", step->step, result);
    struct event_record event = {step->step, step->wall_time, failed || lacking ? "warning" : "info", text};
    t->setup.observer.event(t->setup.observer.context, &event);
    answer(t, step->step, result);
}

void trainer_trace_give_up(struct trainer *t)
{
    answer(t, t->state.step, "no trace: no step followed");
}

void trainer_trace_close(struct trainer *t)
{
    if (t->tracing.trace)
        trace_close(t->tracing.trace, NULL, NULL); /* the device failed in the midst of it */
    t->tracing.trace = NULL;
}
