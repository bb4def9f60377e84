/* The trainer's checkpoints: when one is good, and what else is told when one is written. */
#include "core/trainer_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/base/clock.h"

/* A norm that overflows counts as not finite, too: such weights are lost all the same. */
bool trainer_weights_are_finite(struct trainer *t)
{
    struct network *net = &t->network;
    struct clip_state clip,
        *device_clip = (struct clip_state *)(net->memory[PLAN_WORKSPACE] + t->plan.weights_clip);
    net->backend->grad_norm(device_clip, net->weights, t->model.elements, 0,
                            net->memory[PLAN_WORKSPACE] + t->plan.scratch, net->stream);
    net->backend->mem_download(&clip, device_clip, sizeof clip, net->stream);
    return isfinite(clip.norm);
}

/* Every checkpoint is good: one of ruined weights would push the good ones out. */
enum status trainer_save_checkpoint(struct trainer *t, const char *kind, struct err *err)
{
    struct train_observer *o = &t->setup.observer;
    bool finite = trainer_weights_are_finite(t);
    enum status status = trainer_device_status(t, err);
    if (status) return status;
    if (!finite)
        return err_set(err, STATUS_FAILED,
                       "no checkpoint at step %" PRId64 ": the weights are no longer finite", t->state.step);
    char path[64];
    struct checkpoint_record record = {.step = t->state.step, .path = path, .kind = kind};
    o->saving(o->context);
    status = checkpoint_save(t->setup.checkpoints, &t->network, &t->state, t->setup.corpus->tokenizer,
                             &record.bytes, err);
    if (status) return status;
    t->last_checkpoint_step = t->state.step;
    checkpoint_prune(t->setup.checkpoints, t->setup.config->checkpoint.keep, t->state.stopping.best_step);
    snprintf(path, sizeof path, "checkpoints/step-%" PRId64, t->state.step);
    record.wall_time = clock_wall();
    o->checkpoint(o->context, &record);
    return STATUS_OK;
}
