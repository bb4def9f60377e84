/* See schedule_plan.h. */
#include "tui/session/schedule_plan.h"

#include <math.h>

#include "core/train/schedule.h"

/* Every schedule rises until its warm-up ends and does not rise after it: the extremes of a range of steps
 * are at its ends or at that step. */
static int64_t peak_step(const struct schedule *schedule)
{
    return schedule->warmup > 0 ? schedule->warmup - 1 : 0;
}

size_t schedule_plan_points(const struct config *config, struct series_point *points, size_t most)
{
    struct schedule schedule = schedule_of(config);
    int64_t total = schedule.total, peak = peak_step(&schedule);
    int64_t n = total < (int64_t)most ? total : (int64_t)most;
    for (int64_t i = 0; i < n; i++) {
        int64_t first = (int64_t)((double)i / (double)n * (double)total);
        int64_t last = (int64_t)((double)(i + 1) / (double)n * (double)total) - 1;
        if (last < first) last = first;
        double a = schedule_lr(&schedule, first), b = schedule_lr(&schedule, last);
        points[i] = (struct series_point){.first_step = first,
                                          .last_step = last,
                                          .min = fmin(a, b),
                                          .max = fmax(a, b),
                                          .mean = (a + b) / 2,
                                          .last = b,
                                          .count = last - first + 1};
        if (peak > first && peak < last) points[i].max = fmax(points[i].max, schedule_lr(&schedule, peak));
    }
    return (size_t)n;
}

size_t schedule_plan_moments(const struct config *config,
                             struct schedule_moment moments[SCHEDULE_MOMENTS_MAX])
{
    struct schedule schedule = schedule_of(config);
    const struct schedule_moment all[] = {
        {0, 0, "the first step"},
        {peak_step(&schedule), 0, "the end of the warm-up"},
        {schedule.total / 2, 0, "half of the run"},
        {schedule.total - 1, 0, "the last step"},
    };
    bool warms = schedule.kind != SCHEDULE_CONSTANT && schedule.warmup > 1;
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int64_t step = all[i].step;
        size_t at = 0;
        while (at < count && moments[at].step < step) at++;
        bool named = at < count && moments[at].step == step;
        if (named || step >= schedule.total || (i == 1 && !warms)) continue;
        for (size_t k = count++; k > at; k--) moments[k] = moments[k - 1];
        moments[at] = (struct schedule_moment){step, schedule_lr(&schedule, step), all[i].what};
    }
    return count;
}
