/* The trainer's look at itself between steps: evaluations, judged by early stopping, and samples of text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clean.h"
#include "core/base/clock.h"
#include "core/train/trainer_parts.h"

enum status trainer_open_samples(struct trainer *t, struct err *err)
{
    t->sample_bytes = malloc(SAMPLE_BYTES_MAX);
    t->sample_text = malloc(SAMPLE_BYTES_MAX);
    if (!t->sample_bytes || !t->sample_text)
        return err_set(err, STATUS_NO_MEMORY, "no memory for samples of text");
    if (!t->setup.corpus->tokenizer) return STATUS_OK;
    t->samples = true;
    return generator_open(&t->generator, &t->network, t->setup.corpus->tokenizer, err);
}

void trainer_close_samples(struct trainer *t)
{
    generator_close(&t->generator);
    free(t->sample_bytes);
    free(t->sample_text);
}

static double measure_of(const struct measures *measures, const char *name)
{
    for (int i = 0; i < measures->count; i++)
        if (strcmp(measures->of[i].name, name) == 0) return measures->of[i].value;
    return NAN;
}

/* Over the first batches of what is held out, the same ones every time. */
static struct measures measure(struct trainer *t)
{
    const struct config *c = t->setup.config;
    int B = (int)c->train.batch_size, T = (int)c->train.seq_len;
    uint64_t left = t->task->examples(t->data, TASK_VALIDATION), cursor = 0, counting = 0;
    double sum = 0;
    for (int64_t i = 0; left && (c->eval.batches == 0 || i < c->eval.batches); i++) {
        int b = left < (uint64_t)B ? (int)left : B;
        const int32_t *inputs, *labels; /* (b,T) */
        t->task->batch(t->data, TASK_VALIDATION, cursor, b, &inputs, &labels);
        network_forward(&t->network, inputs, b, T, (struct network_dropout){0});
        sum += t->task->loss(&t->network, labels, b, T);
        counting += t->task->labels(t->data, TASK_VALIDATION, cursor, (uint64_t)b);
        cursor += (uint64_t)b;
        left -= (uint64_t)b;
    }
    return t->task->measure(sum, (double)counting);
}

bool trainer_evaluate(struct trainer *t, bool ordered)
{
    struct train_observer *o = &t->setup.observer;
    struct eval_record record = {.step = t->state.step, .tokens = t->state.tokens};
    double start = clock_monotonic();
    if (!t->task->examples(t->data, TASK_VALIDATION)) return false;
    struct measures measures = measure(t);
    if (trainer_device_status(t, NULL)) return false;
    record.val_loss = measure_of(&measures, "val_loss");
    record.val_perplexity = measure_of(&measures, "val_perplexity");
    record.wall_time = clock_wall();
    record.eval_ms = (clock_monotonic() - start) * 1e3;
    t->evaluated_step = t->state.step;
    t->evaluated_loss = measures.of[0].value;
    o->eval(o->context, &record, &measures);
    struct stopping_record judged =
        early_stopping_judge(&t->state.stopping, t->state.step, measures.of[0].value, ordered);
    o->stopping(o->context, &judged);
    trainer_judge_evaluation(t, &record);
    trainer_report_memory(t);
    return judged.improved;
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
    if (!t->samples) return STATUS_OK;
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
