/* One optimizer step: micro-batches, update, its record, and its observation.
 *
 * A step is queued without waiting for the previous one. Its result (struct step_result) is then copied to
 * page-locked memory; the step is reported as soon as it is known to have happened, at the latest when the
 * next one is queued. So at most two steps are queued, and a device that works asynchronously (a GPU) never
 * waits for the host. The trainer's state is always that of the last reported step.
 *
 * Observing a step changes no bit of it. There is the profile of some steps, operation by operation; the
 * trace of one, with the device's own records; and a check that steps allocate nothing, neither on the heap
 * by the trainer's thread nor device or page-locked memory. Work between two steps (evaluations, samples,
 * saves, the recording of graphs) and the observer's work for a report are not part of a step. A traced step
 * may use the heap. */
#include "core/train/trainer_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/heap.h"
#include "core/base/text.h"

enum { TRACE_BYTES_MAX = 1 << 30 }; /* of one rank, on its way to rank 0 */

static bool trace_is_due(const struct trainer *t, int64_t step)
{
    int64_t configured = t->setup.config->profile.trace_step;
    return t->trace_ordered || (configured > 0 && configured == step);
}

/* ---- allocations ---- */

static void count_allocations(struct trainer *t)
{
    if (!t->setup.check_allocations) return;
    t->heap_allocations = heap_allocations();
    t->device_allocations = t->setup.backend->allocations(t->setup.device);
    t->counts = !trace_is_due(t, trainer_queued(t));
    heap_watch(t->counts);
}

static enum status check_allocations(struct trainer *t, struct err *err)
{
    if (!t->setup.check_allocations) return STATUS_OK;
    heap_watch(false);
    t->counts = false;
    int64_t heap = heap_allocations() - t->heap_allocations,
            device = t->setup.backend->allocations(t->setup.device) - t->device_allocations;
    bool first = t->replay.steps <= 1; /* allowed: it loads code and creates buffers of libraries */
    if (first || (heap == 0 && device == 0)) return STATUS_OK;
    return err_set(err, STATUS_FAILED,
                   "--check-allocations: step %" PRId64 " made %" PRId64 " heap allocation%s and %" PRId64
                   " of device memory; after the first step there should be none",
                   trainer_queued(t) - 1, heap, text_plural(heap), device);
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
                                       .marks = calls[0] * t->plan.input.micro_batches + calls[1],
                                       .rows = calls[0] + calls[1],
                                       .world = t->world,
                                       .span = t->plan.input.packed ? t->span : 0};
    return profiler_open(&options, &t->profiler, err);
}

static enum status open_watch(struct trainer *t, struct err *err)
{
    if (t->setup.check_allocations && !heap_counts())
        return err_set(err, STATUS_USAGE,
                       "--check-allocations: cannot count heap allocations without " HEAP_COUNTER
                       " next to the program (build it with make, for glibc and without a sanitizer)");
    return t->setup.config->profile.every ? open_profiler(t, err) : STATUS_OK;
}

/* ---- trace ---- */

static void begin_trace(struct trainer *t, int64_t step)
{
    struct err *problem = &t->trace_problem;
    if (!trace_is_due(t, step)) return;
    if (trainer_device_status(t, NULL)) return; /* earlier queued steps do not belong to the trace */
    t->tracing = true;
    *problem = (struct err){0};
    if (!t->profiler) open_profiler(t, problem);
    bool several = t->world->size > 1;
    struct trace_origin origin = {.step = step,
                                  .device = t->device.name,
                                  .host = several ? t->world->hosts[t->world->rank] : NULL,
                                  .rank = t->world->rank,
                                  .at = several ? clock_monotonic() - t->common_time : 0};
    if (!trace_open(&origin, &t->trace, problem)) t->setup.backend->activity_begin(t->setup.device, problem);
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

/* Fills `name`: an earlier segment may have traced the same step, and its file stays. */
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
        snprintf(result, sizeof result, ORDER_NO_TRACE "%s", err.text);
    else
        snprintf(result, sizeof result, "written to traces/%s%s%s", name, lacking ? "; " : "",
                 t->trace_problem.text);
    snprintf(text, sizeof text, "trace of step %" PRId64 ": %s", step->step, result);
    struct event_record event = {step->step, step->wall_time, failed || lacking ? "warning" : "info", text,
                                 false};
    t->setup.observer.event(t->setup.observer.context, &event);
    trainer_answer_trace(t, step->step, result);
    t->tracing = false;
}

/* ---- a step ---- */

static bool watch_waits(const struct trainer *t, int64_t step)
{
    return trace_is_due(t, step) || t->tracing || profiler_is_held_up(t->profiler);
}

static void watch_report(struct trainer *t, const struct step_record *step)
{
    const struct train_observer *o = &t->setup.observer;
    double step_us = step->step_ms * 1e3;
    int count, spans = 0;
    const struct profile_record *rows = profiler_collect(t->profiler, step->step, step_us, &count);
    for (int i = 0; i < count; i++) o->profile(o->context, &rows[i]);
    if (!t->tracing) return;
    const struct span *span = count > 0 ? profiler_spans(t->profiler, &spans) : NULL;
    if (t->trace) trace_spans(t->trace, step_us, span, spans);
    if (t->world->size > 1) {
        t->traced = *step;
        t->joins_traces = true;
    } else {
        report_trace(t, step);
    }
}

/* Rank 0 gets the text of each other rank, one after the other. */
static void gather_traces(struct trainer *t, uint64_t sizes[])
{
    const struct world *world = t->world;
    struct world_piece send[WORLD_RANKS_MAX] = {0}, receive[WORLD_RANKS_MAX] = {0};
    size_t most = 0, size = 0;
    for (int r = 1; r < world->size; r++) most = sizes[r] > most ? sizes[r] : most;
    char *text = world->rank ? NULL : malloc(most + 1);
    bool room = text != NULL;
    world_share(world, &room, sizeof room);
    for (int r = 1; room && r < world->size; r++) {
        send[0] = (struct world_piece){0};
        receive[r] = (struct world_piece){text, world->rank ? 0 : sizes[r]};
        if (world->rank == r && sizes[r])
            send[0] = (struct world_piece){(void *)(uintptr_t)trace_text(t->trace, &size), sizes[r]};
        world->exchange(world, send, receive);
        receive[r].bytes = 0;
        if (world->rank || !sizes[r]) continue;
        text[sizes[r]] = '\0';
        if (t->trace) trace_add(t->trace, text);
    }
    free(text);
}

void trainer_join_traces(struct trainer *t)
{
    uint64_t sizes[WORLD_RANKS_MAX] = {0};
    size_t size = 0;
    if (t->trace) trace_text(t->trace, &size);
    sizes[t->world->rank] = size < TRACE_BYTES_MAX ? size : 0; /* a rank without a trace sends nothing */
    world_gather(t->world, sizes, sizeof *sizes);
    gather_traces(t, sizes);
    t->joins_traces = false;
    if (t->world->rank == 0) {
        report_trace(t, &t->traced);
        return;
    }
    if (t->trace) trace_close(t->trace, NULL, NULL);
    t->trace = NULL;
    t->tracing = t->trace_ordered = false;
}

/* ---- the steps ---- */

enum status trainer_open_steps(struct trainer *t, struct err *err)
{
    const struct config *c = t->setup.config;
    const struct backend *be = t->setup.backend;
    enum status status = open_watch(t, err);
    if (!status) status = feed_open(&t->feed, &t->network, t->data, err);
    if (!status)
        status =
            replay_open(&t->replay, &t->network, &t->optimizer, c->train.graph, (float)c->train.dropout, err);
    t->results = network_at(&t->network, BUFFER_HOST_RESULTS, 0);
    for (int i = 0; !status && i < PLAN_FLIGHTS; i++)
        status = be->event_open(t->setup.device, &t->landed[i], err);
    return status;
}

void trainer_close_steps(struct trainer *t)
{
    if (t->trace) trace_close(t->trace, NULL, NULL); /* the device failed during the trace */
    profiler_close(t->profiler);
    for (int i = 0; i < PLAN_FLIGHTS; i++)
        if (t->landed[i]) t->setup.backend->event_close(t->landed[i]);
    replay_close(&t->replay);
    feed_close(&t->feed);
}

/* The rows that a step takes, on all ranks. */
static uint64_t rows_of_step(const struct trainer *t, int64_t step)
{
    const struct config *c = t->setup.config;
    return (uint64_t)(c->train.batch_size * config_micro_batches(c, step));
}

/* The micro-batches of each rank for so many rows; a rank with fewer rows has empty ones. */
static int micro_batches_of(const struct trainer *t, uint64_t rows)
{
    uint64_t ranks = (uint64_t)t->world->size, B = (uint64_t)t->plan.input.B,
             most = (rows + ranks - 1) / ranks;
    return (int)((most + B - 1) / B);
}

bool trainer_ends_epoch(const struct trainer *t)
{
    uint64_t taken = rows_of_step(t, trainer_queued(t) - 1), cursor = t->state.cursor;
    uint64_t epoch = task_examples(t->data, TASK_TRAINING);
    if (t->in_flight) cursor = t->flights[(trainer_queued(t) - 1) % PLAN_FLIGHTS].cursor;
    return cursor / epoch != (cursor - taken) / epoch;
}

/* Whether the next step waits for this one: by configuration, if a step is measured or traced alone, if both
 * are profiled (there is one set of marks), if a skipped update ends the run or may end it, so that no
 * step follows the last, in a spike, whose end changes the next limit at once, and with several ranks, which
 * have to know the same when they decide. */
static bool in_lockstep(const struct trainer *t)
{
    return t->world->size > 1 || !t->setup.config->train.async || t->state.skipped_in_a_row > 0 ||
           (t->health.limits.on_spike == ON_SPIKE_SKIP && t->state.level.spike_steps > 0) ||
           t->health.limits.on_nan == ON_NAN_STOP || watch_waits(t, trainer_queued(t)) ||
           replay_measures(&t->replay);
}

/* Queues micro-batch `i` of this rank's part of the step. Dropout draws as if one rank had all rows. */
static void queue_micro_batch(struct trainer *t, const struct flight *f, struct world_part part, int i,
                              bool graph)
{
    const struct config_train *c = &t->setup.config->train;
    int B = t->plan.input.B;
    uint64_t done = (uint64_t)i * (uint64_t)B, left = part.count > done ? part.count - done : 0,
             first = part.first + done, of = (uint64_t)c->batch_size;
    int place = feed_take(&t->feed, f->cursor + first, left < (uint64_t)B ? (int)left : B);
    network_control(&t->network, (struct step_control){.seed = (uint64_t)c->seed,
                                                       .step = (uint32_t)f->step,
                                                       .micro_batch = (uint32_t)(first / of),
                                                       .row = (uint32_t)(first % of),
                                                       .rows = t->world->size > 1 ? (uint32_t)of : 0,
                                                       .loss_scale = (float)(1.0 / f->labels),
                                                       .z_loss = (float)c->z_loss,
                                                       .lr = (float)f->lr,
                                                       .loss_limit = f->loss_limit});
    replay_micro_batch(&t->replay, place, graph);
    feed_release(&t->feed, place);
}

/* Whether to give up the step before its next micro-batch: it may last minutes on a CPU, and nothing of it
 * counts before the update. Where work is queued, all of it is queued at once. */
static bool is_given_up(const struct trainer *t)
{
    const struct train_observer *o = &t->setup.observer;
    bool may = t->world->size == 1 && !t->setup.backend->queues && !t->profiling && !t->tracing;
    return may && o->leave(o->context);
}

/* Queues step `trainer_queued` and the copy of its result, and fills the flight. False: it was given up, and
 * has changed nothing but gradients. */
static bool queue_step(struct trainer *t, struct flight *f)
{
    const struct backend *be = t->setup.backend;
    struct network *net = &t->network;
    int at = (int)(trainer_queued(t) % PLAN_FLIGHTS);
    f->step = trainer_queued(t);
    f->start = clock_monotonic();
    f->lr = schedule_lr(&t->schedule, f->step) * t->state.lr_factor * t->state.lr_cut;
    f->cursor = t->in_flight ? t->flights[1 - at].cursor : t->state.cursor;
    begin_trace(t, f->step);
    t->profiling = profiler_begin(t->profiler, f->step, net->stream, net, t->tracing);
    bool graph = t->replay.update && !t->profiling; /* not while operations are profiled */
    uint64_t rows = rows_of_step(t, f->step);
    int micro_batches = micro_batches_of(t, rows);
    struct world_part part = world_divide(rows, t->world->rank, t->world->size);
    /* of the whole step, however many micro-batches and ranks; if no label counts, there is no gradient */
    f->labels = task_labels(t->data, TASK_TRAINING, f->cursor, rows);
    if (f->labels <= 0) f->labels = 1;
    f->loss_limit =
        f->labels * (t->in_flight ? t->state.level.limit : t->state.level.previous_limit); /* see health.h */
    const struct plan_input *in = &t->plan.input;
    int64_t batch_bytes = 2 * plan_batch_parts(in) * (int64_t)sizeof(int32_t) * in->B *
                          in->T; /* read on the host, written on the device */
    prefetch_expect_steps(t->data->prefetch[TASK_TRAINING], micro_batches, rows);
    network_clear(net);
    for (int i = 0; i < micro_batches; i++) {
        if (i > 0 && is_given_up(t)) return false;
        if (t->profiling) profiler_mark(t->profiling, PHASE_DATA, -1, "batch", batch_bytes, 0);
        net->exchange.last = i + 1 == micro_batches;
        queue_micro_batch(t, f, part, i, graph);
    }
    f->cursor += rows;
    replay_update(&t->replay, graph);
    net->table->mem_download_async(&t->results[at], network_at(net, BUFFER_RESULT, 0), sizeof *t->results,
                                   net->calls);
    profiler_end(t->profiling);
    t->profiling = NULL; /* evaluations and samples are no part of a step */
    end_trace(t);
    be->event_record(t->landed[at], net->stream);
    return true;
}

/* Whether the trouble that training went back for lies behind it: ROLLBACK_OVERCOME. */
static bool is_overcome(const struct trainer *t)
{
    int64_t every = t->setup.config->checkpoint.every, past = t->state.trouble + 1;
    bool saved = every > 0 && t->state.step / every > past / every;
    return saved && t->state.step >= past + ROLLBACK_OVERCOME;
}

/* Reports the oldest queued step, which has happened. */
static void report(struct trainer *t)
{
    struct train_observer *o = &t->setup.observer;
    const struct flight *f = &t->flights[t->state.step % PLAN_FLIGHTS];
    const struct step_result *result = &t->results[t->state.step % PLAN_FLIGHTS];
    int64_t tokens = (int64_t)rows_of_step(t, f->step) * t->plan.input.T;
    /* from the previous step's end, if this one was queued by then: the device's time per step */
    double now = clock_monotonic(), seconds = now - fmax(f->start, t->reported_at);
    struct step_record record = {.step = f->step, .loss = result->loss_sum / f->labels, .lr = f->lr};
    t->reported_at = now;
    t->in_flight--;
    t->state.step++;
    t->state.cursor = f->cursor;
    t->state.tokens += tokens;
    t->state.updates = result->clip.updates;
    t->state.skipped_in_a_row = result->clip.scale == 0 ? t->state.skipped_in_a_row + 1 : 0;
    if (is_overcome(t)) t->state.rollbacks = 0;
    record.epoch = (double)t->state.cursor / (double)task_examples(t->data, TASK_TRAINING);
    record.tokens = t->state.tokens;
    record.wall_time = clock_wall();
    record.step_ms = seconds * 1e3;
    record.grad_norm = result->clip.norm;
    t->last_is_finite = isfinite(record.loss) && isfinite(record.grad_norm);
    t->finite_steps += t->last_is_finite;
    record.clip_scale = result->clip.scale;
    record.tokens_per_sec = (double)tokens / seconds;
    double peak = t->device.peak_flops[t->plan.input.precision] * t->world->size;
    record.perplexity = exp(record.loss);
    record.mfu = peak > 0 ? model_flops_per_token(&t->model, t->span) * record.tokens_per_sec / peak : NAN;
    if (t->counts) heap_watch(false);
    o->step(o->context, &record);
    watch_report(t, &record);
    trainer_judge_step(t, &record);
    if (t->counts) heap_watch(true);
}

/* Waits for steps and reports each until at most `left` remain queued. After a failure the rest are lost, and
 * what follows trouble is never reported. */
enum status trainer_settle(struct trainer *t, int left, struct err *err)
{
    const struct backend *be = t->setup.backend;
    while (t->in_flight > left && t->trouble < 0) {
        enum status status = be->event_wait(t->landed[t->state.step % PLAN_FLIGHTS], t->network.stream, err);
        if (status) {
            t->in_flight = 0;
            return status;
        }
        report(t);
    }
    return STATUS_OK;
}

/* Queues the next step and reports what has happened. */
static enum status advance(struct trainer *t, struct err *err)
{
    const struct backend *be = t->setup.backend;
    enum status status = in_lockstep(t) ? trainer_settle(t, 0, err) : STATUS_OK;
    if (status || t->trouble >= 0) return status;
    if (!queue_step(t, &t->flights[trainer_queued(t) % PLAN_FLIGHTS])) {
        t->facts.leave = true;
        return trainer_settle(t, 0, err);
    }
    status = be->stream_check(t->network.stream, err);
    if (!status) status = task_check_batches(t->data, err);
    if (status) {
        trainer_settle(t, 0, NULL); /* the previous one may have happened */
        return status;
    }
    t->in_flight++;
    while (!status && t->in_flight > 0 && t->trouble < 0 &&
           (t->in_flight == PLAN_FLIGHTS || in_lockstep(t) ||
            be->event_done(t->landed[t->state.step % PLAN_FLIGHTS])))
        status = trainer_settle(t, t->in_flight - 1, err);
    if (!status && t->in_flight == 0) replay_judge(&t->replay);
    return status;
}

enum status trainer_step(struct trainer *t, struct err *err)
{
    struct err problem = {0};
    enum status status = replay_prepare(&t->replay, &problem);
    if (status == STATUS_FAILED)
        trainer_tolerate(t, "warning", &problem);
    else if (status)
        return err_set(err, status, "%s", problem.text);
    count_allocations(t);
    status = advance(t, err);
    enum status allocated = check_allocations(t, status ? NULL : err);
    return status ? status : allocated;
}
