/* The panels around the charts of one run, see run_model.h. */
#include "tui/view/run_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/view/labels.h"
#include "tui/view/memory_view.h"
#include "tui/view/run_charts.h"
#include "tui/widget/axis.h"

/* Whether the history has the value: an import may not. NaN in training counts as recorded. */
static bool is_recorded(const struct run_model *model, enum metric metric, double newest)
{
    return !isnan(newest) || model->recorded[metric];
}

/* Whether the configuration evaluates the untrained model before the first step. */
static bool evaluates_first(const char *config)
{
    return run_config_says(config, "eval", "early = true") && !run_config_says(config, "eval", "every = 0");
}

/* Draws the numbers before the first step. */
static void draw_beginning(struct pen *row, const struct run_model *model)
{
    bool live = status_is_live(model->info.status);
    if (model->history.eval_count)
        pen_fact(row, "val", STYLE_VAL, "%s", AXIS_TEXT(model->history.evals[0].val_loss));
    if (!live)
        pen_print(row, STYLE_DIM, 0, "no step has been done");
    else if (!model->history.eval_count && evaluates_first(model->config))
        pen_print(row, STYLE_ACCENT, 0, "evaluating the untrained model, then the first step");
    else
        pen_print(row, STYLE_ACCENT, 0, "the first step is under way");
}

static void draw_numbers(struct grid *grid, struct rect area, const struct run_model *model, double now)
{
    const struct run_info *run = &model->info;
    const struct step_record *last = &model->last;
    struct pen row = {grid, area.x + 1, area.y + 2, area.x + area.w - 1};
    if (run->steps <= 0) {
        draw_beginning(&row, model);
        return;
    }
    if (run->loss_recorded) pen_fact(&row, "loss", STYLE_TRAIN, "%s", AXIS_TEXT(run->final_loss));
    if (model->history.eval_count)
        pen_fact(&row, "val", STYLE_VAL, "%s", AXIS_TEXT(model->history.evals[0].val_loss));
    if (run->best_step >= 0)
        pen_fact(&row, *run->best_metric ? run->best_metric : "best", STYLE_BEST, "%s @%" PRId64,
                 AXIS_TEXT(*run->best_metric ? run->best_value : run->best_val_loss), run->best_step);
    if (model->history.class_count && strcmp(run->best_metric, "accuracy") != 0) {
        double accuracy = run_history_measure(&model->history, model->history.classes[0].step, "accuracy");
        if (!isnan(accuracy)) pen_fact(&row, "accuracy", STYLE_VAL, "%.3f", accuracy);
    }
    if (!isnan(run->tokens_per_sec) && !label_stands_still(run, now))
        pen_fact(&row, "", STYLE_SPEED, "%s tok/s", TEXT_COUNT(run->tokens_per_sec));
    if (!model->has_last) return;
    if (is_recorded(model, METRIC_LR, last->lr)) pen_fact(&row, "lr", STYLE_LR, "%s", AXIS_TEXT(last->lr));
    if (is_recorded(model, METRIC_GRAD_NORM, last->grad_norm))
        pen_fact(&row, "grad", STYLE_GRAD, "%s", AXIS_TEXT(last->grad_norm));
    if (!isnan(last->step_ms)) pen_fact(&row, "step", STYLE_TEXT, "%s ms", AXIS_TEXT(last->step_ms));
    if (run->tokens >= 0) pen_fact(&row, "tokens", STYLE_TEXT, "%s", TEXT_COUNT(run->tokens));
    if (!isnan(last->epoch)) pen_fact(&row, "epoch", STYLE_TEXT, "%.2f", last->epoch);
    if (!isnan(last->mfu)) pen_fact(&row, "MFU", STYLE_TEXT, "%.1f%%", last->mfu * 100);
}

/* Draws why the run ended, how to resume it, or the state of early stopping, the most urgent first. */
static void draw_story(struct pen *pen, const struct run_model *model, const struct keymap *keymap)
{
    const char *resume = KEY_WORD(keymap, CONTEXT_RUN, ACTION_RESUME);
    const struct run_info *run = &model->info;
    const struct stopping_record *now =
        model->history.stopping_count ? &model->history.stopping[0].record : NULL;
    bool bad = run->status == RUN_FAILED || run->status == RUN_CRASHED;
    if (run->message[0])
        pen_print(pen, bad ? STYLE_BAD : STYLE_DIM, bad ? ATTR_BOLD : 0,
                  run->status == RUN_STOPPED ? "%s; %s resumes it" : "%s", run->message, resume);
    else if (run->status == RUN_CRASHED && model->listed_checkpoints && !model->history.checkpoint_count)
        pen_print(pen, STYLE_BAD, ATTR_BOLD,
                  "its trainer died and its checkpoints are gone; %s starts it anew",
                  KEY_WORD(keymap, CONTEXT_RUN, ACTION_AGAIN));
    else if (run->status == RUN_CRASHED)
        pen_print(pen, STYLE_BAD, ATTR_BOLD, "its trainer died; %s resumes it from the %s", resume,
                  model->listed_checkpoints ? "last checkpoint" : "beginning: it has no checkpoint yet");
    else if (now && now->verdict == VERDICT_STOP)
        pen_print(pen, STYLE_ACCENT, 0,
                  "stopped early: %" PRId64 " evaluation%s did not improve on %s @%" PRId64,
                  now->patience_used, text_plural(now->patience_used), AXIS_TEXT(now->best_val_loss),
                  now->best_step);
    else if (now && now->patience > 0)
        pen_print(pen, now->patience_used ? STYLE_WARN : STYLE_GOOD, 0,
                  "%" PRId64 " of %" PRId64 " evaluation%s without improvement on %s @%" PRId64,
                  now->patience_used, now->patience, text_plural(now->patience),
                  AXIS_TEXT(now->best_val_loss), now->best_step);
    else if (run->status == RUN_STOPPED)
        pen_print(pen, STYLE_DIM, 0, "stopped; %s resumes it", resume);
}

void panel_draw_header(struct grid *grid, struct rect area, const struct run_model *model,
                       const struct keymap *keymap, double now)
{
    struct pen story = {grid, area.x + 1, area.y + 3, area.x + area.w - 1};
    char memory[128];
    label_draw_run(grid, &model->info, now);
    draw_numbers(grid, area, model, now);
    if (area.h < 4) return;
    draw_story(&story, model, keymap);
    memory_panel_summary(&model->memory, memory, sizeof memory);
    if (story.x + 3 + glyph_text_width(memory) <= story.end) pen_print_right(&story, STYLE_DIM, 0, memory);
}

int panel_draw_sample(struct grid *grid, struct rect area, const struct run_model *model,
                      const struct keymap *keymap, size_t which)
{
    enum { TEXT_MAX = 16384 };
    char detail[96] = "", text[TEXT_MAX] = "no text was written";
    bool any = which < model->history.sample_count;
    if (area.h < 2) return 0;
    if (status_is_live(model->info.status))
        snprintf(text, sizeof text, "no text yet: %s writes one",
                 KEY_WORD(keymap, CONTEXT_RUN, ACTION_SAMPLE));
    if (any) {
        const struct sample_record *sample = &model->history.samples[which];
        snprintf(detail, sizeof detail, "@%" PRId64, sample->step);
        if (which)
            text_add(detail, sizeof detail, "  ", "(older; %s: newer)",
                     KEY_WORD(keymap, CONTEXT_RUN, ACTION_SAMPLE_NEWER));
        else if (model->history.sample_count > 1)
            text_add(detail, sizeof detail, "  ", "(%s: older)",
                     KEY_WORD(keymap, CONTEXT_RUN, ACTION_SAMPLE_OLDER));
        bool answers = strcmp(run_charts_kind(model->config), "instructions") == 0;
        snprintf(text, sizeof text, "%s%s%s", sample->prompt, answers ? "\n" : "", sample->text);
    }
    grid_title(grid, &area, "sample", detail);
    struct rect words = {area.x + 1, area.y, area.w - 2, area.h};
    return 1 + wrap_draw(grid, words, any ? STYLE_TEXT : STYLE_DIM, text);
}

static int64_t confused(const struct run_history *h, const char *label, const char *predicted)
{
    for (size_t i = 0; i < h->confusion_count; i++)
        if (strcmp(h->confusion[i].label, label) == 0 && strcmp(h->confusion[i].predicted, predicted) == 0)
            return h->confusion[i].count;
    return 0;
}

/* The texts of a class by the label they were given, or the labels; `cell`: columns of each, 0: no room. */
static void draw_confused(struct grid *grid, int x, int y, int cell, const struct run_history *h, size_t row)
{
    for (size_t k = h->class_count; cell && k-- > 0; x += cell) {
        bool head = row == h->class_count;
        int64_t count = head ? 0 : confused(h, h->classes[row].label, h->classes[k].label);
        enum style style = !count ? STYLE_DIM : row == k ? STYLE_GOOD : STYLE_WARN;
        char text[24];
        if (snprintf(text, sizeof text, "%" PRId64, count) >= cell)
            snprintf(text, sizeof text, "%s", TEXT_COUNT(count));
        grid_text_right(grid, x, y, cell - 1, style, style == STYLE_GOOD ? ATTR_BOLD : 0,
                        head ? h->classes[k].label : text);
    }
}

int panel_draw_confusion(struct grid *grid, struct rect area, const struct run_model *model,
                         const struct keymap *keymap, size_t *first)
{
    enum { NAME = 16, SCORES = 35, LEAST = 6, MOST = 14 /* columns of a cell */ };
    const struct run_history *h = &model->history;
    int cells = area.x + 1 + NAME + SCORES, cell = (area.w - 1 - NAME - SCORES) / (int)h->class_count;
    char detail[80];
    int top = area.y;
    if (area.h < 3) return 0;
    size_t page = (size_t)area.h - 2, last = h->class_count > page ? h->class_count - page : 0;
    cell = cell < LEAST || !h->confusion_count ? 0 : cell > MOST ? MOST : cell;
    if (*first > last) *first = last;
    snprintf(detail, sizeof detail, "@%" PRId64 "%s", h->classes[0].step,
             cell ? "  columns: the label that the model gave" : "");
    if (last)
        text_add(detail, sizeof detail, "  ", "%s %s more of them",
                 KEY_WORD(keymap, CONTEXT_RUN, ACTION_SAMPLE_OLDER),
                 KEY_WORD(keymap, CONTEXT_RUN, ACTION_SAMPLE_NEWER));
    grid_title(grid, &area, "classes", detail);
    draw_confused(grid, cells, area.y, cell, h, h->class_count);
    grid_line(grid, &area, STYLE_DIM, 0, " %*s %8s %7s %7s %7s", -NAME, "", "texts", "prec.", "recall", "F1");
    for (size_t i = h->class_count - *first; i-- > 0 && area.h > 0;) {
        const struct class_record *c = &h->classes[i];
        draw_confused(grid, cells, area.y, cell, h, i);
        grid_text(grid, area.x + 1, area.y, NAME, STYLE_TEXT, 0, c->label);
        struct rect row = {area.x + 1 + NAME, area.y, area.w - 1 - NAME, 1};
        grid_line(grid, &row, STYLE_TEXT, 0, " %8" PRId64 " %7.4f %7.4f %7.4f", c->support, c->precision,
                  c->recall, c->f1);
        rect_skip(&area, 1);
    }
    return area.y - top;
}

int panel_draw_ranks(struct grid *grid, struct rect area, const struct run_model *model)
{
    enum { HOST = 16 };
    const struct run_history *h = &model->history;
    char detail[64];
    int top = area.y;
    if (area.h < 3) return 0;
    snprintf(detail, sizeof detail, "@%" PRId64 "  slowest first", h->ranks[0].step);
    grid_title(grid, &area, "ranks", detail);
    grid_line(grid, &area, STYLE_DIM, 0, "%4s %*s %10s %10s %11s %11s", "rank", -HOST, "host", "works ms",
              "waits ms", "sent", "memory");
    double median = h->ranks[h->rank_count / 2].step_ms;
    for (size_t i = 0; i < h->rank_count && area.h > 0; i++) {
        const struct rank_record *r = &h->ranks[i];
        enum style style = r->step_ms > RANK_SLOW * median ? STYLE_WARN : STYLE_TEXT;
        grid_text(grid, area.x + 6, area.y, HOST, style, 0, r->host);
        struct rect left = {area.x, area.y, 6, 1}, right = {area.x + 5 + HOST, area.y, area.w - 5 - HOST, 1};
        grid_line(grid, &left, style, 0, "%4d", r->rank);
        grid_line(grid, &right, style, 0, " %10.2f %10.2f %11s %11s", r->step_ms, r->wait_ms,
                  TEXT_BYTES(r->sent_bytes), TEXT_BYTES(r->memory_bytes));
        rect_skip(&area, 1);
    }
    return area.y - top;
}

/* Writes the step once, even if the message begins with it. */
char *panel_event_text(const struct event_record *event, char *buf, size_t size)
{
    char step[40];
    int n = snprintf(step, sizeof step, "step %" PRId64 ": ", event->step);
    const char *text = event->text + (strncmp(event->text, step, (size_t)n) == 0 ? n : 0);
    if (event->step >= 0)
        snprintf(buf, size, "@%" PRId64 " %s", event->step, text);
    else
        snprintf(buf, size, "%s", text);
    return buf;
}

int panel_draw_events(struct grid *grid, struct rect area, const struct run_model *model)
{
    int top = area.y;
    enum { TEXT_MAX = 1024, INDENT = 2, MARGIN = 4 }; /* bytes; columns: the mark, and all except the text */
    for (size_t i = 0; i < model->history.event_count && area.h > 0; i++) {
        const struct event_record *event = &model->history.events[i];
        bool error = strcmp(event->level, "error") == 0, info = strcmp(event->level, "info") == 0;
        enum style style = error ? STYLE_BAD : info ? STYLE_DIM : STYLE_WARN;
        struct rect words = {area.x + 1 + INDENT, area.y, area.w - MARGIN, area.h};
        char text[TEXT_MAX];
        if (!info) grid_put(grid, area.x + 1, area.y, error ? 0x2717 : '!', style, ATTR_BOLD);
        rect_skip(&area, wrap_draw(grid, words, style, panel_event_text(event, text, sizeof text)));
    }
    return area.y - top;
}

/* --- details, for wide screens --- */

static void __attribute__((format(printf, 4, 5)))
side_line(struct grid *grid, struct rect *area, const char *label, const char *format, ...)
{
    enum { VALUE_X = 11 };
    char value[128];
    TEXT_FORMAT(value, format);
    if (area->h > 0) grid_text(grid, area->x + 1, area->y, VALUE_X, STYLE_DIM, 0, label);
    struct rect row = {area->x + 1 + VALUE_X, area->y, area->w - 1 - VALUE_X, area->h};
    grid_line(grid, &row, STYLE_TEXT, 0, "%s", value);
    rect_skip(area, 1);
}

static void draw_facts(struct grid *grid, struct rect *area, const struct run_info *run)
{
    grid_title(grid, area, "run", NULL);
    side_line(grid, area, "id", "%s", run->id);
    if (run->device[0]) side_line(grid, area, "device", "%s, %s", run->device, run->precision);
    if (run->parameters >= 0) side_line(grid, area, "parameters", "%s", TEXT_NUMBER(run->parameters));
    if (run->frozen_parameters > 0)
        side_line(grid, area, "trained", "%s", TEXT_NUMBER(run->trained_parameters));
    if (run->tokens >= 0) side_line(grid, area, "tokens", "%s", TEXT_NUMBER(run->tokens));
    if (run->segment > 1)
        side_line(grid, area, "segment", "%d (resumed %d time%s)", run->segment, run->segment - 1,
                  text_plural(run->segment - 1));
    if (run->pid > 0 && status_is_live(run->status))
        side_line(grid, area, "trainer", "process %" PRId64, run->pid);
}

/* Draws a title below a blank row. Returns the rows for the list, at most `rows`; 0: none, or no room. */
static size_t begin_list(struct grid *grid, struct rect *area, const char *title, const char *detail,
                         size_t count, int rows)
{
    if (area->h < 4 || !count) return 0;
    rect_skip(area, 1);
    grid_title(grid, area, title, detail);
    if (rows > area->h) rows = area->h;
    return count < (size_t)rows ? count : (size_t)rows;
}

static void draw_evals(struct grid *grid, struct rect *area, const struct run_model *model, int rows)
{
    bool classifier = model->history.class_count > 0;
    size_t shown =
        begin_list(grid, area, "evaluations", classifier ? "step, loss, accuracy" : "step, loss, perplexity",
                   model->history.eval_count, rows);
    for (size_t i = 0; i < shown; i++) {
        const struct eval_record *eval = &model->history.evals[i];
        bool best = eval->step == model->info.best_step;
        double value =
            classifier ? run_history_measure(&model->history, eval->step, "accuracy") : eval->val_perplexity;
        bool said = !isnan(value) || isnan(eval->val_loss); /* an import may lack it */
        if (best) grid_put(grid, area->x + 32, area->y, 0x2605, STYLE_BEST, ATTR_BOLD);
        grid_line(grid, area, best ? STYLE_BEST : STYLE_TEXT, best ? ATTR_BOLD : 0, "%9" PRId64 "  %8s  %8s",
                  eval->step, AXIS_TEXT(eval->val_loss), said ? AXIS_TEXT(value) : "");
    }
}

static void draw_checkpoints(struct grid *grid, struct rect *area, const struct run_model *model, int rows)
{
    size_t shown = begin_list(grid, area, "checkpoints", NULL, model->history.checkpoint_count, rows);
    for (size_t i = 0; i < shown; i++) {
        const struct checkpoint_record *checkpoint = &model->history.checkpoints[i];
        bool best = checkpoint->step == model->info.best_step;
        grid_line(grid, area, STYLE_TEXT, 0, "%9" PRId64 "  %-9s  %10s", checkpoint->step,
                  label_checkpoint(checkpoint->kind, best), TEXT_BYTES(checkpoint->bytes));
    }
}

static void draw_orders(struct grid *grid, struct rect *area, const struct run_model *model, int rows)
{
    size_t shown = begin_list(grid, area, "orders", NULL, model->history.order_count, rows);
    for (size_t i = 0; i < shown; i++) {
        const struct order_row *order = &model->history.orders[i];
        const char *verb = verb_words[order->verb], *result = order->result ? order->result : "";
        if (order->applied_step >= 0)
            grid_line(grid, area, STYLE_TEXT, 0, "%-10s @%" PRId64 "  %s", verb, order->applied_step, result);
        else
            grid_line(grid, area, STYLE_WARN, 0, "%-10s waiting", verb);
    }
}

/* The next line of a configuration that is neither empty nor a comment, and its length; NULL: none. */
static const char *config_line(const char *text, size_t *length)
{
    for (; *text; text += *length + (text[*length] == '\n')) {
        *length = strcspn(text, "\n");
        if (*length > 0 && *text != ';' && *text != '#') return text;
    }
    return NULL;
}

/* The last row says how many lines have no room. */
static void draw_config(struct grid *grid, struct rect *area, const char *config, const struct keymap *keymap)
{
    size_t n = 0;
    int left = 0;
    if (!begin_list(grid, area, "configuration", NULL, config && *config, area->h)) return;
    for (const char *line = config; (line = config_line(line, &n)); line += n) left++;
    for (const char *line = config; (line = config_line(line, &n)); line += n, left--) {
        if (area->h == 1 && left > 1) {
            grid_line(grid, area, STYLE_DIM, 0, "and %d more lines: %s lists all", left,
                      KEY_WORD(keymap, CONTEXT_RUN, ACTION_CONFIGURATION));
            return;
        }
        grid_line(grid, area, *line == '[' ? STYLE_DIM : STYLE_TEXT, 0, "%.*s", (int)n, line);
    }
}

void panel_draw_side(struct grid *grid, struct rect area, const struct run_model *model,
                     const struct keymap *keymap)
{
    enum { CHECKPOINTS = 3, ORDERS = 4, EVENT_ROWS = 12, OTHERS = 12 };
    if (area.w < 30 || area.h < 4) return;
    int evals = (area.h - OTHERS) / 4 < 3 ? 3 : (area.h - OTHERS) / 4;
    draw_facts(grid, &area, &model->info);
    draw_evals(grid, &area, model, evals);
    draw_checkpoints(grid, &area, model, CHECKPOINTS);
    draw_orders(grid, &area, model, ORDERS);
    int rows =
        (int)begin_list(grid, &area, "events", NULL, model->history.event_count ? EVENT_ROWS : 0, EVENT_ROWS);
    rect_skip(&area, panel_draw_events(grid, (struct rect){area.x, area.y, area.w, rows}, model));
    draw_config(grid, &area, model->config, keymap);
}
