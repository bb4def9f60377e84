/* A command of this program that was started from a view, and its output as it comes. The argument is its
 * words, one a line. The command ends with the view. */
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/view/job.h"
#include "tui/view/workbench.h"

struct output_state {
    char line[8192]; /* the command as a shell takes it, for the title */
    struct job job;
};

static enum status output_open(struct workbench *workbench, void *opaque, const char *argument,
                               struct err *err)
{
    struct output_state *state = opaque;
    char text[8192], word[8192], *rest = text;
    snprintf(text, sizeof text, "%s", argument);
    snprintf(state->line, sizeof state->line, "anneal");
    while (rest)
        text_add(state->line, sizeof state->line, " ", "%s",
                 text_quote(strsep(&rest, "\n"), word, sizeof word));
    workbench->eager = workbench->working = true;
    return job_start_lines(&state->job, argument, err);
}

static void output_close(void *opaque)
{
    job_leave(&((struct output_state *)opaque)->job);
}

static bool output_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct output_state *state = opaque;
    (void)store_changed;
    bool news = job_read(&state->job);
    workbench->eager = workbench->working = !state->job.ended;
    return news;
}

/* Draws a text in at most `most` rows at the top of the area and removes them. */
static void draw_words(struct grid *grid, struct rect *area, int most, enum style style, const char *text)
{
    struct rect rows = {area->x, area->y, area->w, area->h < most ? area->h : most};
    rect_skip(area, wrap_draw(grid, rows, style, text));
}

static void output_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct output_state *state = opaque;
    struct job *job = &state->job;
    char last[512];
    enum style style;
    struct pen pen = {grid, 1, 0, grid->w - 1};
    struct rect words = {1, 1, grid->w - 2, grid->h - 2};
    const char *word = job_word(job, &style);
    pen_print(&pen, style, ATTR_BOLD, "%s", word);
    draw_words(grid, &words, 3, STYLE_DIM, state->line);
    job_last_line(job, last, sizeof last);
    draw_words(grid, &words, words.h / 2, job->failed ? STYLE_BAD : STYLE_TEXT, last);
    rect_skip(&words, 1);
    pager_draw(&job->text, grid, words, NULL);
    grid_scroll_marks(grid, (struct rect){0, words.y, grid->w, words.h}, job->text.above, job->text.below);
    workbench->no_hint[ACTION_INTERRUPT] = job->ended;
}

static bool output_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct output_state *state = opaque;
    (void)code;
    bool leaves = action == ACTION_BACK || action == ACTION_INTERRUPT;
    if (!leaves || state->job.ended) return keys_scroll(action, &state->job.text);
    workbench_say(workbench, "%s", job_stop(&state->job));
    return true;
}

const struct view_ops output_view = {
    CONTEXT_OUTPUT, sizeof(struct output_state), output_open, output_read, output_draw, output_key,
    output_close};
