/* See train_report.h. */
#include "tui/command/train_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

bool train_report_parse(const char *word, enum report_mode *out)
{
    static const char *const names[] = {"auto", "bar", "plain", "json", "none"};
    for (int i = 0; i < 5; i++)
        if (strcmp(names[i], word) == 0) {
            *out = (enum report_mode)i;
            return true;
        }
    return false;
}

enum progress_style train_report_style(enum report_mode mode)
{
    static const enum progress_style styles[] = {PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_PLAIN, PROGRESS_NONE,
                                                 PROGRESS_NONE};
    return styles[mode];
}

void train_report_init(struct train_report *report, enum report_mode mode, int64_t total_steps)
{
    *report = (struct train_report){.mode = mode, .total_steps = total_steps, .val_loss = NAN};
    progress_bar_init(&report->bar, stderr, train_report_style(mode));
}

/* Behind the bar: "loss 3.2101  val 3.3012  lr 2.9e-04  8.8k tok/s". */
static void describe(const struct train_report *report, const struct step_record *record, char *buf,
                     size_t size)
{
    char rate[32], val[32] = "";
    if (!isnan(report->val_loss)) snprintf(val, sizeof val, "  val %.4f", report->val_loss);
    snprintf(buf, size, "loss %.4f%s  lr %.1e  %s tok/s", record->loss, val, record->lr,
             text_format_count(report->tokens_per_sec, rate, sizeof rate));
}

static void print_json(json_t *json)
{
    if (!json) return;
    json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    fputc('\n', stdout);
    fflush(stdout);
    json_decref(json);
}

/* JSON has no NaN or infinity: null. */
static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

void train_report_step(struct train_report *report, const struct step_record *record)
{
    report->tokens_per_sec = report->tokens_per_sec > 0
                                 ? 0.9 * report->tokens_per_sec + 0.1 * record->tokens_per_sec
                                 : record->tokens_per_sec;
    if (report->mode == REPORT_JSON) {
        print_json(json_pack("{s:s s:I s:f s:I s:f s:f s:o s:f s:o s:o s:f}", "type", "step", "step",
                             (json_int_t)record->step, "epoch", record->epoch, "tokens",
                             (json_int_t)record->tokens, "wall_time", record->wall_time, "step_ms",
                             record->step_ms, "loss", real(record->loss), "lr", record->lr, "grad_norm",
                             real(record->grad_norm), "clip_scale", real(record->clip_scale),
                             "tokens_per_sec", record->tokens_per_sec));
    } else {
        char text[160];
        describe(report, record, text, sizeof text);
        progress_bar_update(&report->bar, "training", "steps", (uint64_t)record->step + 1,
                            (uint64_t)report->total_steps, text);
    }
}

void train_report_line(struct train_report *report, const char *format, ...)
{
    if (report->mode == REPORT_JSON || report->mode == REPORT_NONE) return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    progress_bar_say(&report->bar, "%s", text);
}

void train_report_eval(struct train_report *report, const struct eval_record *record,
                       const struct stopping_record *stopping)
{
    report->val_loss = record->val_loss;
    if (report->mode == REPORT_JSON) {
        print_json(json_pack("{s:s s:I s:I s:f s:o s:o s:f s:b}", "type", "eval", "step",
                             (json_int_t)record->step, "tokens", (json_int_t)record->tokens, "wall_time",
                             record->wall_time, "val_loss", real(record->val_loss), "val_perplexity",
                             real(record->val_perplexity), "eval_ms", record->eval_ms, "improved",
                             stopping->improved));
        return;
    }
    char patience[64] = "";
    if (stopping->patience > 0 && !stopping->improved)
        snprintf(patience, sizeof patience, ", %" PRId64 " of %" PRId64 " evaluations without improvement",
                 stopping->patience_used, stopping->patience);
    if (stopping->improved)
        train_report_line(report, "evaluation at step %" PRId64 ": val loss %.4f (best so far)", record->step,
                          record->val_loss);
    else
        train_report_line(
            report, "evaluation at step %" PRId64 ": val loss %.4f (best %.4f at %" PRId64 "%s)",
            record->step, record->val_loss, stopping->best_val_loss, stopping->best_step, patience);
}

void train_report_sample(struct train_report *report, const struct sample_record *record)
{
    if (report->mode == REPORT_JSON)
        print_json(json_pack("{s:s s:I s:s s:s}", "type", "sample", "step", (json_int_t)record->step,
                             "prompt", record->prompt, "text", record->text));
    else
        train_report_line(report, "sample at step %" PRId64 ": %s%s", record->step, record->prompt,
                          record->text);
}

void train_report_checkpoint(struct train_report *report, const struct checkpoint_record *record)
{
    char size[32];
    if (report->mode == REPORT_JSON)
        print_json(json_pack("{s:s s:I s:s s:I}", "type", "checkpoint", "step", (json_int_t)record->step,
                             "path", record->path, "bytes", (json_int_t)record->bytes));
    else
        train_report_line(report, "checkpoint %s (%s)", record->path,
                          text_format_bytes((uint64_t)record->bytes, size, sizeof size));
}

void train_report_event(struct train_report *report, const struct event_record *record)
{
    if (report->mode == REPORT_JSON)
        print_json(json_pack("{s:s s:I s:s s:s}", "type", "event", "step", (json_int_t)record->step, "level",
                             record->level, "text", record->text));
    else
        train_report_line(report, "%s: %s", record->level, record->text);
}

void train_report_finish(struct train_report *report)
{
    progress_bar_finish(&report->bar);
}
