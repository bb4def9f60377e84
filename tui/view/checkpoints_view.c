/* The checkpoints that lie in the folder of a run, and what can be done from each: prompt it, fork it, export
 * it, evaluate it, delete it. A deleted one is only hidden until the view closes: until then it can be
 * brought back. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "runs/history.h"
#include "runs/series.h"
#include "tui/view/labels.h"
#include "tui/view/list.h"
#include "tui/view/workbench.h"
#include "tui/widget/axis.h"
#include "tui/widget/layout.h"

struct saved {
    int64_t step, bytes;
    double wall_time, loss, val_loss; /* losses NaN: not recorded */
    char kind[16];
    bool best, deleted;
};

struct checkpoints_state {
    struct workbench *workbench;
    struct run_info run;
    struct arena arena;
    struct saved *saved; /* (count) newest first */
    size_t count, gone;  /* gone: of them deleted */
    const struct saved **shown;
    struct list list;
    int64_t marked; /* the step of the checkpoint to prompt beside another; -1: none */
    int64_t asked;  /* the step of the newest question */
    double read_at; /* like workbench->uptime */
    bool stale;     /* the store has changed since then */
};

/* ---- reading ---- */

static void arrange(struct checkpoints_state *state)
{
    size_t n = 0;
    for (size_t i = 0; i < state->count; i++)
        if (!state->saved[i].deleted) state->shown[n++] = &state->saved[i];
    state->gone = state->count - n;
    list_set_count(&state->list, n);
}

/* The loss of the step before the checkpoint; NaN: not recorded. */
static double loss_before(struct store *store, const char *run_id, int64_t step)
{
    struct series series = {0};
    double loss = NAN;
    if (step > 0 && !series_read(store, run_id, METRIC_LOSS, step - 1, step - 1, 2, &series, NULL) &&
        series.count)
        loss = series.points[series.count - 1].last;
    series_release(&series);
    return loss;
}

static double val_loss_at(const struct run_history *history, int64_t step)
{
    for (size_t i = 0; i < history->eval_count; i++)
        if (history->evals[i].step == step) return history->evals[i].val_loss;
    return NAN;
}

static const struct saved *find_saved(const struct checkpoints_state *state, int64_t step)
{
    for (size_t i = 0; i < state->count; i++)
        if (state->saved[i].step == step) return &state->saved[i];
    return NULL;
}

/* Adds the checkpoint if its folder is there. */
static void add_saved(const struct checkpoints_state *old, struct checkpoints_state *state,
                      const struct run_history *history, const struct checkpoint_record *record)
{
    if (!run_has_checkpoint(state->workbench->store, state->run.id, record)) return;
    const struct saved *before = find_saved(old, record->step);
    struct saved *saved = &state->saved[state->count++];
    *saved = (struct saved){.step = record->step,
                            .bytes = record->bytes,
                            .wall_time = record->wall_time,
                            .loss = loss_before(state->workbench->store, state->run.id, record->step),
                            .val_loss = val_loss_at(history, record->step),
                            .best = record->step == state->run.best_step,
                            .deleted = before && before->deleted};
    clean_line(saved->kind, sizeof saved->kind, record->kind ? record->kind : "");
}

static enum status load(struct workbench *workbench, struct checkpoints_state *state, struct err *err)
{
    enum { LIMIT = 4096 };
    struct checkpoints_state next = *state;
    struct run_history history;
    int64_t selected = state->list.at < state->list.count ? state->shown[state->list.at]->step : -1;
    next.arena = (struct arena){0};
    next.count = 0;
    next.read_at = workbench->uptime;
    next.stale = false;
    enum status status = run_get(workbench->store, state->run.id, &next.run, err);
    if (!status) status = run_history_read(workbench->store, next.run.id, LIMIT, &next.arena, &history, err);
    if (!status) {
        next.saved = arena_alloc_array(&next.arena, history.checkpoint_count + 1, sizeof *next.saved);
        next.shown = arena_alloc_array(&next.arena, history.checkpoint_count + 1, sizeof *next.shown);
        if (!next.saved || !next.shown) status = err_no_memory(err, "a list of checkpoints");
    }
    for (size_t i = 0; !status && i < history.checkpoint_count; i++)
        add_saved(state, &next, &history, &history.checkpoints[i]);
    arena_release(status ? &next.arena : &state->arena);
    if (status) return status;
    *state = next;
    arrange(state);
    for (size_t i = 0; i < state->list.count; i++)
        if (state->shown[i]->step == selected) state->list.at = i;
    return STATUS_OK;
}

static enum status checkpoints_open(struct workbench *workbench, void *opaque, const char *argument,
                                    struct err *err)
{
    struct checkpoints_state *state = opaque;
    state->workbench = workbench;
    state->marked = state->asked = -1;
    enum status status = run_find(workbench->store, argument, &state->run, err);
    return status ? status : load(workbench, state, err);
}

static void checkpoints_close(void *opaque)
{
    struct checkpoints_state *state = opaque;
    struct workbench *workbench = state->workbench;
    for (size_t i = 0; i < state->count; i++) {
        enum status status = STATUS_OK;
        char name[64];
        snprintf(name, sizeof name, "checkpoints/step-%" PRId64, state->saved[i].step);
        if (state->saved[i].deleted && !workbench->abandoned)
            status = run_remove(workbench->store, state->run.id, name, &workbench->err);
        if (status != STATUS_NOT_FOUND) workbench_did(workbench, status); /* else it is gone already */
    }
    arena_release(&state->arena);
}

/* A living run commits four times a second, and writes checkpoints seldom; it dies without a commit. */
static bool checkpoints_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct checkpoints_state *state = opaque;
    state->stale = state->stale || store_changed || status_is_live(state->run.status);
    if (!state->stale || workbench->uptime < state->read_at + 1)
        return (int64_t)workbench->now % 10 == 0; /* ages */
    workbench_did(workbench, load(workbench, state, &workbench->err));
    return true;
}

/* ---- drawing ---- */

enum { MARKS, STEP, KIND, LOSS, VAL_LOSS, SIZE, AGE, COLUMNS };
static const struct table_column columns[COLUMNS] = {
    [MARKS] = {"", 2, 2, 0, false},
    [STEP] = {"step", 8, 12, 0, true},
    [KIND] = {"kind", 8, 12, 1, false},
    [LOSS] = {"loss", 7, 10, 3, true},
    [VAL_LOSS] = {"val loss", 8, 10, 2, true},
    [SIZE] = {"size", 9, 11, 4, true},
    [AGE] = {"written", 8, 12, 5, true},
};

static void draw_cell(const void *view, size_t row, int column, struct pen pen)
{
    const struct checkpoints_state *state = view;
    const struct saved *saved = state->shown[row];
    enum style style = saved->best ? STYLE_BEST : STYLE_TEXT;
    int attr = saved->best ? ATTR_BOLD : ATTR_NONE;
    char step[24];
    snprintf(step, sizeof step, "%" PRId64, saved->step);
    const char *text[COLUMNS] = {[MARKS] = "",
                                 [STEP] = step,
                                 [KIND] = label_checkpoint(saved->kind, saved->best),
                                 [LOSS] = isnan(saved->loss) ? "" : AXIS_TEXT(saved->loss),
                                 [VAL_LOSS] = isnan(saved->val_loss) ? "" : AXIS_TEXT(saved->val_loss),
                                 [SIZE] = TEXT_BYTES(saved->bytes),
                                 [AGE] = LABEL_AGE(saved->wall_time, state->workbench->now)};
    (columns[column].right ? grid_text_right : grid_text)(pen.grid, pen.x, pen.y, pen.end - pen.x, style,
                                                          attr, text[column]);
    if (column != MARKS) return;
    if (saved->best) grid_put(pen.grid, pen.x, pen.y, 0x2605, STYLE_BEST, ATTR_BOLD);
    if (saved->step == state->marked) grid_put(pen.grid, pen.x + 1, pen.y, '*', STYLE_ACCENT, ATTR_BOLD);
}

static void checkpoints_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct checkpoints_state *state = opaque;
    int64_t bytes = 0;
    struct pen pen = {grid, 1, 2, grid->w - 1};
    label_draw_run(grid, &state->run, workbench->now);
    for (size_t i = 0; i < state->list.count; i++) bytes += state->shown[i]->bytes;
    pen_word(&pen, STYLE_TEXT, ATTR_BOLD, "Checkpoints");
    pen_print(&pen, STYLE_DIM, 0, "%zu, %s", state->list.count, TEXT_BYTES(bytes));
    if (state->gone)
        pen_print(&pen, STYLE_WARN, 0, "; %zu deleted when you leave, %s brings back", state->gone,
                  WORKBENCH_KEY(workbench, ACTION_UNDO));
    list_draw_table(&state->list, grid, (struct rect){0, 3, grid->w, grid->h - 4},
                    &(struct list_table){columns, COLUMNS, draw_cell, state});
    struct pen none = {grid, 3, 4, grid->w - 1};
    if (!state->list.count)
        pen_print(&none, STYLE_DIM, 0,
                  "none: %s in the view of a run that trains writes one (checkpoint.every)",
                  KEY_WORD(&workbench->keymap, CONTEXT_RUN, ACTION_CHECKPOINT));
    workbench_hint(workbench, &state->run);
    static const enum action acts[] = {ACTION_PROMPT, ACTION_FORK,   ACTION_EXPORT,
                                       ACTION_DELETE, ACTION_RESUME, ACTION_EVALUATE};
    for (size_t i = 0; !state->list.count && i < sizeof acts / sizeof *acts; i++)
        workbench->no_hint[acts[i]] = true;
    if (!state->gone) workbench->no_hint[ACTION_UNDO] = true;
}

/* ---- keys ---- */

static void resume(struct workbench *workbench, struct checkpoints_state *state, const struct saved *at,
                   bool confirmed)
{
    if (state->gone)
        workbench_say(workbench,
                      "a checkpoint is to be deleted when you leave: leave first, or %s brings it back",
                      WORKBENCH_KEY(workbench, ACTION_UNDO));
    else if (at != state->shown[0])
        workbench_say(workbench,
                      "a run resumes from its newest checkpoint, step %" PRId64 "; %s forks it from this one",
                      state->shown[0]->step, WORKBENCH_KEY(workbench, ACTION_FORK));
    else
        workbench_resume(workbench, &state->run, confirmed);
}

static void delete (struct workbench *workbench, struct checkpoints_state *state, const struct saved *at,
                    bool confirmed)
{
    if (status_is_live(state->run.status)) {
        workbench_say(workbench, "%s is training: stop it before deleting its checkpoints", state->run.name);
    } else if (!confirmed) {
        workbench_ask(workbench, ACTION_DELETE, "Delete the checkpoint of step %" PRId64 "%s, %s?", at->step,
                      at->best                ? ", the best"
                      : at == state->shown[0] ? ", from which the run would be resumed"
                                              : "",
                      TEXT_BYTES(at->bytes));
    } else {
        state->saved[at - state->saved].deleted = true;
        workbench_say(workbench, "step %" PRId64 " is deleted when you leave; %s brings it back", at->step,
                      WORKBENCH_KEY(workbench, ACTION_UNDO));
        arrange(state);
    }
}

static void bring_back(struct workbench *workbench, struct checkpoints_state *state)
{
    size_t count = state->gone;
    for (size_t i = 0; i < state->count; i++) {
        if (state->saved[i].deleted) state->list.at = i; /* nothing is hidden any more: the row is i */
        state->saved[i].deleted = false;
    }
    arrange(state);
    workbench_say(workbench, count ? "%zu checkpoint%s brought back" : "no checkpoint was deleted", count,
                  text_plural((int64_t)count));
}

static void mark(struct workbench *workbench, struct checkpoints_state *state, int64_t step)
{
    state->marked = state->marked == step ? -1 : step;
    if (state->marked >= 0)
        workbench_say(workbench, "%s on another one prompts it beside step %" PRId64,
                      WORKBENCH_KEY(workbench, ACTION_PROMPT), step);
}

/* The playground with this checkpoint, and the marked one beside it. */
static void prompt(struct workbench *workbench, const struct checkpoints_state *state, const struct saved *at)
{
    char argument[2 * RUN_ID_MAX + 64];
    snprintf(argument, sizeof argument, "%s %" PRId64, state->run.id, at->step);
    if (state->marked >= 0 && state->marked != at->step)
        text_add(argument, sizeof argument, "\n", "%s %" PRId64, state->run.id, state->marked);
    workbench_push(workbench, &playground_view, argument);
}

/* Runs a command on the checkpoint, with the answer's last words: "model export RUN --step=N -o PATH". */
static void run_command(struct workbench *workbench, const struct checkpoints_state *state, int64_t step,
                        const char *command, const char *more)
{
    char words[PATH_MAX + 512];
    snprintf(words, sizeof words, "%s\n%s\n--step=%" PRId64 "%s\n--progress=plain", command, state->run.id,
             step, more);
    workbench_push(workbench, &output_view, words);
}

/* Where to export to: a folder, or "FILE.gguf TYPE". */
static void export_to(struct workbench *workbench, const struct checkpoints_state *state, int64_t step)
{
    char path[PATH_MAX], more[PATH_MAX + 64], *type;
    snprintf(path, sizeof path, "%s", workbench->answer.text);
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == ' ') path[--n] = '\0';
    if (!n) return;
    type = strstr(path, ".gguf");
    for (char *next = type; next; next = strstr(next + 1, ".gguf")) type = next; /* not that of a folder */
    if (type && (type[5] == ' ' || !type[5])) {
        char *word = type + 5 + strspn(type + 5, " ");
        snprintf(more, sizeof more, "\n--gguf=%s\n--output=%.*s", *word ? word : "f16",
                 (int)(type + 5 - path), path);
    } else {
        snprintf(more, sizeof more, "\n--output=%s", path);
    }
    run_command(workbench, state, step, "model\nexport", more);
}

static void ask_export(struct workbench *workbench, const struct checkpoints_state *state, int64_t step)
{
    char path[INPUT_MAX];
    snprintf(path, sizeof path, "%s-step-%" PRId64, state->run.name, step);
    workbench_prompt(workbench, ACTION_EXPORT, path, "export to a folder, or FILE.gguf TYPE:");
}

/* Evaluates on the text that the user names; first that of the run's own configuration. */
static void evaluate(struct workbench *workbench, const struct checkpoints_state *state, int64_t step,
                     bool entered)
{
    struct arena arena = {0};
    struct run_param *params;
    size_t count = 0;
    char more[INPUT_MAX + 16];
    const char *data = NULL;
    if (entered) {
        snprintf(more, sizeof more, "\n--data=%s", workbench->answer.text);
        run_command(workbench, state, step, "evaluate", more);
        return;
    }
    if (workbench_did(workbench, run_params_list(state->workbench->store, state->run.id, &arena, &params,
                                                 &count, &workbench->err))) {
        data = run_params_get(params, count, "data.val");
        if (!data || !*data) data = run_params_get(params, count, "data.train");
    }
    workbench_prompt(workbench, ACTION_EVALUATE, data ? data : "", "evaluate on the text or data:");
    arena_release(&arena);
}

static void act(struct workbench *workbench, struct checkpoints_state *state, const struct saved *at,
                enum action action, uint32_t code)
{
    char argument[RUN_ID_MAX + 32];
    snprintf(argument, sizeof argument, "%s %" PRId64, state->run.id, at->step);
    if (action == ACTION_PROMPT)
        prompt(workbench, state, at);
    else if (action == ACTION_FORK)
        workbench_push(workbench, &form_view, argument);
    else if (action == ACTION_RESUME)
        resume(workbench, state, at, code == K_CONFIRMED);
    else if (action == ACTION_MARK)
        mark(workbench, state, at->step);
    else if (action == ACTION_DELETE)
        delete (workbench, state, at, code == K_CONFIRMED);
    else if (action == ACTION_EVALUATE)
        evaluate(workbench, state, at->step, code == K_ENTERED);
    else if (action == ACTION_EXPORT && code == K_ENTERED)
        export_to(workbench, state, at->step);
    else if (action == ACTION_EXPORT)
        ask_export(workbench, state, at->step);
}

static bool checkpoints_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct checkpoints_state *state = opaque;
    bool answer = code == K_CONFIRMED || code == K_ENTERED;
    if (list_key(workbench, &state->list, action, code)) return true;
    if (action == ACTION_BACK) return false;
    const struct saved *at = answer              ? find_saved(state, state->asked)
                             : state->list.count ? state->shown[state->list.at]
                                                 : NULL;
    if (action == ACTION_UNDO)
        bring_back(workbench, state);
    else if (!at && answer)
        workbench_say(workbench, "nothing was done: the checkpoint is gone");
    if (!at || action == ACTION_UNDO) return true;
    state->asked = at->step;
    act(workbench, state, at, action, code);
    return true;
}

const struct view_ops checkpoints_view = {CONTEXT_CHECKPOINTS, sizeof(struct checkpoints_state),
                                          checkpoints_open,    checkpoints_read,
                                          checkpoints_draw,    checkpoints_key,
                                          checkpoints_close};
