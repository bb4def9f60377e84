/* The playground: one or two models continue a prompt, or answer it, side by side. Each side has a process,
 * `anneal generate --requests`, so that the screen never waits for a model; it keeps the model loaded until
 * the view closes or another model is named. The argument is a line "RUN STEP" (or RUN) for each model. */
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "runs/run.h"
#include "tui/view/form.h"
#include "tui/view/job.h"
#include "tui/view/workbench.h"

enum { SIDES = 2 };
enum field {
    PROMPT,
    MODEL,
    STEP,
    BESIDE,
    BESIDE_STEP,
    FORMAT,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    SEED,
    LENGTH,
    DEVICE,
    FIELDS
};

static const struct form_field fields[FIELDS] = {
    [PROMPT] = {"prompt", "prompt", "a new line", "the text to continue, or the question; \\n is a new line",
                NULL},
    [MODEL] = {"model", "model", "", "a run, an imported model, or a folder with a config.json", NULL},
    [STEP] = {"step", "checkpoint", "newest", "of a run: the step of a checkpoint, newest or best", NULL},
    [BESIDE] = {"beside", "beside it", "no other", "another model, or the same, for the other side", NULL},
    [BESIDE_STEP] = {"beside-step", "its checkpoint", "newest",
                     "of a run: the step of a checkpoint, newest or best", NULL},
    [FORMAT] = {"format", "format", "text",
                "text: the prompt is continued; chat: it is answered, in the model's format", "text|chat"},
    [TEMPERATURE] = {"temperature", "temperature", "0.8",
                     "above 1 more random, below 1 less; 0: always the likeliest token", NULL},
    [TOP_K] = {"top-k", "top-k", "50", "draw only from so many likeliest tokens; 0: from all", NULL},
    [TOP_P] = {"top-p", "top-p", "1", "draw only from the likeliest tokens whose probabilities add up to it",
               NULL},
    [SEED] = {"seed", "seed", "1", "the same seed gives the same text", NULL},
    [LENGTH] = {"max-tokens", "tokens", "200", "the most that are written", NULL},
    [DEVICE] = {"device", "device", "cpu", "where to compute", "auto|cpu|cuda"},
};

struct side {
    char title[RUN_ID_MAX + 40];
    char loaded[2 * INPUT_MAX]; /* the model and the device of the job */
    struct job job;
    double started, ended; /* of the newest text, monotonic seconds */
};

struct playground_state {
    struct form form;
    struct input input[FIELDS];
    struct side side[SIDES];
};

static bool is_writing(const struct playground_state *state)
{
    return job_answers(&state->side[0].job) || job_answers(&state->side[1].job);
}

static void set_typing(struct workbench *workbench, const struct playground_state *state)
{
    workbench->typing = state->form.at < FIELDS;
    workbench->eager = workbench->working = is_writing(state);
}

/* A run that learned to answer is asked in its format. */
static void choose_format(struct workbench *workbench, struct playground_state *state)
{
    struct arena arena = {0};
    struct run_info run;
    struct run_param *params;
    size_t count = 0;
    const char *format = NULL;
    struct err ignored = {0};
    input_set(&state->input[FORMAT], "");
    if (!run_find(workbench->store, state->input[MODEL].text, &run, &ignored) &&
        !run_params_list(workbench->store, run.id, &arena, &params, &count, &ignored))
        format = run_params_get(params, count, "data.format");
    if (format && strcmp(format, "instructions") == 0) input_set(&state->input[FORMAT], "chat");
    arena_release(&arena);
}

static enum status playground_open(struct workbench *workbench, void *opaque, const char *argument,
                                   struct err *err)
{
    struct playground_state *state = opaque;
    char text[INPUT_MAX * 2], *rest = text;
    (void)err;
    state->form =
        (struct form){.fields = fields, .input = state->input, .count = FIELDS, .empty = "(default)"};
    (void)form_recall(&state->form, &workbench->settings, "playground");
    snprintf(text, sizeof text, "%s", argument ? argument : "");
    for (int s = 0; s < SIDES; s++) {
        char *line = strsep(&rest, "\n"), *model = strsep(&line, " ");
        input_set(&state->input[s ? BESIDE : MODEL], model ? model : "");
        input_set(&state->input[s ? BESIDE_STEP : STEP], line ? line : "");
    }
    choose_format(workbench, state);
    set_typing(workbench, state);
    return STATUS_OK;
}

static void playground_close(void *opaque)
{
    struct playground_state *state = opaque;
    for (int s = 0; s < SIDES; s++) job_leave(&state->side[s].job);
}

static bool playground_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct playground_state *state = opaque;
    bool writing = is_writing(state);
    (void)store_changed;
    for (int s = 0; s < SIDES; s++) {
        struct side *side = &state->side[s];
        bool before = job_answers(&side->job);
        (void)job_read(&side->job);
        if (before && !job_answers(&side->job)) side->ended = clock_monotonic();
    }
    workbench->eager = workbench->working = is_writing(state);
    return writing;
}

/* ---- writing ---- */

/* Starts a process for the model of a side, unless the side has it already. */
static bool load(struct workbench *workbench, struct playground_state *state, int s)
{
    struct side *side = &state->side[s];
    struct arena arena = {0};
    char wanted[sizeof side->loaded];
    const char *model = state->input[s ? BESIDE : MODEL].text;
    const char *device = arena_printf(&arena, "--device=%s", form_value(&state->form, DEVICE));
    const char *words[] = {"generate", model, device, "--requests", "--verbose", NULL};
    snprintf(wanted, sizeof wanted, "%s %s", model, form_value(&state->form, DEVICE));
    bool loaded = side->job.pid && strcmp(side->loaded, wanted) == 0;
    if (!loaded) loaded = workbench_did(workbench, job_start(&side->job, words, true, &workbench->err));
    memcpy(side->loaded, wanted, sizeof wanted);
    arena_release(&arena);
    return loaded;
}

/* The options of the text to be written, as `anneal generate --requests` reads them. */
static char *request(const struct playground_state *state, int s, struct arena *arena)
{
    const char *step = state->input[s ? BESIDE_STEP : STEP].text;
    bool newest = !*step || strcmp(step, "newest") == 0,
         chat = strcmp(form_value(&state->form, FORMAT), "chat") == 0;
    const char *which = newest                      ? ""
                        : strcmp(step, "best") == 0 ? "--best\n"
                                                    : arena_printf(arena, "--step=%s\n", step);
    char *text = arena_printf(arena, "%s%s", which ? which : "", chat ? "--chat\n" : "");
    for (int i = 0; text && i < DEVICE; i++)
        if ((i == PROMPT || i >= TEMPERATURE) && *state->input[i].text)
            text = arena_printf(arena, "%s--%s=%s\n", text, fields[i].key, state->input[i].text);
    return text ? arena_printf(arena, "%s\n", text) : NULL;
}

/* Starts the writing of one side, if it has a model. */
static void write_side(struct workbench *workbench, struct playground_state *state, int s)
{
    struct side *side = &state->side[s];
    struct arena arena = {0};
    const char *model = state->input[s ? BESIDE : MODEL].text,
               *step = state->input[s ? BESIDE_STEP : STEP].text;
    snprintf(side->title, sizeof side->title, "%s%s%s", model, *step ? " " : "", step);
    if (!*model) job_leave(&side->job);
    const char *text = *model ? request(state, s, &arena) : NULL;
    side->started = clock_monotonic();
    if (text && load(workbench, state, s) && !job_ask(&side->job, text)) {
        job_close(&side->job);
        workbench_say(workbench, "the model could not be asked");
    }
    arena_release(&arena);
}

static void write_all(struct workbench *workbench, struct playground_state *state)
{
    if (!state->input[MODEL].text[0]) {
        workbench_say(workbench, "name a model first: a run, an imported model or a folder");
        return;
    }
    form_keep(&state->form, &workbench->settings, "playground", false);
    for (int s = 0; s < SIDES; s++) write_side(workbench, state, s);
}

static void stop(struct playground_state *state)
{
    for (int s = 0; s < SIDES; s++)
        if (job_answers(&state->side[s].job)) job_stop(&state->side[s].job);
}

/* ---- drawing ---- */

/* Shortens the two lines about the speed that the command prints at the end, "prompt: 7 tokens, the first new
 * one after 12 ms (…)" and "text: 200 tokens, 9 tokens/s after the first; …", to "200 tokens, 9/s, first 12
 * ms". "": they are not there. */
static char *speed_line(const struct job *job, char *buf, size_t size)
{
    static const char first[] = "the first new one after ", text[] = "text: ";
    const char *begin = NULL, *at = job->report.length ? job->report.text : "";
    char last[300];
    while ((at = strstr(at, first))) begin = at += sizeof first - 1;
    job_last_line(job, last, sizeof last);
    *buf = '\0';
    if (!begin || strncmp(last, text, sizeof text - 1) != 0) return buf;
    char *unit = strstr(last, " tokens/s");
    if (unit) strcpy(unit, "/s"); /* half of 80 columns has room for it all */
    snprintf(buf, size, "%s, first %.*s", last + sizeof text - 1, (int)strcspn(begin, "("), begin);
    return buf;
}

/* Draws the row below the title of a side: how far it is, then how fast it was. Returns whether it failed. */
static bool draw_state(struct grid *grid, struct rect row, const struct side *side)
{
    const struct job *job = &side->job;
    bool writes = job_answers(job);
    double seconds = (writes ? clock_monotonic() : side->ended) - side->started;
    char speed[200];
    struct pen pen = {grid, row.x, row.y, row.x + row.w};
    if (!job->asked) return false;
    if (writes)
        pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "%s, %s",
                  job->text.length || job->answered ? "writing" : "loading the model",
                  CLOCK_DURATION(seconds));
    else if (job->stopped)
        pen_print(&pen, STYLE_WARN, 0, "stopped after %s", CLOCK_DURATION(seconds));
    else if (*speed_line(job, speed, sizeof speed))
        pen_print(&pen, STYLE_GOOD, 0, "%s", speed);
    else
        return true;
    return false;
}

static void draw_side(struct grid *grid, struct rect area, struct side *side)
{
    char last[512];
    if (area.h < 2 || area.w < 8) return;
    grid_title(grid, &area, *side->title ? side->title : "text", NULL);
    bool failed = draw_state(grid, (struct rect){area.x + 1, area.y, area.w - 2, 1}, side);
    rect_skip(&area, 1);
    struct rect words = {area.x + 1, area.y, area.w - 2, area.h};
    if (failed && !*job_last_line(&side->job, last, sizeof last))
        snprintf(last, sizeof last, "the process that wrote has ended unexpectedly");
    if (failed) rect_skip(&words, wrap_draw(grid, words, STYLE_BAD, last));
    pager_draw(&side->job.text, grid, words, NULL);
    grid_scroll_marks(grid, area, side->job.text.above, side->job.text.below);
}

static void draw_texts(struct playground_state *state, struct grid *grid, struct rect area)
{
    enum { BESIDE_LEAST = 60 };
    struct rect one = area, two = area;
    bool both = state->input[BESIDE].text[0] || state->side[1].job.asked;
    if (both && area.w >= BESIDE_LEAST) {
        one.w = area.w / 2;
        two.x += one.w;
        two.w -= one.w;
    } else if (both) {
        one.h = area.h / 2;
        two.y += one.h;
        two.h -= one.h;
    }
    draw_side(grid, one, &state->side[0]);
    if (both) draw_side(grid, two, &state->side[1]);
}

static void playground_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    enum { FORM_W = 44, WIDE = 110, FORM_ROWS = 6 };
    struct playground_state *state = opaque;
    const struct form_field *field = form_at(&state->form);
    bool wide = grid->w >= WIDE;
    struct pen pen = {grid, 1, 0, grid->w - 1};
    struct rect body = {0, 1, grid->w, grid->h - 2}, form = body, texts = body;
    pen_word(&pen, STYLE_ACCENT, ATTR_BOLD, "Playground");
    pen_print(&pen, STYLE_DIM, 0, "%s",
              field ? field->hint : "Enter lets the model write; empty fields: the default");
    if (wide) {
        form.y++, form.h--;
        form.w = FORM_W;
        texts.x += FORM_W;
        texts.w -= FORM_W;
    } else {
        form.h = body.h / 2 < FORM_ROWS ? body.h / 2 : FORM_ROWS;
        rect_skip(&texts, form.h);
    }
    form_draw(&state->form, grid, form, is_writing(state) ? "writing ..." : "Write", FIELDS);
    draw_texts(state, grid, texts);
    if (!is_writing(state)) workbench->no_hint[ACTION_INTERRUPT] = true;
}

/* ---- keys ---- */

static bool playground_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct playground_state *state = opaque;
    bool leaves = action == ACTION_BACK || action == ACTION_INTERRUPT;
    bool sends = action == ACTION_START ||
                 (action == ACTION_ENTER && (state->form.at == FIELDS || state->form.at == PROMPT));
    if (leaves && is_writing(state)) {
        stop(state);
    } else if (leaves) {
        return false;
    } else if (sends) {
        write_all(workbench, state);
    } else if (action == ACTION_PAGE_UP || action == ACTION_PAGE_DOWN) {
        for (int s = 0; s < SIDES; s++) (void)keys_scroll(action, &state->side[s].job.text);
    } else {
        (void)form_key(&state->form, action, code);
    }
    set_typing(workbench, state);
    return true;
}

const struct view_ops playground_view = {CONTEXT_PLAYGROUND, sizeof(struct playground_state),
                                         playground_open,    playground_read,
                                         playground_draw,    playground_key,
                                         playground_close};
