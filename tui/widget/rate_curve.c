/* See rate_curve.h. */
#include "tui/widget/rate_curve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The weight of the losses before in the average. */
static const double DECAY = 0.9;

/* Places of the chart's axis in a rate of 1: the smallest rate has three digits, and the largest fits. */
static const double PLACES = 1e15;

int64_t rate_curve_place(double rate)
{
    return llround(rate * PLACES);
}

bool rate_curve_add(struct rate_curve *curve, double rate, double loss)
{
    int k = curve->count;
    int64_t place = rate_curve_place(rate);
    if (!isfinite(loss)) return false;
    if (k == RATES_MAX) return true;
    curve->sum = DECAY * curve->sum + (1 - DECAY) * loss;
    curve->rate[k] = rate;
    curve->smooth[k] = curve->sum / (1 - pow(DECAY, k + 1));
    curve->points[k] = series_point_of(place, loss);
    if (curve->smooth[k] < curve->smooth[curve->lowest] || k <= RATES_WARMING) curve->lowest = k;
    curve->count++;
    return curve->smooth[k] <= 1.2 * curve->smooth[0];
}

bool rate_curve_falls(const struct rate_curve *curve)
{
    return curve->count > 2 * RATES_WARMING && curve->lowest > RATES_WARMING;
}

int rate_curve_steepest(const struct rate_curve *curve)
{
    double steepest = 0;
    int found = 0;
    for (int k = RATES_WARMING; k + 1 <= curve->lowest; k++) {
        double slope = curve->smooth[k + 1] - curve->smooth[k - 1];
        if (slope < steepest) steepest = slope, found = k;
    }
    return found;
}

double rate_curve_round(double rate)
{
    char rounded[32];
    snprintf(rounded, sizeof rounded, "%.1e", rate);
    return strtod(rounded, NULL);
}

double rate_curve_suggestion(const struct rate_curve *curve)
{
    if (!rate_curve_falls(curve)) return NAN;
    return rate_curve_round(fmin(curve->rate[curve->lowest] / 10, curve->rate[rate_curve_steepest(curve)]));
}

struct chart rate_curve_chart(const struct rate_curve *curve)
{
    struct chart chart = {.title = "loss by learning rate",
                          .trace = {{.points = curve->points,
                                     .smooth = curve->smooth,
                                     .count = (size_t)curve->count,
                                     .style = STYLE_TRAIN}},
                          .trace_count = 1,
                          .x_scale = PLACES,
                          .log_steps = true,
                          .least_span = 0.1,
                          .cursor = -1,
                          .best_step = -1};
    if (!curve->count) return chart;
    chart.first_step = curve->points[0].first_step;
    chart.last_step = curve->points[curve->count - 1].last_step;
    chart.best_step = curve->points[curve->lowest].first_step;
    chart.best = curve->smooth[curve->lowest];
    return chart;
}
