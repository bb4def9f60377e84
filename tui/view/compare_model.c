/* See compare_model.h. */
#include "tui/view/compare_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runs/grouping.h"

const char *const compare_axis_words[COMPARE_AXES + 1] = {"step",        "tokens",        "wall time",
                                                          "active time", "relative step", NULL};
const char *const compare_axis_columns[COMPARE_AXES] = {"step", "tokens", "wall_time_ms", "active_time_ms",
                                                        "relative_step"};

#define PLACE_MAX (INT64_C(1) << 60)

/* ---- places on the axis ---- */

/* How places follow from the pace; places of times are milliseconds. */
static const struct {
    bool paced;
    enum pace_unit unit;
    double places; /* of one unit */
} axes[COMPARE_AXES] = {[COMPARE_TOKENS] = {true, PACE_TOKENS, 1},
                        [COMPARE_WALL] = {true, PACE_WALL, 1000},
                        [COMPARE_ACTIVE] = {true, PACE_ACTIVE, 1000}};

static bool is_of_evaluations(const struct quantity *quantity)
{
    return quantity->metric == METRIC_VAL_LOSS || quantity->metric == METRIC_MEASURE;
}

/* The place of a step; NaN: not known. */
static double place_of(const struct compare_run *run, const struct compare_request *request, int64_t step)
{
    if (request->axis == COMPARE_STEPS) return (double)step;
    if (request->axis == COMPARE_RELATIVE) return (double)(step - run->first_step);
    /* an evaluation has the number of steps done */
    double end = (double)(is_of_evaluations(&request->quantity) && step > 0 ? step - 1 : step);
    return pace_at(&run->pace, axes[request->axis].unit, end) * axes[request->axis].places;
}

static bool is_whole(const struct compare_request *request)
{
    return request->last < request->first;
}

/* The steps of the run that lie in the range looked at, and a few more on both sides. */
static void range_of(const struct compare_run *run, const struct compare_request *request, int64_t *first,
                     int64_t *last)
{
    *first = 0;
    *last = -1;
    if (is_whole(request)) return;
    enum pace_unit unit = axes[request->axis].unit;
    double places = axes[request->axis].places;
    if (axes[request->axis].paced) {
        *first = pace_step(&run->pace, unit, (double)request->first / places, false);
        *last = pace_step(&run->pace, unit, (double)request->last / places, true) + 1;
    } else {
        int64_t origin = request->axis == COMPARE_RELATIVE ? run->first_step : 0,
                span = request->last - request->first;
        *first = request->first + origin - span / 8;
        *last = request->last + origin + span / 8 + 1;
        if (*last < 0) *last = 0;
    }
    if (request->newest) *last = -1;
}

double compare_model_scale(const struct compare_model *model, enum compare_axis axis, const char **unit)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"days", 86400}, {"hours", 3600}, {"minutes", 60}, {"seconds", 1}};
    size_t i = 0;
    *unit = "";
    if (axes[axis].places != 1000) return 0;
    while (units[i].seconds > 1 && (double)model->last / 1e3 < 2 * units[i].seconds) i++;
    *unit = units[i].name;
    return units[i].seconds * 1e3;
}

/* ---- curves ---- */

const struct series_point *compare_curve_at(const struct compare_curve *curve, int64_t place)
{
    size_t lo = 0, hi = curve->count;
    if (!curve->count) return NULL;
    if (place < 0) return &curve->points[curve->count - 1];
    while (lo < hi) { /* the first point that begins after the place */
        size_t mid = lo + (hi - lo) / 2;
        if (curve->points[mid].first_step <= place)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0 || (lo == curve->count && place > curve->points[lo - 1].last_step + 1)) return NULL;
    return &curve->points[lo - 1];
}

/* The newest step of a run that lies at `place` or before it; -1: none does, or the run has ended before. */
static int64_t step_at(const struct compare_run *run, const struct compare_request *request, int64_t place)
{
    const struct series *series = &run->series;
    if (!series->count) return -1;
    int64_t lo = series->points[0].first_step - 1, hi = series->points[series->count - 1].last_step;
    if (place > place_of(run, request, hi) + 1) return -1; /* an evaluation has the number of steps done */
    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;
        if (floor(place_of(run, request, mid)) <= (double)place) /* NaN: not known */
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo < series->points[0].first_step ? -1 : lo;
}

static void add_run_value(struct compare_value *out, const struct series_value *at, double decay)
{
    double value = decay > 0 ? at->average : at->value;
    out->known = true;
    if (!isfinite(value)) return;
    out->runs++;
    bool first = out->runs == 1;
    out->value = first ? value : out->value + (value - out->value) / (double)out->runs;
    out->low = first ? value : fmin(out->low, value);
    out->high = first ? value : fmax(out->high, value);
}

enum status compare_model_value(const struct compare_model *model, struct store *store,
                                const struct compare_request *request, size_t curve, int64_t place,
                                struct compare_value *out, struct err *err)
{
    const struct series_point *point = compare_curve_at(&model->curves[curve], place);
    bool single = model->comparison.runs[curve].run_count == 1;
    enum status status = STATUS_OK;
    *out = (struct compare_value){false, NAN, NAN, NAN, NAN, 0};
    if (!point) return STATUS_OK;
    if (place < 0) place = point->last_step;
    for (size_t i = 0; i < model->run_count && !status; i++) {
        const struct compare_run *run = &model->runs[i];
        struct series_value at = {0};
        int64_t step = run->place == curve ? step_at(run, request, place) : -1;
        if (step < 0) continue;
        status = series_value_read(store, run->info.id, &run->series, step, &at, err);
        if (!status && at.known && single)
            *out = (struct compare_value){true, at.value, at.average, NAN, NAN, 1};
        else if (!status && at.known)
            add_run_value(out, &at, request->decay);
    }
    return status;
}

/* Moves the points of a run to their places. With a moving average they have its value alone. */
static enum status place_points(struct compare_model *model, const struct compare_run *run,
                                const struct compare_request *request, struct compare_curve *out,
                                struct err *err)
{
    const struct series *series = &run->series;
    bool relative = request->axis == COMPARE_RELATIVE; /* there a fork has no steps of its parents */
    double before = relative ? 0 : -INFINITY, fork = place_of(run, request, series->fork_step);
    *out = (struct compare_curve){0};
    out->points = arena_alloc_array(&model->curve_arena, series->count + 1, sizeof *out->points);
    if (!out->points) return err_no_memory(err, "the curves of runs");
    for (size_t i = 0; i < series->count; i++) {
        struct series_point p = series->points[i];
        double first = place_of(run, request, p.first_step), last = place_of(run, request, p.last_step);
        if (isnan(first) || isnan(last) || fabs(last) > (double)PLACE_MAX || last < before) continue;
        first = fmax(first, before);
        before = last = fmax(first, last);
        p.first_step = (int64_t)first;
        p.last_step = (int64_t)last;
        if (series->smooth) p.min = p.max = p.mean = p.last = series->smooth[i];
        out->points[out->count++] = p;
    }
    if (series->fork_step > 0 && fork > 0) out->fork = (int64_t)fork;
    return STATUS_OK;
}

/* The value of a curve at a place, on the line between the middles of two points; NaN outside. */
static double value_at(const struct compare_curve *curve, size_t *at, double place)
{
    while (*at < curve->count && chart_middle(&curve->points[*at]) < place) ++*at;
    if (*at == curve->count) return NAN;
    const struct series_point *to = &curve->points[*at];
    double x = chart_middle(to);
    if (x == place || *at == 0) return x == place ? to->mean : NAN;
    double from = chart_middle(to - 1);
    return to[-1].mean + (to->mean - to[-1].mean) * (place - from) / (x - from);
}

/* Whether a curve reaches further than another, or as far with more points. */
static bool is_longer(const struct compare_curve *a, const struct compare_curve *b)
{
    if (!a->count || !b->count) return a->count > b->count;
    int64_t x = a->points[a->count - 1].last_step, y = b->points[b->count - 1].last_step;
    return x > y || (x == y && a->count > b->count);
}

/* Makes one curve of several: at each point of the longest, the mean over those that reach it. */
static enum status merge_curves(struct compare_model *model, const struct compare_curve *members,
                                size_t count, struct compare_curve *out, struct err *err)
{
    const struct compare_curve *longest = members;
    size_t *at = arena_alloc_array(&model->curve_arena, count, sizeof *at);
    for (size_t m = 1; m < count; m++)
        if (is_longer(&members[m], longest)) longest = &members[m];
    out->fork = longest->fork;
    out->points = arena_alloc_array(&model->curve_arena, longest->count + 1, sizeof *out->points);
    if (!at || !out->points) return err_no_memory(err, "the curves of runs");
    for (; out->count < longest->count; out->count++) {
        struct series_point p = longest->points[out->count];
        int64_t finite = 0, lacking = 0;
        double low = INFINITY, high = -INFINITY, sum = 0;
        for (size_t m = 0; m < count; m++) {
            double value = value_at(&members[m], &at[m], chart_middle(&p));
            bool inside = at[m] < members[m].count && chart_middle(&p) >= chart_middle(&members[m].points[0]);
            if (!isfinite(value)) {
                lacking += inside;
                continue;
            }
            finite++;
            sum += value;
            low = fmin(low, value);
            high = fmax(high, value);
        }
        bool any = finite > 0 && isfinite(sum);
        p.count = finite + lacking;
        p.non_finite = any ? lacking : p.count;
        p.min = any ? low : NAN;
        p.max = any ? high : NAN;
        p.mean = p.last = any ? sum / (double)finite : NAN;
        out->points[out->count] = p;
    }
    return STATUS_OK;
}

static enum status make_curves(struct compare_model *model, const struct compare_request *request,
                               struct err *err)
{
    enum status status = STATUS_OK;
    arena_release(&model->curve_arena);
    memset(model->curves, 0, sizeof model->curves);
    int64_t first_place = INT64_MAX, last_place = INT64_MIN;
    for (size_t c = 0; c < model->curve_count && !status; c++) {
        struct compare_curve *curve = &model->curves[c], members[COMPARE_RUNS_MAX] = {0};
        size_t count = 0;
        for (size_t i = 0; i < model->run_count && !status; i++)
            if (model->runs[i].place == c)
                status = place_points(model, &model->runs[i], request, &members[count++], err);
        if (!status && count == 1)
            *curve = members[0];
        else if (!status)
            status = merge_curves(model, members, count, curve, err);
        if (!curve->count) continue;
        if (curve->points[0].first_step < first_place) first_place = curve->points[0].first_step;
        if (curve->points[curve->count - 1].last_step > last_place)
            last_place = curve->points[curve->count - 1].last_step;
    }
    if (!is_whole(request)) { /* a living run may have come further */
        if (last_place > model->last) model->last = last_place;
        return status;
    }
    model->first = first_place <= last_place ? first_place : 0;
    model->last = first_place <= last_place ? last_place : 1;
    return status;
}

/* ---- reading ---- */

/* A target of these is reached from below. */
static bool more_is_better(const struct quantity *quantity)
{
    enum metric metric = quantity->metric;
    if (metric == METRIC_MEASURE) return !measure_falls(quantity->column);
    return metric == METRIC_TOKENS_PER_SEC || metric == METRIC_MFU || metric == METRIC_LR;
}

static enum status find_reach(struct store *store, struct compare_run *run,
                              const struct compare_request *request, struct err *err)
{
    const struct quantity *quantity = &request->quantity;
    double target = request->target / request->look.scale; /* which is as shown */
    struct reach_request reach = {.metric = quantity->metric,
                                  .name = quantity->column,
                                  .device = quantity->device,
                                  .target = request->look.exponential ? log(target) : target,
                                  .from_below = more_is_better(quantity)};
    return reach_read(store, run->info.id, &reach, &run->pace, &run->reach, err);
}

/* The step at which the relative axis of a run begins. */
static void find_first_step(struct compare_run *run)
{
    const struct series *series = &run->series;
    run->first_step = series->fork_step > 0 ? series->fork_step
                      : series->count       ? series->points[0].first_step
                                            : 0;
}

/* Whether two requests show the same points of a run, perhaps at other places. */
static bool same_points(const struct compare_request *a, const struct compare_request *b)
{
    return is_whole(a) && is_whole(b) && a->decay == b->decay && a->log_steps == b->log_steps &&
           strcmp(a->quantity.name, b->quantity.name) == 0;
}

/* Whether the runs reach another target. */
static bool other_target(const struct compare_request *a, const struct compare_request *b)
{
    if (isnan(a->target) || isnan(b->target)) return isnan(a->target) != isnan(b->target);
    return a->target != b->target || strcmp(a->quantity.name, b->quantity.name) != 0;
}

/* Reads what the request needs of a run that it has not since `shown`. */
static enum status read_run(struct store *store, struct compare_run *run,
                            const struct compare_request *request, const struct compare_request *shown,
                            struct err *err)
{
    enum status status = STATUS_OK;
    int64_t first, last;
    bool kept = same_points(request, shown);
    if (!run->pace.points && (axes[request->axis].paced || !isnan(request->target)))
        status = pace_read(store, run->info.id, &run->pace_arena, &run->pace, err);
    range_of(run, request, &first, &last);
    if (!status && !kept) {
        run->series.inherits = true;
        run->series.fine_start = request->log_steps;
        run->series.name = request->quantity.column;
        run->series.device = request->quantity.device;
        run->series.decay = request->decay;
        status = series_read(store, run->info.id, request->quantity.metric, first, last, COMPARE_POINTS,
                             &run->series, err);
    }
    if (!status && is_whole(request)) find_first_step(run);
    if (kept && !other_target(request, shown)) return status;
    return status ? status : find_reach(store, run, request, err);
}

/* Gives each run its curve; without groups or with one too many curves, the last runs are left out. */
static enum status assign_places(struct compare_model *model, struct store *store,
                                 const struct compare_request *request, struct err *err)
{
    struct arena arena = {0};
    size_t *group = NULL, kept = 0, place_of_run[COMPARE_RUNS_MAX];
    enum status status = STATUS_OK;
    if (request->folds)
        status =
            grouping_read(store, request->folds, false, model->infos, model->run_count, &arena, &group, err);
    model->curve_count = 0;
    for (size_t i = 0; i < model->run_count && !status; i++) {
        bool joins = group && group[i] != i;
        place_of_run[i] = joins ? place_of_run[group[i]] : model->curve_count;
        if (place_of_run[i] >= COMPARE_CURVES_MAX) {
            series_release(&model->runs[i].series);
            arena_release(&model->runs[i].pace_arena);
            continue;
        }
        if (!joins) model->curve_count++;
        model->runs[kept] = model->runs[i];
        model->runs[kept++].place = place_of_run[i];
    }
    if (!status) {
        model->left_out += model->run_count - kept;
        model->run_count = kept;
    }
    arena_release(&arena);
    return status;
}

/* Compares the curves: their settings and outcomes. */
static enum status compare(struct compare_model *model, struct store *store,
                           const struct compare_request *request, struct err *err)
{
    size_t places[COMPARE_RUNS_MAX];
    struct reach reached[COMPARE_RUNS_MAX];
    for (size_t i = 0; i < model->run_count; i++) {
        places[i] = model->runs[i].place;
        reached[i] = model->runs[i].reach;
        model->infos[i] = model->runs[i].info;
    }
    struct comparison next;
    struct comparison_request comparison = {.runs = model->infos,
                                            .count = model->run_count,
                                            .places = places,
                                            .has_target = !isnan(request->target),
                                            .target = request->target,
                                            .reached = reached};
    enum status status = comparison_read(store, &comparison, &next, err);
    comparison_release(status ? &next : &model->comparison);
    if (!status) model->comparison = next;
    return status;
}

enum status compare_model_show(struct compare_model *model, struct store *store,
                               const struct compare_request *request, struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < model->run_count && !status; i++)
        status = read_run(store, &model->runs[i], request, &model->shown, err);
    if (!status && (!model->comparison.runs || other_target(request, &model->shown)))
        status = compare(model, store, request, err);
    model->shown = *request;
    if (status) model->shown.quantity.name[0] = '\0'; /* not all have these points */
    enum status made = make_curves(model, request, status ? NULL : err);
    return status ? status : made;
}

/* Adds a run, unless it is gone. */
static enum status add_run(struct compare_model *model, struct store *store, const char *id, struct err *err)
{
    struct compare_run *run = &model->runs[model->run_count];
    if (model->run_count == COMPARE_RUNS_MAX) {
        model->left_out++;
        return STATUS_OK;
    }
    *run = (struct compare_run){.first_step = -1};
    enum status status = run_get(store, id, &run->info, err);
    if (status) return status == STATUS_NOT_FOUND ? STATUS_OK : status;
    model->infos[model->run_count++] = run->info;
    return STATUS_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct run_member *left = a, *right = b;
    if (left->since != right->since) return left->since < right->since ? -1 : 1;
    return strcmp(left->id, right->id);
}

/* The runs from the oldest to the newest; more than have room as they are listed, so that the first of the
 * list are compared. NULL: memory is short. */
static const struct run_member *in_order(struct compare_model *model, const struct run_set *ids)
{
    if (ids->count <= COMPARE_CURVES_MAX) return ids->runs;
    struct run_member *listed = arena_alloc_array(&model->arena, ids->count, sizeof *listed);
    if (!listed) return NULL;
    memcpy(listed, ids->runs, ids->count * sizeof *listed);
    qsort(listed, ids->count, sizeof *listed, by_place);
    return listed;
}

enum status compare_model_open(struct compare_model *model, struct store *store, const struct run_set *ids,
                               const struct compare_request *request, struct err *err)
{
    *model = (struct compare_model){0};
    model->runs = arena_alloc_array(&model->arena, COMPARE_RUNS_MAX, sizeof *model->runs);
    model->infos = arena_alloc_array(&model->arena, COMPARE_RUNS_MAX, sizeof *model->infos);
    const struct run_member *members = in_order(model, ids);
    if (!model->runs || !model->infos || (ids->count && !members))
        return err_no_memory(err, "a comparison of runs");
    enum status status = STATUS_OK;
    if (run_set_has(ids, request->base)) status = add_run(model, store, request->base, err);
    for (size_t i = 0; i < ids->count && !status; i++)
        if (strcmp(members[i].id, request->base) != 0) status = add_run(model, store, members[i].id, err);
    if (!status) status = assign_places(model, store, request, err);
    return status ? status : compare_model_show(model, store, request, err);
}

/* The losses come first. */
static int rank_of(const struct quantity *quantity)
{
    return quantity->metric == METRIC_VAL_LOSS ? 1 : strcmp(quantity->name, "loss") == 0 ? 0 : 2;
}

enum status compare_model_quantities(const struct compare_model *model, struct store *store,
                                     struct arena *arena, struct quantity **out, size_t *count,
                                     struct err *err)
{
    struct quantity *all = NULL, *listed, *sorted;
    size_t n = 0, found = 0, placed = 0;
    enum status status = STATUS_OK;
    for (size_t c = 0; c < model->comparison.count && !status; c++) {
        const char *id = model->comparison.runs[c].info->id;
        char *config = NULL;
        status = run_config(store, id, &config, err);
        if (!status) status = run_charts_list(store, id, config, arena, &listed, &found, err);
        free(config);
        for (size_t i = 0; i < found && !status; i++) {
            size_t k = 0;
            while (k < n && strcmp(all[k].name, listed[i].name) != 0) k++;
            struct quantity *added = k < n ? &all[k] : arena_grow(arena, &all, n, sizeof *added);
            if (!added) return err_no_memory(err, "the quantities of runs");
            *added = listed[i];
            n += k == n;
        }
    }
    sorted = arena_alloc_array(arena, n + 1, sizeof *sorted);
    if (!sorted) return err_no_memory(err, "the quantities of runs");
    for (int rank = 0; rank < 3; rank++)
        for (size_t i = 0; i < n; i++)
            if (rank_of(&all[i]) == rank) sorted[placed++] = all[i];
    *out = sorted;
    *count = n;
    return status;
}

void compare_model_release(struct compare_model *model)
{
    for (size_t i = 0; i < model->run_count; i++) {
        series_release(&model->runs[i].series);
        arena_release(&model->runs[i].pace_arena);
    }
    comparison_release(&model->comparison);
    arena_release(&model->curve_arena);
    arena_release(&model->arena);
    *model = (struct compare_model){0};
}

/* Reads what is new of a run, and *changed if there is anything. After a failure it is new still. */
static enum status update_run(struct store *store, struct compare_run *run,
                              const struct compare_request *request, bool *changed, struct err *err)
{
    struct run_info info;
    struct arena arena = {0};
    struct pace pace = {0};
    enum status status = run_get(store, run->info.id, &info, err);
    if (status == STATUS_NOT_FOUND) return STATUS_OK; /* deleted meanwhile: shown until the view closes */
    /* of a paused run, whose trainer may evaluate, each sign of life may tell of something new */
    bool same = !status && info.steps == run->info.steps && info.segment == run->info.segment &&
                info.status == run->info.status && info.best_step == run->info.best_step &&
                info.heartbeat == run->info.heartbeat;
    if (status || same) return status;
    *changed = true;
    status = series_update(store, info.id, &run->series, err);
    if (!status && (axes[request->axis].paced || !isnan(request->target)))
        status = pace_read(store, info.id, &arena, &pace, err);
    arena_release(status ? &arena : &run->pace_arena);
    if (status) return status;
    run->pace_arena = arena;
    run->pace = pace;
    status = find_reach(store, run, request, err);
    if (!status) run->info = info;
    return status;
}

enum status compare_model_update(struct compare_model *model, struct store *store,
                                 const struct compare_request *request, bool *changed, struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < model->run_count && !status; i++)
        status = update_run(store, &model->runs[i], request, &model->behind, err);
    *changed = model->behind;
    if (!*changed) return status;
    if (!status) status = compare(model, store, request, err);
    if (!status) model->behind = false;
    enum status made = make_curves(model, request, status ? NULL : err);
    return status ? status : made;
}
