/* See workbench.h. */
#include "tui/view/workbench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/order.h"
#include "runs/run.h"
#include "tui/view/labels.h"
#include "tui/widget/layout.h"

enum { GREETING_SECONDS = 60 };

static void pop(struct workbench *workbench)
{
    workbench->depth--;
    workbench->stack[workbench->depth].ops->close(workbench->stack[workbench->depth].state);
    free(workbench->stack[workbench->depth].state);
    workbench->typing = false;
    workbench->dirty = true;
}

static enum status push(struct workbench *workbench, const struct view_ops *ops, const char *argument,
                        struct err *err)
{
    void *state = calloc(1, ops->state_bytes);
    if (!state) return err_set(err, STATUS_NO_MEMORY, "no memory for a view");
    workbench->typing = false;
    if (ops->open(workbench, state, argument, err)) {
        ops->close(state);
        free(state);
        return err->status;
    }
    workbench->stack[workbench->depth].ops = ops;
    workbench->stack[workbench->depth++].state = state;
    workbench->dirty = true;
    return STATUS_OK;
}

enum status workbench_open(const struct workbench_options *options, struct workbench **out, struct err *err)
{
    struct workbench *workbench = calloc(1, sizeof *workbench);
    if (!workbench) return err_set(err, STATUS_NO_MEMORY, "no memory for the workbench");
    workbench->options = *options;
    workbench->now = clock_wall();
    workbench->second = (int64_t)workbench->now;
    enum status status = store_open(options->home, true, &workbench->store, err);
    if (!status) settings_open(&workbench->settings, store_home(workbench->store));
    if (!status) workbench->version = store_version(workbench->store);
    if (!status) status = push(workbench, options->list, NULL, err);
    if (!status && options->run_id) status = push(workbench, options->run, options->run_id, err);
    if (status) {
        workbench_close(workbench);
        return status;
    }
    if (options->greeting) {
        workbench_say(workbench, "%s", options->greeting);
        workbench->greeting_end = workbench->now + GREETING_SECONDS;
    }
    *out = workbench;
    return STATUS_OK;
}

void workbench_close(struct workbench *workbench)
{
    if (!workbench) return;
    while (workbench->depth > 0) pop(workbench);
    launch_release(&workbench->resuming);
    (void)settings_close(&workbench->settings, NULL); /* a folder that is read-only remembers nothing */
    store_close(workbench->store);
    free(workbench);
}

static const struct view_ops *top_ops(const struct workbench *workbench)
{
    return workbench->stack[workbench->depth - 1].ops;
}

static void *top_state(const struct workbench *workbench)
{
    return workbench->stack[workbench->depth - 1].state;
}

/* Checks on the trainer that was started to resume a run. A question in the last row stays. */
static void follow_resumed(struct workbench *workbench)
{
    char id[RUN_ID_MAX];
    if (!workbench->resuming.pid) return;
    enum status status = launch_poll(&workbench->resuming, workbench->store, id, &workbench->err);
    if (status && status != STATUS_BUSY)
        workbench_did(workbench, status);
    else if (!workbench->asked && status)
        workbench_say(workbench, "resuming %s: %s", workbench->resuming.resumed, workbench->err.text);
    else if (!workbench->asked)
        workbench_say(workbench, "%s is training again", id);
}

/* With it goes the question that it may be. */
static void drop_message(struct workbench *workbench)
{
    workbench->message[0] = '\0';
    workbench->greeting_end = 0;
    workbench->asked = ACTION_NONE;
    workbench->dirty = true;
}

void workbench_tick(struct workbench *workbench, double now)
{
    workbench->now = now;
    int64_t version = store_version(workbench->store), second = (int64_t)floor(now);
    bool store_changed = version != workbench->version;
    if (!store_changed && second == workbench->second) return;
    workbench->version = version;
    workbench->second = second;
    if (workbench->greeting_end > 0 && now > workbench->greeting_end) drop_message(workbench);
    follow_resumed(workbench);
    if (top_ops(workbench)->read(workbench, top_state(workbench), store_changed)) workbench->dirty = true;
}

static void help_key(struct workbench *workbench, uint32_t code)
{
    enum { PAGE = 10 };
    if (code == ' ') code = K_PAGE_DOWN;
    enum action action = key_action(CONTEXT_RUNS, code);
    workbench->helping = keys_move(action, &workbench->help_scroll, SIZE_MAX, PAGE);
}

static void prompt_key(struct workbench *workbench, uint32_t code)
{
    enum action prompted = workbench->prompted;
    if (code == K_ENTER || code == K_ESCAPE) workbench->prompted = ACTION_NONE;
    if (code == K_ENTER)
        top_ops(workbench)->key(workbench, top_state(workbench), prompted, K_ENTERED);
    else if (code != K_ESCAPE)
        input_key(&workbench->answer, code);
}

void workbench_key(struct workbench *workbench, uint32_t code)
{
    if (code == K_NONE || workbench->left) return;
    enum action asked = workbench->asked;
    drop_message(workbench);
    const struct view_ops *ops = top_ops(workbench);
    bool text =
        (workbench->typing || workbench->prompted) && code >= ' ' && code != K_BACKSPACE && code < K_UP;
    enum action action = text ? ACTION_NONE : key_action(ops->context, code);
    if (action == ACTION_LEAVE) {
        workbench->left = true;
    } else if (workbench->prompted) {
        prompt_key(workbench, code);
    } else if (asked) {
        bool yes = key_action(CONTEXT_CONFIRM, code) == ACTION_YES;
        if (yes) ops->key(workbench, top_state(workbench), asked, K_CONFIRMED);
    } else if (workbench->helping) {
        help_key(workbench, code);
    } else if (action == ACTION_HELP) {
        workbench->helping = true;
        workbench->help_scroll = 0;
    } else if (action == ACTION_REDRAW) {
        workbench->redraw = true;
    } else {
        ops->key(workbench, top_state(workbench), action, code);
    }
}

/* Draws the last row: hints, or a message, wrapped and bold, in as many rows as it takes. */
static void draw_footer(struct workbench *workbench, struct grid *grid)
{
    int rows = workbench->message[0] ? wrap_rows(workbench->message, grid->w - 2) : 1;
    if (rows > grid->h / 2) rows = grid->h / 2;
    bool prompt = workbench->prompted != ACTION_NONE;
    int above = prompt && workbench->message[0] ? 1 : 0; /* a message is above the line that is typed */
    struct rect area = {0, grid->h - rows - above, grid->w, rows + above},
                words = {1, area.y, grid->w - 2, rows};
    grid_fill(grid, area, ' ', STYLE_TEXT, 0);
    if (prompt) {
        struct pen pen = {grid, 1, grid->h - 1, grid->w - 1};
        pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "%s ", workbench->label);
        input_draw(grid, pen.x, pen.y, pen.end - pen.x, &workbench->answer, true, 0, 0);
    }
    if (workbench->message[0]) {
        wrap_draw(grid, words, workbench->message_style, workbench->message);
        grid_mark(grid, words, ATTR_BOLD);
    } else if (workbench->remark[0] && !prompt) {
        grid_text(grid, 1, area.y, grid->w - 2, STYLE_WARN, ATTR_BOLD, workbench->remark);
    } else if (!prompt) {
        keys_draw_hints(grid, area, top_ops(workbench)->context, workbench->no_hint);
    }
}

void workbench_draw(struct workbench *workbench, struct grid *grid)
{
    grid_clear(grid);
    workbench->dirty = false;
    if (layout_too_small(grid->w, grid->h)) {
        char text[80];
        snprintf(text, sizeof text, "too small: %d x %d\nanneal needs %d x %d", grid->w, grid->h,
                 LAYOUT_MIN_W, LAYOUT_MIN_H);
        wrap_draw(grid, (struct rect){0, grid->h > 2 ? grid->h / 2 - 1 : 0, grid->w, 2}, STYLE_WARN, text);
        return;
    }
    memset(workbench->no_hint, 0, sizeof workbench->no_hint);
    workbench->remark[0] = '\0';
    top_ops(workbench)->draw(workbench, top_state(workbench), grid);
    draw_footer(workbench, grid);
    if (workbench->helping) keys_draw_help(grid, top_ops(workbench)->context, &workbench->help_scroll);
}

size_t workbench_live_runs(struct workbench *workbench)
{
    struct arena arena = {0};
    struct run_info *runs;
    size_t count, live = 0;
    if (run_list(workbench->store, &arena, &runs, &count, NULL) == STATUS_OK)
        for (size_t i = 0; i < count; i++) live += label_is_live(runs[i].status);
    arena_release(&arena);
    return live;
}

void workbench_push(struct workbench *workbench, const struct view_ops *ops, const char *argument)
{
    if (workbench->depth < WORKBENCH_DEPTH)
        (void)workbench_did(workbench, push(workbench, ops, argument, &workbench->err));
}

void workbench_back(struct workbench *workbench)
{
    if (workbench->depth == 1) {
        workbench->left = true;
        return;
    }
    pop(workbench);
    (void)top_ops(workbench)->read(workbench, top_state(workbench), true); /* catch up on changes */
}

void workbench_hint(struct workbench *workbench, enum run_status status)
{
    bool live = label_is_live(status);
    if (live) workbench->no_hint[ACTION_RESUME] = true;
    if (!live) workbench->no_hint[ACTION_PAUSE] = workbench->no_hint[ACTION_STOP] = true;
}

void workbench_say(struct workbench *workbench, const char *format, ...)
{
    drop_message(workbench); /* and a question that is no longer visible */
    TEXT_FORMAT(workbench->message, format);
    workbench->message_style = STYLE_GOOD;
}

bool workbench_did(struct workbench *workbench, enum status status)
{
    if (!status) return true;
    drop_message(workbench);
    snprintf(workbench->message, sizeof workbench->message, "! %s", workbench->err.text);
    workbench->message_style = STYLE_BAD;
    return false;
}

void workbench_ask(struct workbench *workbench, enum action action, const char *question)
{
    workbench_say(workbench, "%s  (y: yes; any other key: no)", question);
    workbench->message_style = STYLE_WARN;
    workbench->asked = action;
}

void workbench_prompt(struct workbench *workbench, enum action action, const char *label, const char *text)
{
    char line[INPUT_MAX];
    clean_line(line, sizeof line, text);
    input_set(&workbench->answer, line);
    snprintf(workbench->label, sizeof workbench->label, "%.*s", (int)utf8_cut(label, strnlen(label, 79)),
             label);
    workbench->prompted = action;
}

static int64_t order(struct workbench *workbench, const struct run_info *run, enum order_verb verb,
                     double argument, const char *what)
{
    int64_t id = 0;
    if (!label_is_live(run->status))
        workbench_say(workbench, "%s is not training (status: %s)", run->name, status_words[run->status]);
    else if (workbench_did(workbench, order_issue(workbench->store, run->id, verb, argument, "workbench", &id,
                                                  &workbench->err)))
        workbench_say(workbench, "asked %s to %s; it will do so after the current step", run->name, what);
    return id;
}

int64_t workbench_order(struct workbench *workbench, const struct run_info *run, enum action action,
                        bool confirmed)
{
    static const struct {
        enum action action;
        enum order_verb verb;
        const char *what;
    } orders[] = {
        {ACTION_PAUSE, ORDER_PAUSE, "pause"},
        {ACTION_STOP, ORDER_STOP, "stop"},
        {ACTION_CHECKPOINT, ORDER_CHECKPOINT, "write a checkpoint"},
        {ACTION_EVALUATE, ORDER_EVAL, "evaluate"},
        {ACTION_SAMPLE, ORDER_SAMPLE, "write a sample"},
        {ACTION_TRACE, ORDER_TRACE, "write a trace of its next step"},
    };
    char what[RUN_NAME_MAX + 64];
    if (action == ACTION_STOP && label_is_live(run->status) && !confirmed) {
        snprintf(what, sizeof what, "Stop %s? It writes a checkpoint first.", run->name);
        workbench_ask(workbench, ACTION_STOP, what);
        return 0;
    }
    if (action == ACTION_PAUSE && run->status == RUN_PAUSED)
        return order(workbench, run, ORDER_CONTINUE, NAN, "continue");
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (orders[i].action == action) return order(workbench, run, orders[i].verb, NAN, orders[i].what);
    return 0;
}

int64_t workbench_order_lr(struct workbench *workbench, const struct run_info *run, bool higher)
{
    struct arena arena = {0};
    struct order_row *orders; /* from the store: a view has not read an order of a moment ago yet */
    size_t count = 0;
    char what[64];
    double factor = 1;
    bool read = workbench_did(
        workbench, order_list(workbench->store, run->id, SIZE_MAX, &arena, &orders, &count, &workbench->err));
    for (size_t i = count; read && i-- > 0;) /* newest first */
        if (orders[i].verb == ORDER_LR_FACTOR) factor = orders[i].argument;
    arena_release(&arena);
    if (!read) return 0;
    factor *= higher ? 2 : 0.5;
    snprintf(what, sizeof what, "multiply its scheduled learning rate by %g", factor);
    return order(workbench, run, ORDER_LR_FACTOR, factor, what);
}

void workbench_resume(struct workbench *workbench, const struct run_info *run, bool confirmed)
{
    bool done = run->total_steps > 0 && run->steps >= run->total_steps;
    uint64_t planned = run->total_steps < 0 ? 0 : (uint64_t)run->total_steps,
             steps = run->steps < 0 ? 0 : (uint64_t)run->steps;
    char question[RUN_NAME_MAX + 120], total[64];
    const char *arguments[] = {"resume", run->id, LAUNCH_PROGRESS, done ? total : NULL, NULL};
    snprintf(total, sizeof total, "--train.total_steps=%" PRId64, 2 * run->total_steps);
    snprintf(question, sizeof question,
             done ? "%s has done its %s steps. Train it further, to %s?"
                  : "Resume %s from its newest checkpoint? It was stopped after %s of %s steps.",
             run->name, TEXT_NUMBER(done ? planned : steps), TEXT_NUMBER(done ? 2 * planned : planned));
    if (run->status == RUN_PAUSED)
        workbench_say(workbench, "%s is paused: p lets it continue", run->name);
    else if (label_is_live(run->status))
        workbench_say(workbench, "%s is training already", run->name);
    else if (workbench->resuming.pid)
        workbench_say(workbench, "%s is still being resumed: try again once it is training",
                      workbench->resuming.resumed);
    else if (!confirmed)
        workbench_ask(workbench, ACTION_RESUME, question);
    else if (workbench_did(workbench, launch_start(&workbench->resuming, store_home(workbench->store),
                                                   arguments, run, &workbench->err)))
        workbench_say(workbench, "resuming %s", run->name);
}
