/* How the trainer looks at its own steps. None of it changes a bit of what a step computes.
 *
 * Profile: where the time of some steps goes, reported to the observer operation by operation.
 *
 * Trace: one step written down with what the device saw of it, because the configuration or an order asks for
 * it; it is waited for, before and after.
 *
 * Allocations: that steps make none, checked while they run: on the heap by the trainer's own thread, of
 * device and page-locked memory where the device gives it. No part of a step are what comes between two
 * (evaluations, samples, saves, the recording of graphs) and what the observer does when it is reported of
 * it. A step that is traced is not checked. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/heap.h"
#include "core/train/trainer_parts.h"

static bool trace_is_due(const struct trainer *t, int64_t step)
{
    int64_t configured = t->setup.config->profile.trace_step;
    return t->trace_ordered || (configured > 0 && configured == step);
}

/* ---- allocations ---- */

static int64_t device_allocations(const struct trainer *t)
{
    return t->setup.backend->allocations(t->setup.device);
}

void trainer_allocations_begin(struct trainer *t)
{
    t->counts = t->setup.check_allocations && !trace_is_due(t, trainer_queued(t));
    if (!t->counts) return;
    t->heap_allocations = heap_allocations();
    t->device_allocations = device_allocations(t);
    heap_watch(true);
}

enum status trainer_allocations_end(struct trainer *t, struct err *err)
{
    if (!t->counts) return STATUS_OK;
    heap_watch(false);
    t->counts = false;
    int64_t heap = heap_allocations() - t->heap_allocations,
            device = device_allocations(t) - t->device_allocations;
    bool first = t->replay.steps <= 1; /* it may: code is loaded, buffers of libraries are made */
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
    return profiler_open(&options, &t->profiler, err);
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
    if (t->trace) trace_close(t->trace, NULL, NULL); /* the device failed in the midst of it */
    profiler_close(t->profiler);
}

/* ---- trace ---- */

static void begin_trace(struct trainer *t, int64_t step)
{
    struct err *problem = &t->trace_problem;
    if (!trace_is_due(t, step)) return;
    if (trainer_device_status(t, NULL)) return; /* earlier steps that are queued are not this one */
    t->tracing = true;
    *problem = (struct err){0};
    if (t->profiler || !open_profiler(t, problem)) profiler_wish(t->profiler);
    if (!trace_open(step, t->device.name, &t->trace, problem))
        t->setup.backend->activity_begin(t->setup.device, problem);
}

static void end_trace(struct trainer *t)
{
    struct err *problem = t->trace_problem.status ? NULL : &t->trace_problem;
    if (!t->tracing) return;
    trainer_device_status(t, NULL); /* the step reports its failure */
    if (t->trace) t->setup.backend->activity_end(t->setup.device, trace_activity, t->trace, problem);
}

void trainer_answer_trace(struct trainer *t, int64_t step, const char *result)
{
    struct train_observer *o = &t->setup.observer;
    if (t->trace_ordered) o->order_done(o->context, t->trace_order, step, result);
    t->trace_ordered = false;
}

/* Fills `name`: an earlier life of the run may have traced the same step, and that stays. */
static enum status write_trace(struct trainer *t, int64_t step, char name[48], struct err *err)
{
    struct trace *trace = t->trace;
    char path[4096];
    t->trace = NULL;
    if (!trace) return err_set(err, t->trace_problem.status, "%s", t->trace_problem.text);
    enum status status = file_make_folders(t->setup.traces, err);
    snprintf(name, 48, "step-%" PRId64 ".json", step);
    for (int life = 2; !status; life++) {
        status = file_format_path(path, sizeof path, err, "%s/%s", t->setup.traces, name);
        if (status || access(path, F_OK) != 0) break;
        snprintf(name, 48, "step-%" PRId64 ".%d.json", step, life);
    }
    enum status closed = trace_close(trace, status ? NULL : path, status ? NULL : err);
    return status ? status : closed;
}

static void report_trace(struct trainer *t, const struct step_record *step)
{
    struct err err = {0};
    char result[sizeof err.text + 64], text[sizeof result + 64], name[48];
    bool lacking = t->trace_problem.status, failed = write_trace(t, step->step, name, &err);
    if (failed)
        snprintf(result, sizeof result, "no trace: %s", err.text);
    else
        snprintf(result, sizeof result, "written to traces/%s%s%s", name, lacking ? "; " : "",
                 t->trace_problem.text);
    snprintf(text, sizeof text, "trace of step %" PRId64 ": %s", step->step, result);
    struct event_record event = {step->step, step->wall_time, failed || lacking ? "warning" : "info", text};
    t->setup.observer.event(t->setup.observer.context, &event);
    trainer_answer_trace(t, step->step, result);
    t->tracing = false;
}

/* ---- a step ---- */

bool trainer_watch_waits(const struct trainer *t, int64_t step)
{
    return trace_is_due(t, step) || t->tracing || profiler_is_held_up(t->profiler);
}

void trainer_watch_begin(struct trainer *t, int64_t step)
{
    begin_trace(t, step);
    t->profiling = profiler_begin(t->profiler, step, t->network.stream);
    profiler_observe(t->profiling, &t->network);
}

void trainer_watch_end(struct trainer *t)
{
    profiler_end(t->profiling);
    t->profiling = NULL; /* evaluations and samples are no part of a step */
    end_trace(t);
}

void trainer_watch_report(struct trainer *t, const struct step_record *step)
{
    const struct train_observer *o = &t->setup.observer;
    double step_us = step->step_ms * 1e3;
    int count, spans = 0;
    const struct profile_record *rows = profiler_collect(t->profiler, step->step, step_us, &count);
    for (int i = 0; i < count; i++) o->profile(o->context, &rows[i]);
    if (!t->tracing) return;
    const struct span *span = count > 0 ? profiler_spans(t->profiler, &spans) : NULL;
    if (t->trace) trace_spans(t->trace, step_us, span, spans);
    report_trace(t, step);
}
