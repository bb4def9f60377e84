/* One optimizer step: micro-batches, update, and the record that tells of it. */
#include "core/trainer_parts.h"

#include <math.h>

#include "core/base/clock.h"

enum status trainer_step(struct trainer *t, struct err *err)
{
    const struct config *c = t->setup.config;
    struct train_observer *o = &t->setup.observer;
    struct network *net = &t->network;
    int B = (int)c->train.batch_size, T = (int)c->train.seq_len;
    int64_t micro_batches = c->train.accumulation_steps, tokens = micro_batches * B * T;
    double start = clock_monotonic(), loss = 0,
           lr = schedule_lr(&t->schedule, t->state.step) * t->state.lr_factor;
    struct network_dropout dropout = {(float)c->train.dropout, (uint64_t)c->train.seed,
                                      (uint32_t)t->state.step, 0};
    struct clip_state clip;
    uint64_t cursor = t->state.cursor;

    trainer_profile_begin(t);
    t->setup.backend->mem_zero(net->gradients, t->model.elements * sizeof *net->gradients, net->stream);
    for (int64_t i = 0; i < micro_batches; i++) {
        dropout.micro_batch = (uint32_t)i;
        const int32_t *inputs, *targets; /* (B,T) */
        network_mark(net, PHASE_DATA, -1, OP_WAIT_FOR_BATCH);
        prefetch_take(t->train_batches, t->state.cursor, B, &inputs, &targets);
        network_forward(net, inputs, B, T, dropout);
        network_backward(net, targets, B, T, (float)(1.0 / (double)tokens), dropout);
        loss += network_loss_sum(net);
        t->state.cursor += (uint64_t)B;
    }
    optimizer_step(&t->optimizer, net, lr, t->state.updates, &clip);
    trainer_profile_end(t);
    enum status status = trainer_device_status(t, err);
    if (status) t->state.cursor = cursor;
    if (status) return status;

    double seconds = clock_monotonic() - start;
    struct step_record record = {.step = t->state.step, .loss = loss / (double)tokens, .lr = lr};
    t->state.step++;
    t->state.tokens += tokens;
    t->state.updates += clip.scale != 0;
    t->state.skipped_in_a_row = clip.scale == 0 ? t->state.skipped_in_a_row + 1 : 0;
    record.epoch = (double)t->state.cursor / (double)t->train.sequences;
    record.tokens = t->state.tokens;
    record.wall_time = clock_wall();
    record.step_ms = seconds * 1e3;
    record.grad_norm = clip.norm;
    record.clip_scale = clip.scale;
    record.tokens_per_sec = (double)tokens / seconds;
    double peak = t->device.peak_flops[t->plan.input.precision];
    record.mfu = peak > 0 ? model_flops_per_token(&t->model, T) * record.tokens_per_sec / peak : NAN;
    o->step(o->context, &record);
    trainer_profile_tell(t, &record);
    trainer_judge_health(t, &record);
    return STATUS_OK;
}
