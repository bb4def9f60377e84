/* See chart.h. */
#include "tui/widget/chart.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/widget/chart_drawing.h"
#include "tui/widget/robust.h"

struct rect chart_plot(struct rect area)
{
    return (struct rect){area.x + CHART_MARGIN, area.y + 1, area.w - CHART_MARGIN, area.h - 2};
}

int64_t chart_step_at(struct rect plot, int64_t first_step, int64_t last_step, bool log_steps, int x)
{
    struct axis axis = {0};
    axis_init_steps(&axis, (double)first_step, (double)last_step, log_steps, 1);
    double at = plot.w > 1 ? (double)(x - plot.x) / (plot.w - 1) : 0;
    return (int64_t)floor(axis_value(&axis, fmin(fmax(at, 0), 1)) + 0.5);
}

/* ---- the range of values ---- */

/* The extremes of a point as the chart shows them; false: none, or on a logarithmic axis none above 0. */
static bool point_range(const struct chart *chart, bool log, const struct series_point *point, double *lo,
                        double *hi)
{
    *lo = chart_shown(chart, point->min);
    *hi = chart_shown(chart, point->max);
    if (!isfinite(*lo) || !isfinite(*hi) || (log && *hi <= 0)) return false;
    if (log && *lo <= 0) *lo = *hi;
    return true;
}

/* The extremes of visible points, in the grid's scratch memory. */
struct values {
    double *lows, *highs; /* count of each */
    size_t count;
    double lo, hi;      /* of all */
    double least, most; /* of the newest value of each trace; ±INFINITY: none */
};

/* Room for the points of all traces; `lows` NULL: there is none, or memory is short. */
static struct values open_values(const struct drawing *d)
{
    const struct chart *chart = d->chart;
    size_t begin, room = 0;
    for (int t = 0; t < chart->trace_count; t++) {
        size_t end = chart_visible(chart, &chart->trace[t], &begin);
        room += end - begin;
    }
    struct values values = {grid_scratch(d->grid, 2 * room * sizeof *values.lows), .lo = INFINITY,
                            .hi = -INFINITY, .least = INFINITY, .most = -INFINITY};
    values.highs = values.lows ? values.lows + room : NULL;
    return values;
}

static void gather_values(struct values *values, const struct chart *chart, const struct chart_trace *trace)
{
    size_t begin, end = chart_visible(chart, trace, &begin);
    for (size_t i = begin; i < end; i++) {
        double *low = &values->lows[values->count], *high = &values->highs[values->count];
        if (!point_range(chart, chart->log, &trace->points[i], low, high)) continue;
        values->lo = fmin(values->lo, *low);
        values->hi = fmax(values->hi, *high);
        values->count++;
    }
    double newest = end > 0 ? chart_shown(chart, trace->points[end - 1].last) : NAN;
    if (isinf(newest)) newest = NAN;             /* an axis cannot reach it */
    values->least = fmin(values->least, newest); /* ignores NaN */
    values->most = fmax(values->most, newest);
}

/* Narrows lo..hi so that rare outliers do not flatten the rest; the newest values stay inside. */
static void narrow(struct values *values)
{
    double lo = values->lo, hi = values->hi;
    robust_range(values->lows, values->highs, values->count, &lo, &hi);
    values->lo = fmax(fmin(lo, values->least), values->lo);
    values->hi = fmin(fmax(hi, values->most), values->hi);
}

/* Sets which traces are those of runs far above the others. */
static void find_far(const struct chart *chart, const struct values *empty, bool far[CHART_TRACES_MAX])
{
    struct reach reach[CHART_TRACES_MAX];
    for (int t = 0; t < chart->trace_count; t++) {
        struct values values = *empty;
        gather_values(&values, chart, &chart->trace[t]);
        narrow(&values);
        reach[t] = (struct reach){values.lo, values.hi};
    }
    double ceiling = robust_ceiling(reach, chart->trace_count);
    for (int t = 0; t < chart->trace_count; t++) far[t] = reach[t].hi > ceiling;
}

/* Counts what lies beyond the values' axis. */
static void count_outliers(struct drawing *d)
{
    for (int t = 0; t < d->chart->trace_count; t++) {
        const struct series_point *points = d->chart->trace[t].points;
        size_t i, end = chart_visible(d->chart, &d->chart->trace[t], &i);
        for (; i < end; i++) { /* also the infinite perplexity of a finite loss */
            d->above += chart_shown(d->chart, points[i].max) > d->y.hi;
            d->below += chart_shown(d->chart, points[i].min) < d->y.lo;
            d->buckets = d->buckets || points[i].count > 1;
        }
    }
}

/* The values that the axis covers, of a linear one without outliers unless they are asked for. */
static struct values choose_values(struct drawing *d)
{
    const struct chart *chart = d->chart;
    struct values empty = open_values(d), all = empty, frequent = empty;
    bool far[CHART_TRACES_MAX] = {false};
    if (!empty.lows) return empty;
    if (!chart->log && chart->runs && !chart->zero && !chart->least_span) find_far(chart, &empty, far);
    for (int t = 0; t < chart->trace_count; t++)
        if (!far[t]) gather_values(&frequent, chart, &chart->trace[t]);
    if (!chart->log && frequent.count) narrow(&frequent);
    if (chart->log || !chart->outliers) return frequent;
    for (int t = 0; t < chart->trace_count; t++) gather_values(&all, chart, &chart->trace[t]);
    d->widened = all.hi > frequent.hi || (all.lo < frequent.lo && !chart->zero);
    return all;
}

bool chart_init_values(struct drawing *d, int ticks)
{
    const struct chart *chart = d->chart;
    struct values values = choose_values(d);
    bool any = values.count > 0;
    double lo = values.lo, hi = values.hi;
    if (any && chart->zero && !chart->log) {
        lo = fmin(lo, 0);
        hi = fmax(hi, 0) * 1.05;
    } else if (any && !chart->log) {
        double more = fmax(chart->least_span * fabs(hi) - (hi - lo), 0) / 2;
        lo -= more;
        hi += more;
    }
    if (!any) lo = chart->log ? 0.1 : 0, hi = 1; /* all values that there are lie beyond it */
    axis_init(&d->y, lo, hi, chart->log, ticks);
    count_outliers(d);
    return any;
}

const char *chart_lack(const struct drawing *d)
{
    const struct chart *chart = d->chart;
    if (!chart->trace[0].count) return chart->ended ? "not recorded" : "waiting for the first value";
    return d->y.log && d->below ? "no value above 0 in this range" : "no finite value in this range";
}

/* ---- curves ---- */

/* The values of a trace in one dot column: extremes, and the first and last value of the line. */
struct column {
    int x;
    double lo, hi, first, last;
    bool any, lost; /* there are values; some were NaN or infinite */
};

/* A curve as far as it is drawn. */
struct curve {
    const struct drawing *d;
    enum style style;
    int every;     /* as of raster_line */
    bool extremes; /* columns are drawn from their highest to their lowest value */
    int fork_x;    /* dimmed before it */
    int x, y;      /* its end; x < 0: none, it begins anew */
};

static void draw_column(struct curve *curve, const struct column *column)
{
    const struct raster *raster = &curve->d->raster;
    enum style style = column->x < curve->fork_x ? STYLE_DIM : curve->style;
    if (!column->any) {
        if (column->lost) curve->x = -1; /* leave a gap for a missing number */
        return;
    }
    if (curve->x >= 0)
        raster_line(raster, curve->x, curve->y, column->x, chart_dot_y(curve->d, column->first), style,
                    curve->every);
    if (curve->extremes)
        raster_line(raster, column->x, chart_dot_y(curve->d, column->hi), column->x,
                    chart_dot_y(curve->d, column->lo), style, 1);
    curve->x = column->x;
    curve->y = chart_dot_y(curve->d, column->last);
}

/* Draws a trace in `style`, and what it inherits dimmed; `values` (may be NULL) replaces those of its
 * points. */
static void draw_curve(const struct drawing *d, const struct chart_trace *trace, const double *values,
                       enum style style)
{
    struct curve curve = {d, style, trace->marks ? 3 : 1, !trace->band, 0, -1, 0};
    struct column column = {.x = -1};
    size_t i, end = chart_visible(d->chart, trace, &i);
    if (trace->fork_step > 0) curve.fork_x = chart_dot_x(d, (double)trace->fork_step);
    for (; i < end; i++) {
        const struct series_point *p = &trace->points[i];
        int x = (int)fmin(fmax(chart_dot_x(d, chart_middle(p)), 0), d->raster.columns - 1);
        double lo = chart_shown(d->chart, values ? values[i] : p->min),
               hi = chart_shown(d->chart, values ? values[i] : p->max),
               mid = chart_shown(d->chart, values ? values[i] : p->mean);
        if (x != column.x) {
            draw_column(&curve, &column);
            column = (struct column){.x = x, .lo = INFINITY, .hi = -INFINITY};
        }
        column.lost = column.lost || p->non_finite > 0;
        if (isnan(lo) || isnan(hi)) continue; /* infinite ones leave the plot */
        if (!isfinite(mid)) mid = hi;
        if (!column.any) column.first = mid;
        column.any = true;
        column.last = mid;
        column.lo = fmin(column.lo, lo);
        column.hi = fmax(column.hi, hi);
    }
    draw_column(&curve, &column);
}

/* Draws, after the dots, a cross at the top for every NaN or infinite value, an arrow where a value lies
 * beyond the axis, of a run among others only where the line leaves it, and the marks of the values. */
static void draw_marks(const struct drawing *d, const struct chart_trace *trace)
{
    int last_x = -8; /* keep marks apart, so that the line between them is visible */
    bool was_above = false, was_below = false;
    size_t i, end = chart_visible(d->chart, trace, &i);
    for (; i < end; i++) {
        const struct series_point *p = &trace->points[i];
        bool above = d->above && chart_shown(d->chart, p->max) > d->y.hi,
             below = d->below && chart_shown(d->chart, p->min) < d->y.lo;
        bool leaves_up = above && !(was_above && d->chart->runs),
             leaves_down = below && !(was_below && d->chart->runs);
        was_above = above;
        was_below = below;
        if (!trace->marks && !p->non_finite && !leaves_up && !leaves_down) continue;
        int x = chart_cell_x(d, chart_middle(p));
        if (x < d->plot.x || x >= d->plot.x + d->plot.w) continue;
        if (leaves_up) grid_put(d->grid, x, d->plot.y, 0x2191, STYLE_WARN, ATTR_BOLD);
        if (leaves_down) grid_put(d->grid, x, d->plot.y + d->plot.h - 1, 0x2193, STYLE_WARN, ATTR_BOLD);
        if (p->non_finite) grid_put(d->grid, x, d->plot.y, 0x2717, STYLE_BAD, ATTR_BOLD);
        double last = chart_shown(d->chart, p->last);
        if (!trace->marks || !isfinite(last) || x - last_x < 3 || above || below) continue;
        last_x = x;
        enum style style = p->last_step < trace->fork_step ? STYLE_DIM : trace->style;
        grid_put(d->grid, x, chart_cell_y(d, last), 0x25C6, style, ATTR_NONE);
    }
}

/* Draws the first trace on top. Smoothed lines replace the cells below them, so that they stand out in a band
 * of noise; all other lines share cells. */
static void draw_traces(const struct drawing *d)
{
    const struct chart_trace *traces = d->chart->trace;
    int count = d->chart->trace_count;
    bool any_smooth = false;
    for (int t = 0; t < count; t++) any_smooth = any_smooth || traces[t].smooth;
    for (int smooth = 0; smooth <= any_smooth; smooth++) {
        if (smooth) raster_clear(&d->raster);
        for (int t = count - 1; t >= 0; t--) {
            bool behind = !smooth && traces[t].smooth;
            if (smooth && !traces[t].smooth) continue;
            draw_curve(d, &traces[t], smooth ? traces[t].smooth : NULL, behind ? STYLE_DIM : traces[t].style);
        }
        raster_show(&d->raster);
    }
}

/* The point whose value the title shows: the newest one that begins at or before the cursor; NULL: none. */
static const struct series_point *title_point(const struct chart *chart, const struct chart_trace *trace)
{
    size_t end = chart->cursor >= 0 ? chart_points_until(trace, chart->cursor) : trace->count;
    return end > 0 ? &trace->points[end - 1] : NULL;
}

/* A value in the title, drawn whole or not at all, with as much of its explanation as fits. */
struct value {
    uint32_t symbol; /* 0: neither symbol nor name */
    const char *name;
    enum style style, more_style;
    char text[24], more[32];
};

static void draw_value(struct pen *pen, const struct value *value)
{
    enum { NAME_LEAST = 5 }; /* columns left of a cut name */
    int gap = value->symbol ? 4 : 1, room = pen->end - pen->x - gap - glyph_text_width(value->text);
    int name = value->symbol ? glyph_text_width(value->name) : 0, more = glyph_text_width(value->more);
    if (room < 0) return;
    grid_fill(pen->grid, (struct rect){pen->x, pen->y, gap, 1}, ' ', STYLE_TEXT);
    if (value->symbol) grid_put(pen->grid, pen->x + 2, pen->y, value->symbol, value->style, ATTR_BOLD);
    pen->x += gap;
    if (more > room) more = 0;
    room -= more + 1;
    if (name > room) name = room < NAME_LEAST ? 0 : room;
    if (name > 0) {
        pen->x += grid_text(pen->grid, pen->x, pen->y, name, STYLE_DIM, 0, value->name);
        pen_print(pen, STYLE_TEXT, 0, " ");
    }
    pen_print(pen, value->style, ATTR_BOLD, "%s", value->text);
    if (more) pen_print(pen, value->more_style, 0, "%s", value->more);
}

/* The value that the title shows. */
static struct series_value title_value(const struct chart_trace *trace, const struct series_point *point)
{
    if (trace->at) return *trace->at;
    if (!point) return (struct series_value){false, NAN, NAN};
    bool lost = point->count && point->non_finite == point->count;
    return (struct series_value){true, lost ? NAN : point->last,
                                 trace->smooth ? trace->smooth[point - trace->points] : NAN};
}

static void draw_trace_value(struct pen *pen, const struct chart *chart, const struct chart_trace *trace)
{
    const struct series_point *point = title_point(chart, trace);
    struct series_value at = title_value(trace, point);
    struct value value = {.name = trace->name, .style = trace->style, .more_style = STYLE_DIM, .text = "--"};
    if (trace->name) value.symbol = trace->marks ? 0x25C6 : 0x2501;
    bool averaged = at.known && !isnan(at.average);
    if (at.known)
        axis_format(chart_shown(chart, averaged ? at.average : at.value), value.text, sizeof value.text);
    if (averaged) snprintf(value.more, sizeof value.more, " (%s)", AXIS_TEXT(chart_shown(chart, at.value)));
    /* others that are merged into its point may lack a number */
    if (point && chart->cursor >= 0 && point->non_finite && point->count > point->non_finite) {
        snprintf(value.more, sizeof value.more, " %" PRId64 " \u2717", point->non_finite);
        value.more_style = STYLE_BAD;
    }
    draw_value(pen, &value);
}

/* Whole, or not at all. */
static void draw_count(struct pen *pen, const struct drawing *d, int64_t count, const char *where)
{
    char text[48];
    /* a bucket may hold several */
    snprintf(text, sizeof text, " %" PRId64 "%s %s", count, d->buckets ? "+" : "", where);
    if (count && glyph_text_width(text) <= pen->end - pen->x) pen_print(pen, STYLE_WARN, 0, "%s", text);
}

/* The number on the axis at a step. */
static const char *format_place(const struct chart *chart, int64_t step, char buf[32])
{
    if (chart->x_scale > 0) return axis_format((double)step / chart->x_scale, buf, 32);
    snprintf(buf, 32, "%" PRId64, step);
    return buf;
}

/* A long name that leaves no room for the value loses its middle, as the end tells names of layers apart. */
static void draw_name(struct pen *pen, enum style style, const char *name)
{
    enum { LEAST = 24, VALUE = 16 };
    int room = pen->end - pen->x - VALUE;
    if (room < LEAST) room = LEAST;
    if (glyph_text_width(name) > room) {
        int head = grid_text(pen->grid, pen->x, pen->y, room / 2, style, ATTR_BOLD, name);
        while (glyph_text_width(name) > room - head) glyph_next(&name);
        pen->x += head;
    }
    pen_print(pen, style, ATTR_BOLD, "%s", name);
}

static void draw_title(const struct drawing *d)
{
    char place[32];
    struct grid *grid = d->grid;
    struct rect area = d->area;
    const struct chart *chart = d->chart;
    struct pen pen = {grid, area.x + 1, area.y, area.x + area.w};
    enum style style = chart->focused ? STYLE_ACCENT : STYLE_TEXT;
    grid_fill(grid, (struct rect){area.x, area.y, area.w, 1}, 0x2500, chart->focused ? style : STYLE_RULE);
    grid_put(grid, area.x, area.y, chart->focused ? 0x25B8 : ' ', style, ATTR_BOLD);
    draw_name(&pen, style, chart->title);
    if (chart->unit && area.w >= 50) pen_print(&pen, STYLE_DIM, 0, " %s", chart->unit);
    if (d->y.log) pen_print(&pen, STYLE_DIM, 0, " log");
    if (d->widened) pen_print(&pen, STYLE_DIM, 0, " all values");
    if (chart->decay > 0) pen_print(&pen, STYLE_DIM, 0, " ema %g", chart->decay);
    if (chart->cursor >= 0 && !chart->bare)
        pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, " @%s", format_place(chart, chart->cursor, place));
    pen.end--;
    for (int t = 0; t < chart->trace_count && !chart->bare; t++)
        draw_trace_value(&pen, chart, &chart->trace[t]);
    struct value best = {0x2605, "best", STYLE_BEST, STYLE_DIM, "", ""};
    axis_format(chart_shown(chart, chart->best), best.text, sizeof best.text);
    snprintf(best.more, sizeof best.more, " @%s", format_place(chart, chart->best_step, place));
    if (chart->best_step >= 0) draw_value(&pen, &best);
    draw_count(&pen, d, d->above, "above \u2191");
    draw_count(&pen, d, d->below, "below \u2193");
    grid_put(grid, pen.x, pen.y, ' ', STYLE_TEXT, 0);
}

static bool is_visible(const struct drawing *d, int64_t step)
{
    return step >= d->chart->first_step && step <= d->chart->last_step;
}

static void draw_axes(const struct drawing *d)
{
    struct grid *grid = d->grid;
    struct rect plot = d->plot;
    grid_fill(grid, (struct rect){plot.x - 1, plot.y, 1, plot.h}, 0x2502, STYLE_RULE);
    for (int i = 0; i < d->y.count; i++) {
        int y = chart_cell_y(d, d->y.tick[i]);
        grid_text_right(grid, d->area.x, y, CHART_MARGIN - 1, STYLE_DIM, 0, d->y.label[i]);
        grid_put(grid, plot.x - 1, y, 0x2524, STYLE_RULE, 0);
        if (grid->level == GLYPHS_ASCII) continue; /* in ASCII the line consists of such dots */
        for (int x = plot.x + 1; x < plot.x + plot.w; x += 4) grid_put(grid, x, y, 0x00B7, STYLE_RULE, 0);
    }
    int row = d->area.y + d->area.h - 1, free_from = d->area.x, right = d->area.x + d->area.w;
    for (int i = 0; i < d->x.count; i++) {
        int w = (int)strlen(d->x.label[i]),
            x = d->plot.x + chart_dot_of(d, d->x.tick[i]) / d->raster.dot_w - w / 2;
        if (x + w > right) x = right - w;
        if (x < free_from) continue;
        grid_text(grid, x, row, w, STYLE_DIM, 0, d->x.label[i]);
        free_from = x + w + 1;
    }
}

static void mark_steps(const struct drawing *d, bool events)
{
    for (size_t i = 0; i < d->chart->mark_count; i++) {
        const struct chart_mark *mark = &d->chart->marks[i];
        if (mark->event != events || !is_visible(d, mark->step)) continue;
        if (events)
            grid_put(d->grid, chart_cell_x(d, (double)mark->step), d->plot.y, '!', STYLE_WARN, ATTR_BOLD);
        else
            grid_put(d->grid, chart_cell_x(d, (double)mark->step), d->plot.y + d->plot.h - 1, 0x25B2,
                     STYLE_ACCENT, 0);
    }
}

static void draw_cursor(const struct drawing *d)
{
    int x = chart_cell_x(d, (double)d->chart->cursor);
    if (x < d->plot.x || x >= d->plot.x + d->plot.w) return;
    for (int y = d->plot.y; y < d->plot.y + d->plot.h; y++) {
        const struct cell *cell = &d->grid->cells[(size_t)y * (size_t)d->grid->w + (size_t)x];
        if (cell->glyph == ' ' || cell->style == STYLE_RULE)
            grid_put(d->grid, x, y, 0x250A, STYLE_ACCENT, 0);
        else
            grid_mark(d->grid, (struct rect){x, y, 1, 1}, ATTR_REVERSE);
    }
}

void chart_init_steps(struct drawing *d, int ticks)
{
    double first = (double)d->chart->first_step, last = (double)d->chart->last_step,
           scale = d->chart->x_scale;
    if (scale > 0 && d->chart->log_steps) first = fmax(first, 1); /* as chart_step_at */
    if (scale > 0)
        axis_init(&d->x, first / scale, last / scale, d->chart->log_steps, ticks);
    else
        axis_init_steps(&d->x, first, last, d->chart->log_steps, ticks);
}

static void draw_plot(struct drawing *d, bool any)
{
    chart_init_steps(d, d->plot.w / 10);
    if (!any) {
        grid_text(d->grid, d->plot.x + 1, d->plot.y + d->plot.h / 2, d->plot.w - 1, STYLE_DIM, 0,
                  chart_lack(d));
        d->y.count = 0;
    }
    draw_axes(d);
    mark_steps(d, false);
    if (any) chart_draw_bands(d);
    if (any) draw_traces(d);
    for (int t = d->chart->trace_count - 1; t >= 0; t--) draw_marks(d, &d->chart->trace[t]);
    chart_draw_markers(d);
    double best = chart_shown(d->chart, d->chart->best);
    if (is_visible(d, d->chart->best_step) && isfinite(best))
        grid_put(d->grid, chart_cell_x(d, (double)d->chart->best_step), chart_cell_y(d, best), 0x2605,
                 STYLE_BEST, ATTR_BOLD);
    if (d->chart->events) mark_steps(d, true);
    if (d->chart->cursor >= 0) draw_cursor(d);
}

void chart_draw(struct grid *grid, struct rect area, const struct chart *chart)
{
    if (area.w <= 0 || area.h <= 0) return;
    struct drawing d = {.grid = grid, .chart = chart, .area = area, .plot = chart_plot(area)};
    int ticks = d.plot.h / 2 + 1; /* at most a label in every other row */
    bool any = chart_init_values(&d, ticks > 8 ? 8 : ticks);
    axis_shorten(&d.y, CHART_MARGIN - 1);
    draw_title(&d);
    if (area.w >= CHART_MIN_W && area.h >= CHART_MIN_H && raster_init(&d.raster, grid, d.plot))
        draw_plot(&d, any);
}
