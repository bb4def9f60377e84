/* The charts of runs of one kind: all quantities that the run has, for which it was opened, and those that
 * are chosen for others of its kind. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/text.h"
#include "tui/view/picker.h"
#include "tui/view/run_charts.h"
#include "tui/view/workbench.h"

static const char *detail(struct picker *picker, const struct quantity *quantity)
{
    struct chart_look look = run_chart_look(quantity);
    if (quantity->metric == METRIC_MEASURE) return "measure of the evaluations";
    const char *text = arena_printf(&picker->arena, look.unit ? "%s, %s" : "%s", look.title, look.unit);
    return text ? text : "";
}

/* All, also those that are recorded later. */
static void choose_all(struct picker *picker)
{
    for (size_t i = 0; i < picker->count; i++) picker_choose(picker, i);
}

/* Chooses what the setting lists; without any of the run's `count` quantities, all, as its view does. */
static enum status choose(struct picker *picker, const char *names, size_t count, struct err *err)
{
    char name[QUANTITY_NAME_MAX];
    bool any = false;
    for (int i = 0; i < MODEL_CHARTS_MAX && text_next_name(&names, name, sizeof name); i++) {
        size_t at = picker_find(picker, name);
        const char *copy = at == picker->count ? arena_strdup(&picker->arena, name) : name;
        if (!copy) return err_no_memory(err, "the charts of other runs");
        if (at == picker->count) picker_add(picker, copy, "not recorded by this run");
        any = any || picker->items[at].place < count;
        picker_choose(picker, at);
    }
    if (!any) choose_all(picker);
    return STATUS_OK;
}

static enum status charts_open(struct workbench *workbench, void *opaque, const char *run_id, struct err *err)
{
    struct picker *picker = opaque;
    struct quantity *all;
    size_t count;
    char *config = NULL;
    picker->title = "Charts";
    picker->noun = "chart";
    picker->most = MODEL_CHARTS_MAX;
    picker->choose_usual = choose_all;
    enum status status = run_config(workbench->store, run_id, &config, err);
    if (!status)
        status = run_charts_list(workbench->store, run_id, config, &picker->arena, &all, &count, err);
    snprintf(picker->setting, sizeof picker->setting, "run.charts.%s", run_charts_kind(config));
    free(config);
    if (status) return status;
    if (!picker_init(picker, count + MODEL_CHARTS_MAX))
        return err_no_memory(err, "a list of %zu charts", count);
    for (size_t i = 0; i < count; i++) picker_add(picker, all[i].name, detail(picker, &all[i]));
    return choose(picker, settings_get(&workbench->settings, picker->setting), count, err);
}

const struct view_ops charts_view = {
    CONTEXT_COLUMNS, sizeof(struct picker), charts_open, picker_read, picker_draw, picker_key, picker_close};
