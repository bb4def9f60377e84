/* CPU twin of the sums. Memory-bound: every element is read once. One fp64 partial sum per chunk, added in
 * order. */

#include <math.h>

#include "kernels/device/cpu_device.h"

static double total_of(const float *x, size_t n, bool squares, double *partial, int threads)
{
    size_t chunks = reduce_chunk_count(n);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        size_t start = chunk * REDUCE_CHUNK, end = n - start < REDUCE_CHUNK ? n : start + REDUCE_CHUNK;
        double total = 0;
#pragma omp simd reduction(+ : total)
        for (size_t i = start; i < end; i++) total += squares ? (double)x[i] * (double)x[i] : (double)x[i];
        partial[chunk] = total;
    }
    double total = 0;
    for (size_t i = 0; i < chunks; i++) total += partial[i];
    return total;
}

void sum(double *out, const float *x, size_t n, bool accumulate, void *workspace, struct stream *stream)
{
    double total = total_of(x, n, false, workspace, stream->threads);
    *out = total + (accumulate ? *out : 0);
}

void sum_of_squares(double *out, const float *x, size_t n, void *workspace, struct stream *stream)
{
    *out = total_of(x, n, true, workspace, stream->threads);
}

void clip_norm(struct clip_state *out, const double *squares, const double *loss,
               const struct step_control *control, float max_norm, struct stream *stream)
{
    double norm = sqrt(*squares);
    out->norm = (float)norm;
    out->scale = 1.0f;
    if (!isfinite(out->norm) || (control->loss_limit > 0 && *loss > control->loss_limit))
        out->scale = 0.0f;
    else if (max_norm > 0 && max_norm < norm + 1e-6)
        out->scale = (float)(max_norm / (norm + 1e-6));
    out->updates += out->scale != 0.0f;
}
