/* See trainer.h. Opening and closing; the loop is in trainer_run.c. */
#include "core/train/trainer_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/memory/fit.h"
#include "core/model/trainable.h"
#include "core/network/exchange.h"

/* ---- opening ---- */

/* Rejects plans that can never fit: more than the device has, or more page-locked memory than a GPU's host
 * can give; no waiting and no other device helps. The reservation checks how much of the device is free. */
static enum status check_memory(const struct trainer *t, struct err *err)
{
    size_t host = 0;
    int64_t available = memory_available();
    if (t->device.total_bytes > 0 && t->plan.total_bytes > (size_t)t->device.total_bytes)
        return err_set(
            err, STATUS_NO_MEMORY,
            "training needs %s, %s has %s (use a smaller model, train.batch_size or train.seq_len)",
            TEXT_BYTES(t->plan.total_bytes), t->device.short_name, TEXT_BYTES(t->device.total_bytes));
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (plan_category_is_host((enum plan_category)i)) host += t->plan.category_bytes[i];
    if (t->plan.input.host_counts || available <= 0 || host <= (size_t)available) return STATUS_OK;
    return err_set(err, STATUS_BUSY,
                   "training on %s needs %s of host memory, but %s are free (end other programs, or "
                   "set checkpoint.background = false)",
                   t->device.short_name, TEXT_BYTES(host), TEXT_BYTES(available));
}

/* The state of warming up. */
struct warming {
    const struct progress *progress; /* NULL: no progress is shown */
    struct allocator *allocator;
};

static bool on_warm_progress(void *context, int done, int total)
{
    const struct warming *w = context;
    return !progress_report(w->progress, "warming up", "operations", (uint64_t)done, (uint64_t)total, NULL);
}

static void on_warm_warning(void *context, const char *sentence)
{
    const struct progress *progress = ((const struct warming *)context)->progress;
    if (progress && progress->note) progress->note(progress->context, true, sentence);
}

static enum status on_warm_scratch(void *context, size_t bytes, void **out, struct err *err)
{
    struct warming *w = context;
    return allocator_alloc(allocator_root(w->allocator), "warming up", bytes, NULL, out, err);
}

/* Comes before the large allocations, because loading code and trying algorithms takes memory, too. All
 * memory of the trials goes back to the device, whatever the network's allocator will be. */
static enum status warm_up(struct trainer *t, struct err *err)
{
    const struct backend *be = t->setup.backend;
    struct warming w = {.progress = t->setup.progress};
    struct warm_watch watch = {t->setup.warm_folder, &w, on_warm_progress, on_warm_warning, on_warm_scratch};
    struct allocator_options options = {
        .kind = ALLOCATOR_BASIC, .backend = be, .device = t->setup.device, .full = t->setup.full};
    struct stream *stream;
    enum status status = allocator_open(&options, &w.allocator, err);
    if (status) return status;
    status = be->stream_open(t->setup.device, t->plan.input.precision, &stream, err);
    if (!status) {
        struct warm_work work = {.products = t->plan.products,
                                 .attentions = t->plan.attentions,
                                 .product_count = t->plan.product_count,
                                 .attention_count = t->plan.attention_count,
                                 .cudnn = t->plan.input.attention == ATTENTION_CUDNN};
        status = be->warm(stream, &work, &watch, err);
        be->stream_close(stream);
        be->device_describe(t->setup.device, &t->device); /* which libraries were chosen */
    }
    allocator_close(w.allocator);
    return status;
}

/* Checks eval.tasks, and raises the length of the cache to what it needs. */
static enum status open_tasks(struct trainer *t, int *cache_length, struct err *err)
{
    const struct train_setup *setup = &t->setup;
    enum status status =
        eval_tasks_open(&t->tasks, setup->config, setup->corpus->tokenizer, setup->progress, err);
    if (status) return status;
    if (t->tasks.count && !trainer_format(t)->writes_text)
        return err_set(err, STATUS_USAGE,
                       "eval.tasks: only a language model answers questions (data.format)");
    if (t->tasks.count && !task_examples(t->data, TASK_VALIDATION))
        return err_set(err, STATUS_USAGE,
                       "eval.tasks: needs evaluations, so data.val or a data.val_fraction above 0");
    if (*cache_length < t->tasks.longest) *cache_length = t->tasks.longest;
    return STATUS_OK;
}

/* CPU ranks of one host would copy with the cores that compute. */
static bool overlaps(const struct trainer *t)
{
    enum world_overlap wish = t->setup.config->world.overlap;
    bool apart = t->setup.backend->queues || t->world->local_size < t->world->size;
    return wish == OVERLAP_AUTO ? apart : wish == OVERLAP_ON;
}

enum status trainer_open(const struct train_setup *setup, struct trainer **out, struct err *err)
{
    struct config *c = setup->config;
    struct trainer *t = calloc(1, sizeof *t);
    if (!t) return err_no_memory(err, "a trainer");
    t->setup = *setup;
    t->task = c->data.format == FORMAT_LABELS ? classification() : language_modelling();
    t->world = setup->world ? setup->world : world_of_one();
    t->optimizer = optimizer_of(c);
    t->state.lr_factor = t->state.lr_cut = 1;
    t->evaluated_step = t->saved_step = t->trouble = -1;
    t->evaluated_loss = NAN;
    class_score_measure(c->eval.metric, t->metric, sizeof t->metric);
    trainer_begin_stopping(t);

    setup->backend->device_describe(setup->device, &t->device);
    enum element computed = precision_element(plan_precision(c->train.precision, t->device.best));
    enum status status = STATUS_OK;
    if (t->world->size > 1) {
        t->told = calloc((size_t)t->world->size, sizeof *t->told);
        status = t->told ? paces_open(&t->paces, t->world->size, err)
                         : err_no_memory(err, "%d ranks", t->world->size);
    }
    if (!status && c->lora.rank && !*c->model.from)
        status = err_set(err, STATUS_USAGE,
                         "lora.rank = %" PRId64
                         ": adapters are trained beside the weights of a model (set model.from)",
                         c->lora.rank);
    if (!status) status = trainer_check_rollback(c, err);
    if (!status) status = t->task->open(c, setup->corpus, setup->progress, &t->data, err);
    if (!status) t->state.corpus = t->task->mark(t->data);
    if (!status) t->span = t->data->sources[TASK_TRAINING].span;
    if (!status) status = model_init(&t->model, &c->model.sizes, err);
    t->model.zero_outputs = c->model.zero_outputs;
    if (!status) status = t->task->describe(t->data, &t->model, err);
    if (!status) status = trainable_choose(&t->model, c, computed, t->device.mixes_elements, err);
    t->health.limits = c->health;
    t->health.level = &t->state.level;
    if (!status) t->health.guess = t->task->guess(t->data);
    if (!status) status = config_settle_steps(c, task_examples(t->data, TASK_TRAINING), err);
    t->schedule = schedule_of(c);
    struct plan_input input = plan_input_of(c, &t->model, setup->backend, setup->device);
    plan_input_share(&input, c, t->world->rank, t->world->size);
    input.full = setup->full;
    if (!status) status = open_tasks(t, &input.cache_length, err);
    if (!status) t->state.questions = eval_tasks_checksum(&t->tasks);
    if (!status) status = trainer_check_metric(t, err);
    if (!status) status = plan_init(&t->plan, &input, err);
    if (!status) status = check_memory(t, err);
    size_t reserved = 0;
    if (!status) status = plan_reserved(&t->plan, &reserved, err);
    if (!status) status = setup->observer.reserve(setup->observer.context, (int64_t)reserved, err);
    if (!status) status = warm_up(t, err);
    if (!status) overhead_keep(setup->warm_folder, &t->device, overhead_measure(&t->device));
    if (!status) trainer_report_used(t); /* memory of the device's libraries */
    if (!status) status = network_open(&t->network, setup->backend, setup->device, &t->model, &t->plan, err);
    if (!status) status = exchange_open(&t->network, t->world, overlaps(t), err);
    if (!status) trainer_report_used(t); /* at once: until then it counts twice, as reserved and as taken */
    if (!status) status = trainer_load_first_weights(t, err);
    if (!status) status = t->task->start(t->data, &t->network, err);
    if (!status) status = optimizer_lay_ranges(&t->optimizer, &t->network, &c->groups, err);
    if (!status) status = trainer_open_steps(t, err);
    if (!status) status = trainer_open_samples(t, err);
    if (!status) status = eval_tasks_ready(&t->tasks, &t->network, setup->corpus->tokenizer, err);
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
    save_collect(&t->job, INFINITY);
    companions_release(&t->companions);
    trainer_close_samples(t);
    eval_tasks_close(&t->tasks);
    trainer_close_steps(t);
    network_close(&t->network);
    plan_release(&t->plan);
    model_release(&t->model);
    if (t->task) t->task->close(t->data);
    free(t->told);
    paces_close(&t->paces);
    free(t);
}

const struct plan *trainer_plan(const struct trainer *t)
{
    return &t->plan;
}

const struct train_state *trainer_state(const struct trainer *t)
{
    return &t->state;
}

void trainer_note(const struct trainer *t, char *buf, size_t size)
{
    t->task->note(t->data, buf, size);
}

void trainer_warn(const struct trainer *t, char *buf, size_t size)
{
    *buf = '\0';
    if (t->task->warn) t->task->warn(t->data, buf, size);
}

uint64_t trainer_sequences(const struct trainer *t, enum task_part part)
{
    return task_examples(t->data, part);
}
