/* One optimizer step: micro-batches, update, and the record that reports of it.
 *
 * A step is queued without waiting for the one before. What it leaves (struct step_result) is copied to
 * page-locked memory behind it; it is reported as soon as it is known to have happened, at the latest when
 * the next one is queued. So at most two steps are under way, and of a device that works while it is reported
 * (a GPU) the host never keeps it waiting. The trainer's state is always that of the last step reported. */
#include "core/train/trainer_parts.h"

#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/heap.h"

enum status trainer_open_steps(struct trainer *t, struct err *err)
{
    const struct config *c = t->setup.config;
    const struct backend *be = t->setup.backend;
    enum status status = feed_open(&t->feed, &t->network, t->task, t->data, err);
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
    for (int i = 0; i < PLAN_FLIGHTS; i++)
        if (t->landed[i]) t->setup.backend->event_close(t->landed[i]);
    replay_close(&t->replay);
    feed_close(&t->feed);
}

bool trainer_ends_epoch(const struct trainer *t)
{
    const struct config *c = t->setup.config;
    uint64_t taken = (uint64_t)(c->train.batch_size * c->train.accumulation_steps), cursor = t->state.cursor;
    uint64_t epoch = t->task->examples(t->data, TASK_TRAINING);
    if (t->in_flight) cursor = t->flights[(trainer_queued(t) - 1) % PLAN_FLIGHTS].cursor;
    return cursor / epoch != (cursor - taken) / epoch;
}

/* Whether the next step waits for this one: where it is asked for, where a step is measured or traced by
 * itself, where both are profiled (there is one set of marks), and where a skipped update ends the run or
 * may, so that no step follows the last. */
static bool in_lockstep(const struct trainer *t)
{
    return !t->setup.config->train.async || t->state.skipped_in_a_row > 0 ||
           t->health.limits.on_nan == ON_NAN_STOP || trainer_watch_waits(t, trainer_queued(t)) ||
           replay_measures(&t->replay);
}

/* Queues step `trainer_queued` and the copy of its result, and fills the flight. */
static void queue_step(struct trainer *t, struct flight *f)
{
    const struct config *c = t->setup.config;
    const struct backend *be = t->setup.backend;
    struct network *net = &t->network;
    int at = (int)(trainer_queued(t) % PLAN_FLIGHTS);
    f->step = trainer_queued(t);
    f->start = clock_monotonic();
    f->lr = schedule_lr(&t->schedule, f->step) * t->state.lr_factor;
    f->cursor = t->in_flight ? t->flights[1 - at].cursor : t->state.cursor;
    trainer_watch_begin(t, f->step);
    bool graph = replay_ready(&t->replay) && !t->profiling; /* not where it is looked at by operation */
    uint64_t sequences = (uint64_t)(c->train.batch_size * c->train.accumulation_steps);
    /* of the whole step, however it is cut into micro-batches; where none counts there is no gradient */
    f->labels = fmax(1, (double)t->task->labels(t->data, TASK_TRAINING, f->cursor, sequences));
    int64_t batch_bytes =
        4 * (int64_t)sizeof(int32_t) * c->train.batch_size * c->train.seq_len; /* two, twice */
    network_clear(net);
    for (int64_t i = 0; i < c->train.accumulation_steps; i++) {
        if (t->profiling) profiler_mark(t->profiling, PHASE_DATA, -1, "batch", batch_bytes, 0);
        int place = feed_take(&t->feed, f->cursor);
        network_control(net, (struct step_control){.seed = (uint64_t)c->train.seed,
                                                   .step = (uint32_t)f->step,
                                                   .micro_batch = (uint32_t)i,
                                                   .loss_scale = (float)(1.0 / f->labels),
                                                   .lr = (float)f->lr});
        replay_micro_batch(&t->replay, place, graph);
        feed_release(&t->feed, place);
        f->cursor += (uint64_t)c->train.batch_size;
    }
    replay_update(&t->replay, graph);
    net->table->mem_download_async(&t->results[at], network_at(net, BUFFER_RESULT, 0), sizeof *t->results,
                                   net->calls);
    trainer_watch_end(t);
    be->event_record(t->landed[at], net->stream);
}

/* The record of the oldest step under way, which has happened. */
static void report(struct trainer *t)
{
    const struct config *c = t->setup.config;
    struct train_observer *o = &t->setup.observer;
    const struct flight *f = &t->flights[t->state.step % PLAN_FLIGHTS];
    const struct step_result *result = &t->results[t->state.step % PLAN_FLIGHTS];
    int64_t tokens = c->train.accumulation_steps * c->train.batch_size * c->train.seq_len;
    /* from the end of the step before where this one was queued by then: what the device needs for a step */
    double now = clock_monotonic(), seconds = now - fmax(f->start, t->reported_at);
    struct step_record record = {.step = f->step, .loss = result->loss_sum / f->labels, .lr = f->lr};
    t->reported_at = now;
    t->in_flight--;
    t->state.step++;
    t->state.cursor = f->cursor;
    t->state.tokens += tokens;
    t->state.updates = result->clip.updates;
    t->state.skipped_in_a_row = result->clip.scale == 0 ? t->state.skipped_in_a_row + 1 : 0;
    t->finite_steps += t->state.skipped_in_a_row == 0 && isfinite(record.loss);
    record.epoch = (double)t->state.cursor / (double)t->task->examples(t->data, TASK_TRAINING);
    record.tokens = t->state.tokens;
    record.wall_time = clock_wall();
    record.step_ms = seconds * 1e3;
    record.grad_norm = result->clip.norm;
    record.clip_scale = result->clip.scale;
    record.tokens_per_sec = (double)tokens / seconds;
    double peak = t->device.peak_flops[t->plan.input.precision];
    record.mfu =
        peak > 0 ? model_flops_per_token(&t->model, t->plan.input.T) * record.tokens_per_sec / peak : NAN;
    if (t->counts) heap_watch(false);
    o->step(o->context, &record);
    trainer_watch_report(t, &record);
    trainer_judge_step(t, &record);
    if (t->counts) heap_watch(true);
}

/* Tells steps until at most `left` are under way, waiting for each. On a failure the rest never happened. */
static enum status settle_to(struct trainer *t, int left, struct err *err)
{
    const struct backend *be = t->setup.backend;
    while (t->in_flight > left) {
        enum status status = be->event_wait(t->landed[t->state.step % PLAN_FLIGHTS], t->network.stream, err);
        if (status) {
            t->in_flight = 0;
            return status;
        }
        report(t);
    }
    return STATUS_OK;
}

enum status trainer_settle(struct trainer *t, struct err *err)
{
    return settle_to(t, 0, err);
}

/* Queues the next step and reports what has happened. */
static enum status advance(struct trainer *t, struct err *err)
{
    const struct backend *be = t->setup.backend;
    enum status status = in_lockstep(t) ? trainer_settle(t, err) : STATUS_OK;
    if (status) return status;
    queue_step(t, &t->flights[trainer_queued(t) % PLAN_FLIGHTS]);
    status = be->stream_check(t->network.stream, err);
    if (status) {
        trainer_settle(t, NULL); /* the one before may well have happened */
        return status;
    }
    t->in_flight++;
    while (!status && t->in_flight > 0 &&
           (t->in_flight == PLAN_FLIGHTS || in_lockstep(t) ||
            be->event_done(t->landed[t->state.step % PLAN_FLIGHTS])))
        status = settle_to(t, t->in_flight - 1, err);
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
    trainer_allocations_begin(t);
    status = advance(t, err);
    enum status allocated = trainer_allocations_end(t, status ? NULL : err);
    return status ? status : allocated;
}
