/* anneal train, resume, fork: a new run, another segment of a run, a new run from a checkpoint of another;
 * and how its training is shown: a progress bar on a terminal, plain lines elsewhere, JSON lines for
 * programs, or nothing. Plain and bar go to standard error; JSON, being the result asked for, to standard
 * output. The plain lines also go to the run's log, whatever is shown.
 *
 * JSON is one object a line, the kind in "type": first `run` (which run, and from which step on), then
 * `step`, `eval`, `sample`, `checkpoint`, `event`, `order` and `status` (paused, running) as they happen, at
 * last `end` with the run's final status. Members are named like the CSV's columns. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/model/data_format.h"
#include "core/model/hugging_face.h"
#include "datasets/inputs.h"
#include "runs/columns.h"
#include "runs/profile.h"
#include "tui/command/background.h"
#include "tui/command/command.h"
#include "tui/command/dry_run.h"
#include "tui/command/mpirun.h"
#include "tui/command/output.h"
#include "tui/command/progress_bar.h"
#include "tui/session/process.h"
#include "tui/session/recorded_run.h"
#include "tui/session/training_session.h"

/* ---- the report ---- */

enum { LINE_BYTES = 1024 };

#define START_SECONDS 0.2 /* between two lines while a trainer in the background prepares */

enum report_mode { REPORT_AUTO, REPORT_BAR, REPORT_PLAIN, REPORT_JSON, REPORT_START, REPORT_NONE };

struct report {
    enum report_mode mode;
    struct progress_bar bar;
    struct progress progress;               /* the bar's */
    struct json_out json;                   /* the line that is being written */
    const struct training_session *session; /* set once it begins */
    bool evaluated;                         /* val_loss is set */
    double val_loss;                        /* of the last evaluation */
    double tokens_per_sec;                  /* smoothed */
    int write_error; /* errno of the first JSON line that could not be written; 0: none */
};

/* Begins a JSON line; false: JSON is not wanted. */
static bool begin_json(struct report *report, const char *type)
{
    if (report->mode != REPORT_JSON) return false;
    json_out_begin(&report->json, stdout);
    json_out_open(&report->json, NULL, '{', JSON_OUT_COMPACT);
    json_out_text(&report->json, "type", type);
    return true;
}

/* A closed pipe or a full disk stops no training; conclude reports it. */
static void end_json(struct report *report)
{
    json_out_close(&report->json);
    int code = json_out_finish(&report->json);
    if (!report->write_error) report->write_error = code;
    clearerr(stdout);
}

static void report_record(struct report *report, const char *type, enum store_table table, const void *record)
{
    if (!begin_json(report, type)) return;
    table_json(&report->json, table, record);
    end_json(report);
}

static void prepared(void *context)
{
    struct report *report = context;
    progress_bar_finish(&report->bar);
    if (report->mode == REPORT_START) progress_bar_say(&report->bar, "planning memory and making the model");
}

static void begin(void *context, const struct training_session *s)
{
    struct report *report = context;
    const struct plan *plan = trainer_plan(s->trainer);
    int64_t step = trainer_state(s->trainer)->step, total = s->config.train.total_steps,
            parameters = plan->input.model->parameters,
            tokens = (int64_t)trainer_state(s->trainer)->corpus.tokens, planned = (int64_t)plan->total_bytes,
            held = (int64_t)trainer_sequences(s->trainer, TASK_VALIDATION);
    const char *device = s->choice.info.name, *validation = training_session_validation(s);
    char vocabulary[CONFIG_NOTE_SIZE], trained[48] = "";
    int64_t frozen = plan->input.model->frozen_parameters;
    if (frozen) snprintf(trained, sizeof trained, " (%s trained)", TEXT_COUNT(parameters - frozen));
    config_vocabulary_note(&s->config, vocabulary, sizeof vocabulary);
    report->session = s;
    if (report->mode == REPORT_START) report->bar.style = PROGRESS_NONE;
    if (begin_json(report, "run")) {
        JSON_MEMBERS(&report->json, "run", s->id, "pid", getpid(), "device", device, "parameters", parameters,
                     "trained_parameters", parameters - frozen);
        JSON_MEMBERS(&report->json, "corpus_tokens", tokens, "planned_bytes", planned, "step", step,
                     "total_steps", total);
        JSON_MEMBERS(&report->json, "validation_sequences", held, "validation", validation);
        end_json(report);
    }
    progress_bar_say(&report->bar, "watch it with: %s watch %s    Ctrl-C saves a checkpoint and stops",
                     TEXT_PROGRAM, s->id); /* the log needs no such hint */
    report->bar.log = &s->log;
    progress_bar_say(&report->bar, "run %s: %s parameters%s, %s tokens, %s planned, on %s", s->id,
                     TEXT_COUNT(parameters), trained, TEXT_COUNT(tokens), TEXT_BYTES(planned), device);
    if (*vocabulary) progress_bar_say(&report->bar, "vocabulary: %s", vocabulary);
    if (held)
        progress_bar_say(&report->bar, "validation text: %" PRId64 " sequence%s %s", held, text_plural(held),
                         training_validation_words(validation));
    else
        progress_bar_say(&report->bar, "validation text: %s", training_validation_words(validation));
    if (step > 0) progress_bar_say(&report->bar, "continues after step %" PRId64 " of %" PRId64, step, total);
}

/* After the bar: "loss 3.2101  val 3.3012  lr 2.9e-04  8.8k tok/s". */
static void step(void *context, const struct step_record *record)
{
    struct report *report = context;
    char val[40] = "", text[160];
    double before = report->tokens_per_sec, now = record->tokens_per_sec;
    report->tokens_per_sec = before > 0 ? 0.9 * before + 0.1 * now : now;
    report_record(report, "step", TABLE_STEPS, record);
    if (report->evaluated) snprintf(val, sizeof val, "  val %s", TEXT_LOSS(report->val_loss));
    snprintf(text, sizeof text, "loss %s%s  lr %.1e  %s tok/s", TEXT_LOSS(record->loss), val, record->lr,
             TEXT_COUNT(report->tokens_per_sec));
    progress_bar_update(&report->bar, "training", "steps", (uint64_t)record->step + 1,
                        (uint64_t)report->session->config.train.total_steps, text);
}

static void eval(void *context, const struct eval_record *record, const struct measures *measures,
                 const struct stopping_record *stopping)
{
    struct report *report = context;
    char best[96], patience[64] = "", more[400] = "";
    const char *metric = stopping->metric, *space = *metric ? " " : "";
    int n = 0;
    report->evaluated = true;
    report->val_loss = record->val_loss;
    if (begin_json(report, "eval")) {
        table_json(&report->json, TABLE_EVALS, record);
        for (int c = COLUMN_STOPPING_best_val_loss; c <= COLUMN_STOPPING_verdict; c++)
            column_json(&report->json, &store_columns[c], stopping);
        if (measures->count) json_out_open(&report->json, "measures", '{', JSON_OUT_FLAT);
        for (int i = 0; i < measures->count; i++)
            json_out_real(&report->json, measures->of[i].name, measures->of[i].value);
        if (measures->count) json_out_close(&report->json);
        end_json(report);
    }
    for (int i = 0; i < measures->count && n < (int)sizeof more; i++)
        n += snprintf(more + n, sizeof more - (size_t)n, ", %s %.4g", measures->of[i].name,
                      measures->of[i].value);
    if (stopping->patience > 0 && stopping->patience_used > 0)
        snprintf(patience, sizeof patience,
                 ", %" PRId64 " of %" PRId64 " evaluations without enough improvement",
                 stopping->patience_used, stopping->patience);
    if (stopping->improved)
        snprintf(best, sizeof best, "best %s%sso far", metric, space);
    else if (stopping->best_step < 0) /* no evaluation has given a finite number */
        snprintf(best, sizeof best, "no best %s%syet", metric, space);
    else
        snprintf(best, sizeof best, "best %s%s%s at %" PRId64, metric, space,
                 TEXT_LOSS(stopping->best_val_loss), stopping->best_step);
    progress_bar_say(&report->bar, "evaluation at step %" PRId64 ": val loss %s (%s%s)%s", record->step,
                     TEXT_LOSS(record->val_loss), best, patience, more);
}

static void sample(void *context, const struct sample_record *record)
{
    struct report *report = context;
    char both[LINE_BYTES]; /* printed as one line, cleaned for terminals */
    bool answers = format_traits(report->session->config.data.format)->answers;
    report_record(report, "sample", TABLE_SAMPLES, record);
    snprintf(both, sizeof both, "%s%s%s", record->prompt, answers ? " " : "", record->text);
    progress_bar_say(&report->bar, "sample at step %" PRId64 ": %s", record->step, CLEAN_LINE(both));
}

static void checkpoint(void *context, const struct checkpoint_record *record)
{
    struct report *report = context;
    report_record(report, "checkpoint", TABLE_CHECKPOINTS, record);
    progress_bar_say(&report->bar, "checkpoint %s (%s, %s)", record->path, record->kind,
                     TEXT_BYTES(record->bytes));
}

static void event(void *context, const struct event_record *record)
{
    struct report *report = context;
    report_record(report, "event", TABLE_EVENTS, record);
    progress_bar_say(&report->bar, "%s: %s", record->level, record->text);
}

static void order(void *context, const char *verb, int64_t step, const char *result)
{
    struct report *report = context;
    if (begin_json(report, "order")) {
        JSON_MEMBERS(&report->json, "step", step, "verb", verb, "result", result);
        end_json(report);
    }
    progress_bar_say(&report->bar, "order %s after step %" PRId64 ": %s", verb, step, result);
}

static void paused(void *context, int64_t step, bool now)
{
    struct report *report = context;
    if (begin_json(report, "status")) {
        JSON_MEMBERS(&report->json, "step", step, "status", now ? "paused" : "running");
        end_json(report);
    }
    if (now)
        progress_bar_say(&report->bar, "paused after step %" PRId64 "; continue with: %s order %s continue",
                         step, TEXT_PROGRAM, report->session->id);
    else
        progress_bar_say(&report->bar, "continues after step %" PRId64, step);
}

static int slowest_first(const void *a, const void *b)
{
    const struct profile_row *left = a, *right = b;
    return (left->time_us < right->time_us) - (left->time_us > right->time_us);
}

/* Where the time of a step went, if any was profiled: "slowest operations: gemm gate_up (backward) 24%, ..."
 */
static void say_slowest(struct report *report)
{
    struct profile profile = {0};
    char text[400];
    int n = 0;
    if (!profile_read(report->session->store, report->session->id, false, &profile, NULL) &&
        profile.count > 0 && profile.step_us > 0) {
        qsort(profile.rows, profile.count, sizeof *profile.rows, slowest_first);
        for (size_t i = 0; i < profile.count && i < 3; i++)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%.60s (%.20s) %.0f%%", i ? ", " : "",
                          profile.rows[i].op, profile.rows[i].phase,
                          100 * profile.rows[i].time_us / profile.step_us);
        progress_bar_say(&report->bar,
                         "slowest operations: %s of a step of %.3g ms; see all: %s show %s --profile", text,
                         profile.step_us / 1e3, TEXT_PROGRAM, report->session->id);
    }
    profile_release(&profile);
}

static void end(void *context, const char *status, int64_t step, const char *message)
{
    struct report *report = context;
    const char *id = report->session->id;
    char text[LINE_BYTES];
    progress_bar_finish(&report->bar);
    if (begin_json(report, "end")) {
        JSON_MEMBERS(&report->json, "run", id, "status", status, "step", step, "message", message);
        end_json(report);
    }
    if (strcmp(status, "failed") != 0) say_slowest(report);
    if (strcmp(status, "stopped") == 0) {
        progress_bar_say(&report->bar, "stopped after step %" PRId64 "; continue with: %s %s %s", step,
                         TEXT_PROGRAM, report->session->continue_with, id);
    } else if (strcmp(status, "failed") != 0) {
        progress_bar_say(&report->bar, "%s after step %" PRId64 "; see: %s show %s, %s export %s",
                         strcmp(status, "early_stopped") == 0 ? "stopped early" : status, step, TEXT_PROGRAM,
                         id, TEXT_PROGRAM, id);
    } else { /* the command's error message shows it */
        snprintf(text, sizeof text, "failed after step %" PRId64 ": %s", step, message);
        run_log_line(report->bar.log, text);
    }
}

/* ---- the options ---- */

struct options {
    const char *name;
    const char *device;
    int progress;
    int64_t step;        /* of a fork; -1: the newest */
    int64_t count;       /* of ranks; 0: as many as a launcher has started */
    struct ranks *ranks; /* set once they are there */
    bool wait, watch, dry_run, json, check_allocations, help_config, resume_or_start;
};

static const struct options defaults = {.device = "auto", .step = -1};

/* clang-format off */
#define SHARED_OPTIONS \
    OPTION("device", OPTION_DEVICE, AT(device), DEVICE_WORDS, \
     "where to train (default auto: the first GPU that works, else the CPU)"), \
    OPTION("ranks", OPTION_WHOLE, AT(count), "N", \
     "trains in N processes of this host, each on its part of every batch", .least = 1, .most = WORLD_RANKS_MAX), \
    OPTION("wait", OPTION_FLAG, AT(wait), NULL, \
     "waits in a queue until the device has enough free memory. Runs start in the order in which they " \
     "asked; short work (generate, evaluate, bench) may pass the queue, but does not delay its first run"), \
    OPTION("progress", OPTION_CHOICE, AT(progress), "auto|bar|plain|json|start|none", \
     "how progress is shown (default auto: a bar on a terminal, plain lines elsewhere). json: one object " \
     "per line on standard output; the first names the run, the last says how it ended, and between them " \
     "come step, eval, sample, checkpoint, event, order and status. start: plain lines until the run " \
     "begins, then nothing"), \
    OPTION("watch", OPTION_FLAG, AT(watch), NULL, "trains in the background and opens the workbench on it"), \
    OPTION("check-allocations", OPTION_FLAG, AT(check_allocations), NULL, \
     "ends the run at the first step after step 1 that allocates memory: heap memory in the training " \
     "thread; device or page-locked memory in any thread. Not checked are evaluations, samples, " \
     "checkpoints and the recording of CUDA graphs between steps; and for heap memory a traced step and " \
     "the threads that read batches, write checkpoints and record the run")
/* clang-format on */

/* ---- configuration ---- */

/* Applies the settings on top of `config` and finishes it. A resumed run may be started from another folder,
 * so existing paths become absolute. */
static enum status apply_settings(const struct words *words, struct config *config, struct err *err)
{
    enum status status = STATUS_OK;
    for (int i = 0; !status && i < words->setting_count; i++)
        status = config_read_word(config, words->settings[i], err);
    if (!status) status = model_choice_of_config(config, err);
    if (!status) status = config_finish(config, err);
    if (status) return status;
    inputs_make_absolute(config->data.train, sizeof config->data.train);
    inputs_make_absolute(config->data.val, sizeof config->data.val);
    inputs_make_absolute(config->eval.tasks, sizeof config->eval.tasks);
    inputs_make_absolute(config->model.from, sizeof config->model.from);
    inputs_make_absolute(config->lora.from, sizeof config->lora.from);
    inputs_make_absolute(config->data.template, sizeof config->data.template);
    if (strcmp(config->data.tokenizer, "bytes") != 0 && strncmp(config->data.tokenizer, "bpe:", 4) != 0)
        inputs_make_absolute(config->data.tokenizer, sizeof config->data.tokenizer);
    return STATUS_OK;
}

enum status train_read_config(const struct words *words, struct config *config, struct err *err)
{
    const char *file = words->words[0];
    config_init(config);
    if (file && !file_exists(file))
        return err_set(
            err, STATUS_NOT_FOUND,
            "%.200s: there is no such file (this takes a configuration, not a run; `%s show` prints a run's)",
            file, TEXT_PROGRAM);
    enum status status = file ? config_read_file(config, file, err) : STATUS_OK;
    return status ? status : apply_settings(words, config, err);
}

/* Sets up a report and, from it and the options, a session; the caller sets the configuration. */
static void open_report(struct report *report, const struct options *o, struct training_options *training)
{
    static const enum progress_style styles[] = {
        [REPORT_AUTO] = PROGRESS_AUTO, [REPORT_BAR] = PROGRESS_BAR,     [REPORT_PLAIN] = PROGRESS_PLAIN,
        [REPORT_JSON] = PROGRESS_NONE, [REPORT_START] = PROGRESS_PLAIN, [REPORT_NONE] = PROGRESS_NONE};
    *report = (struct report){.mode = (enum report_mode)o->progress};
    report->progress = progress_bar_init(&report->bar, stderr, styles[report->mode]);
    training->watcher = (struct training_watcher){report, &report->progress, prepared, begin, step,   eval,
                                                  sample, checkpoint,        event,    order, paused, end};
    if (report->mode == REPORT_START) report->bar.interval = START_SECONDS;
    training->silent = report->mode >= REPORT_JSON;
    training->device = o->device;
    training->ranks = o->ranks;
    training->wait = o->wait;
    training->check_allocations = o->check_allocations;
}

/* Ends a session: a run that Ctrl-C has stopped ends with 130 and no message. SIGTERM is a request to stop,
 * so stopping succeeds, even before the first step. */
static enum status conclude(enum status status, const struct report *report, struct err *err)
{
    if (status == STATUS_INTERRUPTED && interrupt_signal() == SIGUSR1)
        status = err->status = STATUS_PREEMPTED;
    if (!status && report->write_error && report->write_error != EPIPE) /* a closed pipe */
        return err_set(err, STATUS_IO, "standard output: cannot write: %s (the run itself is complete)",
                       strerror(report->write_error));
    if (!status && interrupt_signal() == SIGINT) return err_set(err, STATUS_INTERRUPTED, "%s", "");
    if (status != STATUS_INTERRUPTED || interrupt_signal() != SIGTERM) return status;
    output_say("%s", err->text);
    return STATUS_OK;
}

/* Starts the ranks that --ranks asks for; among several, rank 0 runs the command and the others follow. */
static enum status on_ranks(const char *command, const void *options, const struct words *words,
                            enum status (*run)(const struct options *, const struct words *, struct err *),
                            struct err *err)
{
    struct ranks ranks;
    struct options o = *(const struct options *)options;
    if (o.count > 1 && world_launched() == 1) return mpirun_start(command, o.count, words->argv, err);
    o.ranks = &ranks;
    enum status status = ranks_open(&ranks, o.count == 1, err);
    if (!status) status = ranks.world->rank ? ranks_follow(&ranks, err) : run(&o, words, err);
    return ranks_end(&ranks, status, err);
}

/* ---- resume ---- */

/* Continues a recorded run; `training` has its configuration, to which the command line's settings are added.
 */
static enum status resume(const char *command, const struct options *o, const struct words *words,
                          struct recorded_run *run, struct training_options *training, struct err *err)
{
    struct report report;
    enum status status = apply_settings(words, &training->config, err);
    recorded_run_find_tokenizer(run, &training->config);
    if (!status) status = recorded_run_check(run, &training->config, "resumed", err);
    if (status) return status;
    bool finished = run->info.status == RUN_FINISHED && training->config.train.total_steps <= run->info.steps;
    if (o->resume_or_start && (finished || run->info.status == RUN_EARLY_STOPPED)) {
        output_say("%s: nothing is left to do, the run %s", run->info.id,
                   finished ? "has finished" : "was stopped early");
        return STATUS_OK;
    }
    if (o->watch) return background_watch(command, words->argv, &run->info, err);
    open_report(&report, o, training);
    return conclude(training_resume(training, &run->info, err), &report, err);
}

static enum status resume_run(const struct options *o, const struct words *words, struct err *err)
{
    struct training_options training = {0};
    struct recorded_run run;
    enum status status = recorded_run_read(words->words[0], &run, err);
    training.config = run.config;
    if (!status) status = resume("resume", o, words, &run, &training, err);
    recorded_run_release(&run);
    return status;
}

static enum status run_resume(const void *options, const struct words *words, struct err *err)
{
    return on_ranks("resume", options, words, resume_run, err);
}

/* ---- train ---- */

/* --resume-or-start: whether there is a run of this name, the newest of which is then resumed. */
static bool resumed_by_name(const struct options *o, const struct words *words, enum status *status,
                            struct err *err)
{
    struct training_options training = {0};
    struct recorded_run run;
    char name[RUN_NAME_CLEAN_MAX];
    run_name_clean(o->name, name, sizeof name);
    *status = recorded_run_read(name, &run, err);
    bool found = *status != STATUS_NOT_FOUND && (*status || strcmp(run.info.name, name) == 0);
    training.config = run.config;
    if (found && !*status && words->count) *status = config_read_file(&training.config, words->words[0], err);
    if (found && !*status) *status = resume("train", o, words, &run, &training, err);
    recorded_run_release(&run);
    return found;
}

static enum status train_run(const struct options *o, const struct words *words, struct err *err)
{
    struct training_options training = {.name = o->name};
    struct report report;
    char hidden[PATH_MAX];
    if (o->help_config) {
        config_print_help(stdout);
        return STATUS_OK;
    }
    if (o->json && !o->dry_run)
        return err_set(err, STATUS_USAGE, "--json needs --dry-run (a run reports with --progress json)");
    if (o->resume_or_start && (!o->name || o->dry_run))
        return err_set(err, STATUS_USAGE, "--resume-or-start %s",
                       o->name ? "and --dry-run exclude each other" : "needs --name, the run to look for");
    if (o->dry_run && o->watch)
        return err_set(err, STATUS_USAGE, "--watch: a dry run leaves nothing to watch");
    enum status status;
    if (o->resume_or_start && resumed_by_name(o, words, &status, err)) return status;
    status = train_read_config(words, &training.config, err);
    if (status) return status;
    if (o->watch) return background_watch("train", words->argv, NULL, err);
    if (o->name && imported_model_find(o->name, hidden, sizeof hidden))
        output_warn("--name %s: this name now stands for the run, and no longer for the imported model (its "
                    "folder: %s)",
                    o->name, hidden);
    open_report(&report, o, &training);
    bool json = o->json;
    status = o->dry_run ? training_try(&training, dry_run_print, &json, err) : training_start(&training, err);
    return conclude(status, &report, err);
}

static enum status run_train(const void *options, const struct words *words, struct err *err)
{
    return on_ranks("train", options, words, train_run, err);
}

static const struct option_spec train_options[] = {
    OPTION("name", OPTION_TEXT, AT(name), "NAME", "name of the run (default: the preset's name)"),
    OPTION(
        "resume-or-start", OPTION_FLAG, AT(resume_or_start), NULL,
        "with --name: resumes the newest run of that name if there is one, as `anneal resume` does, and does "
        "nothing if it has finished; else starts it. For schedulers that run a job's command again"),
    SHARED_OPTIONS,
    OPTION("dry-run", OPTION_FLAG, AT(dry_run), NULL,
           "checks configuration, data and device, prints what would be trained (sizes, memory, learning "
           "rates), and makes no run"),
    OPTION("json", OPTION_FLAG, AT(json), NULL, "with --dry-run: one JSON value instead of text"),
    OPTION("help-config", OPTION_FLAG, AT(help_config), NULL,
           "lists all keys of a configuration with default, unit and accepted values"),
    {0},
};

const struct command command_train = COMMAND(
    "train", "CONFIG.ini", 0, 1, train_options, "train a new run", run_train, defaults, .settings = true,
    .about = "Trains a language model from scratch and records every step. Without a configuration it "
             "trains the preset `shakespeare` on the King James Bible.",
    .notes =
        "  anneal train                                             the default run\n"
        "  anneal train my.ini --train.learning_rate=1e-3           a file, and a key that overrides it\n"
        "  anneal train --data.train=corpus.txt --data.tokenizer=bpe:4096\n"
        "  anneal train --data.train='shards/train_*.bin' --data.val='shards/val_*.bin' "
        "--model.vocab_size=50257\n\n"
        "Before a run allocates memory of a device, it reserves that memory, so that all your runs on this "
        "host share the device, whatever their ANNEAL_HOME. If several users set the same "
        "ANNEAL_LEDGER=/FOLDER, where all of them may write, their runs share it, too.\n"
        "Ctrl-C saves a checkpoint and stops (a second Ctrl-C stops at once); `anneal resume RUN` continues "
        "from there. SIGUSR1 saves a checkpoint and stops with exit status 75, as does train.time_limit "
        "before it is over: sbatch --signal=USR1@120 --requeue, with --name NAME --resume-or-start.");

static const struct option_spec resume_options[] = {SHARED_OPTIONS, {0}};

const struct command command_resume = COMMAND(
    "resume", "RUN", 1, 1, resume_options, "continue a run from its newest checkpoint", run_resume, defaults,
    .settings = true,
    .about =
        "Continues RUN (an id, a unique prefix of one, a name, or `latest`) from its newest checkpoint, as a "
        "new segment of the same run. A run that ended before its first checkpoint begins again. If no key "
        "is changed, the losses that follow are bit for bit those of a run that was never interrupted.\n"
        "The model, the data and the optimizer must stay as they are; all other keys may be changed.",
    .notes = "  anneal resume latest                                 continue where it stopped\n"
             "  anneal resume latest --train.total_steps=4000        train on\n"
             "  anneal resume latest --eval.early_stopping_patience=10");

/* ---- fork ---- */

static enum status fork_run(const struct options *o, const struct words *words, struct err *err)
{
    struct training_options training = {0};
    struct report report;
    struct recorded_run run;
    char folder[PATH_MAX] = "", passed_over[160] = "", sentence[RUN_ID_MAX + 168] = "",
         name[RUN_NAME_MAX + 8];
    enum status status = recorded_run_read(words->words[0], &run, err);
    training.config = run.config;
    if (!status) status = apply_settings(words, &training.config, err);
    recorded_run_find_tokenizer(&run, &training.config);
    if (!status) status = recorded_run_check(&run, &training.config, "forked", err);
    if (!status)
        status = recorded_run_checkpoint(&run, o->step, "forking", folder, sizeof folder, passed_over,
                                         sizeof passed_over, err);
    if (!status && *passed_over) snprintf(sentence, sizeof sentence, "run %s: %s", run.info.id, passed_over);
    if (!status && o->watch) {
        status = background_watch("fork", words->argv, NULL, err);
    } else if (!status) {
        struct fork_origin origin = {run.info.id, folder, run.config_text, sentence};
        snprintf(name, sizeof name, "%s-fork", run.info.name);
        open_report(&report, o, &training);
        training.name = o->name ? o->name : name;
        training.fork = &origin;
        status = conclude(training_start(&training, err), &report, err);
    }
    recorded_run_release(&run);
    return status;
}

static enum status run_fork(const void *options, const struct words *words, struct err *err)
{
    return on_ranks("fork", options, words, fork_run, err);
}

static const struct option_spec fork_options[] = {
    OPTION("step", OPTION_WHOLE, AT(step), "N",
           "RUN's checkpoint of step N (default: the newest; `anneal show RUN` lists them)"),
    OPTION("name", OPTION_TEXT, AT(name), "NAME", "name of the new run (default: RUN's name and -fork)"),
    SHARED_OPTIONS,
    {0},
};

const struct command command_fork = COMMAND(
    "fork", "RUN", 1, 1, fork_options, "start a new run from a checkpoint of another", run_fork, defaults,
    .settings = true,
    .about = "Starts a new run from a checkpoint of RUN (an id, a unique prefix of one, a name, or "
             "`latest`), to try another learning rate, schedule or batch from the same point. RUN stays as "
             "it is. The new run counts its steps on from the checkpoint's; if no key is changed, their "
             "losses are bit for bit those of RUN. The steps before belong to RUN: `anneal show` says where "
             "a run was forked, `anneal compare` shows both side by side.\n"
             "The model, the data, the optimizer and the seed must stay as they are; all other keys may be "
             "changed. A fork from a checkpoint of weights alone (checkpoint.contents = weights) begins with "
             "a fresh optimizer.",
    .notes = "  anneal fork base --train.learning_rate=1e-4 --name gentle     from the newest checkpoint\n"
             "  anneal fork base --train.total_steps=4000 --train.schedule=linear\n"
             "  anneal order base checkpoint --wait && anneal fork base       while base is training");
