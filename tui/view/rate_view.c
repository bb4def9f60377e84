/* A search for a learning rate: runs `anneal lr-find` with the argument's words, one a line, whose curve
 * comes on its standard output, and draws that by rate. Enter gives the view below a rate, as an answer to
 * ACTION_FIND_RATE: the suggested one, or that at the cursor. The command ends with the view. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "tui/view/job.h"
#include "tui/view/workbench.h"
#include "tui/widget/rate_curve.h"

struct rate_state {
    struct job job;
    struct rate_curve curve;
    size_t taken; /* bytes of the job's output */
    int cursor;   /* a step of the curve; -1: none */
    double began; /* when the first step came, like workbench->uptime */
    double left;  /* seconds, if the losses do not rise again sooner; NaN: not known yet */
};

static enum status rate_open(struct workbench *workbench, void *opaque, const char *argument, struct err *err)
{
    struct rate_state *state = opaque;
    state->cursor = -1;
    state->left = NAN;
    workbench->eager = workbench->working = true;
    return job_start_lines(&state->job, argument, err);
}

static void rate_close(void *opaque)
{
    job_leave(&((struct rate_state *)opaque)->job);
}

/* Adds the whole lines of the output that are new: "step,lr,loss,smoothed_loss". */
static void take_points(struct rate_state *state)
{
    double rate, loss;
    const char *text = state->job.text.text;
    for (const char *end; text && (end = strchr(text + state->taken, '\n'));
         state->taken = (size_t)(end + 1 - text))
        if (sscanf(text + state->taken, "%*d,%lf,%lf", &rate, &loss) == 2)
            (void)rate_curve_add(&state->curve, rate, loss); /* the command ends by itself */
}

static bool rate_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct rate_state *state = opaque;
    (void)store_changed;
    bool news = job_read(&state->job);
    int before = state->curve.count;
    take_points(state);
    int count = state->curve.count;
    if (count && !before) state->began = workbench->uptime;
    if (count > before && before)
        state->left = (workbench->uptime - state->began) / (count - 1) * (RATES_USUAL - count);
    workbench->eager = workbench->working = !state->job.ended;
    return news;
}

/* The rate that Enter takes; NaN: none. */
static double chosen(const struct rate_state *state)
{
    const struct rate_curve *curve = &state->curve;
    if (state->cursor >= 0) return rate_curve_round(curve->rate[state->cursor]);
    return state->job.ended && !state->job.failed ? rate_curve_suggestion(curve) : NAN;
}

/* ---- drawing ---- */

static void describe(const struct rate_state *state, char *buf, size_t size)
{
    const struct rate_curve *curve = &state->curve;
    const struct job *job = &state->job;
    double rate = chosen(state);
    if (state->cursor >= 0)
        snprintf(buf, size, "learning rate %g, at the cursor", rate);
    else if (!job->ended && !job->report.length && !curve->count)
        snprintf(buf, size, "preparing the data and the model");
    else if (!job->ended && !job->report.length && isnan(state->left))
        snprintf(buf, size, "searching: step %d of %d", curve->count, RATES_USUAL);
    else if (!job->ended && !job->report.length)
        snprintf(buf, size, "searching: step %d of %d, at most %s left", curve->count, RATES_USUAL,
                 CLOCK_DURATION(state->left));
    else if (!job->ended || (job->failed && !job->stopped))
        job_last_line(job, buf, size);
    else if (isnan(rate))
        snprintf(buf, size, "It was stopped before the losses rose again: there is no suggestion.");
    else
        snprintf(buf, size,
                 "learning rate %g, the lower of %.1e, at which the average of the losses falls fastest, and "
                 "a tenth of %.1e, at which it is lowest, %.4f",
                 rate, curve->rate[rate_curve_steepest(curve)], curve->rate[curve->lowest],
                 curve->smooth[curve->lowest]);
}

static void rate_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct rate_state *state = opaque;
    const struct job *job = &state->job;
    struct pen pen = {grid, 1, 0, grid->w - 1};
    struct rect area = {1, 1, grid->w - 2, grid->h - 2}, words = {1, 1, area.w, area.h / 2};
    struct chart chart = rate_curve_chart(&state->curve);
    char text[512];
    enum style style;
    const char *word = job_word(job, &style);
    pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "Search for a learning rate  ");
    pen_print(&pen, style, ATTR_BOLD, "%s", word);
    describe(state, text, sizeof text);
    int rows = wrap_draw(grid, words, style == STYLE_BAD && state->cursor < 0 ? STYLE_BAD : STYLE_TEXT, text);
    rect_skip(&area, rows < 2 ? 3 : rows + 1); /* the chart stays where it is */
    if (state->cursor >= 0) chart.cursor = rate_curve_place(state->curve.rate[state->cursor]);
    if (state->curve.count) chart_draw(grid, area, &chart);
    workbench->no_hint[ACTION_INTERRUPT] = job->ended;
    workbench->no_hint[ACTION_ENTER] = isnan(chosen(state));
    workbench->no_hint[ACTION_CURSOR_LEFT] = workbench->no_hint[ACTION_CURSOR_RIGHT] = !state->curve.count;
    workbench->no_hint[ACTION_CURSOR_OFF] = state->cursor < 0;
}

/* ---- keys ---- */

/* Begins at the suggested rate, or at the newest one. */
static void move_cursor(struct rate_state *state, int by)
{
    const struct rate_curve *curve = &state->curve;
    double rate = chosen(state);
    int at = state->cursor;
    if (!curve->count) return;
    for (int k = 0; at < 0 && k < curve->count; k++)
        if (curve->rate[k] >= rate || k + 1 == curve->count) at = k;
    at += by;
    state->cursor = at < 0 ? 0 : at >= curve->count ? curve->count - 1 : at;
}

static void use(struct workbench *workbench, const struct rate_state *state)
{
    char text[32];
    double rate = chosen(state);
    snprintf(text, sizeof text, "%g", rate);
    if (isnan(rate))
        workbench_say(workbench, "there is no suggestion; with %s you choose a rate",
                      WORKBENCH_KEY(workbench, ACTION_CURSOR_LEFT));
    else
        workbench_answer(workbench, ACTION_FIND_RATE, text);
}

static bool rate_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct rate_state *state = opaque;
    (void)code;
    bool leaves = action == ACTION_BACK || action == ACTION_INTERRUPT;
    if (leaves && !state->job.ended)
        workbench_say(workbench, "%s", job_stop(&state->job));
    else if (action == ACTION_ENTER)
        use(workbench, state);
    else if (action == ACTION_CURSOR_OFF)
        state->cursor = -1;
    else if (action == ACTION_CURSOR_LEFT || action == ACTION_CURSOR_RIGHT)
        move_cursor(state, action == ACTION_CURSOR_LEFT ? -1 : 1);
    else
        return false;
    return true;
}

const struct view_ops rate_view = {
    CONTEXT_RATE, sizeof(struct rate_state), rate_open, rate_read, rate_draw, rate_key, rate_close};
