/* See train_report.h. */
#include "tui/command/train_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clean.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/columns.h"

enum { LINE_BYTES = 1024, LOG_SECONDS = 10 };

void train_report_init(struct train_report *report, enum report_mode mode)
{
    static const enum progress_style styles[] = {PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_PLAIN, PROGRESS_NONE,
                                                 PROGRESS_NONE};
    *report = (struct train_report){.mode = mode};
    progress_bar_init(&report->bar, stderr, styles[mode]);
    report->progress = progress_bar_observer(&report->bar);
}

/* Behind the bar: "loss 3.2101  val 3.3012  lr 2.9e-04  8.8k tok/s". */
static void describe(const struct train_report *report, const struct step_record *record, char *buf,
                     size_t size)
{
    char val[40] = "";
    if (report->evaluated) snprintf(val, sizeof val, "  val %s", TEXT_LOSS(report->val_loss));
    snprintf(buf, size, "loss %s%s  lr %.1e  %s tok/s", TEXT_LOSS(record->loss), val, record->lr,
             TEXT_COUNT(report->tokens_per_sec));
}

/* A line for the screen and the log. */
__attribute__((format(printf, 2, 3))) static void report_line(struct train_report *report, const char *format,
                                                              ...)
{
    char text[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    progress_bar_say(&report->bar, "%s", text);
    run_log_line(report->log, text);
}

/* Whether JSON is wanted; then its line has begun. */
static bool begin_json(struct train_report *report, const char *type)
{
    if (report->mode != REPORT_JSON) return false;
    json_out_begin(&report->json, stdout);
    json_out_open(&report->json, NULL, '{', JSON_OUT_COMPACT);
    json_out_text(&report->json, "type", type);
    return true;
}

/* A reader that has gone or a full disk stops no training; train_report_check reports it. */
static void end_json(struct train_report *report)
{
    json_out_close(&report->json);
    int code = json_out_finish(&report->json);
    if (!report->write_error) report->write_error = code;
    clearerr(stdout);
}

static void prepared(void *context)
{
    progress_bar_finish(&((struct train_report *)context)->bar);
}

static void begin(void *context, const struct training_introduction *in)
{
    struct train_report *report = context;
    report->log = in->log;
    report->go_on_with = in->go_on_with;
    report->total_steps = in->total_steps;
    snprintf(report->run, sizeof report->run, "%s", in->run);
    if (begin_json(report, "run")) {
        json_out_text(&report->json, "run", in->run);
        json_out_int(&report->json, "pid", getpid());
        json_out_text(&report->json, "device", in->device);
        json_out_int(&report->json, "parameters", in->parameters);
        json_out_int(&report->json, "corpus_tokens", in->corpus_tokens);
        json_out_int(&report->json, "planned_bytes", in->planned_bytes);
        json_out_int(&report->json, "step", in->step);
        json_out_int(&report->json, "total_steps", in->total_steps);
        end_json(report);
    }
    report_line(report, "run %s: %s parameters, %s tokens, %s planned, on %s", in->run,
                TEXT_COUNT(in->parameters), TEXT_COUNT(in->corpus_tokens), TEXT_BYTES(in->planned_bytes),
                in->device);
    if (in->step > 0)
        report_line(report, "goes on after step %" PRId64 " of %" PRId64, in->step, in->total_steps);
    /* means nothing in the log */
    progress_bar_say(&report->bar, "watch it with: anneal watch %s    Ctrl-C saves a checkpoint and leaves",
                     in->run);
}

/* Whether the log gets a line about the progress: ten seconds after the first step and after each such line,
 * so that a short run has none. */
static bool is_log_due(struct train_report *report, int64_t done)
{
    double now = clock_monotonic();
    if (report->log_started == 0) {
        report->log_started = now;
        report->log_due = now + LOG_SECONDS;
        report->log_first = done;
    }
    return now >= report->log_due;
}

static void log_progress(struct train_report *report, int64_t done, const char *suffix)
{
    char text[LINE_BYTES];
    double now = clock_monotonic();
    struct progress_view view = {"training", "steps", (uint64_t)done, (uint64_t)report->total_steps,
                                 0,          suffix};
    if (now > report->log_started)
        view.rate = (double)(done - report->log_first) / (now - report->log_started);
    report->log_due = now + LOG_SECONDS;
    run_log_line(report->log, progress_bar_plain(&view, text, sizeof text));
}

static void step(void *context, const struct step_record *record)
{
    struct train_report *report = context;
    report->tokens_per_sec = report->tokens_per_sec > 0
                                 ? 0.9 * report->tokens_per_sec + 0.1 * record->tokens_per_sec
                                 : record->tokens_per_sec;
    if (begin_json(report, "step")) {
        table_json(&report->json, TABLE_STEPS, record);
        end_json(report);
    }
    char text[160];
    bool log = is_log_due(report, record->step + 1);
    if (!log && report->bar.style == PROGRESS_NONE) return;
    describe(report, record, text, sizeof text);
    if (log) log_progress(report, record->step + 1, text);
    progress_bar_update(&report->bar, "training", "steps", (uint64_t)record->step + 1,
                        (uint64_t)report->total_steps, text);
}

static void eval(void *context, const struct eval_record *record, const struct stopping_record *stopping)
{
    struct train_report *report = context;
    report->evaluated = true;
    report->val_loss = record->val_loss;
    if (begin_json(report, "eval")) {
        table_json(&report->json, TABLE_EVALS, record);
        json_out_real(&report->json, "best_val_loss", stopping->best_val_loss);
        json_out_int(&report->json, "best_step", stopping->best_step);
        json_out_bool(&report->json, "improved", stopping->improved);
        json_out_int(&report->json, "patience_used", stopping->patience_used);
        json_out_int(&report->json, "patience", stopping->patience);
        json_out_text(&report->json, "verdict", verdict_words[stopping->verdict]);
        end_json(report);
    }
    char patience[64] = "";
    if (stopping->patience > 0 && stopping->patience_used > 0)
        snprintf(patience, sizeof patience, ", %" PRId64 " of %" PRId64 " evaluations without improvement",
                 stopping->patience_used, stopping->patience);
    if (stopping->improved)
        report_line(report, "evaluation at step %" PRId64 ": val loss %s (best so far%s)", record->step,
                    TEXT_LOSS(record->val_loss), patience);
    else
        report_line(report, "evaluation at step %" PRId64 ": val loss %s (best %s at %" PRId64 "%s)",
                    record->step, TEXT_LOSS(record->val_loss), TEXT_LOSS(stopping->best_val_loss),
                    stopping->best_step, patience);
}

static void sample(void *context, const struct sample_record *record)
{
    struct train_report *report = context;
    if (begin_json(report, "sample")) {
        table_json(&report->json, TABLE_SAMPLES, record);
        end_json(report);
    }
    char both[LINE_BYTES],
        line[LINE_BYTES]; /* a line of the log stays one line, and obeys no control character */
    snprintf(both, sizeof both, "%s%s", record->prompt, record->text);
    clean_line(line, sizeof line, both);
    report_line(report, "sample at step %" PRId64 ": %s", record->step, line);
}

static void checkpoint(void *context, const struct checkpoint_record *record)
{
    struct train_report *report = context;
    if (begin_json(report, "checkpoint")) {
        table_json(&report->json, TABLE_CHECKPOINTS, record);
        end_json(report);
    }
    report_line(report, "checkpoint %s (%s, %s)", record->path, record->kind, TEXT_BYTES(record->bytes));
}

static void event(void *context, const struct event_record *record)
{
    struct train_report *report = context;
    if (begin_json(report, "event")) {
        json_out_int(&report->json, "step", record->step);
        json_out_text(&report->json, "level", record->level);
        json_out_text(&report->json, "text", record->text);
        end_json(report);
    }
    report_line(report, "%s: %s", record->level, record->text);
}

static void order(void *context, const char *verb, int64_t step, const char *result)
{
    struct train_report *report = context;
    if (begin_json(report, "order")) {
        json_out_int(&report->json, "step", step);
        json_out_text(&report->json, "verb", verb);
        json_out_text(&report->json, "result", result);
        end_json(report);
    }
    report_line(report, "order %s after step %" PRId64 ": %s", verb, step, result);
}

static void paused(void *context, int64_t step, bool now)
{
    struct train_report *report = context;
    if (begin_json(report, "status")) {
        json_out_int(&report->json, "step", step);
        json_out_text(&report->json, "status", now ? "paused" : "running");
        end_json(report);
    }
    if (now) {
        report_line(report, "paused after step %" PRId64 "; go on with: anneal order %s continue", step,
                    report->run);
    } else {
        report_line(report, "goes on after step %" PRId64, step);
    }
}

static void end(void *context, const struct training_ending *ending)
{
    struct train_report *report = context;
    const char *id = ending->run, *status = ending->status;
    int64_t step = ending->step;
    progress_bar_finish(&report->bar);
    if (begin_json(report, "end")) {
        json_out_text(&report->json, "run", id);
        json_out_text(&report->json, "status", status);
        json_out_int(&report->json, "step", step);
        json_out_text(&report->json, "message", ending->message);
        end_json(report);
    }
    if (strcmp(status, "stopped") == 0) {
        report_line(report, "stopped after step %" PRId64 "; go on with: anneal %s %s", step,
                    report->go_on_with, id);
    } else if (strcmp(status, "failed") != 0) {
        report_line(report, "%s after step %" PRId64 "; see: anneal show %s, anneal export %s",
                    strcmp(status, "early_stopped") == 0 ? "stopped early" : status, step, id, id);
    } else { /* what is shown of it comes from who ends the command */
        char text[LINE_BYTES];
        snprintf(text, sizeof text, "failed after step %" PRId64 ": %s", step, ending->message);
        run_log_line(report->log, text);
    }
}

struct training_watcher train_report_watcher(struct train_report *report)
{
    return (struct training_watcher){.context = report,
                                     .progress = &report->progress,
                                     .prepared = prepared,
                                     .begin = begin,
                                     .step = step,
                                     .eval = eval,
                                     .sample = sample,
                                     .checkpoint = checkpoint,
                                     .event = event,
                                     .order = order,
                                     .paused = paused,
                                     .end = end};
}

enum status train_report_check(const struct train_report *report, struct err *err)
{
    if (!report->write_error || report->write_error == EPIPE) return STATUS_OK;
    return err_set(err, STATUS_IO, "standard output: cannot write: %s (the run itself is complete)",
                   strerror(report->write_error));
}
