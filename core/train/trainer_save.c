/* The trainer's checkpoints: when one is good, who writes it, and what is told when it is there.
 *
 * In the background a checkpoint is a snapshot, taken between two steps, and a job for the saver, which gets
 * it when the next step's gradient is finite: only that shows that the update before the snapshot has not
 * ruined the weights. How the job ends is told between two later steps, or when somebody has to know. One is
 * written at a time. In the foreground, and where no step follows, finite weights have to be enough. */
#include "core/train/trainer_parts.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"

/* A norm that overflows counts as not finite, too: such weights are lost all the same. */
bool trainer_weights_are_finite(struct trainer *t)
{
    struct network *net = &t->network;
    struct clip_state clip, *device_clip = network_at(net, BUFFER_WEIGHTS_CLIP, 0);
    net->backend->grad_norm(device_clip, net->weights, t->model.elements, 0,
                            network_at(net, BUFFER_SCRATCH, 0), net->stream);
    net->backend->mem_download(&clip, device_clip, sizeof clip, net->stream);
    return isfinite(clip.norm);
}

bool trainer_weights_are_in_doubt(const struct trainer *t)
{
    return t->halted || t->state.skipped_in_a_row > 0;
}

bool trainer_has_checkpoint(const struct trainer *t)
{
    char path[PATH_MAX];
    return checkpoint_find(t->setup.checkpoints, -1, path, sizeof path, NULL) == STATUS_OK;
}

bool trainer_saves_full(const struct config *config)
{
    return config->checkpoint.contents == CONTENTS_FULL;
}

/* Sentences name the step, and a folder called after it. */
static bool differ_in_numbers_alone(const char *a, const char *b)
{
    static const char digits[] = "0123456789";
    for (;; a++, b++) {
        a += strspn(a, digits);
        b += strspn(b, digits);
        if (*a != *b || !*a) return *a == *b;
    }
}

void trainer_tolerate_save(struct trainer *t, int64_t step, const struct err *problem)
{
    struct save_trouble *trouble = &t->trouble;
    struct err more = *problem;
    if (trainer_device_status(t, NULL)) return; /* it ends the run, and says so there */
    if (trouble->count++ == 0) {
        trouble->first = step;
    } else if (problem->status == trouble->told.status &&
               differ_in_numbers_alone(problem->text, trouble->told.text)) {
        trouble->untold++;
        return;
    } else {
        err_set(&more, problem->status,
                "%.300s (the %" PRId64 " before, since step %" PRId64 ", failed, too)", problem->text,
                trouble->count - 1, trouble->first);
    }
    trouble->untold = 0;
    trouble->told = *problem;
    trainer_tolerate(t, "error", &more);
}

static void tell_recovery(struct trainer *t, int64_t step)
{
    const struct save_trouble *trouble = &t->trouble;
    if (trouble->count == 1)
        trainer_event(t, "info",
                      "checkpoints are written again: that of step %" PRId64
                      " is there, that of step %" PRId64 " could not be written",
                      step, trouble->first);
    else if (trouble->count)
        trainer_event(t, "info",
                      "checkpoints are written again: that of step %" PRId64 " is there, %" PRId64
                      " before it, since step %" PRId64 ", could not be written",
                      step, trouble->count, trouble->first);
    t->trouble = (struct save_trouble){0};
}

void trainer_tell_unsaved(struct trainer *t)
{
    const struct save_trouble *trouble = &t->trouble;
    if (trouble->untold && trouble->untold + 1 == trouble->count)
        trainer_event(t, "error",
                      "%" PRId64 " checkpoints since step %" PRId64
                      " could not be written, all for the reason told for the first",
                      trouble->count, trouble->first);
    else if (trouble->untold)
        trainer_event(t, "error",
                      "%" PRId64 " checkpoints since step %" PRId64
                      " could not be written, the newest %" PRId64 " of them for the reason told last",
                      trouble->count, trouble->first, trouble->untold + 1);
    t->trouble = (struct save_trouble){0};
}

/* What became of `job`. A failed one leaves its step without a checkpoint. */
static enum status tell(struct trainer *t, const struct save_job *job, const struct save_result *result,
                        struct err *err)
{
    char path[64];
    if (result->status) {
        if (t->last_checkpoint_step == job->state.step) t->last_checkpoint_step = -1;
        if (err) *err = result->err;
        return result->status;
    }
    t->state.best_saved = job->state.best_saved;
    snprintf(path, sizeof path, "checkpoints/step-%" PRId64, job->state.step);
    struct checkpoint_record record = {.step = job->state.step,
                                       .wall_time = result->wall_time,
                                       .path = path,
                                       .kind = job->kind,
                                       .bytes = result->bytes};
    t->setup.observer.checkpoint(t->setup.observer.context, &record);
    tell_recovery(t, job->state.step);
    return STATUS_OK;
}

void trainer_confirm_save(struct trainer *t)
{
    if (!t->held) return;
    t->held = false;
    saver_start(t->saver, &t->job);
}

/* No step will speak for what is held any more. The snapshot of weights that may be ruined would only push
 * good checkpoints out. */
void trainer_decide_save(struct trainer *t)
{
    if (!t->held) return;
    if (!trainer_weights_are_in_doubt(t)) {
        trainer_confirm_save(t);
        return;
    }
    t->held = false;
    if (t->last_checkpoint_step == t->job.state.step) t->last_checkpoint_step = -1;
    trainer_event(
        t, "warning",
        "no checkpoint at step %" PRId64
        ": no finite gradient followed, its weights may be ruined; the checkpoints from before stay",
        t->job.state.step);
}

enum status trainer_wait_for_save(struct trainer *t, struct err *err)
{
    struct save_result result;
    trainer_decide_save(t);
    bool ended = t->saver && saver_collect(t->saver, true, &result);
    return ended ? tell(t, &t->job, &result, err) : STATUS_OK;
}

void trainer_collect_save(struct trainer *t)
{
    struct save_result result;
    struct err problem = {0};
    if (t->saver && saver_collect(t->saver, false, &result) && tell(t, &t->job, &result, &problem))
        trainer_tolerate_save(t, t->job.state.step, &problem);
}

/* For the one before, whose failure is told and is no reason against this one. */
static void wait_for_turn(struct trainer *t)
{
    struct err problem = {0};
    char waited[32];
    double start = clock_monotonic();
    if (!t->saver || (!t->held && !saver_is_busy(t->saver))) return;
    if (trainer_wait_for_save(t, &problem)) trainer_tolerate_save(t, t->job.state.step, &problem);
    double seconds = clock_monotonic() - start;
    if (seconds < 1) return;
    trainer_event(t, "warning",
                  "the checkpoint of step %" PRId64
                  " had to wait %s for the one before it to be written (a larger checkpoint.every gives the "
                  "disk and the run store more time)",
                  t->state.step, clock_format_duration(seconds, waited, sizeof waited));
}

/* Every checkpoint is good: one of ruined weights would push the good ones out. */
enum status trainer_save_checkpoint(struct trainer *t, const char *kind, struct err *err)
{
    const struct config *c = t->setup.config;
    struct train_observer *o = &t->setup.observer;
    struct save_result result;
    wait_for_turn(t);
    bool finite = trainer_weights_are_finite(t);
    enum status status = trainer_device_status(t, err);
    if (status) return status;
    if (!finite)
        return err_set(err, STATUS_FAILED,
                       "no checkpoint at step %" PRId64 ": the weights are no longer finite", t->state.step);
    t->job = (struct save_job){.folder = t->setup.checkpoints,
                               .kind = kind,
                               .source = checkpoint_of_network(&t->network, trainer_saves_full(c)),
                               .state = t->state,
                               .tokenizer = t->setup.corpus->tokenizer,
                               .keep = c->checkpoint.keep,
                               .prune = !trainer_weights_are_in_doubt(t),
                               .before = o->safe,
                               .context = o->context};
    if (t->state.stopping.best_step == t->state.step) t->job.state.best_saved = t->state.step;
    if (t->saver) status = checkpoint_take_snapshot(&t->network, &t->job.source, err);
    if (status) return status;
    o->saving(o->context);
    t->last_checkpoint_step = t->state.step;
    trainer_report_memory(t);
    t->held = t->saver != NULL;
    if (t->held) return STATUS_OK;
    save_carry_out(&t->job, &result);
    return tell(t, &t->job, &result, err);
}

enum status trainer_save_now(struct trainer *t, const char *kind, struct err *err)
{
    enum status status = trainer_save_checkpoint(t, kind, err);
    if (!status) trainer_confirm_save(t); /* whoever asks takes the weights as they are */
    return status ? status : trainer_wait_for_save(t, err);
}
