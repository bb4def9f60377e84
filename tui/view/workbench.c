/* See workbench.h. */
#include "tui/view/workbench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/columns.h"
#include "tui/view/command_line.h"
#include "tui/view/keymap.h"
#include "tui/view/labels.h"
#include "tui/widget/layout.h"

enum { GREETING_SECONDS = 60, WHEEL_LINES = 3, PASTE_SECONDS = 3 /* without more text its end is lost */ };
static const double LATE_SECONDS = 0.5; /* until somebody has seen that something has ended */

static void pop(struct workbench *workbench)
{
    workbench->depth--;
    workbench->stack[workbench->depth].ops->close(workbench->stack[workbench->depth].state);
    free(workbench->stack[workbench->depth].state);
    workbench->unreadable[0] = '\0';
    workbench->typing = workbench->eager = workbench->working = false;
    workbench->dirty = true;
}

static enum status push(struct workbench *workbench, const struct view_ops *ops, const char *argument,
                        struct err *err)
{
    void *state = calloc(1, ops->state_bytes);
    if (!state) return err_no_memory(err, "a view");
    workbench->typing = workbench->eager = workbench->working = false;
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

/* Takes the setting; runs that have ended before are no news. */
static void set_notify(struct workbench *workbench)
{
    int kind = NOTICE_OFF;
    word_parse(notice_words, settings_get(&workbench->settings, "notify"), &kind);
    workbench->notify = (enum notice_kind)kind;
    notice_release(&workbench->noticed);
    if (kind) notice_look(&workbench->noticed, workbench->store, workbench->notice, 1);
    workbench->notice[0] = '\0';
}

enum status workbench_open(const struct workbench_options *options, struct workbench **out, struct err *err)
{
    char problem[400];
    struct workbench *workbench = calloc(1, sizeof *workbench);
    if (!workbench) return err_no_memory(err, "the workbench");
    workbench->options = *options;
    workbench->recolour = true;
    workbench->now = clock_wall();
    workbench->second = (int64_t)workbench->now;
    enum status status = store_open(options->home, STORE_VIEW, &workbench->store, err);
    keymap_init(&workbench->keymap);
    if (!status) settings_open(&workbench->settings, store_home(workbench->store));
    if (!status) store_hurry(workbench->store, true);
    if (!status) workbench->version = store_version(workbench->store);
    if (!status) status = push(workbench, options->list, NULL, err);
    if (!status && options->run_id) status = push(workbench, options->run, options->run_id, err);
    if (status) {
        workbench_close(workbench);
        return status;
    }
    if (options->greeting) {
        workbench_say(workbench, "%s", options->greeting);
        workbench->greeting_end = GREETING_SECONDS;
    }
    set_notify(workbench);
    keymap_read(&workbench->keymap, &workbench->settings, problem, sizeof problem);
    if (*problem) workbench_add(workbench, "%s", problem);
    *out = workbench;
    return STATUS_OK;
}

void workbench_close(struct workbench *workbench)
{
    if (!workbench) return;
    if (workbench->store) store_hurry(workbench->store, false); /* the screen is gone */
    while (workbench->depth > 0) pop(workbench);
    pending_release(&workbench->pending);
    notice_release(&workbench->noticed);
    launch_release(&workbench->resuming);
    run_set_release(&workbench->compared);
    run_set_release(&workbench->deleted);
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

/* Tries what waits for the database, one change after the other, as long as it is free. */
static void retry_pending(struct workbench *workbench)
{
    bool waited = workbench->pending.count > 0, asked = workbench->asked != ACTION_NONE;
    while (workbench->pending.count) {
        enum status status = pending_retry(&workbench->pending, workbench->store, &workbench->err);
        if (status == STATUS_BUSY) return;
        if (!workbench_did(workbench, status)) waited = false; /* the last row says why */
    }
    if (!waited) return;
    workbench->unread = true; /* one's own commits are no news of the store */
    if (!asked) workbench_say(workbench, "the database is free again: what you asked for is done");
}

static void read_view(struct workbench *workbench, bool store_changed)
{
    workbench->reading = true;
    workbench->unread = workbench->unreadable_now = false;
    workbench_did(workbench, store_check_place(workbench->store, &workbench->err));
    if (top_ops(workbench)->read(workbench, top_state(workbench), store_changed)) workbench->dirty = true;
    workbench->reading = false;
    if (store_changed && !workbench->unreadable_now) workbench->unreadable[0] = '\0';
}

static enum status delete_unless_trained(struct store *store, const struct run_member *run, struct err *err)
{
    struct run_info info;
    enum status status = run_get(store, run->id, &info, err);
    if (status) return status;
    if (info.heartbeat > run->since)
        return err_set(err, STATUS_BUSY, "run %s: has trained since you deleted it, so it stays", run->id);
    return run_delete(store, run->id, err);
}

size_t workbench_finish(struct workbench *workbench, struct err *err)
{
    const struct run_set *deleted = &workbench->deleted;
    enum status status = STATUS_OK;
    size_t failed = 0;
    store_hurry(workbench->store, false);
    while (workbench->pending.count && status != STATUS_BUSY) {
        status = pending_retry(&workbench->pending, workbench->store, err);
        failed += status && status != STATUS_BUSY;
    }
    for (size_t i = 0; i < deleted->count && !workbench->abandoned; i++) {
        status = delete_unless_trained(workbench->store, &deleted->runs[i], err);
        workbench->removed += !status;
        failed += status && status != STATUS_NOT_FOUND; /* somebody else has deleted it */
    }
    return failed + workbench->pending.count;
}

void workbench_tick(struct workbench *workbench, double now)
{
    workbench->uptime += fmax(now - workbench->now, 0);
    workbench->now = now;
    retry_pending(workbench);
    int64_t version = store_version(workbench->store), second = (int64_t)floor(now);
    bool store_changed = version != workbench->version || workbench->unread,
         due = store_changed || second != workbench->second;
    if (!due && !workbench->eager) return;
    workbench->version = version;
    workbench->second = second;
    workbench->pasting &= workbench->uptime <= workbench->pasted + PASTE_SECONDS;
    if (workbench->greeting_end > 0 && workbench->uptime > workbench->greeting_end) drop_message(workbench);
    follow_resumed(workbench);
    bool worked = workbench->working;
    read_view(workbench, store_changed);
    if (worked && !workbench->working) workbench->ended = workbench->uptime;
    if (workbench->notify && due) /* also without a commit: a crash makes none */
        notice_look(&workbench->noticed, workbench->store, workbench->notice, sizeof workbench->notice);
}

static void help_key(struct workbench *workbench, uint32_t code)
{
    enum { PAGE = 10 };
    if (code == ' ') code = K_PAGE_DOWN;
    enum action action = key_action(&workbench->keymap, CONTEXT_RUNS, code);
    workbench->helping = keys_move(action, &workbench->help_scroll, SIZE_MAX, PAGE);
}

/* --- the command line --- */

static void act(struct workbench *workbench, enum action action, uint32_t code);

static void open_command_line(struct workbench *workbench)
{
    workbench_prompt(workbench, ACTION_COMMAND, "", ":");
    workbench->command_at = 0;
}

/* Puts an earlier line of the command line, or a later one, in place of the one typed. */
static void recall_command(struct workbench *workbench, bool earlier)
{
    size_t *at = &workbench->command_at;
    if (earlier)
        *at += *at < COMMANDS_KEPT && workbench->commands[*at][0];
    else
        *at -= *at > 0;
    input_set(&workbench->answer, *at ? workbench->commands[*at - 1] : "");
}

/* Does as the key of the command does; an argument then answers what the key asks for. */
static void run_command(struct workbench *workbench)
{
    struct typed_command command;
    char line[INPUT_MAX], why[256];
    memcpy(line, workbench->answer.text, sizeof line);
    if (!command_line_find(top_ops(workbench)->context, line, &command, why, sizeof why)) {
        if (!*why) return;
        workbench_say(workbench, "%s", why);
        workbench->message_style = STYLE_WARN;
        workbench->prompted = ACTION_COMMAND; /* to be typed on */
        return;
    }
    if (strcmp(workbench->commands[0], line) != 0) {
        memmove(workbench->commands[1], workbench->commands[0],
                sizeof workbench->commands - sizeof *workbench->commands);
        memcpy(workbench->commands[0], line, sizeof line);
    }
    if (command.key->context != CONTEXT_ANY) workbench->typing = false; /* the key is no letter of a filter */
    act(workbench, command.key->action, command.key->code);
    if (!command.argument) return;
    workbench->prompted = ACTION_NONE;
    input_set(&workbench->answer, command.argument);
    act(workbench, command.key->action, K_ENTERED);
}

/* --- keys --- */

static void complete_answer(struct workbench *workbench)
{
    if (workbench->prompted != ACTION_COMMAND ||
        !command_line_complete(top_ops(workbench)->context, workbench->no_hint, &workbench->answer))
        (void)top_ops(workbench)->key(workbench, top_state(workbench), ACTION_COMPLETE, K_TAB);
}

static void prompt_key(struct workbench *workbench, uint32_t code)
{
    enum action prompted = workbench->prompted;
    bool command = prompted == ACTION_COMMAND;
    bool emptied = command && code == K_BACKSPACE && !workbench->answer.text[0];
    if (code == K_ENTER || code == K_ESCAPE || emptied) workbench->prompted = ACTION_NONE;
    if (code == K_ENTER && command)
        run_command(workbench);
    else if (code == K_ENTER)
        act(workbench, prompted, K_ENTERED);
    else if (code == K_TAB)
        complete_answer(workbench);
    else if (command && (code == K_UP || code == K_DOWN))
        recall_command(workbench, code == K_UP);
    else if (code != K_ESCAPE)
        input_key(&workbench->answer, code);
}

/* Asks for one of the words of `action` and makes it the setting of that name. */
static void choose(struct workbench *workbench, enum action action, uint32_t code)
{
    char name[COMMAND_NAME_MAX];
    const char *words = command_line_words(action), *at = words, *typed = workbench->answer.text;
    size_t n = strlen(typed);
    command_name(action, name);
    if (code == K_ENTERED) {
        while (at && (strncmp(at, typed, n) != 0 || !strchr("|", at[n])))
            at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL;
        if (at && n) {
            settings_set(&workbench->settings, name, typed);
            workbench->recolour = workbench->recolour || action == ACTION_PALETTE;
            if (action == ACTION_NOTIFY) set_notify(workbench);
            workbench_say(workbench, "%s: %s", name, typed);
            return;
        }
        workbench_say(workbench, "\"%.40s\" is none of %s", typed, words);
        workbench->message_style = STYLE_WARN;
        workbench->prompted = action; /* to be typed on */
        return;
    }
    workbench_prompt(workbench, action, settings_get(&workbench->settings, name), "%s (%s):", name, words);
}

/* Turns the mouse off, or on again. */
static void switch_mouse(struct workbench *workbench)
{
    bool off = settings_has(&workbench->settings, "mouse", "off");
    settings_set(&workbench->settings, "mouse", off ? "on" : "off");
    workbench->recolour = true;
    workbench_say(workbench, off ? "the mouse is on; hold Shift to select text with it"
                                 : "the mouse is off: the terminal selects text with it");
}

/* Carries out an action that a key or the command line requests. */
static void act(struct workbench *workbench, enum action action, uint32_t code)
{
    if (action == ACTION_LEAVE) {
        workbench->left = true;
    } else if (action == ACTION_HELP) {
        workbench->helping = true;
        workbench->help_scroll = 0;
    } else if (action == ACTION_REDRAW) {
        workbench->redraw = workbench->dirty = true;
    } else if (action == ACTION_COMMAND) {
        open_command_line(workbench);
    } else if (action == ACTION_MOUSE) {
        switch_mouse(workbench);
    } else if (action == ACTION_PALETTE || action == ACTION_NOTIFY) {
        choose(workbench, action, code);
    } else if (!top_ops(workbench)->key(workbench, top_state(workbench), action, code)) {
        if (action == ACTION_BACK || action == ACTION_INTERRUPT) workbench_back(workbench);
    }
}

/* Pasted text is text where text is typed, on one line, and else nothing: never a key. */
static uint32_t paste(struct workbench *workbench, uint32_t code)
{
    bool text = workbench->typing || workbench->prompted;
    if (code == K_PASTE) workbench->pasting = true, workbench->pasted_key = false;
    if (code == K_PASTE_END) workbench->pasting = false;
    workbench->pasted = workbench->uptime;
    if (code == K_PASTE_END && workbench->pasted_key)
        workbench_say(workbench, "pasted text is not taken as keys");
    if (code == K_PASTE || code == K_PASTE_END) return K_NONE;
    workbench->pasted_key = workbench->pasted_key || !text;
    if (code == K_ENTER || code == '\n' || code == K_TAB) code = ' ';
    return text && key_is_text(code) ? code : K_NONE;
}

void workbench_key(struct workbench *workbench, uint32_t code)
{
    if (workbench->pasting || code == K_PASTE || code == K_PASTE_END) code = paste(workbench, code);
    if (code == K_NONE || workbench->left) return;
    enum action asked = workbench->asked;
    const struct view_ops *ops = top_ops(workbench);
    double ended = workbench->ended; /* Ctrl-C is meant for that, and Esc if it comes at once */
    bool text = (workbench->typing || workbench->prompted) && key_is_text(code);
    enum action action = text ? ACTION_NONE : key_action(&workbench->keymap, ops->context, code);
    if (action == ACTION_REDRAW) { /* whatever is typed, asked or shown stays */
        workbench->redraw = workbench->dirty = true;
        return;
    }
    drop_message(workbench);
    workbench->ended = 0;
    if (action == ACTION_LEAVE && workbench->working) action = ACTION_INTERRUPT;
    if (action == ACTION_LEAVE && ended > 0) {
        workbench_say(workbench, "it had ended already; Ctrl-C once more leaves the workbench");
    } else if (action == ACTION_LEAVE) {
        workbench->left = true;
    } else if (workbench->prompted) {
        prompt_key(workbench, code);
    } else if (asked) {
        bool yes = key_action(&workbench->keymap, CONTEXT_CONFIRM, code) == ACTION_YES;
        if (yes) (void)ops->key(workbench, top_state(workbench), asked, K_CONFIRMED);
    } else if (workbench->helping) {
        help_key(workbench, code);
    } else if (code == K_ESCAPE && ended > 0 && workbench->uptime < ended + LATE_SECONDS) {
        workbench_say(workbench, "it had ended already; Esc once more goes back");
    } else {
        act(workbench, action, code);
    }
}

/* The mouse never answers a question, nor types. A wheel without a meaning of its own moves by lines. */
void workbench_mouse(struct workbench *workbench, uint32_t code, const struct pointer *at)
{
    bool busy = workbench->asked || workbench->prompted || workbench->typing || workbench->pasting;
    workbench->pointer = *at;
    if (workbench->left || busy || !key_is_mouse(code)) return;
    if (workbench->helping) {
        if (code == K_CLICK) workbench->helping = false;
        if (code == K_WHEEL) help_key(workbench, at->wheel < 0 ? K_UP : K_DOWN);
    } else {
        enum key_context context = top_ops(workbench)->context;
        enum action action = key_action(&workbench->keymap, context, code);
        bool lines = code == K_WHEEL && action == ACTION_NONE;
        if (lines) code = at->wheel < 0 ? K_UP : K_DOWN;
        if (lines) action = key_action(&workbench->keymap, context, code);
        if (action == ACTION_NONE) return;
        if (code != K_MOVE) drop_message(workbench);
        for (int i = 0; i < (lines ? WHEEL_LINES : 1); i++) act(workbench, action, code);
    }
    workbench->dirty = true;
}

/* Draws the last row: hints, or a message, wrapped and bold, in as many rows as it takes. */
static void draw_footer(struct workbench *workbench, struct grid *grid)
{
    enum { ANSWER_LEAST = 14 /* columns for what is typed, and around it, whatever its label takes */ };
    char commands[INPUT_MAX * 2] = "";
    const char *words = workbench->message;
    bool prompt = workbench->prompted != ACTION_NONE;
    if (workbench->prompted == ACTION_COMMAND && !*words)
        words = command_line_describe(&workbench->keymap, top_ops(workbench)->context, workbench->no_hint,
                                      workbench->answer.text, commands, sizeof commands);
    int rows = *words ? wrap_rows(words, grid->w - 2) : 1;
    if (rows > grid->h / 2) rows = grid->h / 2;
    int above = prompt && *words ? 1 : 0; /* they are above the line that is typed */
    struct rect area = {0, grid->h - rows - above, grid->w, rows + above},
                above_it = {1, area.y, grid->w - 2, rows};
    grid_fill(grid, area, ' ', STYLE_TEXT);
    if (prompt) {
        struct pen pen = {grid, 1, grid->h - 1, grid->w - ANSWER_LEAST};
        pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "%s", workbench->label);
        pen = (struct pen){grid, pen.x + 1, pen.y, grid->w - 1};
        input_draw(&pen, &workbench->answer, true, 0, 0);
    }
    if (*words) {
        bool message = words == workbench->message;
        wrap_draw(grid, above_it, message ? workbench->message_style : STYLE_DIM, words);
        if (message) grid_mark(grid, above_it, ATTR_BOLD);
    } else if (workbench->remark[0] && !prompt) {
        grid_text(grid, 1, area.y, grid->w - 2, STYLE_WARN, ATTR_BOLD, workbench->remark);
    } else if (!prompt) {
        keys_draw_hints(grid, area, &workbench->keymap, top_ops(workbench)->context, workbench->no_hint);
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
    workbench->remark[0] = '\0', workbench->reading = true; /* what is shown for the first time */
    top_ops(workbench)->draw(workbench, top_state(workbench), grid);
    workbench->reading = false;
    draw_footer(workbench, grid);
    if (workbench->helping)
        keys_draw_help(grid, &workbench->keymap, top_ops(workbench)->context, workbench->no_hint,
                       &workbench->help_scroll);
}

size_t workbench_live_runs(struct workbench *workbench)
{
    struct arena arena = {0};
    struct run_info *runs;
    size_t count, live = 0;
    if (run_list_begun(workbench->store, &arena, &runs, &count, NULL) == STATUS_OK)
        for (size_t i = 0; i < count; i++) live += status_is_live(runs[i].status);
    arena_release(&arena);
    return live;
}

void workbench_push(struct workbench *workbench, const struct view_ops *ops, const char *argument)
{
    if (workbench->depth < WORKBENCH_DEPTH)
        (void)workbench_did(workbench, push(workbench, ops, argument, &workbench->err));
    else
        workbench_say(workbench, "too many views lie one on another: Esc leaves this one");
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

void workbench_answer(struct workbench *workbench, enum action action, const char *text)
{
    workbench_back(workbench);
    input_set(&workbench->answer, text);
    (void)top_ops(workbench)->key(workbench, top_state(workbench), action, K_ENTERED);
}

void workbench_hint(struct workbench *workbench, const struct run_info *run)
{
    static const enum action orders[] = {ACTION_PAUSE,    ACTION_STOP,      ACTION_CHECKPOINT,
                                         ACTION_EVALUATE, ACTION_SAMPLE,    ACTION_TRACE,
                                         ACTION_LR_LOWER, ACTION_LR_HIGHER, ACTION_LR};
    bool live = status_is_live(run->status);
    if (live || run_is_imported(run)) workbench->no_hint[ACTION_RESUME] = true;
    for (size_t i = 0; !live && i < sizeof orders / sizeof *orders; i++) workbench->no_hint[orders[i]] = true;
    if (run->status == RUN_PAUSED) workbench->no_hint[ACTION_TRACE] = true; /* it needs a next step */
}

void workbench_hint_charts(struct workbench *workbench, bool zoomed, bool events)
{
    static const enum action zoom[] = {ACTION_PAN_LEFT, ACTION_PAN_RIGHT, ACTION_ZOOM_OUT, ACTION_ZOOM_ALL};
    for (size_t i = 0; i < sizeof zoom / sizeof *zoom; i++) workbench->no_hint[zoom[i]] = !zoomed;
    workbench->no_hint[ACTION_EVENT_NEXT] = workbench->no_hint[ACTION_EVENT_PREVIOUS] = !events;
}

void workbench_hint_list(struct workbench *workbench, const struct run_info *run, bool marked, bool deleted)
{
    static const enum action without_rows[] = {ACTION_NEW, ACTION_FILTER, ACTION_COLUMNS, ACTION_BACK};
    for (size_t i = 0; !run && i < KEY_COUNT; i++)
        if (keys[i].context == CONTEXT_RUNS) workbench->no_hint[keys[i].action] = true;
    for (size_t i = 0; i < sizeof without_rows / sizeof *without_rows; i++)
        workbench->no_hint[without_rows[i]] = false;
    if (run) workbench_hint(workbench, run);
    if (run && !marked && status_is_live(run->status)) workbench->no_hint[ACTION_DELETE] = true;
    workbench->no_hint[ACTION_UNDO] = !deleted;
    workbench->no_hint[ACTION_COMPLETE] = !workbench->typing;
}

void workbench_say(struct workbench *workbench, const char *format, ...)
{
    drop_message(workbench); /* and a question that is no longer visible */
    TEXT_FORMAT(workbench->message, format);
    workbench->message_style = STYLE_GOOD;
}

void workbench_add(struct workbench *workbench, const char *format, ...)
{
    char text[sizeof workbench->message];
    TEXT_FORMAT(text, format);
    if (!workbench->message[0]) workbench->message_style = STYLE_WARN;
    text_add(workbench->message, sizeof workbench->message, "\n", "%s", text);
    workbench->dirty = true;
}

bool workbench_did(struct workbench *workbench, enum status status)
{
    if (!status) return true;
    if (status == STATUS_BUSY && workbench->reading) {
        workbench->unread = true; /* old data stays, as it does anyway; the next tick reads again */
        return false;
    }
    workbench->unreadable_now |= workbench->reading;
    if (workbench->reading && strcmp(workbench->unreadable, workbench->err.text) == 0) return false;
    if (workbench->reading)
        snprintf(workbench->unreadable, sizeof workbench->unreadable, "%s", workbench->err.text);
    drop_message(workbench);
    snprintf(workbench->message, sizeof workbench->message, "! %s", workbench->err.text);
    workbench->message_style = STYLE_BAD;
    return false;
}

char *workbench_key_name(const struct workbench *workbench, enum action action, char buf[KEY_NAME_MAX])
{
    return key_word(&workbench->keymap, top_ops(workbench)->context, action, buf);
}

void workbench_ask(struct workbench *workbench, enum action action, const char *format, ...)
{
    char question[sizeof workbench->message];
    TEXT_FORMAT(question, format);
    workbench_say(workbench, "%s  (%s: yes; any other key: no)", question,
                  KEY_WORD(&workbench->keymap, CONTEXT_CONFIRM, ACTION_YES));
    workbench->message_style = STYLE_WARN;
    workbench->asked = action;
}

void workbench_prompt(struct workbench *workbench, enum action action, const char *text, const char *format,
                      ...)
{
    char line[INPUT_MAX], label[256];
    clean_line(line, sizeof line, text);
    input_set(&workbench->answer, line);
    TEXT_FORMAT(label, format);
    snprintf(workbench->label, sizeof workbench->label, "%.*s", (int)utf8_cut(label, strnlen(label, 79)),
             label);
    workbench->prompted = action;
}
