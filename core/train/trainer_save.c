/* The trainer's checkpoints: when to write one, who writes it, and the report when it is written.
 *
 * A background checkpoint is a snapshot, taken between two steps, and a job for a thread. The job starts when
 * the next step's gradient is finite: only that shows that the update before the snapshot did not ruin the
 * weights. Its result is reported between two later steps, or when it is needed. One checkpoint is written at
 * a time. In the foreground, and if no step follows, finite weights have to be enough. */
#include "core/train/trainer_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"

/* A norm that overflows counts as not finite, too: such weights are useless as well. All ranks ask together.
 */
bool trainer_weights_are_finite(struct trainer *t)
{
    struct network *net = &t->network;
    double squares, *sum = network_at(net, BUFFER_SQUARES, 0);
    net->backend->sum_of_squares(sum, net->weights, slice_count(net->owned),
                                 network_at(net, BUFFER_SCRATCH, 0), net->stream);
    net->backend->mem_download(&squares, sum, sizeof squares, net->stream);
    world_sum(t->world, &squares, 1);
    return isfinite((float)sqrt(squares));
}

/* The checkpoint of `step` could not be written; the run continues. */
static void tolerate_save(struct trainer *t, int64_t step, const struct err *problem)
{
    if (trainer_device_status(t, NULL)) return; /* a failed device ends the run and is reported there */
    bool same = problem->status == t->unsaved_reason.status && problem->system == t->unsaved_reason.system;
    if (t->unsaved++ == 0) t->unsaved_since = step;
    if (t->unsaved > 1 && same) return;
    t->unsaved_reason = *problem;
    trainer_tolerate(t, "error", problem);
}

static void report_recovery(struct trainer *t, int64_t step)
{
    if (t->unsaved)
        trainer_event(t, "info",
                      "checkpoints can be written again: step %" PRId64 " is saved; %" PRId64
                      " since step %" PRId64 " could not be written",
                      step, t->unsaved, t->unsaved_since);
    t->unsaved = 0;
}

void trainer_report_unsaved(struct trainer *t)
{
    if (t->unsaved > 1)
        trainer_event(t, "error", "%" PRId64 " checkpoints since step %" PRId64 " could not be written",
                      t->unsaved, t->unsaved_since);
    t->unsaved = 0;
}

/* Reports the outcome of the job. After a failure its step has no checkpoint. */
static enum status report(struct trainer *t, struct err *err)
{
    const struct save_job *job = &t->job;
    char path[64];
    if (job->status) {
        if (t->saved_step == job->state.step) t->saved_step = -1;
        if (err) *err = job->err;
        return job->status;
    }
    t->state.best_saved = job->state.best_saved;
    snprintf(path, sizeof path, "checkpoints/step-%" PRId64, job->state.step);
    struct checkpoint_record record = {.step = job->state.step,
                                       .wall_time = job->wall_time,
                                       .path = path,
                                       .kind = job->kind,
                                       .bytes = job->bytes};
    t->setup.observer.checkpoint(t->setup.observer.context, &record);
    report_recovery(t, job->state.step);
    return STATUS_OK;
}

static void start_held(struct trainer *t)
{
    if (!t->held) return;
    t->held = false;
    t->saving = true;
    t->stage_done = t->job.stage == SAVE_ALL && t->world->rank > 0;
    if (!t->stage_done) save_start(&t->job);
}

/* Whether it is so on all ranks, which ask together. */
static bool everywhere(const struct trainer *t, bool so)
{
    double count = so;
    world_sum(t->world, &count, 1);
    return (int)count == t->world->size;
}

/* Whether the started job of this rank has ended. `wait`: waits for its end, second by second. If one lasts
 * more than two, the process was suspended. */
static bool is_written(struct trainer *t, bool wait)
{
    const struct train_observer *o = &t->setup.observer;
    for (;;) {
        double start = clock_monotonic();
        bool ended = save_collect(&t->job, wait ? 1 : 0);
        double seconds = clock_monotonic() - start;
        if (seconds > 2) t->stood_still += seconds;
        if (ended || !wait || !t->job.started) return ended;
        o->lives(o->context);
    }
}

/* Several ranks write a checkpoint: each its part, then rank 0 the rest. If one fails, all have failed. */
static bool collect_together(struct trainer *t, bool wait)
{
    struct save_job *job = &t->job;
    while (t->saving) {
        bool ended = job->stage != SAVE_PART;
        t->stage_done = t->stage_done || is_written(t, wait);
        if (!everywhere(t, t->stage_done)) return false;
        job->status = world_agree(t->world, job->status, &job->err);
        t->saving = !ended && !job->status;
        if (!t->saving && job->status && job->stage == SAVE_PART && t->world->rank == 0)
            file_remove_tree(job->temporary, NULL);
        if (!t->saving) return true;
        job->stage = SAVE_REST;
        t->stage_done = t->world->rank > 0; /* they wait for rank 0 */
        if (t->world->rank == 0) save_start(job);
    }
    return false;
}

/* Whether a started job has ended. `wait`: waits for its end. */
static bool collect(struct trainer *t, bool wait)
{
    return t->world->size > 1 ? collect_together(t, wait) : is_written(t, wait);
}

/* Confirms a held snapshot after a finite gradient of its weights. */
static void confirm_held(struct trainer *t)
{
    if (t->finite_steps > t->held_at) start_held(t);
}

/* A snapshot of ruined weights would only replace good checkpoints. */
void trainer_decide_save(struct trainer *t)
{
    t->held = everywhere(t, t->held);
    confirm_held(t);
    if (!t->held) return;
    if (!trainer_weights_are_in_doubt(t)) {
        start_held(t);
        return;
    }
    t->held = false;
    trainer_event(t, "warning",
                  "no checkpoint at step %" PRId64
                  ": no finite gradient followed, so its weights may be ruined; earlier checkpoints are kept",
                  t->job.state.step);
}

void trainer_collect_save(struct trainer *t, bool wait)
{
    struct err problem = {0};
    if (wait)
        trainer_decide_save(t);
    else
        confirm_held(t);
    if (collect(t, wait) && report(t, &problem)) tolerate_save(t, t->job.state.step, &problem);
}

/* Waits for the previous write, whose failure is reported and does not stop this one. */
static void wait_for_turn(struct trainer *t)
{
    double start = clock_monotonic();
    t->stood_still = 0;
    trainer_collect_save(t, true);
    double seconds = clock_monotonic() - start - t->stood_still;
    if (seconds < 1) return;
    trainer_event(t, "warning",
                  "the checkpoint of step %" PRId64
                  " had to wait %s for the one before it to be written (a larger checkpoint.every gives the "
                  "disk and the run store more time)",
                  t->state.step, CLOCK_DURATION(seconds));
}

/* Bytes of so many elements from the beginning of a slice, in this buffer of a snapshot. */
static size_t snapshot_bytes(const struct trainer *t, enum buffer snapshot, size_t elements)
{
    bool moment = snapshot >= BUFFER_SNAPSHOT_MOMENT1 && snapshot <= BUFFER_SNAPSHOT_AVERAGE;
    return moment ? plan_moment_bytes(&t->plan.input, (enum moment)(snapshot - BUFFER_SNAPSHOT_MOMENT1),
                                      elements)
                  : elements * sizeof(float);
}

/* Ranks other than 0 send their part of the elements `with` from `mine` to rank 0's snapshot, which has its
 * own part already. */
static void gather_slices(struct trainer *t, enum buffer snapshot, struct slice with, const void *mine)
{
    struct network *net = &t->network;
    const struct world *world = t->world;
    char *copy = network_at(net, snapshot, 0), *staging = network_at(net, BUFFER_STAGING, 0);
    size_t most = t->plan.bytes[BUFFER_STAGING];
    for (int r = 1; r < world->size; r++) {
        struct slice slice = slice_common(plan_slice(&t->plan.input, r), with);
        char *there = copy + snapshot_bytes(t, snapshot, slice.begin);
        for (size_t at = 0, n, bytes = snapshot_bytes(t, snapshot, slice_count(slice)); at < bytes; at += n) {
            n = bytes - at < most ? bytes - at : most;
            if (world->rank == r)
                net->backend->mem_download(staging, (const char *)mine + at, n, net->stream);
            world_send(world, r, 0, world->rank == 0 ? there + at : staging, n);
        }
    }
}

/* Rank 0 gets everything, and writes it alone. */
static void gather_together(struct trainer *t)
{
    struct checkpoint_source *source = &t->job.source;
    gather_slices(t, BUFFER_SNAPSHOT_WEIGHTS, (struct slice){0, t->model.elements}, source->weights);
    for (enum moment i = 0; i < MOMENT_KINDS; i++)
        if (source->moments[i])
            gather_slices(t, BUFFER_SNAPSHOT_MOMENT1 + (enum buffer)i, plan_with_moment(&t->plan.input, i),
                          source->moments[i]);
    source->slice = (struct slice){0, t->model.elements};
    source->ranks = 1;
}

/* Makes the folder that all ranks write to. */
static enum status begin_together(struct trainer *t, struct err *err)
{
    enum status status = STATUS_OK;
    if (t->world->rank == 0)
        status = checkpoint_begin(t->setup.checkpoints, t->state.step, t->job.temporary, err);
    world_share(t->world, t->job.temporary, sizeof t->job.temporary);
    t->job.stage = SAVE_PART;
    return status;
}

void trainer_name_machine(struct trainer *t)
{
    int ranks = t->world->size;
    if (ranks > 1)
        snprintf(t->state.machine, sizeof t->state.machine, "%d ranks, %s", ranks, t->device.computes);
    else
        snprintf(t->state.machine, sizeof t->state.machine, "%s", t->device.computes);
}

/* Only good weights are saved: ruined ones would replace the good checkpoints. */
static enum status save_checkpoint(struct trainer *t, const char *kind, struct err *err)
{
    const struct config *c = t->setup.config;
    struct train_observer *o = &t->setup.observer;
    if (!t->setup.checkpoints) return STATUS_OK;
    wait_for_turn(t);
    bool finite = trainer_weights_are_finite(t);
    enum status status = trainer_device_status(t, err);
    if (!status) status = o->owns(o->context, err);
    if (!status && !finite)
        status =
            err_set(err, STATUS_FAILED, "no checkpoint at step %" PRId64 ": the weights are no longer finite",
                    t->state.step);
    status = world_agree(t->world, status, err);
    if (status) return status;
    trainer_name_machine(t);
    bool best = t->state.stopping.best_step == t->state.step; /* whatever it is saved for */
    t->job = (struct save_job){
        .folder = t->setup.checkpoints,
        .kind = best ? "best" : kind,
        .source = checkpoint_of_network(&t->network, c->checkpoint.contents == CONTENTS_FULL),
        .state = t->state,
        .tokenizer = t->setup.corpus->tokenizer,
        .companions = &t->companions,
        .keep = c->checkpoint.keep,
        .prune = !trainer_weights_are_in_doubt(t),
        .before = o->safe,
        .context = o->context};
    if (best) t->job.state.best_saved = t->state.step;
    bool gathered = t->plan.input.gathered;
    if (t->world->size > 1 && !gathered) status = begin_together(t, err);
    if (!status && (gathered ? t->world->rank == 0 : c->checkpoint.background))
        status = checkpoint_take_snapshot(&t->network, &t->job.source, err);
    if (gathered) gather_together(t);
    status = world_agree(t->world, status, err);
    if (status && t->world->rank == 0 && *t->job.temporary) file_remove_tree(t->job.temporary, NULL);
    if (status) return status;
    o->saving(o->context);
    if (t->setup.needed) t->job.needed = *t->setup.needed;
    t->saved_step = t->state.step;
    trainer_report_memory(t);
    t->held = c->checkpoint.background || t->world->size > 1;
    t->held_at = t->finite_steps;
    if (c->checkpoint.background) return STATUS_OK;
    if (t->held) {
        start_held(t);
        collect(t, true);
        return report(t, err);
    }
    save_carry_out(&t->job);
    return report(t, err);
}

int64_t trainer_checkpoint_bytes(const struct trainer *t)
{
    const struct plan *plan = &t->plan;
    const struct model *model = plan->input.model;
    bool full = t->setup.config->checkpoint.contents == CONTENTS_FULL;
    int64_t bytes = (int64_t)(model->elements * sizeof(float));
    for (enum moment i = 0; i < MOMENT_KINDS; i++)
        if (full || i == MOMENT_AVERAGE)
            bytes += (int64_t)(slice_count(plan_with_moment(&plan->input, i)) * sizeof(float));
    if (model->adapter.rank && model->head.parts == model->embed && !model->embed->frozen)
        bytes += (int64_t)param_bytes(model->embed); /* once more as head */
    return model->adapter.rank ? bytes : bytes + (int64_t)plan->category_bytes[PLAN_FROZEN];
}

void trainer_try_save(struct trainer *t, const char *kind)
{
    struct err problem = {0};
    if (save_checkpoint(t, kind, &problem)) tolerate_save(t, t->state.step, &problem);
}

enum status trainer_save_now(struct trainer *t, const char *kind, struct err *err)
{
    enum status status = save_checkpoint(t, kind, err);
    if (status) return status;
    start_held(t); /* the caller takes the weights as they are */
    return collect(t, true) ? report(t, err) : STATUS_OK;
}
