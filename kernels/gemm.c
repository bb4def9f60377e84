/* CPU twin of gemm, on OpenBLAS.
 *
 * OpenBLAS's own threads are not used: they run a team of a different size per call, and a libgomp whose team
 * size changes allocates; and many of our products are too small for them. Inside a parallel region OpenBLAS
 * uses one thread, so here each thread computes one tile of out. */

#include <assert.h>
#include <cblas.h>
#include <omp.h>

#include "kernels/device/cpu_device.h"
#include "kernels/simd.h"

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

struct product {
    struct matrix out, a, b;
    int K;
    bool transpose_a, transpose_b, accumulate;
    float factor;
};

/* A tile of out: rows [m0, m1), columns [n0, n1). */
struct tile {
    int m0, m1, n0, n1;
};

static size_t at(struct matrix view, int row, int column)
{
    return (size_t)row * (size_t)view.stride + (size_t)column;
}

/* out's tile (+)= factor · op(a)[:, k0:k0+K] b, where `b` points to that part of b. */
static void multiply(const struct product *p, struct tile t, int k0, int K, const float *b, int ldb, bool add)
{
    const float *a = (const float *)p->a.at + (p->transpose_a ? at(p->a, k0, t.m0) : at(p->a, t.m0, k0));
    cblas_sgemm(CblasRowMajor, p->transpose_a ? CblasTrans : CblasNoTrans,
                p->transpose_b ? CblasTrans : CblasNoTrans, t.m1 - t.m0, t.n1 - t.n0, K, p->factor, a,
                p->a.stride, b, ldb, add ? 1.0f : 0.0f, (float *)p->out.at + at(p->out, t.m0, t.n0),
                p->out.stride);
}

/* A square of floats is 256 KiB: fits a thread's stack and its second-level cache, and is deep enough that
 * OpenBLAS reaches nine tenths of the speed that it has with fp32. */
enum { PANEL = 256 };

/* b is bf16: converts it to fp32 panel by panel. */
static void multiply_widened(const struct product *p, struct tile t)
{
    float panel[PANEL * PANEL];
    const uint16_t *b = p->b.at;
    for (int k0 = 0; k0 < p->K; k0 += PANEL)
        for (int n0 = t.n0; n0 < t.n1; n0 += PANEL) {
            int k1 = k0 + PANEL < p->K ? k0 + PANEL : p->K, n1 = n0 + PANEL < t.n1 ? n0 + PANEL : t.n1;
            int row = p->transpose_b ? n0 : k0, column = p->transpose_b ? k0 : n0;
            int rows = p->transpose_b ? n1 - n0 : k1 - k0, columns = p->transpose_b ? k1 - k0 : n1 - n0;
            for (int i = 0; i < rows; i++)
                simd_widen(panel + (size_t)i * (size_t)columns, b + at(p->b, row + i, column), columns);
            multiply(p, (struct tile){t.m0, t.m1, n0, n1}, k0, k1 - k0, panel, columns,
                     p->accumulate || k0 > 0);
        }
}

void gemm(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K, bool transpose_a,
          bool transpose_b, bool accumulate, float factor, struct stream *stream)
{
    assert(out.element == ELEMENT_FP32 && a.element == ELEMENT_FP32);
    const struct product p = {out, a, b, K, transpose_a, transpose_b, accumulate, factor};
    int rows = 1, columns = 1;
    grid_choose(M, N, stream->threads, &rows, &columns);
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int i = 0; i < rows * columns; i++) {
        int r = i / columns, c = i % columns;
        struct tile t = {edge(M, rows, r), edge(M, rows, r + 1), edge(N, columns, c),
                         edge(N, columns, c + 1)};
        if (t.m0 == t.m1 || t.n0 == t.n1) continue;
        if (stream->threads == 1) omp_set_num_threads(1); /* within this region: see device_open in cpu.c */
        if (b.element == ELEMENT_BF16)
            multiply_widened(&p, t);
        else
            multiply(&p, t, 0, K, (const float *)b.at + (transpose_b ? at(b, t.n0, 0) : (size_t)t.n0),
                     b.stride, accumulate);
    }
}
