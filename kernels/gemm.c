/* CPU twin of gemm: in fp32 on OpenBLAS, in bf16 on bf16_product.
 *
 * OpenBLAS's own threads are not used: they run a team of a different size per call, and a libgomp whose team
 * size changes allocates; and many of our products are too small for them. Inside a parallel region OpenBLAS
 * uses one thread, so here each thread computes one tile of out. */

#include <assert.h>
#include <cblas.h>
#include <omp.h>

#include "kernels/bf16_product.h"
#include "kernels/device/cpu_device.h"
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

/* The part of a view that begins at this row and column. */
static struct matrix part(struct matrix view, int row, int column)
{
    size_t at = (size_t)row * (size_t)view.stride + (size_t)column;
    view.at = (char *)view.at + at * element_bytes(view.element);
    return view;
}

#ifdef KERNELS_BF16

static void multiply(const struct product *p, struct tile t)
{
    bf16_product(part(p->out, t.m0, t.n0), part(p->a, p->transpose_a ? 0 : t.m0, p->transpose_a ? t.m0 : 0),
                 part(p->b, p->transpose_b ? t.n0 : 0, p->transpose_b ? 0 : t.n0), t.m1 - t.m0, t.n1 - t.n0,
                 p->K, p->transpose_a, p->transpose_b, p->accumulate, p->factor);
}

#else

/* out's tile (+)= factor · op(a)[:, k0:k0+K] b, where b is that part of b. */
static void multiply_part(const struct product *p, struct tile t, int k0, int K, struct matrix b, bool add)
{
    struct matrix a = part(p->a, p->transpose_a ? k0 : t.m0, p->transpose_a ? t.m0 : k0);
    struct matrix out = part(p->out, t.m0, t.n0);
    cblas_sgemm(CblasRowMajor, p->transpose_a ? CblasTrans : CblasNoTrans,
                p->transpose_b ? CblasTrans : CblasNoTrans, t.m1 - t.m0, t.n1 - t.n0, K, p->factor, a.at,
                a.stride, b.at, b.stride, add ? 1.0f : 0.0f, out.at, out.stride);
}

/* A square of floats is 256 KiB: fits a thread's stack and its second-level cache, and is deep enough that
 * OpenBLAS reaches nine tenths of the speed that it has with fp32. */
enum { PANEL = 256 };

/* b is bf16: converts it to fp32 panel by panel. */
static void multiply_widened(const struct product *p, struct tile t)
{
    float panel[PANEL * PANEL];
    for (int k0 = 0; k0 < p->K; k0 += PANEL)
        for (int n0 = t.n0; n0 < t.n1; n0 += PANEL) {
            int k1 = k0 + PANEL < p->K ? k0 + PANEL : p->K, n1 = n0 + PANEL < t.n1 ? n0 + PANEL : t.n1;
            int row = p->transpose_b ? n0 : k0, column = p->transpose_b ? k0 : n0;
            int rows = p->transpose_b ? n1 - n0 : k1 - k0, columns = p->transpose_b ? k1 - k0 : n1 - n0;
            for (int i = 0; i < rows; i++)
                simd_widen(panel + (size_t)i * (size_t)columns, part(p->b, row + i, column).at, columns);
            multiply_part(p, (struct tile){t.m0, t.m1, n0, n1}, k0, k1 - k0,
                          matrix_view(panel, ELEMENT_FP32, columns), p->accumulate || k0 > 0);
        }
}

static void multiply(const struct product *p, struct tile t)
{
    assert(p->out.element == ELEMENT_FP32 && p->a.element == ELEMENT_FP32);
    if (p->b.element == ELEMENT_BF16)
        multiply_widened(p, t);
    else
        multiply_part(p, t, 0, p->K, part(p->b, p->transpose_b ? t.n0 : 0, p->transpose_b ? 0 : t.n0),
                      p->accumulate);
}

#endif

void gemm(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K, bool transpose_a,
          bool transpose_b, bool accumulate, float factor, struct stream *stream)
{
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
        multiply(&p, t);
    }
}
