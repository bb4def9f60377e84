/* How the trainer looks at its own steps. None of it changes a bit of what a step computes.
 *
 * Profile: where the time of some steps goes, reported to the observer operation by operation.
 *
 * Trace: one step written down with what the device saw of it, because the configuration or an order asks for
 * it; it is waited for, before and after.
 *
 * Allocations: that steps make none, checked while they run: on the heap by the trainer's own thread, of
 * device and page-locked memory where the device gives it. No part of a step are what comes between two
 * (evaluations, samples, saves, the recording of graphs), what the observer does when it is reported of it,
 * the beginning and the end of a trace and, where the device's own tools look on, the heap in the traced
 * step: they allocate inside the calls that they see. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/heap.h"
#include "core/train/trainer_parts.h"

/* ---- allocations ---- */

static int64_t device_allocations(const struct trainer *t)
{
    return t->setup.backend->allocations(t->setup.device);
}

bool trainer_allocations_watch(struct trainer *t, bool on)
{
    return t->setup.check_allocations && heap_watch(on);
}

void trainer_allocations_begin(struct trainer *t)
{
    if (!t->setup.check_allocations) return;
    t->watching.heap_allocations = heap_allocations();
    t->watching.device_allocations = device_allocations(t);
    heap_watch(true);
}

enum status trainer_allocations_end(struct trainer *t, struct err *err)
{
    if (!t->setup.check_allocations) return STATUS_OK;
    heap_watch(false);
    int64_t heap = heap_allocations() - t->watching.heap_allocations,
            device = device_allocations(t) - t->watching.device_allocations;
    bool first = t->stepping.replay.steps <= 1; /* it may: code is loaded, buffers of libraries are made */
    if (first || (heap == 0 && device == 0)) return STATUS_OK;
    return err_set(err, STATUS_FAILED,
                   "--check-allocations: step %" PRId64 " made %" PRId64 " heap allocation%s and %" PRId64
                   " of device memory; after the first step there should be none",
                   trainer_queued(t) - 1, heap, heap == 1 ? "" : "s", device);
}

/* ---- opening ---- */

static enum status open_profiler(struct trainer *t, struct err *err)
{
    const struct config *c = t->setup.config;
    const int64_t *calls = t->plan.step_calls;
    struct profiler_options options = {.backend = t->setup.backend,
                                       .device = t->setup.device,
                                       .every = c->profile.every,
                                       .warmup_steps = c->profile.warmup_steps,
                                       .marks = calls[0] * c->train.accumulation_steps + calls[1],
                                       .rows = calls[0] + calls[1]};
    return profiler_open(&options, &t->watching.profiler, err);
}

enum status trainer_watch_open(struct trainer *t, struct err *err)
{
    if (t->setup.check_allocations && !heap_counts())
        return err_set(err, STATUS_USAGE,
                       "--check-allocations: cannot count heap allocations without " HEAP_COUNTER
                       " beside the program (build it with make, for glibc and without a sanitizer)");
    return t->setup.config->profile.every ? open_profiler(t, err) : STATUS_OK;
}

void trainer_watch_close(struct trainer *t)
{
    if (t->watching.tracing.trace) /* the device failed in the midst of it */
        trace_close(t->watching.tracing.trace, NULL, NULL);
    profiler_close(t->watching.profiler);
}

/* ---- trace ---- */

static bool trace_is_due(const struct trainer *t, int64_t step)
{
    int64_t configured = t->setup.config->profile.trace_step;
    return t->watching.tracing.ordered || (configured > 0 && configured == step);
}

/* Whether the device's own tools look on: they work inside the calls of the step. */
static bool tools_look_on(const struct trainer *t)
{
    return t->watching.tracing.running && !t->watching.tracing.problem.status && t->setup.backend->queues;
}

bool trainer_trace_order(struct trainer *t, const struct order *order)
{
    struct tracing *tracing = &t->watching.tracing;
    if (tracing->ordered) return false;
    tracing->ordered = true;
    tracing->order_id = order->id;
    return true;
}

static void begin_trace(struct trainer *t, int64_t step)
{
    struct tracing *tracing = &t->watching.tracing;
    if (!trace_is_due(t, step)) return;
    if (trainer_device_status(t, NULL)) return; /* earlier steps that are queued are not this one */
    tracing->running = true;
    tracing->step = step;
    tracing->problem = (struct err){0};
    if (t->watching.profiler || !open_profiler(t, &tracing->problem)) profiler_wish(t->watching.profiler);
    if (!trace_open(step, t->device.name, &tracing->trace, &tracing->problem))
        t->setup.backend->activity_begin(t->setup.device, &tracing->problem);
}

static void end_trace(struct trainer *t)
{
    struct tracing *tracing = &t->watching.tracing;
    struct err *problem = tracing->problem.status ? NULL : &tracing->problem;
    if (!tracing->running) return;
    trainer_device_status(t, NULL); /* the step reports its failure */
    if (tracing->trace)
        t->setup.backend->activity_end(t->setup.device, trace_activity, tracing->trace, problem);
}

static void answer_trace(struct trainer *t, int64_t step, const char *result)
{
    struct train_observer *o = &t->setup.observer;
    struct tracing *tracing = &t->watching.tracing;
    if (tracing->ordered) o->order_done(o->context, tracing->order_id, step, result);
    tracing->ordered = false;
}

/* Fills `name`: an earlier life of the run may have traced the same step, and that stays. */
static enum status name_trace(struct trainer *t, int64_t step, char name[48], char path[4096],
                              struct err *err)
{
    enum status status;
    for (int life = 1;; life++) {
        if (life == 1)
            snprintf(name, 48, "step-%" PRId64 ".json", step);
        else
            snprintf(name, 48, "step-%" PRId64 ".%d.json", step, life);
        status = file_format_path(path, 4096, err, "%s/%s", t->setup.traces, name);
        if (status || access(path, F_OK) != 0) return status;
    }
}

/* Adds the spans and writes the file. */
static enum status write_trace(struct trainer *t, const struct step_record *step, const struct span *spans,
                               int count, char name[48], struct err *err)
{
    struct tracing *tracing = &t->watching.tracing;
    struct trace *trace = tracing->trace;
    char path[4096];
    tracing->trace = NULL;
    if (!trace) return err_set(err, tracing->problem.status, "%s", tracing->problem.text);
    enum status status = name_trace(t, step->step, name, path, err);
    if (!status) status = trace_spans(trace, step->step_ms * 1e3, spans, count, err);
    if (!status) return trace_close(trace, path, err);
    trace_close(trace, NULL, NULL);
    return status;
}

static void report_trace(struct trainer *t, const struct step_record *step, const struct span *spans,
                         int count)
{
    struct tracing *tracing = &t->watching.tracing;
    struct err err = {0};
    char result[sizeof err.text + 64], name[48];
    if (!tracing->running || tracing->step != step->step) return;
    tracing->running = false;
    bool lacking = tracing->problem.status, failed = write_trace(t, step, spans, count, name, &err);
    if (failed)
        snprintf(result, sizeof result, "no trace: %s", err.text);
    else
        snprintf(result, sizeof result, "written to traces/%s%s%s", name, lacking ? "; " : "",
                 tracing->problem.text);
    char text[sizeof result + 64];
    snprintf(text, sizeof text, "trace of step %" PRId64 ": %s", step->step, result);
    struct event_record event = {step->step, step->wall_time, failed || lacking ? "warning" : "info", text};
    t->setup.observer.event(t->setup.observer.context, &event);
    answer_trace(t, step->step, result);
}

void trainer_trace_give_up(struct trainer *t)
{
    answer_trace(t, t->state.step, "no trace: no step followed");
}

/* ---- a step ---- */

bool trainer_watch_waits(const struct trainer *t, int64_t step)
{
    return trace_is_due(t, step) || t->watching.tracing.running || profiler_is_held_up(t->watching.profiler);
}

void trainer_watch_begin(struct trainer *t, int64_t step)
{
    bool watched = trainer_allocations_watch(t, false); /* a trace may allocate */
    begin_trace(t, step);
    trainer_allocations_watch(t, watched && !tools_look_on(t));
    t->watching.profiling = profiler_begin(t->watching.profiler, step, t->network.stream);
    profiler_observe(t->watching.profiling, &t->network);
}

void trainer_watch_end(struct trainer *t)
{
    profiler_end(t->watching.profiling);
    t->watching.profiling = NULL; /* evaluations and samples are no part of a step */
    bool tools = tools_look_on(t), watched = trainer_allocations_watch(t, false);
    end_trace(t);
    trainer_allocations_watch(t, watched || tools);
}

void trainer_watch_report(struct trainer *t, const struct step_record *step)
{
    const struct train_observer *o = &t->setup.observer;
    int count, span_count = 0;
    const struct profile_record *rows =
        profiler_collect(t->watching.profiler, step->step, step->step_ms * 1e3, &count);
    for (int i = 0; i < count; i++) o->profile(o->context, &rows[i]);
    const struct span *spans = count > 0 ? profiler_spans(t->watching.profiler, &span_count) : NULL;
    report_trace(t, step, spans, span_count);
}
