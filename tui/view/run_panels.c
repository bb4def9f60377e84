/* See run_panels.h. */
#include "tui/view/run_panels.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "tui/view/labels.h"
#include "tui/view/memory_panel.h"
#include "tui/widget/axis.h"
#include "tui/widget/bars.h"

enum { SILENT_SECONDS = 30 }; /* a trainer that says nothing for so long is worth a warning */

/* A row that facts are added to from the left. */
struct facts {
    struct grid *grid;
    int x, y, end;
};

/* "label value   " with the label dimmed, when it fits. */
static void __attribute__((format(printf, 4, 5)))
add_fact(struct facts *row, const char *label, enum style style, const char *format, ...)
{
    char value[64];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    if (row->x + glyph_text_width(label) + (*label ? 1 : 0) + glyph_text_width(value) > row->end) return;
    if (*label) row->x += grid_text(row->grid, row->x, row->y, row->end - row->x, STYLE_DIM, 0, label) + 1;
    row->x += grid_text(row->grid, row->x, row->y, row->end - row->x, style, ATTR_BOLD, value) + 3;
}

static void draw_name(struct grid *grid, struct rect area, const struct run_info *run, double now)
{
    int y = area.y, end = area.x + area.w - 1, x = area.x + 1;
    char text[128], number[32];
    struct status_label status = label_status(run->status);
    int id_w = glyph_text_width(run->id);
    bool wide = area.w >= 100;
    int name_w = area.w - 34 < 20 ? 20 : area.w - 34 - (wide ? id_w : 0);
    x += grid_text(grid, x, y, name_w, STYLE_TEXT, ATTR_BOLD, run->name) + 2;
    grid_put(grid, x, y, status.symbol, status.style, ATTR_BOLD);
    x += 2 + grid_text(grid, x + 2, y, end - x - 2, status.style, ATTR_BOLD, status.word) + 2;
    snprintf(text, sizeof text, "%s %s", run->device, run->precision);
    x += grid_text(grid, x, y, end - x, STYLE_TEXT, 0, text) + 2;
    if (run->parameters > 0) {
        snprintf(text, sizeof text, "%s parameters",
                 text_format_count((double)run->parameters, number, sizeof number));
        if (x + glyph_text_width(text) < end) x += grid_text(grid, x, y, end - x, STYLE_DIM, 0, text) + 2;
    }
    if (run->status == RUN_RUNNING && now - run->heartbeat > SILENT_SECONDS) {
        char silence[32];
        snprintf(text, sizeof text, "no sign of life for %s",
                 clock_format_duration(now - run->heartbeat, silence, sizeof silence));
        grid_text_right(grid, x, y, end - x, STYLE_WARN, ATTR_BOLD, text);
    } else if (wide && x + id_w < end) {
        grid_text_right(grid, x, y, end - x, STYLE_DIM, 0, run->id);
    }
}

static void draw_progress(struct grid *grid, struct rect area, const struct run_info *run, double now)
{
    int y = area.y + 1, end = area.x + area.w - 1;
    char text[160], done[32], total[32], duration[32];
    double fraction = label_progress(run), eta = label_eta(run);
    int n = snprintf(text, sizeof text, "%5.1f%%  %s / %s step%s", isnan(fraction) ? 0 : fraction * 100,
                     label_thousands(run->steps < 0 ? 0 : run->steps, done, sizeof done),
                     run->total_steps > 0 ? label_thousands(run->total_steps, total, sizeof total) : "?",
                     text_plural(run->total_steps));
    if (!isnan(eta))
        n += snprintf(text + n, sizeof text - (size_t)n, "  ETA %s",
                      clock_format_duration(eta, duration, sizeof duration));
    clock_format_duration(label_elapsed(run, now), duration, sizeof duration);
    if (area.w >= 100)
        snprintf(text + n, sizeof text - (size_t)n, "  elapsed %s", duration);
    else if (isnan(eta))
        snprintf(text + n, sizeof text - (size_t)n, "  in %s", duration);
    int w = glyph_text_width(text), gauge = end - area.x - 1 - w - 2;
    if (gauge > 60) gauge = 60;
    if (gauge < 6) gauge = 0;
    gauge_draw(grid, area.x + 1, y, gauge, label_status(run->status).style, fraction);
    grid_text(grid, area.x + 1 + (gauge ? gauge + 1 : 0), y, end - area.x - 1, STYLE_TEXT, 0, text);
}

/* Whether the history says it: an import may not. What was NaN in training was recorded. */
static bool is_recorded(const struct run_model *model, enum model_trace trace, double newest)
{
    return !isnan(newest) || model->series[trace].count > 0;
}

static void draw_numbers(struct grid *grid, struct rect area, const struct run_model *model)
{
    const struct run_info *run = &model->info;
    const struct step_record *last = &model->last;
    struct facts row = {grid, area.x + 1, area.y + 2, area.x + area.w - 1};
    char number[32];
    if (run->steps <= 0) {
        rect_skip(&area, 2);
        grid_line(grid, &area, STYLE_DIM, 0, "no step yet");
        return;
    }
    if (run->loss_recorded)
        add_fact(&row, "loss", STYLE_TRAIN, "%s", axis_format(run->final_loss, number, sizeof number));
    if (model->eval_count)
        add_fact(&row, "val", STYLE_VAL, "%s", axis_format(model->evals[0].val_loss, number, sizeof number));
    if (run->best_step >= 0)
        add_fact(&row, "best", STYLE_BEST, "%s @%" PRId64,
                 axis_format(run->best_val_loss, number, sizeof number), run->best_step);
    if (!isnan(run->tokens_per_sec))
        add_fact(&row, "", STYLE_SPEED, "%s tok/s",
                 text_format_count(run->tokens_per_sec, number, sizeof number));
    if (!model->has_last) return;
    if (is_recorded(model, TRACE_LR, last->lr))
        add_fact(&row, "lr", STYLE_LR, "%s", axis_format(last->lr, number, sizeof number));
    if (is_recorded(model, TRACE_GRAD, last->grad_norm))
        add_fact(&row, "grad", STYLE_GRAD, "%s", axis_format(last->grad_norm, number, sizeof number));
    if (!isnan(last->step_ms)) /* an imported history may not say it */
        add_fact(&row, "step", STYLE_TEXT, "%s ms", axis_format(last->step_ms, number, sizeof number));
    if (run->tokens >= 0)
        add_fact(&row, "tokens", STYLE_TEXT, "%s",
                 text_format_count((double)run->tokens, number, sizeof number));
    if (!isnan(last->epoch)) add_fact(&row, "epoch", STYLE_TEXT, "%.2f", last->epoch);
    if (!isnan(last->mfu)) add_fact(&row, "MFU", STYLE_TEXT, "%.1f%%", last->mfu * 100);
}

/* How the early stopping stands, as long as it has not ended the run. Returns the columns used. */
static int draw_waiting(struct grid *grid, int x, int y, int w, const struct stopping_record *now)
{
    char best[32];
    axis_format(now->best_val_loss, best, sizeof best);
    if (now->patience <= 0)
        return grid_printf(grid, x, y, w, STYLE_DIM, 0,
                           "early stopping is off; %" PRId64 " evaluation%s since the best one",
                           now->patience_used, text_plural(now->patience_used));
    int64_t left = now->patience - now->patience_used;
    char whole[160], some[128], least[96], of[64];
    snprintf(of, sizeof of, "%" PRId64 " of %" PRId64 " evaluation%s without improvement", now->patience_used,
             now->patience, text_plural(now->patience));
    snprintf(whole, sizeof whole, "early stopping: best %s @%" PRId64 ", %s, %" PRId64 " left", best,
             now->best_step, of, left > 0 ? left : 0);
    snprintf(some, sizeof some, "best %s @%" PRId64 ", %s", best, now->best_step, of);
    snprintf(least, sizeof least, "patience %" PRId64 " of %" PRId64, now->patience_used, now->patience);
    return grid_text_fitting(grid, x, y, w, now->patience_used ? STYLE_WARN : STYLE_GOOD, 0,
                             (const char *[]){whole, some, of, least, NULL});
}

/* Its remedy is what must be read. Returns the columns used. */
static int draw_crash(struct grid *grid, int x, int y, int w, const struct run_model *model)
{
    char whole[RUN_NAME_MAX + 128], some[RUN_NAME_MAX + 64];
    const char *name = model->info.name;
    snprintf(whole, sizeof whole, "its trainer died; `anneal resume %s` %s", name,
             model->checkpoint_count ? "goes on from the last checkpoint"
                                     : "begins again: it has no checkpoint yet");
    snprintf(some, sizeof some, "its trainer died: `anneal resume %s`", name);
    return grid_text_fitting(grid, x, y, w, STYLE_BAD, ATTR_BOLD, (const char *[]){whole, some, NULL});
}

/* Why it ended, or how the early stopping stands. Returns the columns used. */
static int draw_story(struct grid *grid, int x, int y, int w, const struct run_model *model)
{
    const struct run_info *run = &model->info;
    if (run->message[0]) {
        bool bad = run->status == RUN_FAILED || run->status == RUN_CRASHED;
        return grid_text(grid, x, y, w, bad ? STYLE_BAD : STYLE_DIM, bad ? ATTR_BOLD : 0, run->message);
    }
    if (run->status == RUN_CRASHED) return draw_crash(grid, x, y, w, model);
    if (!model->stopping_count) return 0;
    const struct stopping_record *now = &model->stopping[0].record;
    if (now->verdict != VERDICT_STOP) return draw_waiting(grid, x, y, w, now);
    char best[32], whole[192], some[128], least[64];
    axis_format(now->best_val_loss, best, sizeof best);
    snprintf(whole, sizeof whole,
             "stopped early after %" PRId64 " step%s: %" PRId64
             " evaluation%s in a row did not improve on %s @%" PRId64,
             now->step, text_plural(now->step), now->patience_used, text_plural(now->patience_used), best,
             now->best_step);
    snprintf(some, sizeof some, "stopped early: %" PRId64 " evaluation%s did not improve on %s @%" PRId64,
             now->patience_used, text_plural(now->patience_used), best, now->best_step);
    snprintf(least, sizeof least, "stopped early: best %s @%" PRId64, best, now->best_step);
    return grid_text_fitting(grid, x, y, w, STYLE_ACCENT, 0, (const char *[]){whole, some, least, NULL});
}

/* The row below the numbers: the story, and at its right the memory where there is room for both. */
static void draw_story_and_memory(struct grid *grid, struct rect area, const struct run_model *model)
{
    char memory[128];
    int x = area.x + 1, y = area.y + 3, w = area.w - 2;
    int used = draw_story(grid, x, y, w, model);
    memory_panel_summary(&model->memory, memory, sizeof memory);
    if (used + 3 + glyph_text_width(memory) <= w) grid_text_right(grid, x, y, w, STYLE_DIM, 0, memory);
}

void panel_draw_identity(struct grid *grid, struct rect area, const struct run_info *run, double now)
{
    draw_name(grid, area, run, now);
    draw_progress(grid, area, run, now);
}

void panel_draw_header(struct grid *grid, struct rect area, const struct run_model *model, double now)
{
    panel_draw_identity(grid, area, &model->info, now);
    draw_numbers(grid, area, model);
    if (area.h >= 4) draw_story_and_memory(grid, area, model);
}

/* The prompt goes first, as part of the text. NULL: no memory for it. Free it. */
static char *sample_text(const struct sample_record *sample)
{
    size_t n = strlen(sample->prompt) + strlen(sample->text) + 1;
    if (n > 16384) n = 16384;
    char *whole = malloc(n);
    if (whole) snprintf(whole, n, "%s%s", sample->prompt, sample->text);
    return whole;
}

int panel_sample_rows(const struct run_model *model, size_t which, int width)
{
    if (which >= model->sample_count) return 2;
    char *text = sample_text(&model->samples[which]);
    int rows = 1 + (text ? wrap_rows(text, width - 2) : 0);
    free(text);
    return rows;
}

void panel_draw_sample(struct grid *grid, struct rect area, const struct run_model *model, size_t which)
{
    if (area.h < 2) return;
    char detail[96] = "";
    if (which >= model->sample_count) {
        grid_title(grid, &area, "sample", NULL);
        grid_line(grid, &area, STYLE_DIM, 0, "no text yet: t asks for one");
        return;
    }
    const struct sample_record *sample = &model->samples[which];
    snprintf(detail, sizeof detail, "@%" PRId64 "%s", sample->step,
             which                     ? "  (older; Down: newer)"
             : model->sample_count > 1 ? "  (Up: older)"
                                       : "");
    grid_title(grid, &area, "sample", detail);
    area.x++;
    area.w -= 2;
    char *text = sample_text(sample);
    if (!text) return;
    wrap_draw(grid, area, STYLE_TEXT, text);
    free(text);
}

static enum style event_style(const char *level)
{
    return strcmp(level, "error") == 0 ? STYLE_BAD : strcmp(level, "warning") == 0 ? STYLE_WARN : STYLE_DIM;
}

/* "@100 the loss rose": the step once, also where the sentence begins with it. */
static void event_sentence(const struct event_record *event, char *buf, size_t size)
{
    char step[40];
    const char *text = event->text;
    if (event->step < 0) {
        snprintf(buf, size, "%s", text);
        return;
    }
    int n = snprintf(step, sizeof step, "step %" PRId64 ": ", event->step);
    if (strncmp(text, step, (size_t)n) == 0) text += n;
    snprintf(buf, size, "@%" PRId64 " %s", event->step, text);
}

enum {
    EVENT_MAX = 1024,
    EVENT_INDENT = 2,
    EVENT_MARGIN = 4
}; /* columns: the mark, and all beside the text */

int panel_event_rows(const struct event_record *event, int width)
{
    char text[EVENT_MAX];
    event_sentence(event, text, sizeof text);
    return wrap_rows(text, width - EVENT_MARGIN);
}

int panel_events_rows(const struct run_model *model, int width, int most)
{
    int rows = 0;
    for (size_t i = 0; i < model->event_count && rows < most; i++)
        rows += panel_event_rows(&model->events[i], width);
    return rows < most ? rows : most;
}

static int draw_event(struct grid *grid, struct rect area, const struct event_record *event)
{
    char text[EVENT_MAX];
    bool bad = strcmp(event->level, "info") != 0;
    enum style style = event_style(event->level);
    if (bad)
        grid_put(grid, area.x + 1, area.y, strcmp(event->level, "error") == 0 ? 0x2717 : '!', style,
                 ATTR_BOLD);
    event_sentence(event, text, sizeof text);
    struct rect words = {area.x + 1 + EVENT_INDENT, area.y, area.w - EVENT_MARGIN, area.h};
    return wrap_draw(grid, words, style, text);
}

void panel_draw_events(struct grid *grid, struct rect area, const struct run_model *model,
                       const struct event_record *from)
{
    for (size_t i = from ? (size_t)(from - model->events) : 0; i < model->event_count && area.h > 0; i++)
        rect_skip(&area, draw_event(grid, area, &model->events[i]));
}

/* --- details, for wide screens --- */

static void __attribute__((format(printf, 4, 5)))
side_line(struct grid *grid, struct rect *area, const char *label, const char *format, ...)
{
    enum { VALUE_X = 12 };
    char value[128];
    va_list args;
    if (area->h <= 0) return;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    grid_text(grid, area->x + 1, area->y, VALUE_X - 1, STYLE_DIM, 0, label);
    struct rect rest = {area->x + VALUE_X, area->y, area->w - VALUE_X, 1};
    grid_line(grid, &rest, STYLE_TEXT, 0, "%s", value);
    rect_skip(area, 1);
}

static void draw_facts(struct grid *grid, struct rect *area, const struct run_info *run)
{
    char number[32];
    grid_title(grid, area, "run", NULL);
    side_line(grid, area, "id", "%s", run->id);
    if (run->device[0]) side_line(grid, area, "device", "%s, %s", run->device, run->precision);
    if (run->parameters >= 0)
        side_line(grid, area, "parameters", "%s", label_thousands(run->parameters, number, sizeof number));
    if (run->tokens >= 0)
        side_line(grid, area, "tokens", "%s", label_thousands(run->tokens, number, sizeof number));
    if (run->segment > 1)
        side_line(grid, area, "segment", "%d (resumed %d time%s)", run->segment, run->segment - 1,
                  text_plural(run->segment - 1));
    if (run->pid > 0 && label_is_live(run->status))
        side_line(grid, area, "trainer", "process %" PRId64, run->pid);
}

/* The title of a list, a blank row above it. Returns the rows that the list may take: at most `rows`; 0 where
 * it is empty or there is no room. */
static size_t begin_list(struct grid *grid, struct rect *area, const char *title, const char *detail,
                         size_t count, int rows)
{
    if (area->h < 4 || !count) return 0;
    rect_skip(area, 1);
    grid_title(grid, area, title, detail);
    if (rows > area->h) rows = area->h;
    return count < (size_t)rows ? count : (size_t)rows;
}

/* Empty where an import does not say it; that of a loss that is NaN is NaN. */
static char *eval_perplexity(const struct eval_record *eval, char *buf, size_t size)
{
    buf[0] = '\0';
    if (!isnan(eval->val_perplexity) || isnan(eval->val_loss)) axis_format(eval->val_perplexity, buf, size);
    return buf;
}

static void draw_evals(struct grid *grid, struct rect *area, const struct run_model *model, int rows)
{
    size_t shown = begin_list(grid, area, "evaluations", "step, loss, perplexity", model->eval_count, rows);
    for (size_t i = 0; i < shown; i++) {
        const struct eval_record *eval = &model->evals[i];
        char loss[32], perplexity[32];
        bool best = eval->step == model->info.best_step;
        if (best) grid_put(grid, area->x + 32, area->y, 0x2605, STYLE_BEST, ATTR_BOLD);
        grid_line(grid, area, best ? STYLE_BEST : STYLE_TEXT, best ? ATTR_BOLD : 0, "%9" PRId64 "  %8s  %8s",
                  eval->step, axis_format(eval->val_loss, loss, sizeof loss),
                  eval_perplexity(eval, perplexity, sizeof perplexity));
    }
}

static void draw_checkpoints(struct grid *grid, struct rect *area, const struct run_model *model, int rows)
{
    size_t shown = begin_list(grid, area, "checkpoints", NULL, model->checkpoint_count, rows);
    bool beaten = false; /* newest first: of those that were the best, only the first one still is */
    for (size_t i = 0; i < shown; i++) {
        const struct checkpoint_record *checkpoint = &model->checkpoints[i];
        bool best = strcmp(checkpoint->kind, "best") == 0;
        char bytes[32];
        grid_line(grid, area, STYLE_TEXT, 0, "%9" PRId64 "  %-9s  %10s", checkpoint->step,
                  best && beaten ? "best then" : checkpoint->kind,
                  text_format_bytes((uint64_t)checkpoint->bytes, bytes, sizeof bytes));
        beaten = beaten || best;
    }
}

static void draw_orders(struct grid *grid, struct rect *area, const struct run_model *model, int rows)
{
    size_t shown = begin_list(grid, area, "orders", NULL, model->order_count, rows);
    for (size_t i = 0; i < shown; i++) {
        const struct order_row *order = &model->orders[i];
        const char *verb = order_verb_name(order->verb);
        if (order->applied_step >= 0)
            grid_line(grid, area, STYLE_TEXT, 0, "%-10s @%" PRId64 "  %s", verb, order->applied_step,
                      order->result ? order->result : "");
        else
            grid_line(grid, area, STYLE_WARN, 0, "%-10s waiting", verb);
    }
}

static void draw_recent_events(struct grid *grid, struct rect *area, const struct run_model *model, int rows)
{
    if (!begin_list(grid, area, "events", NULL, model->event_count, rows)) return;
    struct rect events = *area;
    events.h = panel_events_rows(model, area->w, area->h < rows ? area->h : rows);
    panel_draw_events(grid, events, model, NULL);
    rect_skip(area, events.h);
}

/* Lines that are neither empty nor a comment. */
static void draw_config(struct grid *grid, struct rect *area, const char *config)
{
    if (!begin_list(grid, area, "configuration", NULL, config != NULL, area->h)) return;
    for (const char *line = config; *line;) {
        size_t n = strcspn(line, "\n");
        if (n > 0 && line[0] != ';' && line[0] != '#')
            grid_line(grid, area, line[0] == '[' ? STYLE_DIM : STYLE_TEXT, 0, "%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

void panel_draw_side(struct grid *grid, struct rect area, const struct run_model *model)
{
    enum { CHECKPOINTS = 3, ORDERS = 4, EVENT_ROWS = 12, OTHERS = 12 };
    if (area.w < 30 || area.h < 4) return;
    int evals = (area.h - OTHERS) / 4 < 3 ? 3 : (area.h - OTHERS) / 4;
    draw_facts(grid, &area, &model->info);
    draw_evals(grid, &area, model, evals);
    draw_checkpoints(grid, &area, model, CHECKPOINTS);
    draw_orders(grid, &area, model, ORDERS);
    draw_recent_events(grid, &area, model, EVENT_ROWS);
    draw_config(grid, &area, model->config);
}
