/* CPU twin of gemm: each thread computes one tile of out by product. */
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

static void multiply(const struct problem *p, struct tile t, const struct stream *stream, void *memory)
{
    struct matrix out = matrix_part(p->out, t.m0, t.n0);
    struct matrix a = matrix_part(p->a, p->transpose_a ? 0 : t.m0, p->transpose_a ? t.m0 : 0);
    struct matrix b = matrix_part(p->b, p->transpose_b ? t.n0 : 0, p->transpose_b ? 0 : t.n0);
    product(out, a, b, t.m1 - t.m0, t.n1 - t.n0, p->K, p->transpose_a, p->transpose_b, p->accumulate,
            p->factor, REAL_IS_FLOAT && stream->product_way == WAY_DOTS ? WAY_FMA : stream->product_way,
            memory);
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
        multiply(&p, t, stream, (char *)stream->products + (size_t)i * product_bytes());
    }
}
