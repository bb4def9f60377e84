/* See smooth.h. */
#include "tui/widget/smooth.h"

#include <math.h>

void smooth_points(const struct series_point *points, size_t count, double decay, double *out)
{
    double acc = 0, weight = 0; /* weight is 1 - decay^t */
    for (size_t i = 0; i < count; i++) {
        int64_t finite = points[i].count - points[i].non_finite;
        if (finite > 0 && isfinite(points[i].mean)) {
            double keep = finite == 1 ? decay : pow(decay, (double)finite);
            acc = keep * acc + (1 - keep) * points[i].mean;
            weight = keep * weight + (1 - keep);
        }
        out[i] = weight > 0 ? acc / weight : NAN;
    }
}
