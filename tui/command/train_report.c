/* See train_report.h. */
#include "tui/command/train_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/text.h"
#include "runs/columns.h"

enum { LINE_BYTES = 1024 };

void train_report_init(struct train_report *report, enum report_mode mode)
{
    static const enum progress_style styles[] = {PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_PLAIN, PROGRESS_NONE,
                                                 PROGRESS_NONE};
    *report = (struct train_report){.mode = mode};
    progress_bar_init(&report->bar, stderr, styles[mode]);
    report->progress = progress_bar_observer(&report->bar);
}

/* ---- JSON ---- */

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

static void report_record(struct train_report *report, const char *type, enum store_table table,
                          const void *record)
{
    if (!begin_json(report, type)) return;
    table_json(&report->json, table, record);
    end_json(report);
}

/* ---- the watcher ---- */

static void prepared(void *context)
{
    progress_bar_finish(&((struct train_report *)context)->bar);
}

static void begin(void *context, const struct training_introduction *in)
{
    struct train_report *report = context;
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
    report->bar.log = in->log;
    progress_bar_say(&report->bar, "run %s: %s parameters, %s tokens, %s planned, on %s", in->run,
                     TEXT_COUNT(in->parameters), TEXT_COUNT(in->corpus_tokens), TEXT_BYTES(in->planned_bytes),
                     in->device);
    if (in->step > 0)
        progress_bar_say(&report->bar, "goes on after step %" PRId64 " of %" PRId64, in->step,
                         in->total_steps);
    report->bar.log = NULL; /* where this means nothing */
    progress_bar_say(&report->bar, "watch it with: anneal watch %s    Ctrl-C saves a checkpoint and leaves",
                     in->run);
    report->bar.log = in->log;
}

/* Behind the bar: "loss 3.2101  val 3.3012  lr 2.9e-04  8.8k tok/s". */
static void step(void *context, const struct step_record *record)
{
    struct train_report *report = context;
    char val[40] = "", text[160];
    double before = report->tokens_per_sec, now = record->tokens_per_sec;
    report->tokens_per_sec = before > 0 ? 0.9 * before + 0.1 * now : now;
    report_record(report, "step", TABLE_STEPS, record);
    if (report->evaluated) snprintf(val, sizeof val, "  val %s", TEXT_LOSS(report->val_loss));
    snprintf(text, sizeof text, "loss %s%s  lr %.1e  %s tok/s", TEXT_LOSS(record->loss), val, record->lr,
             TEXT_COUNT(report->tokens_per_sec));
    progress_bar_update(&report->bar, "training", "steps", (uint64_t)record->step + 1,
                        (uint64_t)report->total_steps, text);
}

static void eval(void *context, const struct eval_record *record, const struct stopping_record *stopping)
{
    struct train_report *report = context;
    char patience[64] = "";
    report->evaluated = true;
    report->val_loss = record->val_loss;
    if (begin_json(report, "eval")) {
        table_json(&report->json, TABLE_EVALS, record);
        for (int c = COLUMN_STOPPING_best_val_loss; c <= COLUMN_STOPPING_verdict; c++)
            column_json(&report->json, &store_columns[c], stopping);
        end_json(report);
    }
    if (stopping->patience > 0 && stopping->patience_used > 0)
        snprintf(patience, sizeof patience, ", %" PRId64 " of %" PRId64 " evaluations without improvement",
                 stopping->patience_used, stopping->patience);
    if (stopping->improved)
        progress_bar_say(&report->bar, "evaluation at step %" PRId64 ": val loss %s (best so far%s)",
                         record->step, TEXT_LOSS(record->val_loss), patience);
    else
        progress_bar_say(&report->bar,
                         "evaluation at step %" PRId64 ": val loss %s (best %s at %" PRId64 "%s)",
                         record->step, TEXT_LOSS(record->val_loss), TEXT_LOSS(stopping->best_val_loss),
                         stopping->best_step, patience);
}

static void sample(void *context, const struct sample_record *record)
{
    struct train_report *report = context;
    char both[LINE_BYTES], line[LINE_BYTES]; /* one line, whose control characters nothing obeys */
    report_record(report, "sample", TABLE_SAMPLES, record);
    snprintf(both, sizeof both, "%s%s", record->prompt, record->text);
    clean_line(line, sizeof line, both);
    progress_bar_say(&report->bar, "sample at step %" PRId64 ": %s", record->step, line);
}

static void checkpoint(void *context, const struct checkpoint_record *record)
{
    struct train_report *report = context;
    report_record(report, "checkpoint", TABLE_CHECKPOINTS, record);
    progress_bar_say(&report->bar, "checkpoint %s (%s, %s)", record->path, record->kind,
                     TEXT_BYTES(record->bytes));
}

static void event(void *context, const struct event_record *record)
{
    struct train_report *report = context;
    report_record(report, "event", TABLE_EVENTS, record);
    progress_bar_say(&report->bar, "%s: %s", record->level, record->text);
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
    progress_bar_say(&report->bar, "order %s after step %" PRId64 ": %s", verb, step, result);
}

static void paused(void *context, int64_t step, bool now)
{
    struct train_report *report = context;
    if (begin_json(report, "status")) {
        json_out_int(&report->json, "step", step);
        json_out_text(&report->json, "status", now ? "paused" : "running");
        end_json(report);
    }
    if (now)
        progress_bar_say(&report->bar, "paused after step %" PRId64 "; go on with: anneal order %s continue",
                         step, report->run);
    else
        progress_bar_say(&report->bar, "goes on after step %" PRId64, step);
}

static void end(void *context, const struct training_ending *ending)
{
    struct train_report *report = context;
    const char *id = ending->run, *status = ending->status;
    char text[LINE_BYTES];
    progress_bar_finish(&report->bar);
    if (begin_json(report, "end")) {
        json_out_text(&report->json, "run", id);
        json_out_text(&report->json, "status", status);
        json_out_int(&report->json, "step", ending->step);
        json_out_text(&report->json, "message", ending->message);
        end_json(report);
    }
    if (strcmp(status, "stopped") == 0) {
        progress_bar_say(&report->bar, "stopped after step %" PRId64 "; go on with: anneal %s %s",
                         ending->step, report->go_on_with, id);
    } else if (strcmp(status, "failed") != 0) {
        progress_bar_say(&report->bar, "%s after step %" PRId64 "; see: anneal show %s, anneal export %s",
                         strcmp(status, "early_stopped") == 0 ? "stopped early" : status, ending->step, id,
                         id);
    } else { /* what is shown of it comes from who ends the command */
        snprintf(text, sizeof text, "failed after step %" PRId64 ": %s", ending->step, ending->message);
        run_log_line(report->bar.log, text);
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
