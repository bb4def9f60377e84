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

/* A norm that overflows counts as not finite, too: such weights are useless as well. */
bool trainer_weights_are_finite(struct trainer *t)
{
    struct network *net = &t->network;
    double squares, *sum = network_at(net, BUFFER_WEIGHTS_SQUARES, 0);
    net->backend->sum_of_squares(sum, net->weights, slice_count(net->owned),
                                 network_at(net, BUFFER_SCRATCH, 0), net->stream);
    net->backend->mem_download(&squares, sum, sizeof squares, net->stream);
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
    save_start(&t->job);
}

/* Confirms a held snapshot after a finite gradient of its weights. */
static void confirm_held(struct trainer *t)
{
    if (t->finite_steps > t->held_at) start_held(t);
}

/* A snapshot of ruined weights would only replace good checkpoints. */
void trainer_decide_save(struct trainer *t)
{
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
    if (save_collect(&t->job, wait) && report(t, &problem)) tolerate_save(t, t->job.state.step, &problem);
}

/* Waits for the previous write, whose failure is reported and does not stop this one. */
static void wait_for_turn(struct trainer *t)
{
    double start = clock_monotonic();
    trainer_collect_save(t, true);
    double seconds = clock_monotonic() - start;
    if (seconds < 1) return;
    trainer_event(t, "warning",
                  "the checkpoint of step %" PRId64
                  " had to wait %s for the one before it to be written (a larger checkpoint.every gives the "
                  "disk and the run store more time)",
                  t->state.step, CLOCK_DURATION(seconds));
}

/* Only good weights are saved: ruined ones would replace the good checkpoints. */
static enum status save_checkpoint(struct trainer *t, const char *kind, struct err *err)
{
    const struct config *c = t->setup.config;
    struct train_observer *o = &t->setup.observer;
    if (t->world->rank > 0) return STATUS_OK; /* rank 0 has the same weights */
    wait_for_turn(t);
    bool finite = trainer_weights_are_finite(t);
    enum status status = trainer_device_status(t, err);
    if (!status) status = o->owns(o->context, err);
    if (status) return status;
    if (!finite)
        return err_set(err, STATUS_FAILED,
                       "no checkpoint at step %" PRId64 ": the weights are no longer finite", t->state.step);
    t->job = (struct save_job){
        .folder = t->setup.checkpoints,
        .kind = kind,
        .source = checkpoint_of_network(&t->network, c->checkpoint.contents == CONTENTS_FULL),
        .state = t->state,
        .tokenizer = t->setup.corpus->tokenizer,
        .companions = &t->companions,
        .keep = c->checkpoint.keep,
        .prune = !trainer_weights_are_in_doubt(t),
        .before = o->safe,
        .context = o->context};
    if (t->state.stopping.best_step == t->state.step) t->job.state.best_saved = t->state.step;
    if (c->checkpoint.background) status = checkpoint_take_snapshot(&t->network, &t->job.source, err);
    if (status) return status;
    o->saving(o->context);
    t->saved_step = t->state.step;
    trainer_report_memory(t);
    t->held = c->checkpoint.background;
    t->held_at = t->finite_steps;
    if (t->held) return STATUS_OK;
    save_carry_out(&t->job);
    return report(t, err);
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
    return save_collect(&t->job, true) ? report(t, err) : STATUS_OK;
}
