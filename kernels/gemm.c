/* CPU twin of gemm.h, on OpenBLAS.
 *
 * Why not OpenBLAS's own threads: they run a team of their own size per call, and a libgomp whose team size
 * changes allocates; and many of our products are too small for them. Inside a parallel region OpenBLAS uses
 * one thread, so here each thread computes one tile of out. */
#include "kernels/gemm.h"

#include <cblas.h>

#include "kernels/device/cpu_device.h"

/* Cuts (M,N) into rows × columns tiles, rows · columns = threads, so that the operands which every tile has
 * to pack, M/rows + N/columns, are least. Tile edges are multiples of 16. */
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

void gemm(void *out_, const void *a_, const void *b_, int M, int N, int K, bool transpose_a, bool transpose_b,
          bool accumulate, struct stream *stream)
{
    float *out = out_;
    const float *a = a_, *b = b_;
    int rows = 1, columns = 1;
    grid_choose(M, N, stream->threads, &rows, &columns);
    int lda = transpose_a ? M : K, ldb = transpose_b ? K : N;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (int tile = 0; tile < rows * columns; tile++) {
        int r = tile / columns, c = tile % columns;
        int m0 = edge(M, rows, r), m1 = edge(M, rows, r + 1), n0 = edge(N, columns, c),
            n1 = edge(N, columns, c + 1);
        if (m0 == m1 || n0 == n1) continue;
        cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                    transpose_b ? CblasTrans : CblasNoTrans, m1 - m0, n1 - n0, K, 1.0f,
                    a + (transpose_a ? (size_t)m0 : (size_t)m0 * lda), lda,
                    b + (transpose_b ? (size_t)n0 * ldb : (size_t)n0), ldb, accumulate ? 1.0f : 0.0f,
                    out + (size_t)m0 * N + n0, N);
    }
}

size_t gemm_workspace(struct device *device)
{
    (void)device;
    return 0;
}

void gemm_lend(struct stream *stream, void *workspace, size_t bytes)
{
    (void)stream;
    (void)workspace;
    (void)bytes;
}

enum status gemm_warm(struct stream *stream, const struct gemm_shape *shapes, int count,
                      const struct warm_watch *watch, struct err *err)
{
    (void)stream;
    (void)shapes;
    (void)count;
    (void)watch;
    (void)err;
    return STATUS_OK;
}
