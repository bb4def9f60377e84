/* The form of a new run: one line for each configuration key. It begins with the defaults; with the
 * configuration of a run that is to be trained again otherwise, if the argument is its id; or with what a
 * fork may change ("ID STEP"). Starting passes the values to `anneal train` or `anneal fork` and waits for
 * the run to appear; for a bad value the form shows the trainer's own error. A form that is left is kept: the
 * one without a parent, and the newest with one. A preview shows the planned learning rate as a chart; the
 * memory comes from `anneal estimate`, a process of its own that is started anew when a value has changed, so
 * that no key waits for it. A search for a learning rate (rate_view.c) lies over the form and answers with a
 * rate. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/alike.h"
#include "runs/annotation.h"
#include "tui/view/form_length.h"
#include "tui/view/job.h"
#include "tui/view/launch.h"
#include "tui/view/workbench.h"
#include "tui/widget/axis.h"
#include "tui/widget/chart.h"

enum { LINES_W = 48 }; /* fits "In the beginning (default)" */
/* NAMED: fits the chart's whole title */
enum { PREVIEW_W_MIN = 28, PREVIEW_W_MAX = 70, PREVIEW_W_NAMED = 44, CHART_H_MAX = 14 };

struct form_state {
    struct arena arena; /* of the fields, the inputs and the parent's rows */
    struct form form;
    struct form_length length;
    char argument[RUN_ID_MAX + 32];
    struct run_info parent;        /* the run that it begins with; its id is "" for none */
    int64_t fork_step;             /* of the parent's checkpoint; -1: it is no fork */
    const struct config_row *rows; /* of the parent */
    size_t row_count;
    struct launch launch;
    char doing[256]; /* the trainer's progress before its run exists */
    char error[512]; /* the reason the last start failed */
    struct form_preview preview;
    struct job job; /* the estimate */
    bool recalled;  /* it begins as an earlier one was left */
    bool touched;   /* keys have changed it */
    bool stale;     /* the values have changed since it was started */
    bool estimated;
    struct form_estimate estimate;
    double seconds;          /* that the training will take; NaN: not known */
    char like[RUN_NAME_MAX]; /* the run whose speed that is */
};

/* ---- the words of the command line ---- */

struct words {
    struct arena arena;
    const char *of[LAUNCH_WORDS_MAX]; /* NULL behind the last one */
    size_t count;
};

static void add_word(struct words *words, const char *key, const char *value)
{
    const char *word = value ? arena_printf(&words->arena, "--%s=%s", key, value) : key;
    if (word && words->count + 1 < LAUNCH_WORDS_MAX) words->of[words->count++] = word;
}

static bool has_field(const struct form_state *state, const char *key)
{
    return form_find(&state->form, key) < state->form.count;
}

/* Adds what the parent has set and no field shows; of a fork, as it is for its preview, all that is set. */
static void add_rows(const struct form_state *state, struct words *words, bool all)
{
    for (size_t i = 0; i < state->row_count; i++) {
        const struct config_row *row = &state->rows[i];
        if (row->differs && (all || !has_field(state, row->key))) add_word(words, row->key, row->value);
    }
}

/* Adds the filled-in fields: of configuration keys only, or of all. */
static void add_fields(const struct form_state *state, struct words *words, bool keys_alone)
{
    for (size_t i = 0; i < state->form.count; i++) {
        const char *key = state->form.fields[i].key, *text = state->form.input[i].text;
        if (*text && (!keys_alone || strchr(key, '.'))) add_word(words, key, text);
    }
}

/* Adds the device and the whole configuration, for a command that makes no run. */
static void add_run(const struct form_state *state, struct words *words)
{
    size_t device = form_find(&state->form, "device");
    if (device < state->form.count) add_word(words, "device", form_value(&state->form, device));
    add_rows(state, words, state->fork_step >= 0);
    add_fields(state, words, true);
}

/* ---- what it would be ---- */

/* Adds to the preview of a fork how many steps are left after its checkpoint, or that there are none. */
static void count_left(struct form_state *state)
{
    struct form_preview *preview = &state->preview;
    int64_t left = preview->total_steps - state->fork_step;
    if (state->fork_step < 0 || *preview->problem || preview->total_steps <= 0) return;
    text_add(preview->facts, sizeof preview->facts, "; ", "%" PRId64 " left to do", left);
    if (left <= 0)
        snprintf(preview->problem, sizeof preview->problem,
                 "train.total_steps = %" PRId64 ": the checkpoint has done %" PRId64 " steps, give more",
                 preview->total_steps, state->fork_step);
}

static void preview(struct workbench *workbench, struct form_state *state)
{
    struct words words = {0};
    const char *steps = form_length_settle(&state->length, &state->form);
    add_rows(state, &words, state->fork_step >= 0);
    add_fields(state, &words, true);
    if (steps) add_word(&words, "train.total_steps", steps);
    workbench->options.preview(words.of, words.count, &state->preview);
    count_left(state);
    arena_release(&words.arena);
    state->stale = true;
}

static void start_estimate(struct workbench *workbench, struct form_state *state)
{
    struct words words = {0};
    state->stale = false;
    job_close(&state->job);
    if (state->preview.problem[0] || !workbench->options.estimate) return;
    add_word(&words, "estimate", NULL);
    add_word(&words, "--json", NULL);
    add_word(&words, "--fit", NULL);
    add_run(state, &words);
    (void)workbench_did(workbench, job_start(&state->job, words.of, false, &workbench->err));
    arena_release(&words.arena);
}

/* The time of a step is taken to grow with tokens and parameters, from the recorded run most alike. */
static void expect_duration(struct workbench *workbench, struct form_state *state)
{
    const struct form_preview *preview = &state->preview;
    struct run_info wanted = {.parameters = preview->parameters,
                              .frozen_parameters = preview->frozen_parameters},
                    like;
    snprintf(wanted.device, sizeof wanted.device, "%s", state->estimate.device);
    memcpy(wanted.parent_id, state->parent.id, sizeof wanted.parent_id);
    state->seconds = NAN;
    if (!run_find_alike(workbench->store, &wanted, &like)) return;
    double share = state->fork_step > 0 && preview->total_steps > 0
                       ? 1 - (double)state->fork_step / (double)preview->total_steps
                       : 1; /* of the steps, those that are to be done */
    state->seconds = fmax(share, 0) * preview->total_tokens * (double)preview->parameters /
                     like.tokens_per_sec / (double)like.parameters;
    memcpy(state->like, like.name, sizeof state->like);
}

/* Takes the estimate when it has ended, and starts another one if the values have changed. */
static bool follow_estimate(struct workbench *workbench, struct form_state *state)
{
    bool news = job_read(&state->job) && state->job.ended;
    if (news) {
        struct form_estimate next;
        const char *text = state->job.text.length ? state->job.text.text : "";
        state->estimated = !state->job.failed && workbench->options.estimate(text, &next);
        if (state->estimated) state->estimate = next;
        if (state->estimated) expect_duration(workbench, state);
    }
    if (state->stale && !state->launch.pid) start_estimate(workbench, state);
    workbench->eager = state->stale || state->job.pid || state->launch.pid;
    return news;
}

/* The number of the field that the preview's problem is about; count: none, or it has no field. */
static size_t wrong_field(const struct form_state *state)
{
    size_t found = state->form.count;
    const char *first = NULL;
    for (size_t i = 0; i < state->form.count; i++) {
        const char *key = state->form.fields[i].key, *at = strstr(state->preview.problem, key);
        size_t n = strlen(key);
        if (!at || !strchr(key, '.') || (at[n] != ' ' && at[n] != ',' && at[n] != ':' && at[n])) continue;
        if (!first || at < first) first = at, found = i;
    }
    return found;
}

/* The field that a search for a learning rate fills; count: there is none, or the run is a fork, whose
 * weights are not those that a search begins with. */
static size_t rate_field(const struct form_state *state)
{
    return state->fork_step < 0 ? form_find(&state->form, "train.learning_rate") : state->form.count;
}

static void set_typing(struct workbench *workbench, const struct form_state *state)
{
    workbench->typing = !state->launch.pid && state->form.at < state->form.count;
    workbench->eager = true;
}

/* ---- opening ---- */

static const struct config_row *row_of(const struct form_state *state, const char *key)
{
    for (size_t i = 0; i < state->row_count; i++)
        if (strcmp(state->rows[i].key, key) == 0) return &state->rows[i];
    return NULL;
}

/* A name that no run has: "base-2", or of a fork "base-fork". */
static void propose_name(struct workbench *workbench, const struct form_state *state, struct input *input)
{
    struct run_info other;
    char stem[RUN_NAME_MAX], name[RUN_NAME_MAX + 24];
    snprintf(stem, sizeof stem, "%.*s", (int)utf8_cut(state->parent.name, RUN_NAME_CLEAN_MAX - 12),
             state->parent.name);
    char *end = strrchr(stem, '-');
    bool fork = state->fork_step >= 0,
         again = !fork && end && end[1] && !end[1 + strspn(end + 1, "0123456789")];
    if (again) *end = '\0'; /* base-2 gives base-3 */
    bool taken = true;
    for (int n = fork ? 1 : 2; taken; n++) {
        snprintf(name, sizeof name, fork ? n > 1 ? "%s-fork-%d" : "%s-fork" : "%s-%d", stem, n);
        taken = !run_find_named(workbench->store, name, &other, NULL);
    }
    input_set(input, name);
}

/* Sets a field to what it begins with: that of the parent, or the default. A fork keeps the parent's value
 * where the field is empty. */
static void reset_field(struct form_state *state, size_t number)
{
    const struct config_row *row = row_of(state, state->form.fields[number].key);
    input_set(&state->form.input[number], row && row->differs && state->fork_step < 0 ? row->value : "");
}

/* Adds a field, unless a fork keeps its value, or it cannot show the value as a whole. */
static void add_field(struct form_state *state, struct form_field *fields, struct form_field field)
{
    const struct config_row *row = row_of(state, field.key);
    bool fork = state->fork_step >= 0;
    size_t number = state->form.count;
    if (row && ((fork && row->kept) || strlen(row->value) >= INPUT_MAX)) return;
    if (row) state->form.was[number] = fork || row->differs ? row->value : field.fallback;
    if (row && fork) field.fallback = row->value;
    fields[number] = field;
    state->form.count++;
    reset_field(state, number);
}

/* Makes the fields: those that the workbench offers and those that the parent has set otherwise than by
 * default; of a fork, without those that it keeps. */
static enum status make_fields(struct workbench *workbench, struct form_state *state, struct err *err)
{
    const struct workbench_options *options = &workbench->options;
    size_t most = options->field_count + state->row_count;
    struct form_field *fields = arena_alloc_array(&state->arena, most + 1, sizeof *fields);
    state->form.input = arena_alloc_array(&state->arena, most + 1, sizeof *state->form.input);
    state->form.was = arena_alloc_array(&state->arena, most + 1, sizeof *state->form.was);
    state->form.note = arena_alloc_array(&state->arena, most + 1, sizeof *state->form.note);
    if (!fields || !state->form.input || !state->form.was || !state->form.note)
        return err_no_memory(err, "a form of %zu fields", most);
    state->form.fields = fields;
    state->form.empty = state->fork_step >= 0 ? "(as it was)" : "(default)";
    for (size_t i = 0; i < options->field_count; i++) add_field(state, fields, options->fields[i]);
    for (size_t i = 0; i < state->row_count; i++) {
        const struct config_row *row = &state->rows[i];
        if (row->differs && !has_field(state, row->key))
            add_field(state, fields,
                      (struct form_field){row->key, row->key, row->fallback, row->help,
                                          *row->choices ? row->choices : NULL});
    }
    const struct config_row *steps = row_of(state, "train.total_steps");
    form_length_init(&state->length, &state->form, fields, steps ? steps->value : NULL);
    return STATUS_OK;
}

static enum status read_parent(struct workbench *workbench, struct form_state *state, const char *id,
                               struct err *err)
{
    char *text = NULL;
    struct config_row *rows = NULL;
    enum status status = run_find(workbench->store, id, &state->parent, err);
    if (!status && run_has_tag(&state->parent, TAG_RATES))
        status = err_set(
            err, STATUS_USAGE,
            "%s is a search for a learning rate: its settings train no model (begin with another run)",
            state->parent.name);
    if (!status) status = run_config(workbench->store, state->parent.id, &text, err);
    if (!status && (!text || !*text))
        status =
            err_set(err, STATUS_NOT_FOUND, "%s has no configuration: it was imported", state->parent.name);
    if (!status) status = workbench->options.config_rows(text, &state->arena, &rows, &state->row_count, err);
    free(text);
    state->rows = rows;
    return status;
}

/* The settings in which a form with a parent is kept, and its argument. */
#define DRAFT    "draft"
#define DRAFT_OF "draft.of"

/* Keeps the fields for the next form; `drop`: they have served. */
static void keep_fields(struct workbench *workbench, const struct form_state *state, bool drop)
{
    if (!drop && !state->touched) return;
    if (*state->argument) settings_set(&workbench->settings, DRAFT_OF, drop ? "" : state->argument);
    form_keep(&state->form, &workbench->settings, *state->argument ? DRAFT : "form", drop);
}

static void recall_fields(struct workbench *workbench, struct form_state *state)
{
    if (!*state->argument)
        state->recalled = form_recall(&state->form, &workbench->settings, "form");
    else if (settings_has(&workbench->settings, DRAFT_OF, state->argument))
        state->recalled = form_recall(&state->form, &workbench->settings, DRAFT);
}

/* Sets all fields to what the form begins with. */
static void reset(struct workbench *workbench, struct form_state *state)
{
    size_t name = form_find(&state->form, "name");
    for (size_t i = 0; i < state->form.count; i++) reset_field(state, i);
    if (*state->argument && name < state->form.count)
        propose_name(workbench, state, &state->form.input[name]);
}

static enum status form_open(struct workbench *workbench, void *opaque, const char *argument, struct err *err)
{
    struct form_state *state = opaque;
    char id[sizeof state->argument], *step;
    snprintf(state->argument, sizeof state->argument, "%s", argument ? argument : "");
    memcpy(id, state->argument, sizeof id);
    if ((step = strchr(id, ' '))) *step++ = '\0';
    state->fork_step = step ? strtoll(step, NULL, 10) : -1;
    state->seconds = NAN;
    enum status status = *id ? read_parent(workbench, state, id, err) : STATUS_OK;
    if (!status) status = make_fields(workbench, state, err);
    if (status) return status;
    reset(workbench, state);
    recall_fields(workbench, state);
    preview(workbench, state);
    set_typing(workbench, state);
    return STATUS_OK;
}

static void form_close(void *opaque)
{
    struct form_state *state = opaque;
    launch_release(&state->launch);
    job_close(&state->job);
    arena_release(&state->arena);
}

/* ---- reading ---- */

static bool follow_launch(struct workbench *workbench, struct form_state *state)
{
    struct err err = {0};
    char run_id[RUN_ID_MAX];
    enum status status = launch_poll(&state->launch, workbench->store, run_id, &err);
    if (status == STATUS_BUSY) {
        snprintf(state->doing, sizeof state->doing, "%s", err.text);
    } else if (status) {
        snprintf(state->error, sizeof state->error, "%s", err.text);
        set_typing(workbench, state);
    } else {
        keep_fields(workbench, state, true);
        workbench_back(workbench); /* frees the state */
        workbench_push(workbench, workbench->options.run, run_id);
    }
    return true;
}

static bool form_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct form_state *state = opaque;
    (void)store_changed;
    set_typing(workbench, state); /* another view may have been on top */
    return state->launch.pid ? follow_launch(workbench, state) : follow_estimate(workbench, state);
}

/* ---- drawing ---- */

/* Draws the sentence below the lines: as many rows at the bottom as it takes, at most half the screen, under
 * a rule with the field's key. Returns the rows. */
static int draw_note(struct grid *grid, const struct form_state *state, bool wrong)
{
    const struct form_field *field = form_at(&state->form);
    bool error = !state->launch.pid && (state->error[0] || wrong);
    char waiting[sizeof state->doing + 64];
    snprintf(waiting, sizeof waiting, "The trainer prepares its data before the run begins. Esc cancels.%s%s",
             *state->doing ? "\n" : "", state->doing);
    const char *text = state->launch.pid ? waiting
                       : state->error[0] ? state->error
                       : wrong           ? state->preview.problem
                       : field           ? field->hint
                               : "Enter starts the trainer; it continues when the workbench is closed.";
    int rows = wrap_rows(text, grid->w - 2);
    if (rows > grid->h / 2) rows = grid->h / 2;
    struct pen rule = {grid, 1, grid->h - 2 - rows, grid->w - 1};
    grid_fill(grid, (struct rect){0, rule.y, grid->w, 1}, 0x2500, STYLE_RULE);
    if (error)
        pen_print(&rule, STYLE_BAD, 0, state->error[0] ? " not started " : " %s ", field ? field->key : "");
    else if (field && !state->launch.pid)
        pen_print(&rule, STYLE_DIM, 0, " %s ", field->key);
    wrap_draw(grid, (struct rect){1, rule.y + 1, grid->w - 2, rows}, error ? STYLE_BAD : STYLE_TEXT, text);
    return rows + 1;
}

/* Memory, fit and time in one sentence, or why they are not known; "": not known yet, or the settings are
 * wrong. False: the user should change something. */
static bool cost_text(const struct form_state *state, char *buf, size_t size)
{
    const struct form_estimate *e = &state->estimate;
    buf[0] = '\0';
    if (state->preview.problem[0]) return true;
    if (!state->estimated && state->job.failed) job_last_line(&state->job, buf, size);
    if (!state->estimated) return !state->job.failed;
    bool fits = e->bytes <= e->room;
    snprintf(buf, size, "%s%s of %s on %s", fits ? "" : "does not fit: ", TEXT_BYTES(e->bytes),
             TEXT_BYTES(e->room), e->device);
    if (!fits && e->batch > 0) text_add(buf, size, "; ", "batches up to %" PRId64 " fit", e->batch);
    if (!isnan(state->seconds))
        text_add(buf, size, ", ", "about %s at the speed of %s", CLOCK_DURATION(state->seconds), state->like);
    return fits;
}

static void draw_head(struct grid *grid, const struct form_state *state)
{
    char cost[200];
    struct pen pen = {grid, 1, 0, grid->w - 1}, below = {grid, 1, 1, grid->w - 1};
    bool fits = cost_text(state, cost, sizeof cost);
    pen_word(&pen, STYLE_ACCENT, ATTR_BOLD, state->fork_step >= 0 ? "Fork" : "New run");
    if (state->fork_step >= 0)
        pen_print(&pen, STYLE_DIM, 0, "of %s from step %" PRId64 "; ", state->parent.name, state->fork_step);
    else if (state->parent.id[0])
        pen_print(&pen, STYLE_DIM, 0, "from %s; * differs from it; ", state->parent.name);
    pen_print(&pen, STYLE_DIM, 0, "%s",
              state->recalled         ? "as you left it, Ctrl-U on the last line resets all"
              : state->fork_step >= 0 ? "empty fields: as it was"
                                      : "empty fields: the default");
    pen_print(&below, fits ? STYLE_TEXT : STYLE_WARN, fits ? 0 : ATTR_BOLD, "%s", cost);
}

static void draw_rate(struct grid *grid, struct rect plot, const struct form_preview *preview)
{
    char title[64];
    double highest = 0;
    for (size_t i = 0; i < preview->count; i++) highest = fmax(highest, preview->lr[i].max);
    snprintf(title, sizeof title, "%s peak %s, end",
             plot.w < PREVIEW_W_NAMED ? "lr" : "learning rate:", AXIS_TEXT(highest));
    struct chart chart = {.title = title,
                          .trace = {{.points = preview->lr, .count = preview->count, .style = STYLE_LR}},
                          .trace_count = 1,
                          .last_step = preview->total_steps > 1 ? preview->total_steps - 1 : 1,
                          .zero = true,
                          .cursor = -1,
                          .best_step = -1};
    chart_draw(grid, plot, &chart);
}

/* Draws the planned learning rate, or why it is not known yet, and below it a summary of the run and a
 * warning; or the problem with its settings. */
static void draw_preview(struct grid *grid, struct rect area, const struct form_state *state)
{
    static const char uncounted[] =
        "The curve of the learning rate is known once the trainer has counted the data.";
    const struct form_preview *preview = &state->preview;
    bool warned = preview->warning[0], known = preview->count > 0;
    int rows = warned ? wrap_rows(preview->warning, area.w) + 1 : 0, most = area.h - 4 - rows;
    struct rect plot = {area.x, area.y, area.w, most < CHART_H_MAX ? most : CHART_H_MAX}, text = area;
    if (preview->problem[0] || !known) rect_skip(&text, 1);
    if (preview->problem[0]) {
        wrap_draw(grid, text, STYLE_WARN, preview->problem);
        return;
    }
    if (known && plot.h < CHART_MIN_H) return;
    if (known) {
        draw_rate(grid, plot, preview);
        rect_skip(&text, plot.h + 1);
    } else {
        rect_skip(&text, wrap_draw(grid, text, STYLE_TEXT, uncounted) + 1);
    }
    rect_skip(&text, wrap_draw(grid, text, STYLE_DIM, preview->facts));
    if (warned) wrap_draw(grid, text, STYLE_WARN, preview->warning);
}

static void form_view_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct form_state *state = opaque;
    size_t wrong = wrong_field(state);
    workbench->no_hint[ACTION_FIND_RATE] = rate_field(state) == state->form.count;
    draw_head(grid, state);
    struct rect body = {0, 2, grid->w,
                        grid->h - 3 -
                            draw_note(grid, state, wrong < state->form.count && wrong == state->form.at)};
    int beside = grid->w - LINES_W - 2; /* columns for the preview */
    if (beside > PREVIEW_W_MAX) beside = PREVIEW_W_MAX;
    if (beside >= PREVIEW_W_MIN) {
        draw_preview(grid, (struct rect){grid->w - beside - 1, 2, beside, body.h}, state);
        body.w = grid->w - beside - 2;
    }
    form_draw(&state->form, grid, body, state->launch.pid ? "starting ..." : "Start training", wrong);
}

/* ---- keys ---- */

static void start(struct workbench *workbench, struct form_state *state)
{
    struct words words = {0};
    struct err err = {0};
    char step[32];
    snprintf(step, sizeof step, "%" PRId64, state->fork_step);
    bool fork = state->fork_step >= 0;
    add_word(&words, fork ? "fork" : "train", NULL);
    if (fork) add_word(&words, state->parent.id, NULL);
    if (fork) add_word(&words, "step", step);
    add_word(&words, LAUNCH_PROGRESS, NULL);
    if (!fork) add_rows(state, &words, false);
    add_fields(state, &words, false);
    state->doing[0] = '\0';
    job_close(&state->job);
    if (launch_start(&state->launch, store_home(workbench->store), words.of, NULL, &err))
        snprintf(state->error, sizeof state->error, "%s", err.text);
    arena_release(&words.arena);
}

static void find_rate(struct workbench *workbench, const struct form_state *state)
{
    struct words words = {0};
    const char *lines = "lr-find";
    add_word(&words, "output", "-");
    add_word(&words, "progress", "plain");
    add_run(state, &words);
    for (size_t i = 0; lines && i < words.count; i++)
        lines = arena_printf(&words.arena, "%s\n%s", lines, words.of[i]);
    if (lines)
        workbench_push(workbench, &rate_view, lines);
    else
        (void)workbench_did(workbench, err_no_memory(&workbench->err, "a command"));
    arena_release(&words.arena);
}

/* Puts the rate that was found into its field. */
static void take_rate(struct workbench *workbench, struct form_state *state)
{
    state->form.at = rate_field(state);
    input_set(&state->form.input[state->form.at], workbench->answer.text);
    state->touched = true;
    preview(workbench, state);
}

static bool form_view_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct form_state *state = opaque;
    const struct form_field *field = form_at(&state->form);
    if (action == ACTION_BACK) {
        bool starting = state->launch.pid != 0;
        keep_fields(workbench, state, false);
        launch_cancel(&state->launch);
        if (starting) workbench_say(workbench, "cancelled: the run was not started");
        return false;
    }
    if (state->launch.pid) return true; /* the trainer has the values */
    if (action != ACTION_NONE || (field && !field->choices)) state->error[0] = '\0';
    bool clears = action == ACTION_CLEAR && !field;
    if (clears) reset(workbench, state);
    if (action == ACTION_FIND_RATE && rate_field(state) == state->form.count) {
        workbench_say(workbench, "a fork keeps its weights: a search begins with those of a new run");
    } else if (action == ACTION_FIND_RATE && code == K_ENTERED) {
        take_rate(workbench, state);
    } else if (action == ACTION_FIND_RATE) {
        find_rate(workbench, state);
        return true; /* another view is on top */
    } else if (action == ACTION_START || (action == ACTION_ENTER && !field)) {
        size_t wrong = *state->preview.problem ? wrong_field(state) : state->form.count;
        if (state->fork_step >= 0 && wrong < state->form.count)
            state->form.at = wrong; /* the note says why; the trainer would speak of commands */
        else
            start(workbench, state);
    } else if (clears || (form_length_key(&state->length, &state->form, action, code) &&
                          field == form_at(&state->form))) {
        state->touched = true;
        preview(workbench, state);
    }
    set_typing(workbench, state);
    return true;
}

const struct view_ops form_view = {
    CONTEXT_FORM, sizeof(struct form_state), form_open, form_read, form_view_draw, form_view_key, form_close};
