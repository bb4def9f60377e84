/* See trainer.h. */
#include "core/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/generate.h"
#include "core/optimizer.h"
#include "core/schedule.h"
#include "datasets/batch.h"
#include "datasets/prefetch.h"
#include "datasets/progress.h"

enum { SKIPS_IN_A_ROW_MAX = 100, LR_FACTOR_MAX = 1000, SAMPLE_BYTES_MAX = 16384 };

struct trainer {
    struct train_setup setup;
    struct model model;
    struct plan plan;
    struct network network;
    struct generator generator; /* opened when the corpus has a tokenizer */
    struct split train, validation;
    struct schedule schedule;
    struct optimizer optimizer;
    struct train_state state;
    struct device_info device;
    struct prefetch *train_batches, *validation_batches; /* the latter NULL without a validation split */
    char *sample_bytes, *sample_text;
    int64_t last_eval_step, last_checkpoint_step;
    double last_val_loss;
    bool sampling;
};

/* ---- opening ---- */

static enum status check_vocabulary(const struct trainer *t, struct err *err)
{
    const struct corpus *corpus = t->setup.corpus;
    int V = t->model.config.vocab_size;
    int needed = corpus->tokenizer ? tokenizer_vocab_size(corpus->tokenizer) : 0;
    if (needed > V)
        return err_set(err, STATUS_USAGE,
                       "model.vocab_size = %d is smaller than the tokenizer's %d (set it to at least %d)", V,
                       needed, needed);
    /* a token outside the embedding is a read outside memory: whatever is said about the file, look */
    struct corpus_place place;
    if (!corpus_find_id(corpus, (uint32_t)V, &place)) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%s: token %" PRIu64 " is %u, but model.vocab_size = %d (set it to at least %" PRIu64 ")",
                   place.path, place.index, place.id, V, (uint64_t)corpus_largest_id(corpus) + 1);
}

static enum status open_data(struct trainer *t, struct err *err)
{
    const struct config *c = t->setup.config;
    const struct corpus *corpus = t->setup.corpus;
    enum shuffle shuffle = strcmp(c->data.shuffle, "random") == 0 ? SHUFFLE_RANDOM
                           : strcmp(c->data.shuffle, "none") == 0 ? SHUFFLE_NONE
                                                                  : SHUFFLE_STRIDE;
    int B = (int)c->train.batch_size;
    enum status status = check_vocabulary(t, err);
    if (!status)
        status = split_corpus(corpus, c->data.val_fraction, (int)c->train.seq_len, (uint64_t)c->train.seed,
                              shuffle, &t->train, &t->validation, err);
    if (!status) status = prefetch_open(&t->train, B, c->train.async, &t->train_batches, err);
    if (!status && t->validation.sequences)
        status = prefetch_open(&t->validation, B, c->train.async, &t->validation_batches, err);
    if (status) return status;
    t->sample_bytes = malloc(SAMPLE_BYTES_MAX);
    t->sample_text = malloc(SAMPLE_BYTES_MAX);
    if (!t->sample_bytes || !t->sample_text)
        return err_set(err, STATUS_NO_MEMORY, "no memory for samples of text");
    return STATUS_OK;
}

/* An operating system gives out more memory than there is and ends somebody later; the plan knows beforehand.
 */
static enum status check_memory(const struct trainer *t, struct err *err)
{
    char planned[32], available[32];
    if (t->device.available_bytes <= 0 || t->plan.total_bytes <= (size_t)t->device.available_bytes)
        return STATUS_OK;
    return err_set(
        err, STATUS_NO_MEMORY,
        "training needs %s, %s has no memory for more than %s (use a smaller model, train.batch_size or "
        "train.seq_len)",
        text_format_bytes(t->plan.total_bytes, planned, sizeof planned), t->device.short_name,
        text_format_bytes((uint64_t)t->device.available_bytes, available, sizeof available));
}

static enum status upload_initial_weights(struct trainer *t, struct err *err)
{
    float *weights = malloc(t->model.elements * sizeof *weights);
    if (!weights)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %" PRId64 " initial weights",
                       t->model.parameters);
    model_initialise(&t->model, (uint64_t)t->setup.config->train.seed, weights);
    t->setup.backend->mem_upload(t->network.weights, weights, t->model.elements * sizeof *weights,
                                 t->network.stream);
    network_weights_written(&t->network);
    enum status status = t->setup.backend->stream_wait(t->network.stream, err);
    free(weights);
    return status;
}

static bool on_warm_progress(void *context, int done, int total)
{
    return progress_report(context, "warming up", "products", (uint64_t)done, (uint64_t)total);
}

static void on_warm_warning(void *context, const char *sentence)
{
    const struct progress *progress = context;
    if (progress && progress->note) progress->note(progress->context, true, sentence);
}

/* Before the large allocations: code that is loaded and algorithms that are tried want memory, too. */
static enum status warm_up(struct trainer *t, struct err *err)
{
    const struct backend *be = t->setup.backend;
    struct warm_watch watch = {t->setup.warm_folder, (void *)t->setup.progress, on_warm_progress,
                               on_warm_warning};
    struct gemm_shape shapes[NETWORK_PRODUCTS_MAX];
    struct stream *stream;
    int count = network_gemm_shapes(&t->plan, shapes);
    enum status status = be->stream_open(t->setup.device, t->plan.input.precision, &stream, err);
    if (status) return status;
    status = be->warm(stream, shapes, count, &watch, err);
    be->stream_close(stream);
    return status;
}

enum status trainer_open(const struct train_setup *setup, struct trainer **out, struct err *err)
{
    const struct config *c = setup->config;
    struct trainer *t = calloc(1, sizeof *t);
    if (!t) return err_set(err, STATUS_NO_MEMORY, "no memory for a trainer");
    t->setup = *setup;
    t->optimizer =
        (struct optimizer){.kind = strcmp(c->train.optimizer, "lion") == 0 ? OPTIMIZER_LION : OPTIMIZER_ADAMW,
                           .beta1 = c->train.beta1,
                           .beta2 = c->train.beta2,
                           .eps = c->train.adam_eps,
                           .weight_decay = c->train.weight_decay,
                           .max_grad_norm = c->train.max_grad_norm};
    t->schedule = (struct schedule){.lr = c->train.learning_rate,
                                    .lr_min = c->train.learning_rate * c->train.min_lr_factor,
                                    .warmup = c->train.warmup_steps,
                                    .total = c->train.total_steps};
    schedule_parse(c->train.schedule, &t->schedule.kind);
    t->state.lr_factor = 1;
    t->state.corpus = corpus_mark_of(setup->corpus);
    t->last_eval_step = t->last_checkpoint_step = -1;
    t->last_val_loss = NAN;
    early_stopping_init(&t->state.stopping, c->eval.early_stopping_patience,
                        c->eval.early_stopping_min_delta);

    enum status status = model_init(&t->model, &c->model.sizes, err);
    if (!status) status = open_data(t, err);
    struct plan_input input = {.model = &t->model,
                               .B = (int)c->train.batch_size,
                               .T = (int)c->train.seq_len,
                               .moments = optimizer_moments(t->optimizer.kind)};
    setup->backend->device_describe(setup->device, &t->device);
    input.precision = plan_precision(c->train.precision, t->device.best);
    input.activation_interval = (int)c->checkpoint.activation_interval;
    input.gemm_workspace = setup->backend->gemm_workspace(setup->device);
    allocator_kind_parse(c->memory.allocator, &input.allocator);
    if (!status) status = plan_init(&t->plan, &input, err);
    if (!status) status = check_memory(t, err);
    if (!status) status = setup->observer.reserve(setup->observer.context, (int64_t)t->plan.total_bytes, err);
    if (!status) status = warm_up(t, err);
    if (!status) status = network_open(&t->network, setup->backend, setup->device, &t->model, &t->plan, err);
    if (!status) status = upload_initial_weights(t, err);
    if (!status && setup->corpus->tokenizer) {
        t->sampling = true;
        status = generator_open(&t->generator, &t->network, setup->corpus->tokenizer, err);
    }
    if (status) {
        trainer_close(t);
        return status;
    }
    *out = t;
    return STATUS_OK;
}

void trainer_close(struct trainer *t)
{
    if (!t) return;
    generator_close(&t->generator);
    network_close(&t->network);
    plan_release(&t->plan);
    model_release(&t->model);
    prefetch_close(t->train_batches);
    prefetch_close(t->validation_batches);
    split_release(&t->train);
    split_release(&t->validation);
    free(t->sample_bytes);
    free(t->sample_text);
    free(t);
}

enum status trainer_resume(struct trainer *t, const char *folder, struct err *err)
{
    struct early_stopping wanted = t->state.stopping;
    struct corpus_mark now = t->state.corpus;
    enum status status = checkpoint_load(folder, &t->network, &t->state, err);
    if (!status) status = corpus_mark_check(&t->state.corpus, &now, err);
    if (status) return status;
    if (t->state.skipped_in_a_row >= SKIPS_IN_A_ROW_MAX) t->state.skipped_in_a_row = 0;
    t->state.stopping.patience = wanted.patience;
    t->state.stopping.min_delta = wanted.min_delta;
    t->last_checkpoint_step = t->state.step;
    return STATUS_OK;
}

/* ---- what happens between steps ---- */

static void event(struct trainer *t, const char *level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void event(struct trainer *t, const char *level, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct event_record record = {t->state.step, clock_wall(), level, text};
    t->setup.observer.event(t->setup.observer.context, &record);
}

/* Once the device has failed nothing that comes from it means anything; each answer repeats the first fault.
 */
static enum status device_status(struct trainer *t, struct err *err)
{
    return t->setup.backend->stream_wait(t->network.stream, err);
}

/* What went wrong beside training; a failed device ends it, and has its own sentence there. */
static void tolerate(struct trainer *t, const char *level, const struct err *problem)
{
    if (!device_status(t, NULL)) event(t, level, "%s; training goes on", problem->text);
}

/* A norm that overflows counts as not finite, too: such weights are lost all the same. */
static bool weights_are_finite(struct trainer *t)
{
    struct network *net = &t->network;
    struct clip_state clip, *device_clip = (struct clip_state *)(net->memory[PLAN_WORKSPACE] + t->plan.clip);
    net->backend->grad_norm(device_clip, net->weights, t->model.elements, 0,
                            net->memory[PLAN_WORKSPACE] + t->plan.scratch, net->stream);
    net->backend->mem_download(&clip, device_clip, sizeof clip, net->stream);
    return isfinite(clip.norm);
}

/* Every checkpoint is good: one of ruined weights would push the good ones out. */
static enum status save_checkpoint(struct trainer *t, const char *kind, struct err *err)
{
    struct train_observer *o = &t->setup.observer;
    bool finite = weights_are_finite(t);
    enum status status = device_status(t, err);
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

static void report_memory(struct trainer *t)
{
    struct train_observer *o = &t->setup.observer;
    for (int i = 0; i < PLAN_CATEGORIES; i++) {
        int64_t planned = (int64_t)t->plan.category_bytes[i], bytes = (int64_t)t->network.allocated[i];
        struct memory_record record = {t->state.step, plan_category_name((enum plan_category)i), planned,
                                       bytes, bytes};
        if (bytes) o->memory(o->context, &record);
    }
}

/* Mean loss over the first batches of the validation split, the same ones every time; judged by early
 * stopping, whoever asked for it, and the best weights so far are kept. */
static void evaluate(struct trainer *t)
{
    const struct config *c = t->setup.config;
    struct train_observer *o = &t->setup.observer;
    int B = (int)c->train.batch_size, T = (int)c->train.seq_len;
    uint64_t left = t->validation.sequences, cursor = 0;
    double start = clock_monotonic(), sum = 0;
    if (!left) return;
    for (int64_t i = 0; left && (c->eval.batches == 0 || i < c->eval.batches); i++) {
        int b = left < (uint64_t)B ? (int)left : B;
        const int32_t *inputs, *targets; /* (b,T) */
        prefetch_take(t->validation_batches, cursor, b, &inputs, &targets);
        network_forward(&t->network, inputs, b, T, (struct network_dropout){0});
        sum += network_loss(&t->network, targets, b, T);
        cursor += (uint64_t)b;
        left -= (uint64_t)b;
    }
    if (device_status(t, NULL)) return;
    struct eval_record record = {.step = t->state.step, .tokens = t->state.tokens};
    record.val_loss = sum / ((double)cursor * T);
    record.val_perplexity = exp(record.val_loss);
    record.wall_time = clock_wall();
    record.eval_ms = (clock_monotonic() - start) * 1e3;
    t->last_eval_step = t->state.step;
    t->last_val_loss = record.val_loss;
    o->eval(o->context, &record);
    struct stopping_record decision =
        early_stopping_judge(&t->state.stopping, t->state.step, record.val_loss);
    o->stopping(o->context, &decision);
    struct err problem = {0};
    if (decision.improved && save_checkpoint(t, "best", &problem)) tolerate(t, "error", &problem);
}

static bool patience_is_used_up(const struct trainer *t)
{
    const struct early_stopping *e = &t->state.stopping;
    return e->patience > 0 && e->used >= e->patience;
}

static enum status sample(struct trainer *t, struct err *err)
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
    if (!status) status = device_status(t, err);
    if (status) return status;
    generate_clean_utf8(t->sample_text, SAMPLE_BYTES_MAX, t->sample_bytes, used);
    struct sample_record record = {t->state.step, c->sample.prompt, t->sample_text};
    o->sample(o->context, &record);
    return STATUS_OK;
}

/* ---- orders ---- */

/* Applies one order; *leave and *pause are set where it asks for that. One that the device failed in the
 * midst of is not answered: it has not been carried out. */
static void apply_order(struct trainer *t, const struct order *order, bool *leave, bool *pause)
{
    struct train_observer *o = &t->setup.observer;
    struct err err = {0};
    char result[sizeof err.text] = "done", loss[32];
    switch (order->verb) {
    case ORDER_PAUSE:
        *pause = true;
        break;
    case ORDER_CONTINUE:
        *pause = false;
        break;
    case ORDER_STOP:
        *leave = true;
        break;
    case ORDER_EVAL: /* the same evaluation twice would use up the patience of early stopping */
        if (t->last_eval_step != t->state.step) evaluate(t);
        if (t->validation.sequences)
            snprintf(result, sizeof result, "validation loss %s",
                     text_format_loss(t->last_val_loss, loss, sizeof loss));
        else
            snprintf(result, sizeof result, "there are no validation tokens (data.val_fraction = 0)");
        break;
    case ORDER_SAMPLE:
        if (!t->sampling)
            snprintf(result, sizeof result, "there is no tokenizer to write text with");
        else if (sample(t, &err))
            snprintf(result, sizeof result, "%s", err.text);
        break;
    case ORDER_CHECKPOINT:
        if (save_checkpoint(t, "ordered", &err))
            snprintf(result, sizeof result, "%s", err.text);
        else
            snprintf(result, sizeof result, "written to checkpoints/step-%" PRId64, t->state.step);
        break;
    case ORDER_LR_FACTOR:
        if (order->argument >= 0 && order->argument <= LR_FACTOR_MAX) {
            t->state.lr_factor = order->argument;
            snprintf(result, sizeof result, "learning rate × %g from here on", order->argument);
        } else {
            snprintf(result, sizeof result, "refused: the factor must be a number from 0 to 1000");
        }
    }
    if (device_status(t, NULL))
        *leave = true;
    else
        o->order_done(o->context, order->id, t->state.step, result);
}

/* Takes all waiting orders; while paused, waits for more. True: leave. */
static bool obey_orders(struct trainer *t)
{
    struct train_observer *o = &t->setup.observer;
    struct order order;
    bool leave = false, pause = false, told = false;
    do {
        while (!leave && o->next_order(o->context, &order)) apply_order(t, &order, &leave, &pause);
        if (o->request(o->context) == TRAIN_LEAVE) leave = true;
        if (pause != told && !leave) o->paused(o->context, told = pause);
        if (pause && !leave) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    } while (pause && !leave);
    if (told) o->paused(o->context, false);
    return leave;
}

/* ---- one step ---- */

static enum status train_step(struct trainer *t, struct err *err)
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

    t->setup.backend->mem_zero(net->gradients, t->model.elements * sizeof *net->gradients, net->stream);
    for (int64_t i = 0; i < micro_batches; i++) {
        dropout.micro_batch = (uint32_t)i;
        const int32_t *inputs, *targets; /* (B,T) */
        prefetch_take(t->train_batches, t->state.cursor, B, &inputs, &targets);
        network_forward(net, inputs, B, T, dropout);
        network_backward(net, targets, B, T, (float)(1.0 / (double)tokens), dropout);
        loss += network_loss_sum(net);
        t->state.cursor += (uint64_t)B;
    }
    optimizer_step(&t->optimizer, net, lr, t->state.updates, &clip);
    enum status status = device_status(t, err);
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
    if (clip.scale == 0)
        event(t, "warning", "step %" PRId64 ": the gradient norm is not finite, the update was skipped",
              record.step);
    return STATUS_OK;
}

/* ---- the loop ---- */

static bool due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

/* What is due after a step. A sample or a checkpoint that fails is no reason to lose the run. */
static void between_steps(struct trainer *t)
{
    const struct config *c = t->setup.config;
    int64_t step = t->state.step;
    struct err problem = {0};
    if (due(c->eval.every, step)) evaluate(t);
    if (due(c->sample.every, step) && sample(t, &problem)) tolerate(t, "warning", &problem);
    if (due(c->checkpoint.every, step) && step < c->train.total_steps && t->last_checkpoint_step != step) {
        if (save_checkpoint(t, "periodic", &problem)) tolerate(t, "error", &problem);
    }
}

/* Where the device had no memory left for a launch, nothing has changed since the last step that was told. */
static void rescue(struct trainer *t)
{
    struct err problem = {0};
    if (t->last_checkpoint_step == t->state.step) return;
    enum status status = network_renew_stream(&t->network, &problem);
    if (!status) status = save_checkpoint(t, "last", &problem);
    if (status) event(t, "error", "no checkpoint at step %" PRId64 ": %s", t->state.step, problem.text);
}

/* Until done, told to leave, or failed. */
static enum status train(struct trainer *t, enum train_outcome *outcome, struct err *err)
{
    const struct config *c = t->setup.config;
    enum status status = STATUS_OK;
    bool leave = false;
    *outcome = TRAIN_FINISHED;
    report_memory(t);
    while (!status && t->state.step < c->train.total_steps &&
           t->state.skipped_in_a_row < SKIPS_IN_A_ROW_MAX) {
        leave = obey_orders(t);
        if ((status = device_status(t, err)) || leave || patience_is_used_up(t)) break;
        status = train_step(t, err);
        if (!status) between_steps(t);
        if (!status) status = device_status(t, err);
    }
    if (status) return status;
    if (t->state.skipped_in_a_row >= SKIPS_IN_A_ROW_MAX)
        *outcome = TRAIN_DIVERGED;
    else if (leave)
        *outcome = TRAIN_STOPPED;
    else if (patience_is_used_up(t))
        *outcome = TRAIN_EARLY_STOPPED;
    else if (t->last_eval_step != t->state.step)
        evaluate(t);
    if ((status = device_status(t, err)) || t->last_checkpoint_step == t->state.step) return status;
    bool finite = weights_are_finite(t);
    if ((status = device_status(t, err))) return status;
    if (!finite) {
        event(t, "error", "the weights are no longer finite; the last checkpoint holds the last good ones");
        return STATUS_OK;
    }
    return save_checkpoint(t, "last", err);
}

enum status trainer_run(struct trainer *t, enum train_outcome *outcome, struct err *err)
{
    enum status status = train(t, outcome, err);
    enum status device = status ? device_status(t, NULL) : STATUS_OK;
    if (device == STATUS_NO_MEMORY) rescue(t);
    if (status == STATUS_NO_MEMORY && !device)
        status = err->status = STATUS_FAILED; /* the host's: not ours to say */
    return status;
}

const struct model *trainer_model(const struct trainer *t)
{
    return &t->model;
}

const struct plan *trainer_plan(const struct trainer *t)
{
    return &t->plan;
}

const struct train_state *trainer_state(const struct trainer *t)
{
    return &t->state;
}

uint64_t trainer_sequences(const struct trainer *t)
{
    return t->train.sequences;
}
