/* See chart.h. */
#include "tui/widget/chart.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/widget/axis.h"
#include "tui/widget/robust.h"

/* The values of a series in one dot column: extremes, and the first and last value of the line. */
struct column {
    double lo, hi, first, last;
    int count;      /* points with a value */
    int non_finite; /* values that were NaN or infinite */
};

struct dots {
    uint8_t bits;  /* bit (row * dot_w + column) for each dot of a cell */
    uint8_t style; /* of the dot drawn last */
};

/* One call of chart_draw. Lines are drawn in dots finer than cells and turned into glyphs at the end: braille
 * gives 2 × 4 dots per cell, half blocks 1 × 2, ASCII 1 × 3. */
struct drawing {
    struct grid *grid;
    const struct chart *chart;
    struct rect area, plot;
    struct axis x, y;
    int64_t above, below; /* points that lie beyond the ends of y */
    bool buckets;         /* some of these stand for several values */
    int dot_w, dot_h;     /* dots per cell */
    int dot_columns;
    struct column *columns; /* one per dot column */
    struct dots *dots;      /* one per cell of the plot */
};

struct rect chart_plot(struct rect area)
{
    return (struct rect){area.x + CHART_MARGIN, area.y + 1, area.w - CHART_MARGIN, area.h - 2};
}

/* Index of the first point that ends at or after `step`. */
static size_t lower_bound(const struct series_point *points, size_t count, int64_t step)
{
    size_t lo = 0, hi = count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (points[mid].last_step < step)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The visible points of a trace: from *begin up to, but without, the returned index. */
static size_t visible(const struct chart *chart, const struct chart_trace *trace, size_t *begin)
{
    *begin = lower_bound(trace->points, trace->count, chart->first_step);
    size_t end = lower_bound(trace->points, trace->count, chart->last_step);
    return end < trace->count && trace->points[end].first_step <= chart->last_step ? end + 1 : end;
}

static double point_step(const struct series_point *point)
{
    return ((double)point->first_step + (double)point->last_step) / 2;
}

/* The value that the chart shows for one of a series. A mean then is a geometric one. */
static double shown(const struct chart *chart, double value)
{
    return chart->exponential ? exp(value) : value;
}

/* The extremes of a point as the chart shows them; false: it has none, or on a logarithmic axis none above 0.
 */
static bool point_range(const struct chart *chart, bool log, const struct series_point *point, double *lo,
                        double *hi)
{
    *lo = shown(chart, point->min);
    *hi = shown(chart, point->max);
    if (!isfinite(*lo) || !isfinite(*hi) || (log && *hi <= 0)) return false;
    if (log && *lo <= 0) *lo = *hi;
    return true;
}

/* Narrows *lo..*hi to the frequent values; the newest value of each trace stays inside. */
static void cut_outliers(struct grid *grid, const struct chart *chart, size_t points, double *lo, double *hi)
{
    double *lows = grid_scratch(grid, 2 * points * sizeof *lows), *highs = lows + points, low, high;
    double least = INFINITY, most = -INFINITY; /* of the newest values */
    size_t count = 0;
    if (!lows) return;
    for (int t = 0; t < chart->trace_count; t++) {
        size_t i, end = visible(chart, &chart->trace[t], &i);
        for (; i < end; i++) {
            if (!point_range(chart, false, &chart->trace[t].points[i], &low, &high)) continue;
            lows[count] = low;
            highs[count++] = high;
        }
        double newest = i > 0 ? shown(chart, chart->trace[t].points[i - 1].last) : NAN;
        least = fmin(least, newest); /* ignores NaN */
        most = fmax(most, newest);
    }
    double all_lo = *lo, all_hi = *hi;
    robust_range(lows, highs, count, lo, hi);
    *lo = fmax(fmin(*lo, least), all_lo);
    *hi = fmin(fmax(*hi, most), all_hi);
}

/* The smallest and largest visible value; false when there is none. *points: the visible points with one. */
static bool value_range(const struct chart *chart, bool log, double *lo, double *hi, size_t *points)
{
    double low, high;
    *lo = INFINITY;
    *hi = -INFINITY;
    *points = 0;
    for (int t = 0; t < chart->trace_count; t++) {
        const struct chart_trace *trace = &chart->trace[t];
        size_t i, end = visible(chart, trace, &i);
        for (; i < end; i++) {
            if (!point_range(chart, log, &trace->points[i], &low, &high)) continue;
            *lo = fmin(*lo, low);
            *hi = fmax(*hi, high);
            ++*points;
        }
    }
    return *points > 0;
}

/* Counts the points beyond the ends of the values' axis. */
static void count_outliers(struct drawing *d)
{
    for (int t = 0; t < d->chart->trace_count; t++) {
        const struct chart_trace *trace = &d->chart->trace[t];
        size_t i, end = visible(d->chart, trace, &i);
        for (; i < end; i++) {
            double low, high;
            if (!point_range(d->chart, false, &trace->points[i], &low, &high)) continue;
            d->above += high > d->y.hi;
            d->below += low < d->y.lo;
            d->buckets = d->buckets || (trace->points[i].count > 1 && (high > d->y.hi || low < d->y.lo));
        }
    }
}

static int dot_x(const struct drawing *d, double step)
{
    double least = d->x.log ? 0 : -1; /* logarithms leave no room before the first step */
    double at = axis_position(&d->x, step) * (d->dot_columns - 1); /* NaN: before it */
    return (int)lround(fmin(fmax(at, least), (double)d->dot_columns));
}

static int dot_y(const struct drawing *d, double value)
{
    int last = d->plot.h * d->dot_h - 1;
    double at = axis_position(&d->y, value);
    if (isnan(at)) return last; /* on a logarithmic axis zero lies below everything */
    return (int)lround((1 - fmin(fmax(at, 0), 1)) * last);
}

/* The cell of the grid that holds the dot. */
static int cell_x(const struct drawing *d, double step)
{
    return d->plot.x + dot_x(d, step) / d->dot_w;
}

static int cell_y(const struct drawing *d, double value)
{
    return d->plot.y + dot_y(d, value) / d->dot_h;
}

/* Sets a dot, counted from the plot's upper left; clips others. */
static void set_dot(const struct drawing *d, int x, int y, enum style style)
{
    if (x < 0 || y < 0 || x >= d->dot_columns || y >= d->plot.h * d->dot_h) return;
    struct dots *dots = &d->dots[y / d->dot_h * d->plot.w + x / d->dot_w];
    dots->bits |= (uint8_t)(1u << (y % d->dot_h * d->dot_w + x % d->dot_w));
    dots->style = (uint8_t)style;
}

/* Draws a line; if dotted, one dot in `every` is set. */
static void draw_dots(const struct drawing *d, int x0, int y0, int x1, int y1, enum style style, int every)
{
    /* Bresenham; the ends are dots of the plot or one column outside, so the walk is short */
    int dx = abs(x1 - x0), dy = -abs(y1 - y0), sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1, error = dx + dy;
    for (int n = 0;; n++) {
        if (n % every == 0) set_dot(d, x0, y0, style);
        if (x0 == x1 && y0 == y1) return;
        int twice = 2 * error;
        if (twice >= dy) {
            error += dy;
            x0 += sx;
        }
        if (twice <= dx) {
            error += dx;
            y0 += sy;
        }
    }
}

static uint32_t glyph_of(enum glyph_level level, uint8_t bits)
{
    /* from our bit (row, column) to the Unicode bit of that dot */
    static const uint8_t braille[8] = {0x01, 0x08, 0x02, 0x10, 0x04, 0x20, 0x40, 0x80};
    static const uint32_t block[4] = {' ', 0x2580, 0x2584, 0x2588};
    static const char ascii[8] = {' ', '\'', '-', '\'', '.', ':', '.', '|'};
    if (level == GLYPHS_BLOCK) return block[bits & 3];
    if (level == GLYPHS_ASCII) return (unsigned char)ascii[bits & 7];
    uint32_t glyph = 0x2800;
    for (int i = 0; i < 8; i++)
        if (bits & 1u << i) glyph |= braille[i];
    return glyph;
}

/* Writes cells with dots to the grid; leaves the others as they are. */
static void show_dots(const struct drawing *d)
{
    const struct dots *dots = d->dots;
    for (int y = d->plot.y; y < d->plot.y + d->plot.h; y++)
        for (int x = d->plot.x; x < d->plot.x + d->plot.w; x++, dots++)
            if (dots->bits)
                grid_put(d->grid, x, y, glyph_of(d->grid->level, dots->bits), (enum style)dots->style,
                         ATTR_NONE);
}

/* Gathers the points of a trace into dot columns; `values` (may be NULL) replaces the points' own values. */
static void reduce(const struct drawing *d, const struct chart_trace *trace, const double *values)
{
    int columns = d->dot_columns;
    for (int c = 0; c < columns; c++) d->columns[c] = (struct column){.lo = INFINITY, .hi = -INFINITY};
    size_t i, end = visible(d->chart, trace, &i);
    for (; i < end; i++) {
        const struct series_point *p = &trace->points[i];
        int x = dot_x(d, point_step(p));
        struct column *column = &d->columns[x < 0 ? 0 : x >= columns ? columns - 1 : x];
        double lo = shown(d->chart, values ? values[i] : p->min),
               hi = shown(d->chart, values ? values[i] : p->max),
               mid = shown(d->chart, values ? values[i] : p->mean);
        column->non_finite += p->non_finite > 0;
        if (!isfinite(lo) || !isfinite(hi)) continue;
        if (!isfinite(mid)) mid = hi;
        if (column->count++ == 0) column->first = mid;
        column->last = mid;
        if (lo < column->lo) column->lo = lo;
        if (hi > column->hi) column->hi = hi;
    }
}

/* `extremes`: also draws from the highest to the lowest value of each column. */
static void draw_columns(const struct drawing *d, enum style style, int every, bool extremes)
{
    int columns = d->dot_columns, from_x = -1, from_y = 0;
    for (int x = 0; x < columns; x++) {
        const struct column *column = &d->columns[x];
        if (column->count == 0) {
            if (column->non_finite) from_x = -1; /* leave a gap for a missing number */
            continue;
        }
        if (from_x >= 0) draw_dots(d, from_x, from_y, x, dot_y(d, column->first), style, every);
        if (extremes) draw_dots(d, x, dot_y(d, column->hi), x, dot_y(d, column->lo), style, 1);
        from_x = x;
        from_y = dot_y(d, column->last);
    }
}

/* Draws, after the dots, a cross at the top for every NaN or infinite value, an arrow where a value lies
 * beyond the axis, and the marks of the values. */
static void draw_marks(const struct drawing *d, const struct chart_trace *trace)
{
    int last_x = -8; /* keep marks apart, so that the line between them is visible */
    size_t i, end = visible(d->chart, trace, &i);
    for (; i < end; i++) {
        const struct series_point *p = &trace->points[i];
        bool above = d->above && shown(d->chart, p->max) > d->y.hi,
             below = d->below && shown(d->chart, p->min) < d->y.lo;
        if (!trace->marks && !p->non_finite && !above && !below) continue;
        int x = cell_x(d, point_step(p));
        if (x >= d->plot.x + d->plot.w) continue;
        if (above) grid_put(d->grid, x, d->plot.y, 0x2191, STYLE_WARN, ATTR_BOLD);
        if (below) grid_put(d->grid, x, d->plot.y + d->plot.h - 1, 0x2193, STYLE_WARN, ATTR_BOLD);
        if (p->non_finite) grid_put(d->grid, x, d->plot.y, 0x2717, STYLE_BAD, ATTR_BOLD);
        double last = shown(d->chart, p->last);
        if (!trace->marks || !isfinite(last) || x - last_x < 3 || above || below) continue;
        last_x = x;
        grid_put(d->grid, x, cell_y(d, last), 0x25C6, trace->style, ATTR_NONE);
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
        if (smooth) memset(d->dots, 0, (size_t)d->plot.w * (size_t)d->plot.h * sizeof *d->dots);
        for (int t = count - 1; t >= 0; t--) {
            bool behind = !smooth && traces[t].smooth;
            if (smooth && !traces[t].smooth) continue;
            reduce(d, &traces[t], smooth ? traces[t].smooth : NULL);
            draw_columns(d, behind ? STYLE_DIM : traces[t].style,
                         traces[t].marks   ? 3
                         : traces[t].trend ? 2
                                           : 1,
                         !traces[t].trend);
        }
        show_dots(d);
    }
    for (int t = count - 1; t >= 0; t--) draw_marks(d, &traces[t]);
}

/* The last point that begins at or before `step`; NULL before the first. */
static const struct series_point *point_at(const struct chart_trace *trace, int64_t step)
{
    size_t i = lower_bound(trace->points, trace->count, step);
    if (i < trace->count && trace->points[i].first_step <= step) return &trace->points[i];
    return i > 0 ? &trace->points[i - 1] : NULL;
}

/* The point whose value the title shows: the newest one or the one at the cursor. */
static const struct series_point *title_point(const struct chart *chart, const struct chart_trace *trace)
{
    const struct series_point *newest = trace->count ? &trace->points[trace->count - 1] : NULL;
    bool at_cursor = chart->cursor >= 0;
    if (!newest || (!at_cursor && !trace->trend)) return newest;
    /* the compared run may have ended before; its last evaluation may lie one step after its last step */
    if (at_cursor && trace->trend && chart->cursor > newest->last_step + 1) return NULL;
    return point_at(trace, at_cursor ? chart->cursor : chart->last_step);
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
    grid_fill(pen->grid, (struct rect){pen->x, pen->y, gap, 1}, ' ', STYLE_TEXT, 0);
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

static void draw_trace_value(struct pen *pen, const struct chart *chart, const struct chart_trace *trace)
{
    const struct series_point *point = title_point(chart, trace);
    struct value value = {.name = trace->name, .style = trace->style, .more_style = STYLE_BAD, .text = "--"};
    if (trace->name) value.symbol = trace->marks ? 0x25C6 : trace->trend ? 0x00B7 : 0x2501;
    if (point && trace->smooth && chart->cursor < 0)
        axis_format(shown(chart, trace->smooth[point - trace->points]), value.text, sizeof value.text);
    else if (point)
        axis_format(point->non_finite == point->count && point->count ? NAN : shown(chart, point->last),
                    value.text, sizeof value.text);
    /* some of the steps merged into one point may lack a number */
    if (point && chart->cursor >= 0 && point->non_finite && point->count > point->non_finite)
        snprintf(value.more, sizeof value.more, " %" PRId64 " NaN", point->non_finite);
    draw_value(pen, &value);
}

static void draw_outliers(struct pen *pen, const struct drawing *d)
{
    const char *more = d->buckets ? "+" : ""; /* a bucket may hold several */
    if (d->above) pen_print(pen, STYLE_WARN, 0, " %" PRId64 "%s above \u2191", d->above, more);
    if (d->below) pen_print(pen, STYLE_WARN, 0, " %" PRId64 "%s below \u2193", d->below, more);
}

static void draw_title(const struct drawing *d)
{
    struct grid *grid = d->grid;
    struct rect area = d->area;
    const struct chart *chart = d->chart;
    struct pen pen = {grid, area.x + 1, area.y, area.x + area.w};
    enum style style = chart->focused ? STYLE_ACCENT : STYLE_TEXT;
    grid_fill(grid, (struct rect){area.x, area.y, area.w, 1}, 0x2500, chart->focused ? style : STYLE_RULE, 0);
    grid_put(grid, area.x, area.y, chart->focused ? 0x25B8 : ' ', style, ATTR_BOLD);
    pen_print(&pen, style, ATTR_BOLD, "%s", chart->title);
    if (chart->unit && area.w >= 50) pen_print(&pen, STYLE_DIM, 0, " %s", chart->unit);
    if (d->y.log) pen_print(&pen, STYLE_DIM, 0, " log");
    if (chart->decay > 0) pen_print(&pen, STYLE_DIM, 0, " ema %g", chart->decay);
    if (chart->cursor >= 0) pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, " @%" PRId64, chart->cursor);
    pen.end--;
    for (int t = 0; t < chart->trace_count; t++) draw_trace_value(&pen, chart, &chart->trace[t]);
    struct value best = {0x2605, "best", STYLE_BEST, STYLE_DIM, "", ""};
    axis_format(shown(chart, chart->best), best.text, sizeof best.text);
    snprintf(best.more, sizeof best.more, " @%" PRId64, chart->best_step);
    if (chart->best_step >= 0) draw_value(&pen, &best);
    draw_outliers(&pen, d);
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
    grid_fill(grid, (struct rect){plot.x - 1, plot.y, 1, plot.h}, 0x2502, STYLE_RULE, 0);
    for (int i = 0; i < d->y.count; i++) {
        int y = cell_y(d, d->y.tick[i]);
        grid_text_right(grid, d->area.x, y, CHART_MARGIN - 1, STYLE_DIM, 0, d->y.label[i]);
        grid_put(grid, plot.x - 1, y, 0x2524, STYLE_RULE, 0);
        if (grid->level == GLYPHS_ASCII) continue; /* in ASCII the line consists of such dots */
        for (int x = plot.x + 1; x < plot.x + plot.w; x += 4) grid_put(grid, x, y, 0x00B7, STYLE_RULE, 0);
    }
    int row = d->area.y + d->area.h - 1, free_from = d->area.x, right = d->area.x + d->area.w;
    for (int i = 0; i < d->x.count; i++) {
        int w = (int)strlen(d->x.label[i]), x = cell_x(d, d->x.tick[i]) - w / 2;
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
            grid_put(d->grid, cell_x(d, (double)mark->step), d->plot.y, '!', STYLE_WARN, ATTR_BOLD);
        else
            grid_put(d->grid, cell_x(d, (double)mark->step), d->plot.y + d->plot.h - 1, 0x25B2, STYLE_ACCENT,
                     0);
    }
}

static void draw_cursor(const struct drawing *d)
{
    int x = cell_x(d, (double)d->chart->cursor);
    if (x < d->plot.x || x >= d->plot.x + d->plot.w) return;
    for (int y = d->plot.y; y < d->plot.y + d->plot.h; y++) {
        const struct cell *cell = &d->grid->cells[(size_t)y * (size_t)d->grid->w + (size_t)x];
        if (cell->glyph == ' ' || cell->style == STYLE_RULE)
            grid_put(d->grid, x, y, 0x250A, STYLE_ACCENT, 0);
        else
            grid_mark(d->grid, (struct rect){x, y, 1, 1}, ATTR_REVERSE);
    }
}

/* Sets the values' axis; false when no value is visible. */
static bool init_values(struct drawing *d)
{
    const struct chart *chart = d->chart;
    double lo = 0, hi = 1;
    size_t points;
    int ticks = d->plot.h / 2 + 1; /* at most a label in every other row */
    bool any = value_range(chart, chart->log, &lo, &hi, &points);
    double all_lo = lo, all_hi = hi;
    if (any && !chart->log && !chart->outliers) cut_outliers(d->grid, chart, points, &lo, &hi);
    bool cut = lo > all_lo || hi < all_hi;
    if (any && chart->zero && !chart->log) {
        lo = fmin(lo, 0);
        hi = fmax(hi, 0) * 1.05;
    } else if (any && !chart->log) {
        double more = fmax(chart->least_span * fabs(hi) - (hi - lo), 0) / 2;
        lo -= more;
        hi += more;
    }
    axis_init(&d->y, any ? lo : NAN, hi, chart->log, ticks > 8 ? 8 : ticks);
    if (cut) count_outliers(d);
    return any;
}

static void draw_plot(struct drawing *d, bool any)
{
    axis_init_steps(&d->x, (double)d->chart->first_step, (double)d->chart->last_step, d->chart->log_steps,
                    d->plot.w / 10);
    if (!any) {
        const char *text = d->chart->trace[0].count ? "no finite value in this range"
                           : d->chart->ended        ? "not recorded"
                                                    : "waiting for the first value";
        grid_text(d->grid, d->plot.x + 1, d->plot.y + d->plot.h / 2, d->plot.w - 1, STYLE_DIM, 0, text);
        d->y.count = 0;
    }
    draw_axes(d);
    mark_steps(d, false);
    draw_traces(d);
    double best = shown(d->chart, d->chart->best);
    if (is_visible(d, d->chart->best_step) && isfinite(best))
        grid_put(d->grid, cell_x(d, (double)d->chart->best_step), cell_y(d, best), 0x2605, STYLE_BEST,
                 ATTR_BOLD);
    if (d->chart->events) mark_steps(d, true);
    if (d->chart->cursor >= 0) draw_cursor(d);
}

void chart_draw(struct grid *grid, struct rect area, const struct chart *chart)
{
    if (area.w <= 0 || area.h <= 0) return;
    bool braille = grid->level == GLYPHS_BRAILLE, block = grid->level == GLYPHS_BLOCK;
    struct drawing d = {.grid = grid, .chart = chart, .area = area, .plot = chart_plot(area)};
    bool any = init_values(&d);
    draw_title(&d);
    if (area.w < CHART_MIN_W || area.h < CHART_MIN_H) return;
    d.dot_w = braille ? 2 : 1;
    d.dot_h = braille ? 4 : block ? 2 : 3;
    d.dot_columns = d.plot.w * d.dot_w;
    size_t columns = (size_t)d.dot_columns, cells = (size_t)d.plot.w * (size_t)d.plot.h;
    d.columns = grid_scratch(grid, columns * sizeof *d.columns + cells * sizeof *d.dots);
    if (!d.columns) return;
    d.dots = (struct dots *)(d.columns + columns);
    draw_plot(&d, any);
}
