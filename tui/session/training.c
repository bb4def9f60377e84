/* See training.h. This file decides the order in which a session is opened, its device, and what happens if
 * the device fails. */
#include "tui/session/training.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/adapter_file.h"
#include "core/model/hugging_face.h"
#include "datasets/inputs.h"
#include "kernels/device/cpu.h"
#include "kernels/device/cpu_threads.h"
#include "runs/annotation.h"
#include "tui/session/configured_corpus.h"
#include "tui/session/disk_need.h"
#include "tui/session/process.h"
#include "tui/session/recorded_run.h"
#include "tui/session/training_session.h"

/* ---- opening and closing ---- */

/* Takes over the signals, opens the store. */
static enum status open_session(struct training_session *s, const struct training_options *options,
                                struct err *err)
{
    *s = (struct training_session){
        .options = options,
        .started = clock_monotonic(),
        .watcher = &options->watcher,
        .config = options->config,
        .continue_with = options->config.checkpoint.contents == CONTENTS_FULL ? "resume" : "fork",
        .lock = {-1},
        .log = {.fd = -1}};
    interrupt_catch();
    interrupt_catch_preemption();
    lost_pages_report();
    signal(SIGHUP, SIG_IGN);  /* a closed terminal does not stop a run */
    signal(SIGPIPE, SIG_IGN); /* nor does a reader that has gone */
    enum status status = file_anneal_home(s->home, sizeof s->home, err);
    return status ? status : store_open(s->home, STORE_WRITE, &s->store, err);
}

/* Closes all parts that are open. */
static void close_session(struct training_session *s)
{
    ranks_rest(s->options->ranks);
    training_session_close_trainer(s);
    int failed = hook_stop(s->hook);
    if (failed)
        fprintf(stderr, "anneal: warning: hooks.on_event failed %d time%s (see %s/log.txt)\n", failed,
                text_plural(failed), s->folder);
    run_log_close(&s->log);
    corpus_close(&s->corpus);
    device_choice_close(&s->choice);
    if (s->lock.fd >= 0) run_lock_release(&s->lock);
    store_close(s->store);
    arena_release(&s->recalled_memory);
    free(s->needed_steps);
}

/* Names the key whose data are missing, and for a resumed or forked run the remedy. */
static enum status name_missing_data(const struct training_session *s, const char *key, struct err *err)
{
    bool forked = s->options->fork != NULL;
    if (err->status != STATUS_NOT_FOUND) return err->status;
    err_prefix(err, "%s%s", key, strstr(err->text, " #") ? " (a comment after a value begins with ;)" : "");
    struct err why = *err;
    if (!forked && !s->id[0]) return why.status;
    return err_set(err, why.status, "%.300s; if it was moved: %s %s %s --%s=PATH", why.text, TEXT_PROGRAM,
                   forked ? "fork" : "resume", forked ? s->options->fork->run : s->id, key);
}

static enum status open_corpus(struct training_session *s, struct err *err)
{
    const char *moved;
    struct config *c = &s->config, defaults;
    if (!s->id[0] && !s->options->fork && inputs_repeat(c->data.train, err))
        return err_prefix(err, "data.train");
    enum status status = configured_corpus_open(c, s->home, s->watcher->progress, &s->corpus, &moved, err);
    s->watcher->prepared(s->watcher->context);
    config_init(&defaults); /* a tokenizer that is set has been chosen */
    if (!status && s->weights && s->corpus.learned && strcmp(c->data.tokenizer, defaults.data.tokenizer) == 0)
        return err_set(err, STATUS_USAGE,
                       "model.from = %.200s: has no tokenizer.json, and the model knows no other tokens than "
                       "those of its own tokenizer (copy the file there, or name it: data.tokenizer)",
                       s->weights);
    return status ? name_missing_data(s, moved, err) : STATUS_OK;
}

/* Takes the lock of run `id`, and finds its folders. */
static enum status take_run(struct training_session *s, struct err *err)
{
    run_folder(s->store, s->id, s->folder, sizeof s->folder);
    snprintf(s->checkpoints, sizeof s->checkpoints, "%s/checkpoints", s->folder);
    snprintf(s->traces, sizeof s->traces, "%s/traces", s->folder);
    bool there;
    enum status status = file_look(s->folder, &there, err);
    if (status) return status;
    if (!there) /* the lock would make it again, and doctor would find it sound */
        return err_set(
            err, STATUS_FAILED,
            "%s: the run's folder is missing, with its checkpoints (restore it, or train a new run)",
            s->folder);
    return run_lock_acquire(s->store, s->id, &s->lock, err);
}

static void on_store_error(void *context, const char *sentence)
{
    (void)context; /* from the writer's thread: one write, no shared state */
    fprintf(stderr, "\nanneal: recording: %s\n", sentence);
}

/* Begins a segment of run `id`. */
static enum status record(struct training_session *s, struct err *err)
{
    struct writer_options options = {
        .home = s->home, .run_id = s->id, .on_error = on_store_error, .context = s};
    /* SQLite would give the writer some of the files that this process has open, and the new ones for the
     * rest */
    enum status status = store_check_place(s->store, err);
    return status ? status : writer_open(&options, &s->writer, err);
}

static void open_log(struct training_session *s)
{
    run_log_open(&s->log, s->folder);
    memcpy(s->options->ranks->run, s->id, sizeof s->id);
}

/* Moves to the log the lines about a device without room. */
static void log_full(struct training_session *s)
{
    for (char *line = s->full, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        run_log_line(&s->log, line);
    }
    s->full[0] = '\0';
}

/* ---- the device ---- */

/* Joins the reasons why the GPU and then the CPU failed into one sentence. */
static enum status fail_twice(const struct err *first, struct err *err)
{
    struct err second = *err;
    return err_set(err, second.status, "%.240s; then on the CPU: %.240s", first->text, second.text);
}

/* Calls `attempt` and, if a GPU taken by `--device auto` is not fit for it, again on the CPU. */
static enum status on_some_device(struct training_session *s,
                                  enum status (*attempt)(struct training_session *, struct err *),
                                  struct err *err)
{
    struct err why;
    enum status status = attempt(s, err);
    if (!status || !device_choice_may_fall_back(&s->choice, err)) return status;
    why = *err;
    training_session_close_trainer(s);
    status = device_choice_fall_back(&s->choice, &why, err);
    if (!status) status = attempt(s, err);
    return status ? fail_twice(&why, err) : STATUS_OK;
}

static enum status settle_precision(struct training_session *s, struct err *err)
{
    return device_choice_settle_precision(&s->choice, &s->config.train.precision, err);
}

/* Prepares a run before it has a row in the store: bad input fails here and leaves no run behind. */
static enum status prepare(struct training_session *s,
                           enum status (*open)(struct training_session *, struct err *), struct err *err)
{
    enum status status =
        ranks_open_device(s->options->ranks, s->options->device, &s->config, &s->choice, err);
    if (!status) status = on_some_device(s, settle_precision, err);
    if (!status) status = open_corpus(s, err);
    if (!status && !s->tries) status = ranks_begin(s->options->ranks, &s->config, &s->choice, err);
    return status ? status : on_some_device(s, open, err);
}

static enum status create_run(struct training_session *s, struct err *err)
{
    const struct config *c = &s->config;
    char *config = config_text(c);
    if (!config) return err_no_memory(err, "the configuration's text");
    const struct model *model = trainer_plan(s->trainer)->input.model;
    struct run_new run = {.name = s->options->name ? s->options->name : preset_word(c->model.preset),
                          .device = s->choice.info.short_name,
                          .precision = precision_name(trainer_plan(s->trainer)->input.precision),
                          .parameters = model->parameters,
                          .frozen_parameters = model->frozen_parameters,
                          .total_steps = c->train.total_steps,
                          .config = config,
                          .tags = s->options->tags};
    if (s->options->fork) {
        run.parent_id = s->options->fork->run;
        run.parent_step = trainer_state(s->trainer)->step;
    }
    enum status status = run_create(s->store, &run, s->id, err);
    free(config);
    return status;
}

/* ---- training ---- */

/* Reports a name that was changed to be easy to type and fit a folder. */
static void report_name(struct training_session *s)
{
    char name[RUN_NAME_CLEAN_MAX];
    run_name_clean(s->options->name, name, sizeof name);
    if (s->options->name && strcmp(name, s->options->name) != 0)
        training_session_event(s, -1, "info", "the run is called %s: " RUN_NAME_RULE, name,
                               RUN_NAME_CLEAN_MAX - 1);
}

static void report_same_text(struct training_session *s)
{
    const char *train = s->config.data.train, *val = s->config.data.val;
    if (*val && (strcmp(train, val) == 0 || inputs_same_file(train, val)))
        training_session_event(s, -1, "warning",
                               "data.val is the text of data.train: the validation loss measures what the "
                               "model remembers, not what it has learned");
}

static void report_shared_store(struct training_session *s)
{
    const char *type = store_shared(s->store);
    if (type)
        training_session_event(
            s, -1, "info",
            "the run database is on %s, where other hosts may use it, too: writing it takes longer "
            "there (set ANNEAL_STORE to keep it on a local disk)",
            type);
}

static void start_hook(struct training_session *s)
{
    const struct config *c = &s->config;
    struct run_info info = {0};
    struct err err;
    (void)run_get(s->store, s->id, &info, NULL); /* its name */
    struct hook_options options = {.command = c->hooks.on_event,
                                   .timeout = c->hooks.timeout,
                                   .stall = c->hooks.stall,
                                   .log = &s->log,
                                   .run = s->id,
                                   .name = info.name,
                                   .folder = s->folder};
    if (hook_start(&options, &s->hook, &err)) training_session_event(s, -1, "warning", "%s", err.text);
}

/* Several ranks share the processors as world.h says. */
static void report_processors(struct training_session *s)
{
    struct cpu_threads threads = cpu_threads_look((int)s->config.train.threads);
    char sentence[300];
    if (s->choice.backend != cpu_backend()) return;
    if (cpu_isa_note(sentence, sizeof sentence)) training_session_event(s, -1, "warning", "%s", sentence);
    if (trainer_plan(s->trainer)->input.precision == PRECISION_BF16 && s->choice.info.best != PRECISION_BF16)
        training_session_event(s, -1, "info",
                               "this processor multiplies bf16 no faster than fp32: train.precision = bf16 "
                               "saves memory, but hardly time (auto means fp32 here)");
    if (s->options->ranks->world->size > 1) return;
    const char *severity = cpu_threads_note(&threads, sentence, sizeof sentence);
    if (severity) training_session_event(s, -1, severity, "%s", sentence);
}

static void introduce(struct training_session *s)
{
    const struct config *c = &s->config;
    open_log(s);
    s->watcher->begin(s->watcher->context, s);
    start_hook(s);
    report_name(s);
    report_same_text(s);
    report_shared_store(s);
    report_processors(s);
    if (!s->corpus.tokenizer)
        training_session_event(s, -1, "warning",
                               "the token files name no tokenizer, so there will be no samples, and the "
                               "model cannot write text");
    char idle[CONFIG_WARNINGS_MAX][CONFIG_WARNING_SIZE], doubts[SESSION_WARNINGS_MAX][TASK_NOTE_SIZE],
        note[TASK_NOTE_SIZE], full[900];
    int doubt_count = training_session_warnings(s, doubts);
    for (int i = 0; i < doubt_count; i++) training_session_event(s, -1, "warning", "%s", doubts[i]);
    if (!s->options->probe && disk_need_warning(s, full, sizeof full))
        training_session_event(s, -1, "warning", "%s", full);
    trainer_note(s->trainer, note, sizeof note);
    if (*note) training_session_event(s, -1, "info", "%s", note);
    int idle_count = config_warnings(c, idle);
    for (int i = 0; i < idle_count; i++) training_session_event(s, -1, "warning", "%s", idle[i]);
    if (s->choice.why[0] == '\0') return;
    training_session_event(s, -1, "warning", "training on the CPU: %s", s->choice.why);
    log_full(s);
}

/* ---- when the device fails while it trains ---- */

/* Loads the newest checkpoint or, if there is none yet, the initial weights. */
static enum status load_last_good(struct training_session *s, struct err *err)
{
    char checkpoint[PATH_MAX], passed_over[sizeof s->passed_over];
    enum status status = checkpoint_find(s->checkpoints, -1, checkpoint, sizeof checkpoint, err);
    if (status == STATUS_NOT_FOUND) return STATUS_OK;
    if (!status &&
        recorded_run_passed_over(s->checkpoints, checkpoint, "continuing", passed_over, sizeof passed_over))
        training_session_event(s, checkpoint_step(checkpoint), "warning", "%s", passed_over);
    if (!status) checkpoint_set_damaged_aside(s->checkpoints, checkpoint);
    bool fresh; /* a fork of weights alone, before its first checkpoint */
    return status ? status : trainer_fork(s->trainer, checkpoint, &fresh, err);
}

/* Records in the run's history what failed, and the fate of the steps since the last good state. */
static void report_fall_back(struct training_session *s, const char *device, enum precision before,
                             int64_t failed_after)
{
    char from[64] = "the beginning", again[64] = "", in[32] = "";
    enum precision now = trainer_plan(s->trainer)->input.precision;
    int64_t step = trainer_state(s->trainer)->step, lost = failed_after - step;
    if (step > 0) snprintf(from, sizeof from, "the checkpoint of step %" PRId64, step);
    if (lost > 0) snprintf(again, sizeof again, ", repeating %" PRId64 " step%s", lost, text_plural(lost));
    if (before != now) snprintf(in, sizeof in, " instead of %s", precision_name(before));
    const char *why = s->choice.why;
    if (strncmp(why, "cuda: ", 6) == 0) why += 6; /* the message names it */
    training_session_event(s, failed_after, "warning",
                           "%s failed after step %" PRId64
                           "; training continues on the CPU from %s%s, in %s%s: %s",
                           device, failed_after, from, again, precision_name(now), in, why);
}

/* After the GPU has failed for the reason in `why`: continues on the CPU from the last good state, in a new
 * segment, in the CPU's own precision whatever train.precision is, with the orders in force. */
static enum status go_on_on_cpu(struct training_session *s, const struct err *why, struct err *err)
{
    char device[sizeof s->choice.info.short_name];
    int64_t step = trainer_state(s->trainer)->step;
    enum precision before = trainer_plan(s->trainer)->input.precision;
    snprintf(device, sizeof device, "%s", s->choice.info.short_name);
    training_session_carry_orders(s);
    training_session_close_trainer(s);
    enum status status = device_choice_fall_back(&s->choice, why, err);
    s->config.train.precision = CHOOSE_BEST;
    s->took_over = true;
    if (!status) status = training_session_open_trainer(s, err);
    if (!status) status = load_last_good(s, err);
    if (status) return fail_twice(why, err);
    writer_next_segment(s->writer, trainer_state(s->trainer)->step);
    writer_device(s->writer, s->choice.info.short_name,
                  precision_name(trainer_plan(s->trainer)->input.precision));
    report_fall_back(s, device, before, step);
    metrics_start(s->home, s->id, &s->choice.info, &s->metrics, NULL); /* without any it trains, too */
    return STATUS_OK;
}

static bool has_checkpoint(const struct training_session *s)
{
    char found[PATH_MAX];
    return !checkpoint_find(s->checkpoints, -1, found, sizeof found, NULL);
}

/* Adds the remedy to the message about a failed device or a full disk. */
static void add_remedy(struct training_session *s, struct err *err)
{
    struct err why = *err;
    bool full = why.status == STATUS_IO && (why.system == ENOSPC || why.system == EDQUOT);
    if (why.status != STATUS_DEVICE && why.status != STATUS_NO_MEMORY && !full) return;
    bool found = has_checkpoint(s);
    if (full && found)
        err_set(err, why.status, "%.300s (make room on the disk, then: %s %s %s)", why.text, TEXT_PROGRAM,
                s->continue_with, s->id);
    else if (full)
        err_set(err, why.status, "%.300s (make room on the disk, then train again)", why.text);
    else if (found)
        err_set(err, why.status, "%.300s (continue from the last checkpoint: %s %s %s)", why.text,
                TEXT_PROGRAM, s->continue_with, s->id);
    else if (strncmp(s->choice.wish, "cuda", 4) == 0 && s->options->ranks->world->size == 1)
        err_set(err, why.status,
                "%.300s (there is no checkpoint to continue from: start it again; with --device auto it "
                "falls back to the CPU)",
                why.text);
}

/* An error if a run has failed although its trainer ended without one; else STATUS_OK. */
static enum status check_outcome(const struct training_session *s, enum train_outcome outcome,
                                 struct err *err)
{
    char what[160] = "training diverged: 100 updates in a row were skipped (gradient "
                     "norm not finite, or loss above its limit)";
    if (outcome != TRAIN_DIVERGED && outcome != TRAIN_NOT_FINITE) return STATUS_OK;
    if (outcome == TRAIN_NOT_FINITE)
        snprintf(what, sizeof what,
                 "step %" PRId64 ": a loss or gradient norm is not finite, and health.on_nan = stop",
                 trainer_state(s->trainer)->step - 1);
    bool none = !has_checkpoint(s);
    return err_set(err, STATUS_FAILED, "%s (lower train.learning_rate, then %s: %s from before)", what,
                   none ? "train again" : s->continue_with,
                   none ? "there is no checkpoint" : "the last checkpoint is");
}

/* Runs the trainer and records the end. */
static enum status train(struct training_session *s, struct err *err)
{
    static const enum run_status statuses[] = {RUN_FINISHED, RUN_EARLY_STOPPED, RUN_STOPPED, RUN_FAILED,
                                               RUN_FAILED};
    enum train_outcome outcome = TRAIN_FINISHED;
    struct err storing = {0}, why;
    metrics_start(s->home, s->id, &s->choice.info, &s->metrics, NULL); /* without any it trains, too */
    enum status status = ranks_train(s->options->ranks, err);
    if (!status) status = trainer_run(s->trainer, &outcome, err);
    int64_t step = trainer_state(s->trainer)->step;
    if (outcome == TRAIN_FALLS_BACK) {
        why = *err;
        status = go_on_on_cpu(s, &why, err);
        if (!status) status = trainer_run(s->trainer, &outcome, err);
        if (s->trainer) step = trainer_state(s->trainer)->step;
    }
    if (status)
        add_remedy(s, err);
    else
        status = check_outcome(s, outcome, err);
    bool stopped = !status && outcome == TRAIN_STOPPED, by_signal = stopped && interrupt_requested();
    bool enough = stopped && s->enough && !by_signal && !s->stopping;
    enum run_status final = status ? RUN_FAILED : enough ? RUN_FINISHED : statuses[outcome];
    bool until = stopped && s->options->until > 0 && step >= s->options->until;
    bool preempted = stopped && (s->out_of_time || interrupt_signal() == SIGUSR1);
    const char *message = status           ? err->text
                          : s->out_of_time ? "train.time_limit is reached"
                          : preempted      ? "stopped by SIGUSR1"
                          : by_signal      ? "stopped by a signal"
                          : until          ? "stopped by --until"
                          : enough         ? s->options->probe->why
                                           : "";
    training_session_stop_metrics(s);
    enum status stored = writer_close(s->writer, final, message, &storing);
    s->watcher->end(s->watcher->context, status_words[final], step, message);
    if (outcome == TRAIN_DIVERGED || outcome == TRAIN_NOT_FINITE)
        hook_event(s->hook, "divergence", status_words[final], step, message);
    hook_event(s->hook, final == RUN_FAILED ? "failure" : "end", status_words[final], step, message);
    if (!stored) return preempted ? err_set(err, STATUS_PREEMPTED, "%s", "") : status;
    if (status)
        on_store_error(NULL, storing.text); /* reported only: the run's own error came first */
    else
        *err = storing;
    return status ? status : stored;
}

/* Adapters of peft name their base, which may be a name in a hub, and note nothing of its weights. */
static void report_weights(struct training_session *s)
{
    const char *adapters = s->config.lora.from;
    struct adapter_config config;
    struct adapter_base base;
    struct model_config of_weights;
    training_session_event(s, -1, "info", "starts with the weights of %.400s%s%.400s", s->weights,
                           *adapters ? " and the adapters of " : "", adapters);
    if (*adapters && !adapter_file_read(adapters, &config, &base, NULL) && !base.hash)
        training_session_event(
            s, -1, "warning",
            "the adapters of %.200s name \"%.100s\" as their base, but note no hash of it: "
            "names and shapes fit, whether it is the same model cannot be verified",
            adapters, base.folder);
    if (!hugging_face_read_config(s->weights, &of_weights, NULL) &&
        !model_rotates_alike(&of_weights, &s->config.model.sizes))
        training_session_event(s, -1, "info",
                               "the weights were trained with other rotary frequencies than those of this "
                               "run's model.rope_ keys");
}

/* The words of the command line, which are refused before a text is read. */
static enum status check_words(const struct training_options *options, struct err *err)
{
    enum status status = options->name ? run_name_check(options->name, err) : STATUS_OK;
    return status || !options->tags ? status : tags_check(options->tags, err);
}

/* Of the checkpoint that is forked. */
static enum status end_hold(const struct training_options *options, enum status status, struct err *err)
{
    const struct fork_origin *fork = options->fork;
    return fork ? checkpoint_hold_end(fork->hold, fork->checkpoint, status, err) : status;
}

enum status training_start(const struct training_options *options, struct err *err)
{
    struct training_session s;
    enum status status = open_session(&s, options, err);
    if (!status) status = check_words(options, err);
    if (!options->fork && *s.config.model.from) s.weights = s.config.model.from;
    if (!status)
        status = prepare(&s, options->fork ? training_open_forked : training_session_open_trainer, err);
    if (status) status = end_hold(options, status, err);
    if (!status && !options->probe) status = disk_need_check(&s, err);
    if (!status && interrupt_requested())
        status = err_set(err, STATUS_INTERRUPTED, "interrupted before the run was made");
    if (!status && !(status = create_run(&s, err))) {
        training_session_hold(&s);
        status = take_run(&s, err);
        if (!status && options->fork) /* adopting the checkpoint lets the run resume from its start,
                                         whatever becomes of the other run */
            status = checkpoint_adopt(s.checkpoints, options->fork->checkpoint, &s.adopted_bytes, err);
        status = end_hold(options, status, err);
        if (!status) status = record(&s, err);
        if (status) { /* delete a run that never began */
            run_lock_release(&s.lock);
            run_delete(s.store, s.id, NULL);
        }
    }
    if (!status) introduce(&s);
    if (!status && options->fork) training_report_fork(&s);
    if (!status) training_report_rate(&s);
    if (!status) training_report_length(&s);
    if (!status && s.weights) report_weights(&s);
    if (!status) status = train(&s, err);
    close_session(&s);
    return status;
}

enum status training_try(const struct training_options *options,
                         enum status (*show)(const struct training_session *session, void *context,
                                             struct err *err),
                         void *context, struct err *err)
{
    struct training_session s;
    enum status status = open_session(&s, options, err);
    s.tries = true;
    if (*s.config.model.from) s.weights = s.config.model.from;
    if (!status) status = check_words(options, err);
    if (!status) status = prepare(&s, training_session_open_trainer, err);
    if (!status) status = show(&s, context, err);
    close_session(&s);
    return status;
}

/* Tells what an earlier trainer of the run could not store, and what of that is lost. */
static void report_recovery(struct training_session *s)
{
    struct run_info info;
    struct step_record last;
    int64_t step = trainer_state(s->trainer)->step, count = writer_recovered(s->writer);
    if (count)
        training_session_event(s, step, "info",
                               "%" PRId64 " record%s that the database lacked %s read from the run's folder",
                               count, text_plural(count), count == 1 ? "was" : "were");
    if (run_get(s->store, s->id, &info, NULL)) return;
    enum status found = run_last_step(s->store, s->id, &last, NULL);
    int64_t stored = !found ? last.step + 1 : *info.parent_id ? info.parent_step : 0;
    if ((found && found != STATUS_NOT_FOUND) || stored >= step) return;
    training_session_event(s, step, "warning",
                           "steps %" PRId64 " to %" PRId64
                           " are missing in the history: the trainer ended before it could store them",
                           stored, step - 1);
}

enum status training_resume(const struct training_options *options, const struct run_info *run,
                            struct err *err)
{
    struct training_session s;
    char changes[300] = "";
    enum status status = open_session(&s, options, err);
    if (!status) { /* lock first: a running trainer adds and deletes checkpoints */
        snprintf(s.id, sizeof s.id, "%s", run->id);
        status = take_run(&s, err);
    }
    if (!status && (status = prepare(&s, training_open_resumed, err)) && *s.full) {
        open_log(&s);
        run_log_line(&s.log, err->text);
        log_full(&s);
    }
    if (!status) status = training_recall_orders(&s, err);
    if (!status) status = training_keep_changes(&s, changes, sizeof changes, err);
    if (!status) status = record(&s, err);
    if (!status) {
        writer_device(s.writer, s.choice.info.short_name,
                      precision_name(trainer_plan(s.trainer)->input.precision));
        introduce(&s);
    }
    if (!status) report_recovery(&s);
    training_report_passed_over(&s, !status);
    if (!status && run->status == RUN_CRASHED)
        hook_event(s.hook, "resume", "running", trainer_state(s.trainer)->step, "resumed after a crash");
    if (!status && (s.anew || s.fresh))
        training_session_event(&s, trainer_state(s.trainer)->step, "info", "%s",
                               s.anew ? "begins again: there was no checkpoint yet"
                                      : "continues from weights alone: the optimizer begins anew");
    if (!status && *changes)
        training_session_event(&s, trainer_state(s.trainer)->step, "info", "resumed with %s", changes);
    if (!status) training_report_rate(&s);
    if (!status) training_report_length(&s);
    if (!status) status = train(&s, err);
    close_session(&s);
    return status;
}
