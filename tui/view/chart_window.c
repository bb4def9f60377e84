/* See chart_window.h. */
#include "tui/view/chart_window.h"

#include <math.h>

#include "tui/widget/axis.h"

enum { LEAST_SPAN = 8 /* places */ };

void chart_window_init(struct chart_window *window, const struct settings *settings)
{
    *window = (struct chart_window){.cursor = -1, .end = -1};
    chart_window_recall(window, settings);
}

void chart_window_recall(struct chart_window *window, const struct settings *settings)
{
    window->outliers = settings_has(settings, "run.outliers", "yes");
    window->log_steps = settings_has(settings, "run.log_steps", "yes");
}

void chart_window_range(const struct chart_window *window, int64_t *first, int64_t *last)
{
    int64_t oldest = window->oldest, newest = window->newest > oldest ? window->newest : oldest + 1;
    *first = oldest;
    *last = newest;
    if (window->span <= 0) {
        /* during training the end advances a few columns at a time: curves stand still in between */
        int64_t leap = 1;
        while (leap < (newest - oldest) / 96) leap *= 2;
        if (window->live) *last = (newest + leap - 1) / leap * leap;
        return;
    }
    *last = window->end < 0 ? newest : window->end;
    *first = *last - window->span > oldest ? *last - window->span : oldest;
}

void chart_window_fill(const struct chart_window *window, struct chart *chart)
{
    chart_window_range(window, &chart->first_step, &chart->last_step);
    chart->log_steps = window->log_steps;
    chart->outliers = window->outliers;
    chart->cursor = window->cursor;
}

void chart_window_clear(struct chart_window *window)
{
    window->drawn_count = 0;
}

void chart_window_add(struct chart_window *window, struct rect area, size_t chart)
{
    if (window->drawn_count == LAYOUT_CHARTS) return;
    window->drawn[window->drawn_count].area = area;
    window->drawn[window->drawn_count++].chart = chart;
}

/* ---- moving ---- */

/* Shows `span` places up to `end`, as far as there are any; all of them, if that are fewer. */
static void show(struct chart_window *window, int64_t span, int64_t end)
{
    int64_t newest = window->newest, oldest = window->oldest;
    if (span < LEAST_SPAN) span = LEAST_SPAN;
    window->span = span >= newest - oldest ? 0 : span;
    if (end < oldest + span) end = oldest + span;
    window->end = window->span == 0 || end >= newest ? -1 : end;
}

void chart_window_place(struct chart_window *window, int64_t place)
{
    int64_t first, last, newest = window->newest, span = window->span;
    window->pointed = false;
    chart_window_range(window, &first, &last);
    place = place < window->oldest ? window->oldest : place > newest ? newest : place;
    window->cursor = place;
    if (span <= 0 || (place >= first && place <= last)) return;
    int64_t end = place < first ? place + span * 3 / 4 : place + span / 4;
    window->end = end >= newest ? -1 : end;
}

/* The axis of the places that are shown. */
static struct axis window_axis(const struct chart_window *window)
{
    struct axis axis = {0};
    int64_t first, last;
    chart_window_range(window, &first, &last);
    axis_init_steps(&axis, (double)first, (double)last, window->log_steps, 1);
    return axis;
}

/* Moves the cursor about a column of the focused chart. */
static void move_cursor(struct chart_window *window, int direction)
{
    int64_t first, last;
    int columns = 2;
    if (window->newest < window->oldest) return;
    chart_window_range(window, &first, &last);
    int64_t to = direction < 0 ? last : first;
    for (int i = 0; i < window->drawn_count; i++)
        if (window->drawn[i].chart == window->focus) columns = chart_plot(window->drawn[i].area).w;
    if (window->cursor >= 0) {
        struct axis axis = window_axis(window);
        double column = columns > 1 ? 1.0 / (columns - 1) : 1;
        double at = axis_position(&axis, fmax((double)window->cursor, axis.lo)) + direction * column;
        to = (int64_t)floor(axis_value(&axis, fmin(fmax(at, -1), 2)) + 0.5);
        if (to == window->cursor || (to < window->cursor) != (direction < 0)) to = window->cursor + direction;
    }
    chart_window_place(window, to);
}

/* Moves the cursor to the first place, or removes it to follow the newest. */
static void go_to_end(struct chart_window *window, bool newest)
{
    window->cursor = newest ? -1 : window->oldest;
    if (newest || window->span > 0) window->end = newest ? -1 : window->oldest + window->span;
}

static void zoom(struct chart_window *window, enum action action)
{
    int64_t first, last;
    chart_window_range(window, &first, &last);
    int64_t span = action == ACTION_ZOOM_IN ? (last - first) / 2 : (last - first) * 2;
    if (span < LEAST_SPAN) span = LEAST_SPAN;
    if (action == ACTION_ZOOM_ALL) span = INT64_MAX / 4;
    show(window, span,
         window->cursor >= 0 ? window->cursor + span / 2
         : window->end < 0   ? INT64_MAX / 2
                             : window->end);
}

/* Moves the window by half its places; the cursor stays at its place. */
static void pan(struct workbench *workbench, struct chart_window *window, bool earlier)
{
    int64_t first, last, half = window->span / 2;
    chart_window_range(window, &first, &last);
    if (window->span <= 0)
        workbench_say(workbench, "all is shown; %s zooms in", WORKBENCH_KEY(workbench, ACTION_ZOOM_IN));
    else
        show(window, window->span, earlier ? last - half : last + half);
}

/* ---- the mouse ---- */

/* Finds the chart that the pointer is in, and its plot. */
static bool find_pointed(const struct chart_window *window, const struct pointer *at, struct rect *plot,
                         size_t *chart)
{
    for (int i = 0; i < window->drawn_count; i++) {
        struct rect area = window->drawn[i].area;
        *plot = chart_plot(area);
        *chart = window->drawn[i].chart;
        if (at->x >= plot->x && at->x < plot->x + plot->w && at->y >= area.y && at->y < area.y + area.h)
            return true;
    }
    return false;
}

static void use_mouse(struct chart_window *window, const struct pointer *pointer, enum action action)
{
    struct rect plot;
    size_t chart = 0;
    int64_t first, last;
    bool inside = find_pointed(window, pointer, &plot, &chart);
    if (action == ACTION_CLICK) window->dragging = inside;
    if (!inside) {
        if (window->pointed) window->cursor = -1; /* it has left the charts */
        window->pointed = false;
        return;
    }
    chart_window_range(window, &first, &last);
    int64_t place = chart_step_at(plot, first, last, window->log_steps, pointer->x);
    if (action == ACTION_POINT && (window->cursor < 0 || window->pointed)) {
        chart_window_place(window, place);
        window->pointed = true;
    } else if (action == ACTION_CLICK) {
        window->focus = chart;
        window->drag_x = pointer->x;
        window->drag_last = last;
        chart_window_place(window, place);
    } else if (action == ACTION_ZOOM_AT) { /* so that the place at the pointer stays there */
        struct axis axis = window_axis(window);
        double at = axis_position(&axis, fmax((double)place, axis.lo)),
               by = pointer->wheel < 0 ? 5.0 / 7 : 7.0 / 5, from = axis_value(&axis, at - at * by),
               to = axis_value(&axis, at + (1 - at) * by), span = fmax(to - from, LEAST_SPAN);
        if (span > to - from) to = (double)place + span * (1 - at);
        show(window, (int64_t)(span + 0.5), (int64_t)(to + 0.5));
    } else if (action == ACTION_DRAG && window->dragging && window->span > 0 && plot.w > 1) {
        double columns = (double)(pointer->x - window->drag_x) / (plot.w - 1);
        show(window, window->span, window->drag_last - (int64_t)(columns * (double)window->span));
    }
}

bool chart_window_key(struct workbench *workbench, struct chart_window *window, enum action action)
{
    switch (action) {
    case ACTION_CURSOR_LEFT:
    case ACTION_CURSOR_RIGHT:
        move_cursor(window, action == ACTION_CURSOR_LEFT ? -1 : 1);
        return true;
    case ACTION_FIRST:
    case ACTION_LAST:
    case ACTION_CURSOR_OFF:
        go_to_end(window, action != ACTION_FIRST);
        return true;
    case ACTION_ZOOM_IN:
    case ACTION_ZOOM_OUT:
    case ACTION_ZOOM_ALL:
        zoom(window, action);
        return true;
    case ACTION_PAN_LEFT:
    case ACTION_PAN_RIGHT:
        pan(workbench, window, action == ACTION_PAN_LEFT);
        return true;
    case ACTION_POINT:
    case ACTION_CLICK:
    case ACTION_DRAG:
    case ACTION_ZOOM_AT:
        use_mouse(window, &workbench->pointer, action);
        return true;
    case ACTION_LOG_STEPS:
        settings_toggle(&workbench->settings, "run.log_steps", &window->log_steps);
        return true;
    case ACTION_OUTLIERS:
        settings_toggle(&workbench->settings, "run.outliers", &window->outliers);
        workbench_say(workbench, window->outliers ? "the charts show all values"
                                                  : "rare outliers are marked at the edge");
        return true;
    default:
        return false;
    }
}
