/* See chart_svg.h. */
#include "tui/widget/chart_svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "tui/widget/chart_drawing.h"
#include "tui/widget/palette.h"

enum {
    WIDTH = 840,
    HEIGHT = 440,
    LEFT = 72,
    RIGHT = 20,
    TOP = 40,
    BOTTOM = 34,
    LEGEND_ROW = 20,
    TEXT_WIDTH = 7, /* of a character, about */
};

struct picture {
    FILE *out;
    struct drawing d; /* for the axes */
    int top;          /* of the plot */
};

/* ---- text and colours ---- */

static const char *dashes(const struct chart_trace *trace)
{
    return trace->marks ? " stroke-dasharray=\"3 3\"" : "";
}

static void write_text(FILE *out, const char *text)
{
    char clean[1024];
    for (const char *c = clean_line(clean, sizeof clean, text); *c; c++)
        if (strchr("&<>\"'", *c))
            fprintf(out, "&#%d;", *c);
        else
            putc(*c, out);
}

/* A colour of xterm's 256: from 16 on a cube of six steps each, from 232 on greys. */
static void write_colour(FILE *out, short colour, const char *own)
{
    static const int steps[6] = {0, 95, 135, 175, 215, 255};
    int cube = colour - 16, grey = 8 + 10 * (colour - 232);
    if (colour < 16)
        fputs(own, out);
    else if (colour >= 232)
        fprintf(out, "#%02x%02x%02x", grey, grey, grey);
    else
        fprintf(out, "#%02x%02x%02x", steps[cube / 36], steps[cube / 6 % 6], steps[cube % 6]);
}

/* Defines a class "sN" for each style: `color` is what strokes and fills then take. */
static void write_styles(FILE *out)
{
    static const char *const ink[] = {[BACKGROUND_DARK] = "#d0d7de", [BACKGROUND_LIGHT] = "#1f2328"},
                             *const paper[] = {[BACKGROUND_DARK] = "#0d1117", [BACKGROUND_LIGHT] = "#ffffff"};
    fputs("<style>\n.line{fill:none;stroke:currentColor;stroke-width:1.6;stroke-linejoin:round}\n"
          ".faint{opacity:.4;stroke-width:1}\n.band{fill:currentColor;opacity:.2}\n"
          ".mark{fill:currentColor}\ntext{fill:currentColor}\n",
          out);
    for (int b = BACKGROUND_COUNT - 1; b >= 0; b--) {
        if (b == BACKGROUND_DARK) fputs("@media (prefers-color-scheme:dark){\n", out);
        fprintf(out, ".paper{fill:%s}\n", paper[b]);
        for (int s = 0; s < STYLE_COUNT; s++) {
            fprintf(out, ".s%d{color:", s);
            write_colour(out, palette_colour((enum background)b, 256, (enum style)s), ink[b]);
            fputs("}\n", out);
        }
    }
    fputs("}\n</style>\n", out);
}

/* ---- places ---- */

static double place_x(const struct picture *p, double step)
{
    double scale = p->d.chart->x_scale;
    double at = axis_position(&p->d.x, fmax(scale > 0 ? step / scale : step, p->d.x.lo));
    return LEFT + at * (WIDTH - LEFT - RIGHT);
}

/* Within the plot, also for a value beyond its ends. */
static double place_y(const struct picture *p, double value)
{
    double at = axis_position(&p->d.y, value);
    if (isnan(at)) at = 0;
    return HEIGHT - BOTTOM - fmin(fmax(at, -0.01), 1.01) * (HEIGHT - BOTTOM - p->top);
}

/* ---- legend and axes ---- */

static int name_width(const char *name)
{
    return 40 + TEXT_WIDTH * glyph_text_width(name);
}

/* Writes the names of the traces in rows, or only counts the rows; returns how many. */
static int write_legend(const struct chart *chart, FILE *out)
{
    int x = LEFT, rows = 0;
    for (int t = 0; t < chart->trace_count; t++) {
        const char *name = chart->trace[t].name;
        if (!name) continue;
        if (rows && x + name_width(name) > WIDTH - RIGHT) x = LEFT;
        if (x == LEFT) rows++;
        int y = TOP + (rows - 1) * LEGEND_ROW;
        if (out) {
            fprintf(out, "<g class=\"s%d\"><path class=\"line\" style=\"stroke-width:3\"%s d=\"M%d %dh18\"/>",
                    chart->trace[t].style, dashes(&chart->trace[t]), x, y);
            fprintf(out, "<text class=\"s%d\" x=\"%d\" y=\"%d\">", STYLE_TEXT, x + 24, y + 4);
            if (chart->trace[t].marker) fprintf(out, "%c ", chart->trace[t].marker);
            write_text(out, name);
            fputs("</text></g>\n", out);
        }
        x += name_width(name);
    }
    return rows;
}

static void write_axes(const struct picture *p)
{
    FILE *out = p->out;
    for (int i = 0; i < p->d.y.count; i++) {
        double y = place_y(p, p->d.y.tick[i]);
        fprintf(out, "<path class=\"s%d line faint\" d=\"M%d %.1fH%d\"/>", STYLE_RULE, LEFT, y,
                WIDTH - RIGHT);
        fprintf(out, "<text class=\"s%d\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", STYLE_DIM,
                LEFT - 8, y + 4, p->d.y.label[i]);
    }
    for (int i = 0; i < p->d.x.count; i++) {
        double x = LEFT + axis_position(&p->d.x, p->d.x.tick[i]) * (WIDTH - LEFT - RIGHT);
        fprintf(out, "<path class=\"s%d line faint\" d=\"M%.1f %dv5\"/>", STYLE_RULE, x, HEIGHT - BOTTOM);
        fprintf(out, "<text class=\"s%d\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", STYLE_DIM,
                x, HEIGHT - BOTTOM + 18, p->d.x.label[i]);
    }
    fprintf(out, "<path class=\"s%d line\" d=\"M%d %dV%dH%d\"/>\n", STYLE_RULE, LEFT, p->top, HEIGHT - BOTTOM,
            WIDTH - RIGHT);
}

/* ---- curves ---- */

/* The range of a bucket's values, from the first to the last visible point and back. */
static void write_band(const struct picture *p, const struct chart_trace *trace)
{
    size_t begin, end = chart_visible(p->d.chart, trace, &begin);
    bool any = false;
    for (int back = 0; back < 2; back++)
        for (size_t k = begin; k < end; k++) {
            const struct series_point *point = &trace->points[back ? begin + end - 1 - k : k];
            double value = chart_shown(p->d.chart, back ? point->min : point->max);
            if (!isfinite(value)) continue;
            if (!any) fputs("<path class=\"band\" d=\"M", p->out);
            fprintf(p->out, "%s%.1f %.1f", any ? "L" : "", place_x(p, chart_middle(point)),
                    place_y(p, value));
            any = true;
        }
    if (any) fputs("z\"/>\n", p->out);
}

/* A line through the points, or through `values`, broken where one has no number. Before the fork of a trace,
 * and of raw values behind a smoothed line, it is faint. */
static void write_line(const struct picture *p, const struct chart_trace *trace, const double *values,
                       bool faint)
{
    size_t i, end = chart_visible(p->d.chart, trace, &i);
    bool drawn = false, open = false, inherited = false;
    for (; i < end; i++) {
        const struct series_point *point = &trace->points[i];
        double value = chart_shown(p->d.chart, values ? values[i] : point->mean);
        bool before = point->last_step < trace->fork_step;
        if (open && inherited != before) { /* the faint part ends where the other one begins */
            if (drawn && isfinite(value))
                fprintf(p->out, "L%.1f %.1f", place_x(p, chart_middle(point)), place_y(p, value));
            fputs("\"/>\n", p->out);
            open = false;
        }
        inherited = before;
        if (!isfinite(value)) {
            drawn = drawn && !point->non_finite && !isinf(value);
            continue;
        }
        if (!open)
            fprintf(p->out, "<path class=\"line%s\"%s d=\"", faint || before ? " faint" : "", dashes(trace));
        fprintf(p->out, "%s%.1f %.1f", open && drawn ? "L" : "M", place_x(p, chart_middle(point)),
                place_y(p, value));
        open = drawn = true;
    }
    if (open) fputs("\"/>\n", p->out);
}

/* A cross for each value that is no number. */
static void write_crosses(const struct picture *p, const struct chart_trace *trace)
{
    size_t i, end = chart_visible(p->d.chart, trace, &i);
    for (; i < end; i++)
        if (trace->points[i].non_finite)
            fprintf(p->out, "<path class=\"s%d line\" d=\"M%.1f %dl6 6m0 -6l-6 6\"/>\n", STYLE_BAD,
                    place_x(p, chart_middle(&trace->points[i])) - 3, p->top + 2);
}

/* A dot for each value of a trace with few, and the trace's marker. */
static void write_marks(const struct picture *p, const struct chart_trace *trace)
{
    size_t i, end = chart_visible(p->d.chart, trace, &i);
    double x = 0, y = 0;
    for (; i < end; i++) {
        const struct series_point *point = &trace->points[i];
        double value = chart_shown(p->d.chart, point->mean), at = place_x(p, chart_middle(point));
        if (!isfinite(value)) continue;
        x = at;
        y = place_y(p, value);
        if (trace->marks) fprintf(p->out, "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", x, y);
    }
    if (x > 0 && trace->marker)
        fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\">%c</text>\n", fmin(x + 3, WIDTH - RIGHT + 4), y - 4,
                trace->marker);
}

static void write_traces(const struct picture *p)
{
    for (int t = p->d.chart->trace_count - 1; t >= 0; t--) {
        const struct chart_trace *trace = &p->d.chart->trace[t];
        fprintf(p->out, "<g class=\"s%d\">\n", trace->style);
        if (!trace->smooth && !trace->marks) write_band(p, trace);
        write_line(p, trace, NULL, trace->smooth != NULL);
        if (trace->smooth) write_line(p, trace, trace->smooth, false);
        write_crosses(p, trace);
        write_marks(p, trace);
        fputs("</g>\n", p->out);
    }
}

static void write_events(const struct picture *p)
{
    const struct chart *chart = p->d.chart;
    for (size_t i = 0; i < chart->mark_count; i++) {
        const struct chart_mark *mark = &chart->marks[i];
        if (mark->step < chart->first_step || mark->step > chart->last_step) continue;
        double x = place_x(p, (double)mark->step);
        if (!mark->event)
            fprintf(p->out, "<path class=\"s%d mark\" d=\"M%.1f %dl-4 8h8z\"/>\n", STYLE_ACCENT, x,
                    HEIGHT - BOTTOM - 9);
        else if (chart->events)
            fprintf(p->out, "<text class=\"s%d\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">!</text>\n",
                    STYLE_WARN, x, p->top + 12);
    }
    double best = chart_shown(chart, chart->best);
    if (chart->best_step >= chart->first_step && chart->best_step <= chart->last_step && isfinite(best))
        fprintf(p->out,
                "<text class=\"s%d\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"16\">"
                "\u2605</text>\n",
                STYLE_BEST, place_x(p, (double)chart->best_step), place_y(p, best) + 6);
}

/* ---- all of it ---- */

static void write_heading(const struct picture *p, const char *heading)
{
    const struct chart *chart = p->d.chart;
    fprintf(p->out, "<text class=\"s%d\" x=\"%d\" y=\"22\" font-size=\"15\" font-weight=\"bold\">",
            STYLE_TEXT, LEFT);
    write_text(p->out, heading);
    fprintf(p->out, "</text><text class=\"s%d\" x=\"%d\" y=\"22\" text-anchor=\"end\">", STYLE_DIM,
            WIDTH - RIGHT);
    write_text(p->out, chart->title);
    if (chart->unit) fputs(" ", p->out);
    if (chart->unit) write_text(p->out, chart->unit);
    if (p->d.y.log) fputs(", log", p->out);
    if (chart->decay > 0) fprintf(p->out, ", ema %g", chart->decay);
    if (p->d.above || p->d.below)
        fprintf(p->out, ", %" PRId64 "%s values beyond the scale", p->d.above + p->d.below,
                p->d.buckets ? "+" : ""); /* a bucket may hold several */
    fputs("</text>\n", p->out);
}

static void write_picture(struct picture *p, const char *heading)
{
    bool any = chart_init_values(&p->d, 8);
    axis_shorten(&p->d.y, (LEFT - 8) / TEXT_WIDTH);
    chart_init_steps(&p->d, 10);
    p->top = TOP + write_legend(p->d.chart, NULL) * LEGEND_ROW;
    fprintf(p->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "font-family=\"system-ui,sans-serif\" font-size=\"12\" role=\"img\">\n<title>",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    write_text(p->out, heading);
    fputs("</title>\n", p->out);
    write_styles(p->out);
    fputs("<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n", p->out);
    write_heading(p, heading);
    write_legend(p->d.chart, p->out);
    if (!any) p->d.y.count = 0;
    write_axes(p);
    if (any)
        write_traces(p);
    else
        fprintf(p->out, "<text class=\"s%d\" x=\"%d\" y=\"%d\">%s</text>\n", STYLE_DIM, LEFT + 20, HEIGHT / 2,
                chart_lack(&p->d));
    for (int t = 0; t < p->d.chart->trace_count && !any; t++) write_crosses(p, &p->d.chart->trace[t]);
    write_events(p);
    fputs("</svg>\n", p->out);
}

enum status chart_write_svg(const struct chart *chart, const char *heading, const char *path, struct err *err)
{
    struct grid scratch = {0};
    struct file_out file;
    enum status status = file_out_replace(&file, path, "<svg ", err);
    if (status) return status;
    struct picture p = {.out = file.stream, .d = {.grid = &scratch, .chart = chart}};
    write_picture(&p, heading);
    grid_release(&scratch);
    return file_out_close(&file, STATUS_OK, 0, err);
}
