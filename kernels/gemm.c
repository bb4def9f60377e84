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

void gemm(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K, bool transpose_a,
          bool transpose_b, bool accumulate, float factor, struct stream *stream)
{
    /* dot products are of numbers in bf16 */
    enum product_way way = REAL_IS_FLOAT && stream->product_way == WAY_DOTS ? WAY_FMA : stream->product_way;
    int rows = 1, columns = 1;
    grid_choose(M, N, stream->threads, &rows, &columns);
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int i = 0; i < rows * columns; i++) {
        int r = i / columns, c = i % columns;
        int m0 = edge(M, rows, r), m1 = edge(M, rows, r + 1);
        int n0 = edge(N, columns, c), n1 = edge(N, columns, c + 1);
        if (m0 == m1 || n0 == n1) continue;
        product(matrix_part(out, m0, n0), transpose_a ? matrix_part(a, 0, m0) : matrix_part(a, m0, 0),
                transpose_b ? matrix_part(b, n0, 0) : matrix_part(b, 0, n0), m1 - m0, n1 - n0, K, transpose_a,
                transpose_b, accumulate, factor, way, (char *)stream->products + (size_t)i * product_bytes());
    }
}
