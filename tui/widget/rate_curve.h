/* The losses of a search for a learning rate, whose rate rises from step to step: their average, the rate
 * that it suggests, and a chart of both by rate (Smith, "Cyclical Learning Rates for Training Neural
 * Networks", 2017). */
#ifndef ANNEAL_TUI_RATE_CURVE_H
#define ANNEAL_TUI_RATE_CURVE_H

#include "tui/widget/chart.h"

/* RATES_WARMING: the first steps are not judged, since the average of so few losses is noise. */
enum { RATES_MAX = 10000, RATES_USUAL = 100 /* of a search that is not told */, RATES_WARMING = 5 };

/* Zero the struct before use. */
struct rate_curve {
    int count;
    double rate[RATES_MAX], smooth[RATES_MAX]; /* of each step; smooth: the average of the losses so far */
    struct series_point points[RATES_MAX];     /* the losses, by rate */
    double sum;                                /* Σ decay^(steps ago) · (1 − decay) · loss */
    int lowest;                                /* the step of the lowest average */
};

/* Adds a step with a rate from 1e-12 to 1000. False: the losses rise again, since the average is back above
 * where it began, or `loss` is no number, and was not added. */
bool rate_curve_add(struct rate_curve *curve, double rate, double loss);

/* Whether the average has fallen, so that its lowest value tells something. */
bool rate_curve_falls(const struct rate_curve *curve);

/* The step at which the average falls fastest by the logarithm of the rate, up to its lowest value. */
int rate_curve_steepest(const struct rate_curve *curve);

/* A rate in two digits. */
double rate_curve_round(double rate);
/* The lower of two rates, in two digits: that of the steepest fall, and a tenth of that of the lowest
 * average. Where losses stay flat for long the second alone is ten times too high. NaN: the losses have not
 * fallen. */
double rate_curve_suggestion(const struct rate_curve *curve);

/* A chart that borrows the curve, with the lowest average marked. A rate lies at the step rate_curve_place of
 * its axis. */
struct chart rate_curve_chart(const struct rate_curve *curve);
int64_t rate_curve_place(double rate);

#endif
