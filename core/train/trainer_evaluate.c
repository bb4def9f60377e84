/* The trainer's look at itself between steps: evaluations, judged by early stopping, and samples of text. */
#include "core/train/trainer_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clean.h"
#include "core/base/clock.h"

/* Mean loss over the labels that count of the first batches of the validation split, the same ones every
 * time; judged by early stopping, whoever asked for it, and the best weights so far are kept. */
void trainer_evaluate(struct trainer *t)
{
    const struct config *c = t->setup.config;
    struct train_observer *o = &t->setup.observer;
    int B = (int)c->train.batch_size, T = (int)c->train.seq_len;
    uint64_t left = t->validation.sequences, cursor = 0, labels = 0;
    double start = clock_monotonic(), sum = 0;
    if (!left) return;
    for (int64_t i = 0; left && (c->eval.batches == 0 || i < c->eval.batches); i++) {
        int b = left < (uint64_t)B ? (int)left : B;
        const int32_t *inputs, *targets; /* (b,T) */
        prefetch_take(t->validation_batches, cursor, b, &inputs, &targets);
        network_forward(&t->network, inputs, b, T, (struct network_dropout){0});
        sum += network_loss(&t->network, targets, b, T);
        labels += split_labels(&t->validation, cursor, (uint64_t)b);
        cursor += (uint64_t)b;
        left -= (uint64_t)b;
    }
    if (trainer_device_status(t, NULL)) return;
    struct eval_record record = {.step = t->state.step, .tokens = t->state.tokens};
    record.val_loss = sum / fmax(1, (double)labels);
    record.val_perplexity = exp(record.val_loss);
    record.wall_time = clock_wall();
    record.eval_ms = (clock_monotonic() - start) * 1e3;
    t->last_eval_step = t->state.step;
    t->last_val_loss = record.val_loss;
    o->eval(o->context, &record);
    struct stopping_record decision =
        early_stopping_judge(&t->state.stopping, t->state.step, record.val_loss);
    o->stopping(o->context, &decision);
    trainer_judge_evaluation(t, &record);
    struct err problem = {0};
    trainer_report_memory(t);
    if (decision.improved && !trainer_weights_are_in_doubt(t) && trainer_save_checkpoint(t, "best", &problem))
        trainer_tolerate_save(t, t->state.step, &problem);
}

enum status trainer_sample(struct trainer *t, struct err *err)
{
    const struct config *c = t->setup.config;
    struct train_observer *o = &t->setup.observer;
    struct sampling sampling = {.temperature = c->sample.temperature,
                                .top_k = (int)c->sample.top_k,
                                .top_p = 1,
                                .seed = (uint64_t)c->train.seed ^ ((uint64_t)t->state.step << 20)};
    size_t used = 0;
    if (!t->sampling) return STATUS_OK;
    enum status status = generator_start(&t->generator, c->sample.prompt, err);
    for (int64_t i = 0; !status && i < c->sample.max_tokens; i++) {
        size_t n;
        const char *piece = tokenizer_token_bytes(t->setup.corpus->tokenizer,
                                                  generator_next(&t->generator, &sampling, i), &n);
        if (used + n > SAMPLE_BYTES_MAX / 4) break; /* cleaning may make three bytes of one */
        memcpy(t->sample_bytes + used, piece, n);
        used += n;
    }
    if (!status) status = trainer_device_status(t, err);
    if (status) return status;
    clean_block(t->sample_text, SAMPLE_BYTES_MAX, t->sample_bytes, used);
    struct sample_record record = {t->state.step, c->sample.prompt, t->sample_text};
    o->sample(o->context, &record);
    return STATUS_OK;
}
