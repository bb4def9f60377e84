/* The state that training goes on from: the first weights, a checkpoint, or, of several ranks, that of rank
 * 0; and the way back to one of them when training is in trouble (health.on_spike, health.on_nan = rollback).
 *
 * A checkpoint is good if the step after it had no trouble. Training goes back to the newest good one, or to
 * the newest at all if no good one is left, or to the first weights if there is none, and leaves out all
 * batches from there to the trouble: the loss does not tell which of them has led to it, and no batch is
 * trained on twice. Losses, limits, patience and moments are those of the checkpoint. The position in the
 * data, the count of rollbacks and the learning rate are the present ones.
 *
 * Nothing is written: a killed run that is resumed meets the same trouble again, after the same steps, and
 * goes back in the same way. A checkpoint of the step in trouble would hide an older one of the new course
 * from the next resume, and is renamed. The queued step after the trouble is dropped without a report. So the
 * course does not depend on how fast steps are reported. */
#include "core/train/trainer_parts.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/model/adapter_file.h"
#include "core/model/generation_config.h"
#include "core/network/exchange.h"
#include "datasets/examples.h"

/* Adds the files that a chat with the trained model needs: the chat template, and the token that ends its
 * answers, which a model that was trained on text alone does not name. */
static enum status add_chat_companions(struct trainer *t, struct err *err)
{
    struct chat_format format = {0};
    enum status status = chat_format_of_config(t->setup.config, &format, err);
    if (!status)
        status = companions_put(&t->companions, COMPANION_CHAT_TEMPLATE, format.source, format.n, err);
    if (!status) status = companions_add_end(&t->companions, examples_end(t->setup.corpus), err);
    chat_format_release(&format);
    return status;
}

/* The companions of the model in `folder`, if it is not NULL, and what the task adds to them, go into every
 * checkpoint from now on. */
static enum status take_companions(struct trainer *t, const char *folder, struct err *err)
{
    enum status status = STATUS_OK;
    companions_release(&t->companions);
    if (folder) status = companions_read(folder, t->setup.corpus->tokenizer, &t->companions, err);
    return status || !trainer_format(t)->answers ? status : add_chat_companions(t, err);
}

/* ---- the first weights ---- */

enum status trainer_load_first_weights(struct trainer *t, struct err *err)
{
    const struct config *c = t->setup.config;
    const char *weights = c->lora.rank ? c->model.from : t->setup.weights;
    if (t->world->rank > 0) weights = NULL; /* it takes those of rank 0 */
    enum status status = take_companions(t, weights, err);
    if (!status && (!weights || c->lora.rank || t->model.config.num_labels)) /* which a base may lack */
        status = network_initialise(&t->network, (uint64_t)c->train.seed, err);
    if (!status && weights)
        status = c->lora.rank ? checkpoint_load_weights(weights, &t->network, err)
                              : checkpoint_load_first_weights(weights, &t->network, err);
    if (status || !t->setup.weights || !*c->lora.from) return status;
    status = adapter_file_require(c->lora.from, err); /* a whole model would take the place of the base */
    if (status) return err_prefix(err, "lora.from");
    return checkpoint_load_weights(c->lora.from, &t->network, err);
}

void trainer_begin_stopping(struct trainer *t)
{
    const struct config *c = t->setup.config;
    early_stopping_init(&t->state.stopping, c->eval.early_stopping_patience, c->eval.early_stopping_min_delta,
                        !measure_falls(trainer_metric(t)));
    t->state.best_saved = -1;
}

/* ---- a checkpoint ---- */

/* Fails if the corpus is not the saved one; the message begins with the keys that name it. */
static enum status check_corpus(const struct trainer *t, const struct train_state *saved, struct err *err)
{
    const struct config *c = t->setup.config;
    struct err why = {0};
    enum status status = corpus_mark_check(&saved->corpus, &t->state.corpus, &why);
    if (!status) return STATUS_OK;
    return err_set(err, status, "data.train = %.120s%s%.120s: %s", CLEAN_LINE(c->data.train),
                   *c->data.val ? ", data.val = " : "", CLEAN_LINE(c->data.val), why.text);
}

/* After a checkpoint's numbers are loaded: applies the configuration, finds the place in the corpus. */
static enum status take_position(struct trainer *t, const struct train_state *saved, struct err *err)
{
    int64_t questions = t->state.questions;
    enum status status = check_corpus(t, saved, err);
    if (status) return status;
    trainer_begin_stopping(t); /* after a rollback nothing of what followed counts */
    struct early_stopping wanted = t->state.stopping;
    snprintf(t->computed_with, sizeof t->computed_with, "%s", saved->machine);
    t->state = *saved;
    t->state.questions = questions;
    t->asks_others = questions && saved->questions && saved->questions != questions;
    optimizer_resume(&t->network, t->state.updates);
    if (t->state.skipped_in_a_row >= SKIPS_IN_A_ROW_MAX) t->state.skipped_in_a_row = 0;
    early_stopping_adopt(&t->state.stopping, &wanted);
    t->saved_step = t->state.step;
    return STATUS_OK;
}

enum status trainer_resume(struct trainer *t, const char *folder, struct err *err)
{
    struct train_state saved;
    if (!checkpoint_is_full(folder))
        return err_set(
            err, STATUS_USAGE,
            "%s: holds weights alone (checkpoint.contents = weights), a run cannot be resumed from "
            "that; `%s fork` starts a new run from it, with a fresh optimizer",
            folder, TEXT_PROGRAM);
    enum status status = checkpoint_load(folder, &t->network, &saved, &t->thawed, err);
    if (!status) status = take_companions(t, folder, err);
    if (!status) status = take_position(t, &saved, err);
    if (!status) snprintf(t->moments_from, sizeof t->moments_from, "%s", folder);
    return status;
}

/* The moments are zero, and stay so, if the checkpoint has none. */
enum status trainer_fork(struct trainer *t, const char *folder, bool *fresh, struct err *err)
{
    struct train_state saved;
    *fresh = !checkpoint_is_full(folder);
    if (!*fresh) return trainer_resume(t, folder, err);
    enum status status = checkpoint_load_weights(folder, &t->network, err);
    if (!status) status = take_companions(t, folder, err);
    if (!status) status = checkpoint_load_state(folder, &saved, err);
    if (status) return status;
    saved.updates = 0; /* the bias correction of moments that begin at zero */
    return take_position(t, &saved, err);
}

/* ---- the state of rank 0 ---- */

/* Ranks that differ in these cannot train together. */
struct likeness {
    struct corpus_mark corpus;
    char kernels[32];              /* the instruction set or "CUDA", by which updates are rounded */
    size_t elements, frozen_bytes; /* of the model */
};

static enum status check_likeness(struct trainer *t, struct err *err)
{
    const struct world *world = t->world;
    struct likeness all[WORLD_RANKS_MAX] = {0}, *mine = &all[world->rank];
    struct err why;
    enum status status = STATUS_OK;
    mine->corpus = t->state.corpus;
    snprintf(mine->kernels, sizeof mine->kernels, "%.*s", (int)strcspn(t->device.computes, ","),
             t->device.computes);
    mine->elements = t->model.elements;
    mine->frozen_bytes = t->model.frozen_bytes;
    world_gather(world, all, sizeof *all);
    for (int r = 1; !status && r < world->size; r++) {
        if (corpus_mark_check(&all[0].corpus, &all[r].corpus, &why))
            status = err_set(err, STATUS_USAGE, "rank %d on %s reads other data than rank 0: %.300s", r,
                             world->hosts[r], why.text);
        else if (strcmp(all[0].kernels, all[r].kernels) != 0)
            status = err_set(err, STATUS_USAGE,
                             "rank %d on %s computes with %s, rank 0 with %s (for all of them set %s)", r,
                             world->hosts[r], all[r].kernels, all[0].kernels,
                             strcmp(all[0].kernels, "CUDA") == 0 || strcmp(all[r].kernels, "CUDA") == 0
                                 ? "--device cpu, or give each a GPU"
                                 : "ANNEAL_CPU_ISA=v3, or baseline");
        else if (all[0].elements != all[r].elements || all[0].frozen_bytes != all[r].frozen_bytes)
            status =
                err_set(err, STATUS_USAGE,
                        "rank %d on %s has %zu trainable weights and %zu bytes of frozen ones, rank 0 %zu "
                        "and %zu (every host needs model.from, whose files say how lora.base = auto "
                        "stores it)",
                        r, world->hosts[r], all[r].elements, all[r].frozen_bytes, all[0].elements,
                        all[0].frozen_bytes);
    }
    return status;
}

/* Device memory of rank 0 goes to all ranks, through the staging memory. */
static void share_memory(struct trainer *t, void *shared, size_t bytes)
{
    struct network *net = &t->network;
    char *staging = network_at(net, BUFFER_STAGING, 0), *memory = shared;
    size_t most = t->plan.bytes[BUFFER_STAGING];
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < most ? bytes - at : most;
        net->backend->mem_download(staging, memory + at, n, net->stream);
        world_share(t->world, staging, n);
        net->backend->mem_upload(memory + at, staging, n, net->stream);
    }
}

/* A rank's moments go from rank 0 to that rank. */
static void hand_over(struct trainer *t, int rank)
{
    struct network *net = &t->network;
    char *staging = network_at(net, BUFFER_STAGING, 0);
    size_t most = t->plan.bytes[BUFFER_STAGING];
    for (enum moment i = 0; i < MOMENT_KINDS; i++)
        for (size_t at = 0, n, bytes = t->plan.bytes[BUFFER_MOMENT1 + (int)i]; at < bytes; at += n) {
            char *memory = (char *)network_moment(net, i) + at;
            n = bytes - at < most ? bytes - at : most;
            if (t->world->rank == 0) net->backend->mem_download(staging, memory, n, net->stream);
            world_send(t->world, 0, rank, staging, n);
            if (t->world->rank != rank) continue;
            net->backend->mem_upload(memory, staging, n, net->stream);
            net->backend->stream_wait(net->stream, NULL); /* before the staging memory is reused */
        }
}

/* Rank 0 loads the moments of one slice after the other from the checkpoint, last its own. */
static enum status take_slices(struct trainer *t, struct err *err)
{
    const struct param *thawed = NULL;
    enum status status = STATUS_OK;
    world_share(t->world, t->moments_from, sizeof t->moments_from);
    for (int r = t->world->size - 1; r >= 0 && *t->moments_from; r--) {
        if (t->world->rank == 0 && !status)
            status = checkpoint_load_moments(t->moments_from, &t->network, plan_slice(&t->plan.input, r),
                                             &thawed, err);
        if (r > 0) hand_over(t, r);
    }
    return world_agree(t->world, status, err);
}

/* Before the first update the average is a copy of the weights. */
static enum status begin_average(struct trainer *t, struct err *err)
{
    struct network *net = &t->network;
    if (t->plan.input.averages && t->state.updates == 0)
        net->backend->mem_copy(network_moment(net, MOMENT_AVERAGE), net->weights,
                               slice_count(net->owned) * sizeof(float), net->stream);
    return t->setup.backend->stream_wait(net->stream, err);
}

enum status trainer_share_state(struct trainer *t, struct err *err)
{
    static const enum buffer buffers[] = {BUFFER_FROZEN, BUFFER_MOMENT1, BUFFER_MOMENT2, BUFFER_AVERAGE};
    struct network *net = &t->network;
    bool slices = t->plan.input.shard;
    if (t->world->size == 1) return begin_average(t, err);
    enum status status = check_likeness(t, err);
    if (!status && slices) status = take_slices(t, err);
    if (status) return status;
    share_memory(t, network_all_weights(net), t->model.elements * sizeof(float));
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (!slices || buffers[i] == BUFFER_FROZEN)
            share_memory(t, network_at(net, buffers[i], 0), t->plan.bytes[buffers[i]]);
    world_share(t->world, &t->state, sizeof t->state);
    world_share(t->world, &t->saved_step, sizeof t->saved_step);
    network_weights_written(net);
    optimizer_resume(net, t->state.updates);
    return begin_average(t, err);
}

/* ---- going back ---- */

enum status trainer_check_rollback(const struct config *c, struct err *err)
{
    bool goes_back = c->health.on_spike == ON_SPIKE_ROLLBACK || c->health.on_nan == ON_NAN_ROLLBACK;
    if (goes_back && c->checkpoint.contents == CONTENTS_WEIGHTS)
        return err_set(err, STATUS_USAGE,
                       "health.%s = rollback: goes back to a checkpoint, with the optimizer's moments (set "
                       "checkpoint.contents = full)",
                       c->health.on_spike == ON_SPIKE_ROLLBACK ? "on_spike" : "on_nan");
    if (c->health.on_spike != ON_SPIKE_WARN && c->health.loss_spike <= 0)
        return err_set(err, STATUS_USAGE,
                       "health.on_spike = %s: needs a limit (set health.loss_spike above 0)",
                       on_spike_word(c->health.on_spike));
    return STATUS_OK;
}

static enum status load_first(struct trainer *t, struct err *err)
{
    struct train_state first = {
        .lr_factor = 1, .lr_cut = 1, .corpus = t->state.corpus, .questions = t->state.questions};
    if (!t->setup.weights && *t->setup.config->model.from) /* resumed, from a checkpoint that is gone */
        t->setup.weights = t->setup.config->model.from;
    enum status status = trainer_load_first_weights(t, err);
    if (status) return status;
    t->state = first;
    t->saved_step = -1;
    trainer_begin_stopping(t);
    optimizer_resume(&t->network, 0);
    return STATUS_OK;
}

/* Of rank 0. Moments are zero before. */
static enum status load_good(struct trainer *t, struct err *err)
{
    const char *folder = t->setup.checkpoints;
    char path[CHECKPOINT_PATH];
    bool fresh;
    *t->moments_from = '\0';
    enum status status = checkpoint_find_up_to(folder, t->trouble - 1, path, sizeof path, NULL);
    if (!status)
        checkpoint_set_suspect_aside(folder, t->trouble);
    else
        status = checkpoint_find_up_to(folder, t->trouble, path, sizeof path, err);
    if (status == STATUS_CORRUPT) trainer_event(t, "warning", "%s; no checkpoint is left", err->text);
    if (status == STATUS_NOT_FOUND || status == STATUS_CORRUPT) return load_first(t, err);
    return status ? status : trainer_fork(t, path, &fresh, err);
}

/* The batches of steps before `end` are left out: the step in trouble is the last of them, or for an
 * evaluation the step before it. */
static void report_rollback(struct trainer *t, int64_t end)
{
    char from[48] = "the beginning", batches[80] = "", rate[40] = "";
    int64_t step = t->state.step, rollbacks = t->state.rollbacks;
    double cut = t->health.limits.rollback_lr;
    if (t->saved_step >= 0) snprintf(from, sizeof from, "the checkpoint of step %" PRId64, step);
    if (step < end)
        snprintf(batches, sizeof batches, ", without the batches of steps %" PRId64 " to %" PRId64, step,
                 end - 1);
    if (cut < 1) snprintf(rate, sizeof rate, ", with learning rate × %g", t->state.lr_cut);
    trainer_event(t, "warning",
                  "rollback %" PRId64 " of at most %" PRId64 " in a row, for the trouble at step %" PRId64
                  ": training goes on from %s%s%s",
                  rollbacks, t->health.limits.rollbacks, t->trouble, from, batches, rate);
}

enum status trainer_roll_back(struct trainer *t, struct err *err)
{
    struct network *net = &t->network;
    const struct config_health limits = t->health.limits;
    const struct train_state before = t->state;
    bool finite = !t->health.not_finite && !t->health.not_finite_evaluation;
    exchange_await(net, INT_MAX);
    enum status status = world_agree(t->world, trainer_device_status(t, err), err);
    t->in_flight = 0;
    profiler_forget(t->profiler);
    if (status) return status;
    /* a snapshot of the step in trouble is not written; all ranks have it or none */
    if (t->held && t->job.state.step >= t->trouble) t->held = false;
    trainer_collect_save(t, true);
    if (before.rollbacks >= limits.rollbacks)
        return err_set(err, STATUS_FAILED,
                       "step %" PRId64 ": training is in trouble again after %" PRId64
                       " rollbacks in a row (look at the data; or resume with a larger health.rollbacks, "
                       "with health.%s, or fork with a lower train.learning_rate)",
                       t->trouble, before.rollbacks,
                       limits.on_nan == ON_NAN_ROLLBACK && !finite ? "on_nan = skip" : "on_spike = warn");
    for (enum moment i = 0; i < MOMENT_KINDS; i++)
        if (t->plan.bytes[BUFFER_MOMENT1 + (int)i])
            net->backend->mem_zero(network_moment(net, i), t->plan.bytes[BUFFER_MOMENT1 + (int)i],
                                   net->stream);
    if (t->world->rank == 0) status = load_good(t, err);
    status = world_agree(t->world, status, err);
    if (status) return status;
    if (t->state.step == t->origin.step) { /* a fork may have begun with a patience of its own */
        t->state.stopping = t->origin.stopping;
        t->state.best_saved = t->origin.best_saved;
    }
    if (t->state.step < t->origin.step) t->origin.step = -1; /* it has not happened */
    t->state.cursor = before.cursor;
    t->state.lr_factor = before.lr_factor;
    t->state.lr_cut = before.lr_cut * limits.rollback_lr;
    t->state.rollbacks = before.rollbacks + 1;
    t->state.trouble = t->trouble;
    t->health = (struct health){.limits = limits, .guess = t->health.guess, .level = &t->state.level};
    status = trainer_share_state(t, err);
    if (status) return status;
    t->setup.observer.rolled_back(t->setup.observer.context);
    t->ranks_reported = 0; /* the new segment has them from its first step on */
    report_rollback(t, before.step);
    t->trouble = t->evaluated_step = -1;
    t->facts.due = t->state.step == 0 ? decide_due(t->setup.config, 0, false) : 0;
    trainer_report_memory(t);
    return STATUS_OK;
}
