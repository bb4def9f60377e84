/* See training.h. */
#include "tui/command/training.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/trainer.h"
#include "datasets/corpus.h"
#include "kernels/backend.h"
#include "kernels/cuda_plugin.h"
#include "runs/order.h"
#include "runs/store.h"
#include "runs/writer.h"
#include "tui/command/command.h"
#include "tui/command/interrupt.h"
#include "tui/command/progress_bar.h"

struct session {
    const struct training_options *options;
    char home[PATH_MAX], checkpoints[PATH_MAX], id[RUN_ID_MAX];
    struct store *store;
    struct run_lock lock;
    struct writer *writer;
    const struct backend *backend;
    struct device *device;
    struct device_info device_info;
    char fallback[512]; /* why --device auto trains on the CPU; empty: nothing to say */
    struct corpus corpus;
    struct trainer *trainer;
    struct train_report report;
    struct eval_record last_eval;
    enum order_verb verb; /* of the order being obeyed */
};

/* ---- the observer: from the trainer to the store and the terminal ---- */

static void on_step(void *context, const struct step_record *record)
{
    struct session *s = context;
    writer_step(s->writer, record);
    train_report_step(&s->report, record);
}

static void on_eval(void *context, const struct eval_record *record)
{
    struct session *s = context;
    s->last_eval = *record;
    writer_eval(s->writer, record);
}

static void on_stopping(void *context, const struct stopping_record *record)
{
    struct session *s = context;
    writer_stopping(s->writer, record);
    train_report_eval(&s->report, &s->last_eval, record);
}

static void on_sample(void *context, const struct sample_record *record)
{
    struct session *s = context;
    writer_sample(s->writer, record);
    train_report_sample(&s->report, record);
}

/* A killed run has no gap in its history: no checkpoint is ahead of what is recorded. When the store cannot
 * keep up that long, on_store_error has said why. */
static void on_saving(void *context)
{
    writer_flush(((struct session *)context)->writer, 2, NULL);
}

static void on_checkpoint(void *context, const struct checkpoint_record *record)
{
    struct session *s = context;
    writer_checkpoint(s->writer, record);
    train_report_checkpoint(&s->report, record);
}

static void on_memory(void *context, const struct memory_record *record)
{
    writer_memory(((struct session *)context)->writer, record);
}

static void on_event(void *context, const struct event_record *record)
{
    struct session *s = context;
    writer_event(s->writer, record);
    train_report_event(&s->report, record);
}

static void on_paused(void *context, bool paused)
{
    struct session *s = context;
    enum run_status status = paused ? RUN_PAUSED : RUN_RUNNING;
    writer_status(s->writer, status);
    train_report_status(&s->report, s->id, trainer_state(s->trainer)->step, run_status_name(status));
}

static bool on_next_order(void *context, struct order *out)
{
    struct session *s = context;
    if (!writer_next_order(s->writer, out)) return false;
    s->verb = out->verb;
    return true;
}

static void on_order_done(void *context, int64_t order_id, int64_t applied_step, const char *result)
{
    struct session *s = context;
    writer_order_done(s->writer, order_id, applied_step, result);
    train_report_order(&s->report, order_verb_name(s->verb), applied_step, result);
}

static enum train_request on_request(void *context)
{
    (void)context;
    return interrupt_requested() ? TRAIN_LEAVE : TRAIN_GO_ON;
}

static void on_store_error(void *context, const char *sentence)
{
    (void)context; /* from the writer's thread: one write, no shared state */
    fprintf(stderr, "\nanneal: recording: %s\n", sentence);
}

/* ---- opening ---- */

/* A GPU, or the sentence why none. STATUS_NOT_FOUND, no fallback worth a word: there is no plugin, and no
 * driver either that could use it, or the user has named one that is not there. */
static enum status open_gpu(struct session *s, struct err *err)
{
    enum status status = cuda_backend_open(&s->backend, err);
    if (status == STATUS_NOT_FOUND && !getenv("ANNEAL_CUDA_PLUGIN") &&
        file_exists("/proc/driver/nvidia/version"))
        status = STATUS_FAILED;
    return status ? status : s->backend->device_open(0, &s->device, err);
}

static enum status open_device(struct session *s, struct err *err)
{
    const struct config *c = &s->options->config;
    struct err why = {0};
    enum status status = STATUS_NOT_FOUND;
    if (strcmp(s->options->device, "cpu") != 0) status = open_gpu(s, &why);
    if (status && strcmp(s->options->device, "cuda") == 0)
        return err_set(err, STATUS_FAILED, "--device cuda: %s (use --device cpu or auto)", why.text);
    if (status && status != STATUS_NOT_FOUND)
        snprintf(s->fallback, sizeof s->fallback, "training on the CPU: %.480s", why.text);
    if (status) {
        s->backend = cpu_backend();
        status = s->backend->device_open((int)c->train.threads, &s->device, err);
    }
    if (!status) s->backend->device_describe(s->device, &s->device_info);
    return status;
}

static enum status open_corpus(struct session *s, struct err *err)
{
    const struct config *c = &s->options->config;
    char cache[PATH_MAX];
    struct progress_bar bar;
    if (snprintf(cache, sizeof cache, "%s/data", s->home) >= (int)sizeof cache)
        return err_set(err, STATUS_USAGE, "ANNEAL_HOME: the path is too long");
    progress_bar_init(&bar, stderr, train_report_style(s->options->progress));
    struct progress progress = progress_bar_observer(&bar);
    enum status status = corpus_open(c->data.train, c->data.tokenizer, cache, &progress, &s->corpus, err);
    if (!status && *c->data.val)
        status = corpus_open_validation(&s->corpus, c->data.val, cache, &progress, err);
    progress_bar_finish(&bar);
    return status;
}

static enum status open_trainer(struct session *s, struct err *err)
{
    char warm_folder[PATH_MAX + 8];
    struct progress_bar bar;
    snprintf(warm_folder, sizeof warm_folder, "%s/cuda", s->home);
    progress_bar_init(&bar, stderr, train_report_style(s->options->progress));
    struct progress progress = progress_bar_observer(&bar);
    struct train_setup setup = {.config = &s->options->config,
                                .backend = s->backend,
                                .device = s->device,
                                .corpus = &s->corpus,
                                .checkpoints = s->checkpoints,
                                .warm_folder = warm_folder,
                                .progress = &progress,
                                .observer = {.context = s,
                                             .step = on_step,
                                             .eval = on_eval,
                                             .stopping = on_stopping,
                                             .sample = on_sample,
                                             .saving = on_saving,
                                             .checkpoint = on_checkpoint,
                                             .memory = on_memory,
                                             .event = on_event,
                                             .paused = on_paused,
                                             .next_order = on_next_order,
                                             .order_done = on_order_done,
                                             .request = on_request}};
    enum status status = trainer_open(&setup, &s->trainer, err);
    progress_bar_finish(&bar);
    return status;
}

static enum status open_store(struct session *s, const struct training_options *options, struct err *err)
{
    *s = (struct session){.options = options, .lock = {-1}};
    interrupt_catch();
    signal(SIGHUP, SIG_IGN);  /* a closed terminal does not stop a run */
    signal(SIGPIPE, SIG_IGN); /* nor does a reader that has gone */
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error with a sentence, like a full disk */
    enum status status = file_anneal_home(s->home, sizeof s->home, err);
    return status ? status : store_open(s->home, &s->store, err);
}

/* Everything a run needs before it has a row in the store: bad input fails here and leaves no run behind. */
static enum status prepare(struct session *s, struct err *err)
{
    enum status status = open_device(s, err);
    if (!status) status = open_corpus(s, err);
    if (!status) status = open_trainer(s, err);
    return status;
}

static void close_session(struct session *s)
{
    trainer_close(s->trainer);
    corpus_close(&s->corpus);
    if (s->device) s->backend->device_close(s->device);
    if (s->lock.fd >= 0) run_lock_release(&s->lock);
    store_close(s->store);
}

static enum status create_run(struct session *s, struct err *err)
{
    const struct config *c = &s->options->config;
    char *config = config_text(c);
    if (!config) return err_set(err, STATUS_NO_MEMORY, "no memory for the configuration's text");
    struct run_new run = {.name = s->options->name ? s->options->name : c->model.preset,
                          .device = s->device_info.short_name,
                          .precision = precision_name(trainer_plan(s->trainer)->input.precision),
                          .parameters = trainer_model(s->trainer)->parameters,
                          .total_steps = c->train.total_steps,
                          .config = config};
    enum status status = run_create(s->store, &run, s->id, err);
    free(config);
    return status;
}

static void find_checkpoints(struct session *s)
{
    char folder[PATH_MAX - 16];
    run_folder(s->store, s->id, folder, sizeof folder);
    snprintf(s->checkpoints, sizeof s->checkpoints, "%s/checkpoints", folder);
}

static enum status begin_recording(struct session *s, struct err *err)
{
    struct writer_options options = {
        .home = s->home, .run_id = s->id, .on_error = on_store_error, .context = s};
    return writer_open(&options, &s->writer, err);
}

/* ---- training ---- */

static void introduce(struct session *s)
{
    const struct config *c = &s->options->config;
    struct train_introduction introduction = {.run = s->id,
                                              .device = s->device_info.name,
                                              .step = trainer_state(s->trainer)->step,
                                              .total_steps = c->train.total_steps,
                                              .parameters = trainer_model(s->trainer)->parameters,
                                              .corpus_tokens = (int64_t)s->corpus.file.count,
                                              .planned_bytes =
                                                  (int64_t)trainer_plan(s->trainer)->total_bytes};
    train_report_init(&s->report, s->options->progress, c->train.total_steps);
    train_report_begin(&s->report, &introduction);
    if (s->fallback[0] == '\0') return;
    struct event_record fallback = {
        .step = -1, .wall_time = clock_wall(), .level = "warning", .text = s->fallback};
    on_event(s, &fallback);
}

/* Runs the trainer and closes the books; returns the exit status. */
static int train(struct session *s)
{
    struct err err = {0}, storing = {0};
    enum train_outcome outcome = TRAIN_FINISHED;
    static const enum run_status statuses[] = {RUN_FINISHED, RUN_EARLY_STOPPED, RUN_STOPPED, RUN_FAILED};
    enum status status = trainer_run(s->trainer, &outcome, &err);
    if (!status && outcome == TRAIN_DIVERGED)
        status =
            err_set(&err, STATUS_FAILED,
                    "training diverged: 100 updates in a row had a gradient norm that is not finite (lower "
                    "train.learning_rate, then resume from a checkpoint)");
    enum run_status final = status ? RUN_FAILED : statuses[outcome];
    const char *message = status                                              ? err.text
                          : outcome == TRAIN_STOPPED && interrupt_requested() ? "stopped by a signal"
                                                                              : "";
    enum status stored = writer_close(s->writer, final, message, &storing);
    train_report_end(&s->report, s->id, run_status_name(final), trainer_state(s->trainer)->step, message);
    if (status) return command_fail(&err);
    if (stored) return command_fail(&storing);
    if (s->report.write_error && s->report.write_error != EPIPE) {
        err_set(&err, STATUS_IO, "standard output: cannot write: %s (the run itself is complete)",
                strerror(s->report.write_error));
        return command_fail(&err);
    }
    return interrupt_signal() == SIGINT ? 130 : 0;
}

/* SIGTERM is a request, and leaving is what was asked for: also before the first step. */
static int fail(const struct err *err)
{
    int code = command_fail(err);
    return err->status == STATUS_INTERRUPTED && interrupt_signal() == SIGTERM ? 0 : code;
}

int training_start(const struct training_options *options)
{
    struct session s;
    struct err err = {0};
    enum status status = open_store(&s, options, &err);
    if (!status) status = prepare(&s, &err);
    if (!status && !(status = create_run(&s, &err))) {
        find_checkpoints(&s);
        status = run_lock_acquire(s.store, s.id, &s.lock, &err);
        if (!status) status = begin_recording(&s, &err);
        if (status) { /* no run rather than one that never began */
            run_lock_release(&s.lock);
            run_delete(s.store, s.id, NULL);
        }
    }
    if (!status) introduce(&s);
    int code = status ? fail(&err) : train(&s);
    close_session(&s);
    return code;
}

/* ---- resuming ---- */

/* Loads the newest checkpoint; a run that has none, or nothing left to do, is an error with its remedy. */
static enum status load_checkpoint(struct session *s, struct err *err)
{
    char checkpoint[PATH_MAX], newest[PATH_MAX];
    int64_t total = s->options->config.train.total_steps;
    enum status status = checkpoint_find(s->checkpoints, -1, checkpoint, sizeof checkpoint, err);
    if (status == STATUS_NOT_FOUND)
        return err_set(err, status,
                       "run %s: no checkpoint to go on from is left below %s (start it again with `anneal "
                       "train`)",
                       s->id, s->checkpoints);
    if (!status && checkpoint_passed_over(s->checkpoints, checkpoint, newest, sizeof newest))
        fprintf(stderr, "anneal: warning: %s: the newest checkpoint is damaged, going on from %s\n", newest,
                strrchr(checkpoint, '/') + 1);
    if (!status) status = trainer_resume(s->trainer, checkpoint, err);
    int64_t step = status ? 0 : trainer_state(s->trainer)->step;
    if (!status && step >= total)
        return err_set(err, STATUS_USAGE,
                       "run %s: all %" PRId64 " steps are done (to train on: --train.total_steps=%" PRId64
                       ")",
                       s->id, step, step * 2);
    const struct early_stopping *e = status ? NULL : &trainer_state(s->trainer)->stopping;
    if (e && e->patience > 0 && e->used >= e->patience)
        return err_set(err, STATUS_USAGE,
                       "run %s: stopped early, its patience of %" PRId64
                       " evaluations is used up (to train on: "
                       "--eval.early_stopping_patience=%" PRId64 ", or 0)",
                       s->id, e->patience, e->used * 2);
    return status;
}

/* The lines of `after` that differ from those of `before`, which has the same keys in the same order:
 * "train.total_steps = 60 (was 40), …", cut where `size` ends. */
static void describe_changes(const char *before, const char *after, char *buf, size_t size)
{
    char section[64] = "";
    size_t used = 0;
    buf[0] = '\0';
    while (*before && *after) {
        size_t n = strcspn(after, "\n"), m = strcspn(before, "\n");
        size_t key = strcspn(before, "=") + 2;
        if (*after == '[') snprintf(section, sizeof section, "%.*s", (int)n - 2, after + 1);
        if ((n != m || memcmp(before, after, n) != 0) && key < m && used < size)
            used += (size_t)snprintf(buf + used, size - used, "%s%s.%.*s (was %.*s)", used ? ", " : "",
                                     section, (int)n, after, (int)(m - key), before + key);
        after += n + (after[n] == '\n');
        before += m + (before[m] == '\n');
    }
}

/* What the command line has changed becomes the run's configuration, and a line of its history. */
static enum status keep_changes(struct session *s, char *changes, size_t size, struct err *err)
{
    const struct config *c = &s->options->config;
    char *before = NULL, *after = config_text(c);
    enum status status = after ? run_config(s->store, s->id, &before, err)
                               : err_set(err, STATUS_NO_MEMORY, "no memory for the configuration's text");
    if (!status) describe_changes(before, after, changes, size);
    if (!status && *changes) status = run_reconfigure(s->store, s->id, c->train.total_steps, after, err);
    free(before);
    free(after);
    return status;
}

int training_resume(const struct training_options *options, const struct run_info *run)
{
    struct session s;
    struct err err = {0};
    char changes[300] = "", text[340];
    enum status status = open_store(&s, options, &err);
    if (!status) { /* the lock first: the checkpoints of a run at work come and go */
        snprintf(s.id, sizeof s.id, "%s", run->id);
        find_checkpoints(&s);
        status = run_lock_acquire(s.store, s.id, &s.lock, &err);
    }
    if (!status) status = prepare(&s, &err);
    if (!status) status = load_checkpoint(&s, &err);
    if (!status) status = keep_changes(&s, changes, sizeof changes, &err);
    if (!status) status = begin_recording(&s, &err);
    if (!status) introduce(&s);
    if (!status && *changes) {
        snprintf(text, sizeof text, "resumed with %s", changes);
        struct event_record event = {trainer_state(s.trainer)->step, clock_wall(), "info", text};
        on_event(&s, &event);
    }
    int code = status ? fail(&err) : train(&s);
    close_session(&s);
    return code;
}
