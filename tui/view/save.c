/* See save.h. */
#include "tui/view/save.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/exchange/export.h"
#include "runs/exchange/export_markdown.h"
#include "tui/widget/chart_svg.h"

/* Asks for a name; what is proposed has no blanks and no slashes. */
static void ask(struct workbench *workbench, const struct chart *chart, const struct comparison *comparison,
                const char *stem)
{
    char name[INPUT_MAX];
    snprintf(name, sizeof name, "%s-%s.svg", stem, chart->title);
    for (char *c = name; *c; c++)
        if (isspace((unsigned char)*c) || *c == '/') *c = '_';
    workbench_prompt(workbench, ACTION_SAVE, name,
                     comparison ? "save as .svg, .csv or .md" : "save as .svg or .csv");
}

/* The visible points of a trace as the chart shows them, such as perplexity for a loss; false: memory is
 * short. */
static bool shown_curve(const struct chart *chart, const struct chart_trace *trace, struct arena *arena,
                        struct export_curve *out)
{
    size_t begin, end = chart_visible(chart, trace, &begin), count = end - begin;
    struct series_point *points = arena_alloc_array(arena, count + 1, sizeof *points);
    double *smooth = trace->smooth ? arena_alloc_array(arena, count + 1, sizeof *smooth) : NULL;
    if (!points || (trace->smooth && !smooth)) return false;
    for (size_t i = 0; i < count; i++) {
        points[i] = trace->points[begin + i];
        points[i].min = chart_shown(chart, points[i].min);
        points[i].max = chart_shown(chart, points[i].max);
        points[i].mean = chart_shown(chart, points[i].mean);
        points[i].last = chart_shown(chart, points[i].last);
        if (smooth) smooth[i] = chart_shown(chart, trace->smooth[begin + i]);
    }
    *out = (struct export_curve){trace->name ? trace->name : chart->title, points, count, smooth};
    return true;
}

static enum status write_points(const struct chart *chart, const char *path, struct err *err)
{
    struct arena arena = {0};
    struct export_curve curves[CHART_TRACES_MAX];
    enum status status = STATUS_OK;
    for (int t = 0; !status && t < chart->trace_count; t++)
        if (!shown_curve(chart, &chart->trace[t], &arena, &curves[t])) status = err_no_memory(err, "a chart");
    const char *counted = chart->counted ? chart->counted : "step";
    if (!status) status = export_curves(curves, (size_t)chart->trace_count, counted, path, err);
    arena_release(&arena);
    return status;
}

static enum status write_as(const struct chart *chart, const struct comparison *comparison, const char *stem,
                            const char *path, struct err *err)
{
    if (file_exists(path)) return err_set(err, STATUS_USAGE, "%s: exists already (type another name)", path);
    if (text_ends_with(path, ".svg")) return chart_write_svg(chart, stem, path, err);
    if (text_ends_with(path, ".csv")) return write_points(chart, path, err);
    if (text_ends_with(path, ".md") && comparison) return export_markdown(comparison, path, err);
    return err_set(err, STATUS_USAGE, "%s: must end in .svg (a picture)%s .csv (the points)%s", path,
                   comparison ? "," : " or", comparison ? " or .md (the comparison as tables)" : "");
}

void save_shown(struct workbench *workbench, const struct chart *chart, const struct comparison *comparison,
                const char *stem, bool entered)
{
    char whole[PATH_MAX];
    const char *path = workbench->answer.text;
    if (!entered) {
        ask(workbench, chart, comparison, stem);
        return;
    }
    if (!*path) return;
    if (workbench_did(workbench, write_as(chart, comparison, stem, path, &workbench->err)))
        workbench_say(workbench, "wrote %s", realpath(path, whole) ? whole : path);
    else
        workbench->prompted = ACTION_SAVE; /* to be typed on */
}
