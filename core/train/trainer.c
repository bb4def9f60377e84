/* See trainer.h. Here: opening, and the loop that decides what comes after what. */
#include "core/train/trainer_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/memory/overhead.h"
#include "core/train/plan_input.h"

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

/* A mean over no label is no loss: 0 would look like the best there is. */
static enum status check_labels(const struct trainer *t, struct err *err)
{
    const struct config *c = t->setup.config;
    uint64_t sequences = t->validation.sequences, most = (uint64_t)(c->eval.batches * c->train.batch_size);
    if (most && most < sequences) sequences = most;
    const char *where = *c->data.val ? "data.val" : "the validation split (data.val_fraction)";
    if (!split_counts(&t->train, t->train.sequences)) {
        where = "the training split";
        sequences = t->train.sequences;
    } else if (!sequences || split_counts(&t->validation, sequences)) {
        return STATUS_OK;
    }
    return err_set(err, STATUS_USAGE,
                   "data.padding = %" PRId64 ": all labels of the first %" PRIu64
                   " sequence%s of %s are padding, so there is no loss to take (set data.padding to the id "
                   "that fills sequences up, or look at the data)",
                   c->data.padding, sequences, sequences == 1 ? "" : "s", where);
}

static enum status open_data(struct trainer *t, struct err *err)
{
    const struct config *c = t->setup.config;
    const struct corpus *corpus = t->setup.corpus;
    int B = (int)c->train.batch_size;
    enum status status = check_vocabulary(t, err);
    if (!status)
        status = split_corpus(corpus, c->data.val_fraction, (int)c->train.seq_len, (uint64_t)c->train.seed,
                              c->data.shuffle, &t->train, &t->validation, err);
    split_pad(&t->train, c->data.padding);
    split_pad(&t->validation, c->data.padding);
    if (!status && c->data.padding >= 0) status = check_labels(t, err);
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

/* What can never be: more than the device has, or more page-locked memory than a GPU's host can give, which
 * no other device and no waiting mends. What the device has free is whoever reserves' question. */
static enum status check_memory(const struct trainer *t, struct err *err)
{
    char planned[32], limit[32];
    size_t host = 0;
    int64_t available = memory_available();
    if (t->device.total_bytes > 0 && t->plan.total_bytes > (size_t)t->device.total_bytes)
        return err_set(
            err, STATUS_NO_MEMORY,
            "training needs %s, %s has %s (use a smaller model, train.batch_size or train.seq_len)",
            text_format_bytes(t->plan.total_bytes, planned, sizeof planned), t->device.short_name,
            text_format_bytes((uint64_t)t->device.total_bytes, limit, sizeof limit));
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (plan_category_is_host((enum plan_category)i)) host += t->plan.category_bytes[i];
    if (t->plan.input.host_counts || available <= 0 || host <= (size_t)available) return STATUS_OK;
    return err_set(
        err, STATUS_BUSY,
        "training on %s needs %s of the host's memory, %s of it are free (end what else runs here, or "
        "set checkpoint.background = false)",
        t->device.short_name, text_format_bytes(host, planned, sizeof planned),
        text_format_bytes((uint64_t)available, limit, sizeof limit));
}

/* What warming up has while it lasts. */
struct warming {
    const struct progress *progress; /* NULL: nobody looks */
    struct allocator_scope scratch;
};

static bool on_warm_progress(void *context, int done, int total)
{
    const struct warming *w = context;
    return progress_report(w->progress, "warming up", "products", (uint64_t)done, (uint64_t)total);
}

static void on_warm_warning(void *context, const char *sentence)
{
    const struct progress *progress = ((const struct warming *)context)->progress;
    if (progress && progress->note) progress->note(progress->context, true, sentence);
}

static enum status on_warm_scratch(void *context, size_t bytes, void **out, struct err *err)
{
    struct warming *w = context;
    return allocator_alloc(&w->scratch, "warming up", bytes, NULL, out, err);
}

/* Before the large allocations: code that is loaded and algorithms that are tried want memory, too. What is
 * tried on is given back to the device, whatever the network's allocator will be. */
static enum status warm_up(struct trainer *t, struct err *err)
{
    const struct backend *be = t->setup.backend;
    struct warming w = {.progress = t->setup.progress};
    struct warm_watch watch = {t->setup.warm_folder, &w, on_warm_progress, on_warm_warning, on_warm_scratch};
    struct allocator_options options = {.kind = ALLOCATOR_BASIC,
                                        .backend = be,
                                        .device = t->setup.device,
                                        .report = stderr,
                                        .full = t->setup.full};
    struct allocator *allocator;
    struct stream *stream;
    enum status status = allocator_open(&options, &allocator, err);
    if (status) return status;
    allocator_scope_begin(&w.scratch, allocator);
    status = be->stream_open(t->setup.device, t->plan.input.precision, &stream, err);
    if (!status) {
        status = be->warm(stream, t->plan.products, t->plan.product_count, &watch, err);
        allocator_scope_end(&w.scratch);
        be->stream_close(stream);
    }
    allocator_close(allocator);
    return status;
}

/* One that is forgotten shows at once, not at the first moment of its kind. */
static void check_observer(const struct train_observer *o)
{
    (void)o; /* where asserts are off */
    assert(o->reserve && o->step && o->eval && o->stopping && o->sample && o->saving && o->safe);
    assert(o->checkpoint && o->memory && o->used && o->profile && o->event && o->paused);
    assert(o->next_order && o->order_done && o->request);
}

enum status trainer_open(const struct train_setup *setup, struct trainer **out, struct err *err)
{
    const struct config *c = setup->config;
    struct trainer *t = calloc(1, sizeof *t);
    check_observer(&setup->observer);
    if (!t) return err_set(err, STATUS_NO_MEMORY, "no memory for a trainer");
    t->setup = *setup;
    t->optimizer = (struct optimizer){.kind = c->train.optimizer,
                                      .beta1 = c->train.beta1,
                                      .beta2 = c->train.beta2,
                                      .eps = c->train.adam_eps,
                                      .max_grad_norm = c->train.max_grad_norm};
    t->schedule = schedule_of(c);
    t->state.lr_factor = 1;
    t->state.best_saved = -1;
    t->state.corpus = corpus_mark_of(setup->corpus);
    t->last_eval_step = t->last_checkpoint_step = -1;
    t->last_val_loss = NAN;
    early_stopping_init(&t->state.stopping, c->eval.early_stopping_patience,
                        c->eval.early_stopping_min_delta);
    trainer_health_init(t);

    enum status status = model_init(&t->model, &c->model.sizes, err);
    if (!status) status = param_groups_freeze(&c->groups, &t->model, err);
    if (!status) status = open_data(t, err);
    setup->backend->device_describe(setup->device, &t->device);
    struct plan_input input = plan_input_of(c, &t->model, setup->backend, setup->device);
    input.full = setup->full;
    if (!status) status = plan_init(&t->plan, &input, err);
    if (!status) status = check_memory(t, err);
    if (!status) status = trainer_allocations_open(t, err);
    size_t reserved = 0;
    if (!status) status = plan_reserved(&t->plan, &reserved, err);
    if (!status) status = setup->observer.reserve(setup->observer.context, (int64_t)reserved, err);
    if (!status) status = warm_up(t, err);
    if (!status) overhead_keep(setup->warm_folder, &t->device, overhead_measure(&t->device));
    if (!status) trainer_tell_used(t); /* what the device's libraries took */
    if (!status) status = network_open(&t->network, setup->backend, setup->device, &t->model, &t->plan, err);
    if (!status) trainer_tell_used(t); /* at once: until then it counts as still to come, and as taken */
    if (!status)
        status = setup->weights ? checkpoint_load_weights(setup->weights, &t->network, err)
                                : network_initialise(&t->network, (uint64_t)c->train.seed, err);
    if (!status)
        status = optimizer_lay_ranges(&t->optimizer, &t->network, &c->groups, c->train.weight_decay, err);
    if (!status && c->profile.every) status = trainer_profile_open(t, err);
    if (!status && c->checkpoint.background) status = saver_open(&t->saver, err);
    if (!status) status = trainer_open_steps(t, err);
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
    saver_close(t->saver);
    generator_close(&t->generator);
    trainer_trace_close(t);
    profiler_close(t->profiler);
    trainer_close_steps(t);
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

/* After a checkpoint's numbers have been loaded: what the configuration says, and the corpus. */
static enum status take_position(struct trainer *t, const struct train_state *saved, struct err *err)
{
    struct early_stopping wanted = t->state.stopping;
    enum status status = corpus_mark_check(&saved->corpus, &t->state.corpus, err);
    if (status) return status;
    t->state = *saved;
    optimizer_resume(&t->network, t->state.updates);
    if (t->state.skipped_in_a_row >= SKIPS_IN_A_ROW_MAX) t->state.skipped_in_a_row = 0;
    t->state.stopping.patience = wanted.patience;
    t->state.stopping.min_delta = wanted.min_delta;
    t->last_checkpoint_step = t->state.step;
    return STATUS_OK;
}

enum status trainer_resume(struct trainer *t, const char *folder, struct err *err)
{
    struct train_state saved;
    if (!checkpoint_is_full(folder))
        return err_set(
            err, STATUS_USAGE,
            "%s: holds weights alone (checkpoint.contents = weights), a run cannot be resumed from "
            "that; `anneal fork` starts a new run from it, with a fresh optimizer",
            folder);
    const struct param *thawed;
    enum status status = checkpoint_load(folder, &t->network, &saved, &thawed, err);
    if (!status) status = take_position(t, &saved, err);
    if (!status && thawed)
        trainer_event(
            t, "warning",
            "%s, which was frozen when the checkpoint was saved, and all that was frozen with it begin "
            "with moments of zero",
            thawed->name);
    return status;
}

/* Moments are zero when a network is opened. */
enum status trainer_fork(struct trainer *t, const char *folder, bool *fresh, struct err *err)
{
    struct train_state saved;
    *fresh = !checkpoint_is_full(folder);
    if (!*fresh) return trainer_resume(t, folder, err);
    enum status status = checkpoint_load_weights(folder, &t->network, err);
    if (!status) status = checkpoint_load_state(folder, &saved, err);
    if (status) return status;
    saved.updates = 0; /* the bias correction of moments that begin at zero */
    return take_position(t, &saved, err);
}

void trainer_begin_stopping(struct trainer *t)
{
    const struct config *c = t->setup.config;
    early_stopping_init(&t->state.stopping, c->eval.early_stopping_patience,
                        c->eval.early_stopping_min_delta);
    t->state.best_saved = -1;
}

/* ---- what the parts share ---- */

void trainer_event(struct trainer *t, const char *level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void trainer_event(struct trainer *t, const char *level, const char *format, ...)
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
enum status trainer_device_status(struct trainer *t, struct err *err)
{
    return t->setup.backend->stream_wait(t->network.stream, err);
}

/* What went wrong beside training; a failed device ends it, and has its own sentence there. */
void trainer_tolerate(struct trainer *t, const char *level, const struct err *problem)
{
    if (!trainer_device_status(t, NULL)) trainer_event(t, level, "%s; training goes on", problem->text);
}

/* ---- the loop ---- */

static bool patience_is_used_up(const struct trainer *t)
{
    const struct early_stopping *e = &t->state.stopping;
    return e->patience > 0 && e->used >= e->patience;
}

static bool due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

/* Whether the last step queued takes the last sequence of an epoch: told by the position alone, so that a run
 * resumed in the midst of an epoch ends it where the uninterrupted one does. */
static bool ends_epoch(const struct trainer *t)
{
    const struct config *c = t->setup.config;
    uint64_t taken = (uint64_t)(c->train.batch_size * c->train.accumulation_steps), cursor = t->state.cursor;
    if (t->in_flight) cursor = t->flights[(trainer_queued(t) - 1) % PLAN_FLIGHTS].cursor;
    return cursor / t->train.sequences != (cursor - taken) / t->train.sequences;
}

static bool evaluation_due(const struct trainer *t, int64_t step)
{
    const struct config *c = t->setup.config;
    return due(c->eval.every, step) || (c->eval.at_epoch_end && ends_epoch(t));
}

static bool anything_due(const struct trainer *t, int64_t step)
{
    const struct config *c = t->setup.config;
    return evaluation_due(t, step) || due(c->sample.every, step) || due(c->checkpoint.every, step);
}

/* What is due after a step. A sample or a checkpoint that fails is no reason to lose the run. */
static enum status between_steps(struct trainer *t, struct err *err)
{
    const struct config *c = t->setup.config;
    int64_t step = trainer_queued(t);
    struct err problem = {0};
    bool evaluate = evaluation_due(t, step);
    trainer_collect_save(t);
    trainer_report_memory_due(t);
    if (!anything_due(t, step)) return STATUS_OK;
    enum status status = trainer_settle(t, err);
    if (status || t->halted) return status;
    if (evaluate) trainer_evaluate(t);
    if (due(c->sample.every, step) && trainer_sample(t, &problem)) trainer_tolerate(t, "warning", &problem);
    if (due(c->checkpoint.every, step) && step < c->train.total_steps && t->last_checkpoint_step != step &&
        !trainer_weights_are_in_doubt(t)) {
        if (trainer_save_checkpoint(t, "periodic", &problem))
            trainer_tolerate_save(t, t->state.step, &problem);
    }
    return trainer_device_status(t, err);
}

/* Where the device had no memory left for a launch, nothing has changed since the last step that was told. */
static void rescue(struct trainer *t)
{
    struct err problem = {0};
    if (t->last_checkpoint_step == t->state.step || trainer_weights_are_in_doubt(t)) return;
    enum status status = network_renew_stream(&t->network, &problem);
    if (!status) status = trainer_save_now(t, "last", &problem);
    if (status)
        trainer_event(t, "error", "no checkpoint at step %" PRId64 ": %s", t->state.step, problem.text);
}

/* Whether an evaluation of these very weights, which a skipped update left as they were, has a finite loss:
 * then the last step's batch was at fault. The checkpoints from before stay, all the same. */
static bool validation_clears(const struct trainer *t, enum train_outcome outcome)
{
    bool ended_well = outcome == TRAIN_FINISHED || outcome == TRAIN_EARLY_STOPPED || outcome == TRAIN_STOPPED;
    return ended_well && t->last_eval_step == t->state.step && isfinite(t->last_val_loss);
}

/* Until done, told to leave, or failed. */
static enum status train(struct trainer *t, enum train_outcome *outcome, struct err *err)
{
    const struct config *c = t->setup.config;
    enum status status = STATUS_OK;
    struct err problem = {0};
    bool leave = false;
    *outcome = TRAIN_FINISHED;
    trainer_report_memory(t);
    while (!status && trainer_queued(t) < c->train.total_steps && !t->halted &&
           t->state.skipped_in_a_row < SKIPS_IN_A_ROW_MAX) {
        leave = trainer_obey_orders(t);
        if ((status = t->setup.backend->stream_check(t->network.stream, err)) || leave ||
            patience_is_used_up(t))
            break;
        status = trainer_step(t, err);
        if (!status) status = between_steps(t, err);
    }
    if (!status) status = trainer_settle(t, err);
    if (status) return status;
    trainer_trace_give_up(t);
    if (t->state.skipped_in_a_row >= SKIPS_IN_A_ROW_MAX)
        *outcome = TRAIN_DIVERGED;
    else if (t->halted)
        *outcome = TRAIN_NOT_FINITE;
    else if (leave)
        *outcome = TRAIN_STOPPED;
    else if (patience_is_used_up(t))
        *outcome = TRAIN_EARLY_STOPPED;
    else if (t->last_eval_step != t->state.step)
        trainer_evaluate(t);
    if (trainer_wait_for_save(t, &problem)) trainer_tolerate_save(t, t->job.state.step, &problem);
    if ((status = trainer_device_status(t, err)) || t->last_checkpoint_step == t->state.step) return status;
    if (trainer_weights_are_in_doubt(t) && !validation_clears(t, *outcome)) {
        if (*outcome != TRAIN_DIVERGED && *outcome != TRAIN_NOT_FINITE) /* their own sentence says it */
            trainer_event(t, "error",
                          "no checkpoint at step %" PRId64
                          ": its gradient is not finite, the weights may be ruined; %s",
                          t->state.step,
                          trainer_has_checkpoint(t) ? "the last checkpoint is from before"
                                                    : "there is none from before");
        return STATUS_OK;
    }
    bool finite = trainer_weights_are_finite(t);
    if ((status = trainer_device_status(t, err))) return status;
    if (!finite) {
        trainer_event(t, "error", "the weights are no longer finite; %s",
                      trainer_has_checkpoint(t) ? "the last checkpoint holds the last good ones"
                                                : "there is no checkpoint of good ones");
        return STATUS_OK;
    }
    return trainer_save_now(t, "last", err);
}

enum status trainer_run(struct trainer *t, enum train_outcome *outcome, struct err *err)
{
    struct err problem = {0};
    enum status status = train(t, outcome, err);
    if (status == STATUS_NO_MEMORY) allocator_tell(t->network.allocator, &t->setup.full);
    if (trainer_wait_for_save(t, &problem)) trainer_event(t, "error", "%s", problem.text);
    enum status device = status ? trainer_device_status(t, NULL) : STATUS_OK;
    if (device == STATUS_NO_MEMORY) rescue(t);
    trainer_tell_unsaved(t);
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

uint64_t trainer_validation_sequences(const struct trainer *t)
{
    return t->validation.sequences;
}
