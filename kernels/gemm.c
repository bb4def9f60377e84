/* CPU twin of gemm: on OpenBLAS where both operands are fp32, else on product.
 *
 * OpenBLAS's own threads are not used: they run a team of a different size per call, and a libgomp whose team
 * size changes allocates; and many of our products are too small for them. Inside a parallel region OpenBLAS
 * uses one thread, so here each thread computes one tile of out. */

#include <cblas.h>
#include <omp.h>

#include "kernels/device/cpu_device.h"
#include "kernels/product.h"
#include "kernels/real.h"

/* Divides (M,N) into rows × columns tiles, rows · columns = threads, with the least sum of the operands that
 * every tile has to pack, M/rows + N/columns. Tile edges are multiples of 16. */
static void grid_choose(int M, int N, int threads, int *rows, int *columns)
{
    double best = -1;
    for (int r = 1; r <= threads; r++) {
        if (threads % r != 0) continue;
        int c = threads / r;
        double tile_rows = M / r < 16 ? 16 : (double)M / r, tile_columns = N / c < 16 ? 16 : (double)N / c;
        double cost = tile_rows * tile_columns + 64 * (tile_rows + tile_columns);
        if (best < 0 || cost < best) {
            best = cost;
            *rows = r;
            *columns = c;
        }
    }
}

static inline int edge(int size, int parts, int part)
{
    int blocks = (size + 15) / 16;
    long at = (long)blocks * part / parts * 16;
    return at < size ? (int)at : size;
}

struct problem {
    struct matrix out, a, b;
    int K;
    bool transpose_a, transpose_b, accumulate;
    float factor;
};

/* A tile of out: rows [m0, m1), columns [n0, n1). */
struct tile {
    int m0, m1, n0, n1;
};

/* The part of a view that begins at this row and column. */
static struct matrix part(struct matrix view, int row, int column)
{
    size_t at = (size_t)row * (size_t)view.stride + (size_t)column;
    view.at = (char *)view.at + at * element_bytes(view.element);
    return view;
}

static void multiply(const struct problem *p, struct tile t, const struct stream *stream, void *memory)
{
    struct matrix out = part(p->out, t.m0, t.n0);
    struct matrix a = part(p->a, p->transpose_a ? 0 : t.m0, p->transpose_a ? t.m0 : 0);
    struct matrix b = part(p->b, p->transpose_b ? t.n0 : 0, p->transpose_b ? 0 : t.n0);
    int M = t.m1 - t.m0, N = t.n1 - t.n0;
    if (REAL_IS_FLOAT && b.element == ELEMENT_FP32)
        cblas_sgemm(CblasRowMajor, p->transpose_a ? CblasTrans : CblasNoTrans,
                    p->transpose_b ? CblasTrans : CblasNoTrans, M, N, p->K, p->factor, a.at, a.stride, b.at,
                    b.stride, p->accumulate ? 1.0f : 0.0f, out.at, out.stride);
    else
        product(out, a, b, M, N, p->K, p->transpose_a, p->transpose_b, p->accumulate, p->factor,
                stream->dots && !REAL_IS_FLOAT, memory);
}

void gemm(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K, bool transpose_a,
          bool transpose_b, bool accumulate, float factor, struct stream *stream)
{
    const struct problem p = {out, a, b, K, transpose_a, transpose_b, accumulate, factor};
    int rows = 1, columns = 1;
    grid_choose(M, N, stream->threads, &rows, &columns);
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int i = 0; i < rows * columns; i++) {
        int r = i / columns, c = i % columns;
        struct tile t = {edge(M, rows, r), edge(M, rows, r + 1), edge(N, columns, c),
                         edge(N, columns, c + 1)};
        if (t.m0 == t.m1 || t.n0 == t.n1) continue;
        if (stream->threads == 1) omp_set_num_threads(1); /* within this region: see device_open in cpu.c */
        multiply(&p, t, stream, (char *)stream->products + (size_t)i * product_bytes());
    }
}
