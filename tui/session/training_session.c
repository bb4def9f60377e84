/* See training_session.h. */
#include "tui/session/training_session.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "tui/session/interrupt.h"

/* ---- the observer: from the trainer to the store and the terminal ---- */

static void on_step(void *context, const struct step_record *record)
{
    struct training_session *s = context;
    writer_step(s->writer, record);
    s->watcher->step(s->watcher->context, record);
}

static void on_eval(void *context, const struct eval_record *record, const struct measures *measures)
{
    struct training_session *s = context;
    (void)measures; /* language modelling has no more than the record's columns */
    s->last_eval = *record;
    writer_eval(s->writer, record);
}

static void on_stopping(void *context, const struct stopping_record *record)
{
    struct training_session *s = context;
    if (record->verdict != VERDICT_ORDERED) writer_stopping(s->writer, record);
    s->watcher->eval(s->watcher->context, &s->last_eval, record);
}

static void on_sample(void *context, const struct sample_record *record)
{
    struct training_session *s = context;
    writer_sample(s->writer, record);
    s->watcher->sample(s->watcher->context, record);
}

/* A killed run has no gap in its history: no checkpoint is ahead of what is recorded. When the store cannot
 * keep up that long, on_store_error has said why. */
static void on_saving(void *context)
{
    struct training_session *s = context;
    s->saving = writer_flush_begin(s->writer);
}

static void on_safe(void *context)
{
    struct training_session *s = context;
    writer_flush_wait(s->writer, s->saving, 2, NULL);
}

static void on_checkpoint(void *context, const struct checkpoint_record *record)
{
    struct training_session *s = context;
    writer_checkpoint(s->writer, record);
    s->watcher->checkpoint(s->watcher->context, record);
}

static void on_memory(void *context, const struct memory_record *record)
{
    writer_memory(((struct training_session *)context)->writer, record);
}

/* The run's id, once it has one; until then no order can reach it by its name. */
static const char *holder(struct training_session *s)
{
    if (s->id[0] != '\0') return s->id;
    snprintf(s->starting, sizeof s->starting, "%.70s (starting)",
             s->options->name ? s->options->name : preset_word(s->config.model.preset));
    return s->starting;
}

void training_session_hold(struct training_session *s)
{
    memory_share_used(&s->share, holder(s), s->share.bytes);
}

static void on_used(void *context, int64_t bytes)
{
    struct training_session *s = context;
    memory_share_used(&s->share, holder(s), bytes);
}

static void on_profile(void *context, const struct profile_record *record)
{
    writer_profile(((struct training_session *)context)->writer, record);
}

static void on_event(void *context, const struct event_record *record)
{
    struct training_session *s = context;
    writer_event(s->writer, record);
    s->watcher->event(s->watcher->context, record);
}

static void on_paused(void *context, bool paused)
{
    struct training_session *s = context;
    writer_status(s->writer, paused ? RUN_PAUSED : RUN_RUNNING);
    s->watcher->paused(s->watcher->context, trainer_state(s->trainer)->step, paused);
}

/* One line is what standard error has; the log has them all. */
static void on_full(void *context, const char *line)
{
    struct training_session *s = context;
    size_t used = strlen(s->full), length = strlen(line);
    if (s->log.fd >= 0)
        run_log_line(&s->log, line);
    else if (used + length + 2 <= sizeof s->full)
        snprintf(s->full + used, sizeof s->full - used, "%s\n", line);
}

/* The next rate that was ordered before the run was interrupted, where its step has come. */
static bool recall_order(struct training_session *s, int64_t step, struct order *out)
{
    char text[160];
    while (s->recalled_count > 0 && s->recalled[0].applied_step <= step) {
        struct order_row row = *s->recalled++;
        s->recalled_count--;
        if (trainer_state(s->trainer)->lr_factor == row.argument) continue; /* the checkpoint knows it */
        snprintf(text, sizeof text,
                 "learning rate × %g again from step %" PRId64
                 " on, as ordered before the run was interrupted",
                 row.argument, step);
        training_session_event(s, step, "info", text);
        *out = (struct order){.verb = ORDER_LR_FACTOR, .argument = row.argument};
        return true;
    }
    return false;
}

static bool on_next_order(void *context, int64_t step, struct order *out)
{
    struct training_session *s = context;
    if (s->carried_count > 0) {
        *out = s->carried[0];
        memmove(s->carried, s->carried + 1, (size_t)--s->carried_count * sizeof *s->carried);
    } else if (!recall_order(s, step, out) && !writer_next_order(s->writer, out)) {
        return false;
    }
    if (out->verb == ORDER_TRACE && !s->tracing) { /* others may be obeyed before it is answered */
        s->trace = *out;
        s->tracing = true;
        return true;
    }
    s->taken = *out;
    s->obeying = true;
    return true;
}

static void on_order_done(void *context, int64_t order_id, int64_t applied_step, const char *result)
{
    struct training_session *s = context;
    if (s->tracing && order_id == s->trace.id) {
        s->tracing = false;
        writer_order_done(s->writer, order_id, applied_step, result);
        s->watcher->order(s->watcher->context, order_verb_name(ORDER_TRACE), applied_step, result);
        return;
    }
    s->obeying = false;
    if (s->taken.verb == ORDER_PAUSE || s->taken.verb == ORDER_CONTINUE)
        s->paused = s->taken.verb == ORDER_PAUSE;
    if (s->taken.verb == ORDER_STOP) s->stopping = true;
    if (!order_id) return;
    if (s->taken.verb == ORDER_LR_FACTOR && trainer_state(s->trainer)->lr_factor == s->taken.argument)
        s->recalled_count = 0; /* the newest word counts */
    writer_order_done(s->writer, order_id, applied_step, result);
    s->watcher->order(s->watcher->context, order_verb_name(s->taken.verb), applied_step, result);
}

static enum train_request on_request(void *context)
{
    (void)context;
    return interrupt_requested() ? TRAIN_LEAVE : TRAIN_GO_ON;
}

static enum status on_reserve(void *context, int64_t bytes, struct err *err)
{
    struct training_session *s = context;
    struct memory_wish wish = {.home = s->home,
                               .holder = holder(s),
                               .backend = s->choice.backend,
                               .device = s->choice.device,
                               .reserve = s->config.memory.reserve,
                               .bytes = bytes,
                               .may_wait = true,
                               .wait = s->options->wait};
    return memory_share_take(&s->share, &wish, err);
}

static void on_store_error(void *context, const char *sentence)
{
    (void)context; /* from the writer's thread: one write, no shared state */
    fprintf(stderr, "\nanneal: recording: %s\n", sentence);
}

void training_session_event(struct training_session *s, int64_t step, const char *level, const char *text)
{
    struct event_record event = {.step = step, .wall_time = clock_wall(), .level = level, .text = text};
    on_event(s, &event);
}

void training_session_checkpoint(struct training_session *s, const struct checkpoint_record *record)
{
    on_checkpoint(s, record);
}

/* ---- opening and closing ---- */

enum status training_session_open(struct training_session *s, const struct training_options *options,
                                  struct err *err)
{
    *s = (struct training_session){
        .options = options,
        .watcher = &options->watcher,
        .config = options->config,
        .go_on_with = options->config.checkpoint.contents == CONTENTS_FULL ? "resume" : "fork",
        .lock = {-1},
        .log = {.fd = -1}};
    interrupt_catch();
    signal(SIGHUP, SIG_IGN);  /* a closed terminal does not stop a run */
    signal(SIGPIPE, SIG_IGN); /* nor does a reader that has gone */
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error with a sentence, like a full disk */
    enum status status = file_anneal_home(s->home, sizeof s->home, err);
    return status ? status : store_open(s->home, &s->store, err);
}

enum status training_session_open_corpus(struct training_session *s, struct err *err)
{
    const struct config *c = &s->config;
    char cache[PATH_MAX];
    const struct progress *progress = s->watcher->progress;
    if (snprintf(cache, sizeof cache, "%s/data", s->home) >= (int)sizeof cache)
        return err_set(err, STATUS_USAGE, "ANNEAL_HOME: the path is too long");
    enum status status = corpus_open(c->data.train, c->data.tokenizer, cache, progress, &s->corpus, err);
    if (!status && *c->data.val)
        status = corpus_open_validation(&s->corpus, c->data.val, cache, progress, err);
    s->watcher->prepared(s->watcher->context);
    return status;
}

enum status training_session_settle_precision(struct training_session *s, struct err *err)
{
    return device_choice_settle_precision(&s->choice, &s->config.train.precision, err);
}

enum status training_session_open_trainer(struct training_session *s, struct err *err)
{
    char warm_folder[PATH_MAX + 8];
    snprintf(warm_folder, sizeof warm_folder, "%s/cuda", s->home);
    struct train_setup setup = {.config = &s->config,
                                .backend = s->choice.backend,
                                .device = s->choice.device,
                                .corpus = &s->corpus,
                                .checkpoints = s->checkpoints,
                                .weights = s->weights,
                                .traces = s->traces,
                                .warm_folder = warm_folder,
                                .progress = s->watcher->progress,
                                .full = {on_full, s},
                                .check_allocations = s->options->check_allocations,
                                .another_device = device_choice_has_another(&s->choice),
                                .observer = {.context = s,
                                             .reserve = on_reserve,
                                             .step = on_step,
                                             .eval = on_eval,
                                             .stopping = on_stopping,
                                             .sample = on_sample,
                                             .saving = on_saving,
                                             .safe = on_safe,
                                             .checkpoint = on_checkpoint,
                                             .memory = on_memory,
                                             .used = on_used,
                                             .profile = on_profile,
                                             .event = on_event,
                                             .paused = on_paused,
                                             .next_order = on_next_order,
                                             .order_done = on_order_done,
                                             .request = on_request}};
    enum status status = training_session_settle_precision(s, err);
    if (status) return status;
    status = trainer_open(&setup, &s->trainer, err);
    s->watcher->prepared(s->watcher->context);
    if (status)
        memory_share_release(&s->share);
    else
        training_session_hold(s);
    return status;
}

void training_session_find_checkpoints(struct training_session *s)
{
    char folder[PATH_MAX - 16];
    run_folder(s->store, s->id, folder, sizeof folder);
    snprintf(s->checkpoints, sizeof s->checkpoints, "%s/checkpoints", folder);
    snprintf(s->traces, sizeof s->traces, "%s/traces", folder);
}

void training_session_log_memory(struct training_session *s)
{
    for (char *line = s->full, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        run_log_line(&s->log, line);
    }
    s->full[0] = '\0';
}

void training_session_log_failure(struct training_session *s, const char *sentence)
{
    char folder[PATH_MAX];
    if (s->full[0] == '\0') return;
    run_folder(s->store, s->id, folder, sizeof folder);
    run_log_open(&s->log, folder);
    run_log_line(&s->log, sentence);
    training_session_log_memory(s);
    run_log_close(&s->log);
}

enum status training_session_record(struct training_session *s, struct err *err)
{
    struct writer_options options = {
        .home = s->home, .run_id = s->id, .on_error = on_store_error, .context = s};
    return writer_open(&options, &s->writer, err);
}

void training_session_start_metrics(struct training_session *s)
{
    metrics_start(s->home, s->id, &s->choice.info, &s->metrics, NULL);
}

void training_session_stop_metrics(struct training_session *s)
{
    struct err err;
    if (metrics_stop(s->metrics, METRICS_PATIENCE, &err))
        training_session_event(s, s->trainer ? trainer_state(s->trainer)->step : -1, "warning", err.text);
    s->metrics = NULL;
}

void training_session_close_trainer(struct training_session *s)
{
    training_session_stop_metrics(s);
    trainer_close(s->trainer);
    s->trainer = NULL;
    memory_share_release(&s->share);
}

void training_session_close(struct training_session *s)
{
    training_session_close_trainer(s);
    run_log_close(&s->log);
    corpus_close(&s->corpus);
    device_choice_close(&s->choice);
    if (s->lock.fd >= 0) run_lock_release(&s->lock);
    store_close(s->store);
    arena_release(&s->recalled_memory);
}

/* ---- orders that outlive a trainer ---- */

static void carry(struct training_session *s, struct order order)
{
    s->carried[s->carried_count++] = order;
}

void training_session_carry_orders(struct training_session *s)
{
    struct order taken = s->taken;
    bool unanswered = s->obeying;
    s->carried_count = 0;
    carry(s, (struct order){.verb = ORDER_LR_FACTOR, .argument = trainer_state(s->trainer)->lr_factor});
    if (s->paused) carry(s, (struct order){.verb = ORDER_PAUSE, .argument = NAN});
    if (unanswered) carry(s, taken);
    if (s->tracing) carry(s, s->trace);
    s->tracing = false;
    if (s->stopping) carry(s, (struct order){.verb = ORDER_STOP, .argument = NAN});
    s->obeying = false;
}
