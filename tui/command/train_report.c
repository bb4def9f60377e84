/* See train_report.h. */
#include "tui/command/train_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/model/data_format.h"
#include "runs/columns.h"
#include "runs/profile.h"

enum { LINE_BYTES = 1024 };

#define START_SECONDS 0.2 /* between two lines while a trainer in the background prepares */

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
    if (report->mode == REPORT_START && !report->planning)
        progress_bar_say(&report->bar, "planning memory and making the model");
    report->planning = true;
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
    report->began_after = step;
    if (report->mode == REPORT_START) report->bar.style = PROGRESS_NONE;
    if (begin_json(report, "run")) {
        JSON_MEMBERS(&report->json, "run", s->id, "pid", run_process(), "device", device, "parameters",
                     parameters, "trained_parameters", parameters - frozen);
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

/* The steps still to come, as long as those of this segment on average, where the batch grows by plan. */
static double steps_left(const struct report *report, int64_t done)
{
    const struct config *c = &report->session->config;
    double at = config_micro_batches_sum(c, done),
           made = at - config_micro_batches_sum(c, report->began_after),
           left = config_micro_batches_sum(c, c->train.total_steps) - at;
    return made > 0 ? left / made * (double)(done - report->began_after) : 0;
}

/* After the bar: "loss 3.2101  val 3.3012  lr 2.9e-04  8.8k tok/s". */
static void step(void *context, const struct step_record *record)
{
    struct report *report = context;
    char val[40] = "", text[160];
    double keep = report->seconds > 0 ? 0.9 : 0, seconds = record->step_ms / 1e3;
    /* times are averaged, as a mean of speeds would be that of the shortest steps */
    report->seconds = keep * report->seconds + (1 - keep) * seconds;
    report->tokens = keep * report->tokens + (1 - keep) * seconds * record->tokens_per_sec;
    report->bar.speed = 1 / report->seconds; /* that of the steps alone, as the tokens per second */
    report_record(report, "step", TABLE_STEPS, record);
    if (report->evaluated) snprintf(val, sizeof val, "  val %s", TEXT_LOSS(report->val_loss));
    report->bar.left = steps_left(report, record->step + 1);
    snprintf(text, sizeof text, "loss %s%s  lr %.1e  %s tok/s", TEXT_LOSS(record->loss), val, record->lr,
             TEXT_COUNT(report->tokens / report->seconds));
    progress_bar_update(&report->bar, "training", "steps", (uint64_t)record->step + 1,
                        (uint64_t)report->session->config.train.total_steps, text);
}

static void eval(void *context, const struct eval_record *record, const struct measures *measures,
                 const struct stopping_record *stopping)
{
    struct report *report = context;
    char best[96], patience[64] = "", more[400] = "";
    const char *metric = stopping->metric, *space = *metric ? " " : "";
    report->evaluated = true;
    report->val_loss = record->val_loss;
    if (begin_json(report, "eval")) {
        table_json(&report->json, TABLE_EVALS, record);
        for (int c = COLUMN_STOPPING_best_val_loss; c <= COLUMN_STOPPING_verdict; c++)
            column_json(&report->json, &store_columns[c], stopping);
        column_json(&report->json, COLUMN(STOPPING, metric), stopping);
        if (measures->count) json_out_open(&report->json, "measures", '{', JSON_OUT_FLAT);
        for (int i = 0; i < measures->count; i++)
            json_out_real(&report->json, measures->of[i].name, measures->of[i].value);
        if (measures->count) json_out_close(&report->json);
        end_json(report);
    }
    for (int i = 0; i < measures->count; i++)
        text_add(more, sizeof more, "", ", %s %.4g", measures->of[i].name, measures->of[i].value);
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
    char both[LINE_BYTES]; /* printed as one line */
    bool answers = format_traits(report->session->config.data.format)->answers;
    report_record(report, "sample", TABLE_SAMPLES, record);
    snprintf(both, sizeof both, "%s%s%s", record->prompt, answers ? " " : "", record->text);
    progress_bar_say(&report->bar, "sample at step %" PRId64 ": %s", record->step, both);
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
    if (strcmp(record->level, "error") == 0)
        snprintf(report->error, sizeof report->error, "%s", record->text);
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

static void paused(void *context, int64_t step, enum train_pause pause)
{
    struct report *report = context;
    if (begin_json(report, "status")) {
        JSON_MEMBERS(&report->json, "step", step, "status", pause == TRAIN_GOES_ON ? "running" : "paused");
        end_json(report);
    }
    if (pause == TRAIN_WAITS_FOR_ROOM && report->mode == REPORT_NONE) /* the error is why */
        fprintf(stderr, "anneal: error: %s\n", CLEAN_LINE(report->error));
    report->error[0] = '\0';
    if (pause == TRAIN_PAUSED)
        progress_bar_say(&report->bar, "paused after step %" PRId64 "; continue with: %s order %s continue",
                         step, TEXT_PROGRAM, report->session->id);
    if (pause == TRAIN_GOES_ON) progress_bar_say(&report->bar, "continues after step %" PRId64, step);
}

static int slowest_first(const void *a, const void *b)
{
    const struct profile_row *left = a, *right = b;
    return (left->time_us < right->time_us) - (left->time_us > right->time_us);
}

/* Where the time of a step went, if any was profiled since the start: "slowest operations: gemm gate_up
 * (backward) 24%, ..." */
static void say_slowest(struct report *report)
{
    struct profile profile = {0};
    char text[400] = "";
    if (!profile_read(report->session->store, report->session->id, false, &profile, NULL) &&
        profile.last_step > report->began_after && profile.step_us > 0) {
        qsort(profile.rows, profile.count, sizeof *profile.rows, slowest_first);
        for (size_t i = 0, named = 0; i < profile.count && named < 3; i++) {
            const struct profile_row *row = &profile.rows[i];
            if (strcmp(row->phase, "unattributed") == 0) continue; /* time outside all operations */
            text_add(text, sizeof text, ", ", "%.60s (%.20s) %.0f%%", row->op, row->phase,
                     100 * row->time_us / profile.step_us);
            named++;
        }
        progress_bar_say(&report->bar,
                         "slowest operations: %s of a step of %s ms; see all: %s show %s --profile", text,
                         TEXT_SHORT(profile.step_us / 1e3), TEXT_PROGRAM, report->session->id);
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

void report_init(struct report *report, enum report_mode mode, struct training_watcher *watcher)
{
    static const enum progress_style styles[] = {
        [REPORT_AUTO] = PROGRESS_AUTO, [REPORT_BAR] = PROGRESS_BAR,     [REPORT_PLAIN] = PROGRESS_PLAIN,
        [REPORT_JSON] = PROGRESS_NONE, [REPORT_START] = PROGRESS_PLAIN, [REPORT_NONE] = PROGRESS_NONE};
    *report = (struct report){.mode = mode};
    progress_bar_init(&report->bar, stderr, styles[mode]);
    *watcher = (struct training_watcher){
        report, &report->bar.progress, prepared, begin, step, eval, sample, checkpoint, event, order, paused,
        end};
    if (mode == REPORT_START) report->bar.interval = START_SECONDS;
}
