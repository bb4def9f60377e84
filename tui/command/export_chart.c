/* See export_chart.h. A curve is one metric of one run; a run has at most as many points as suit a page. */
#include "tui/command/export_chart.h"

#include <stdio.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/text.h"
#include "runs/quantity.h"
#include "runs/run.h"
#include "runs/series.h"
#include "tui/widget/chart.h"
#include "tui/widget/chart_svg.h"

enum { POINTS = 1500 };

struct curves {
    struct store *store;
    const struct chart_request *request;
    struct arena arena; /* of the names */
    struct series series[CHART_TRACES_MAX];
    struct chart chart;
    bool several_metrics;
    char known[300]; /* names of quantities, as far as they fit */
    struct err *err;
};

/* The quantity of this name that the run has recorded; NULL: none. */
static enum status find_quantity(struct curves *c, const char *run_id, const char *name,
                                 const struct quantity **out)
{
    struct quantity *all;
    size_t count;
    *out = NULL;
    enum status status = quantity_list(c->store, run_id, &c->arena, &all, &count, c->err);
    for (size_t i = 0, n = 0; !status && i < count; i++) {
        if (strcmp(all[i].name, name) == 0) *out = &all[i];
        if (n < sizeof c->known - QUANTITY_NAME_MAX)
            n += (size_t)snprintf(c->known + n, sizeof c->known - n, "%s%s", n ? ", " : "", all[i].name);
    }
    return status;
}

/* Adds the curve of one metric of one run, if it has recorded any. One with few points, which is dashed, has
 * the colour of the run's first curve. */
static enum status add_curve(struct curves *c, const struct run_info *run, size_t number, const char *metric)
{
    struct chart *chart = &c->chart;
    struct series *series = &c->series[chart->trace_count];
    if (chart->trace_count == CHART_TRACES_MAX || number >= CHART_TRACES_MAX)
        return err_set(c->err, STATUS_USAGE, "a chart holds at most %d curves (name fewer runs or metrics)",
                       CHART_TRACES_MAX);
    const struct quantity *quantity;
    enum status status = find_quantity(c, run->id, metric, &quantity);
    if (status || !quantity) return status;
    *series = (struct series){
        .name = quantity->column, .device = quantity->device, .decay = c->request->decay, .inherits = true};
    status = series_read(c->store, run->id, quantity->metric, 0, -1, POINTS, series, c->err);
    if (status || series->count == 0) return status;
    const char *name = c->request->count == 1 ? metric
                       : c->several_metrics   ? arena_printf(&c->arena, "%s %s", run->name, metric)
                                              : arena_strdup(&c->arena, run->name);
    if (!name) return err_no_memory(c->err, "a chart");
    bool few = series->metric >= METRIC_VAL_LOSS;
    chart->trace[chart->trace_count] = (struct chart_trace){
        .name = name,
        .points = series->points,
        .count = series->count,
        .smooth = few ? NULL : series->smooth,
        .style =
            (enum style)(STYLE_CURVE + (few && c->request->count > 1 ? (int)number : chart->trace_count)),
        .marks = few,
        .fork_step = series->fork_step};
    if (chart->trace_count++ == 0 || series->points[0].first_step < chart->first_step)
        chart->first_step = series->points[0].first_step;
    int64_t last = series->points[series->count - 1].last_step;
    if (last > chart->last_step) chart->last_step = last;
    return STATUS_OK;
}

static enum status add_metric(struct curves *c, const char *metric)
{
    struct run_info run;
    enum status status = STATUS_OK;
    int before = c->chart.trace_count;
    for (size_t i = 0; !status && i < c->request->count; i++) {
        status = run_get(c->store, c->request->ids[i], &run, c->err);
        if (!status) status = add_curve(c, &run, i, metric);
    }
    if (status || c->chart.trace_count > before || !c->request->metrics) return status;
    return err_set(c->err, STATUS_USAGE, "--metric %.60s: no chart of it is recorded (there are %s)",
                   CLEAN_LINE(metric), CLEAN_LINE(c->known));
}

/* The heading: the run, or how many. */
static enum status write_chart(struct curves *c, const char *path)
{
    struct run_info run;
    char heading[120];
    enum status status = run_get(c->store, c->request->ids[0], &run, c->err);
    if (status) return status;
    snprintf(heading, sizeof heading, "%s", run.name);
    if (c->request->count > 1) snprintf(heading, sizeof heading, "%zu runs", c->request->count);
    return chart_write_svg(&c->chart, heading, path, c->err);
}

enum status export_chart(struct store *store, const struct chart_request *request, const char *path,
                         struct err *err)
{
    struct curves c = {
        .store = store,
        .request = request,
        .chart = {.log = request->log, .decay = request->decay, .cursor = -1, .best_step = -1, .ended = true},
        .err = err};
    const char *metrics = request->metrics ? request->metrics : request->count > 1 ? "loss" : "loss,val_loss";
    char name[QUANTITY_NAME_MAX];
    enum status status = STATUS_OK;
    c.several_metrics = strchr(metrics, ',') != NULL;
    c.chart.runs = request->count > 1 && !c.several_metrics; /* curves of several metrics differ in scale */
    c.chart.title = request->metrics ? metrics : "loss";
    for (const char *rest = metrics; !status && text_next_name(&rest, name, sizeof name);) {
        const char *metric = arena_strdup(&c.arena, name);
        status = metric ? add_metric(&c, metric) : err_no_memory(err, "a chart");
    }
    if (!status) status = write_chart(&c, path);
    for (int t = 0; t < CHART_TRACES_MAX; t++) series_release(&c.series[t]);
    arena_release(&c.arena);
    return status;
}
