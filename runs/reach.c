/* See reach.h. A coarse series tells the bucket whose extreme reaches the target; its steps are then read. */
#include "runs/reach.h"

#include <math.h>

enum { BUCKETS = 1024 };

static bool reaches(const struct reach_request *request, double value)
{
    return request->from_below ? value >= request->target : value <= request->target;
}

enum status reach_read(struct store *store, const char *run_id, const struct reach_request *request,
                       const struct pace *pace, struct reach *out, struct err *err)
{
    struct series all = {.inherits = true, .name = request->name, .device = request->device}, steps = all;
    bool evaluations = request->metric == METRIC_VAL_LOSS || request->metric == METRIC_MEASURE;
    size_t i = 0;
    *out = (struct reach){.step = -1, .at = {NAN, NAN, NAN}};
    if (isnan(request->target)) return STATUS_OK;
    enum status status = series_read(store, run_id, request->metric, 0, -1, BUCKETS, &all, err);
    while (i < all.count && !reaches(request, request->from_below ? all.points[i].max : all.points[i].min))
        i++;
    if (!status && i < all.count)
        status = series_read(store, run_id, request->metric, all.points[i].first_step,
                             all.points[i].last_step, SIZE_MAX / 2, &steps, err);
    for (size_t k = 0; !status && k < steps.count && out->step < 0; k++)
        if (reaches(request, steps.points[k].last)) out->step = steps.points[k].first_step;
    /* an evaluation has the number of steps done */
    double done = (double)(out->step - (evaluations && out->step > 0));
    for (int u = 0; u < PACE_UNITS && out->step >= 0; u++)
        out->at[u] = evaluations && out->step == 0 ? 0 : pace_at(pace, (enum pace_unit)u, done);
    series_release(&all);
    series_release(&steps);
    return status;
}
