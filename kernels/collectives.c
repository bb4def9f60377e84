/* CPU twins of the sums over ranks. Each rank adds up a slice of its own: it gets that slice of all ranks,
 * adds in their order, and sends the sum to all. So a rank sends and receives 2·(ranks − 1)/ranks of the
 * range, and the order of additions is fixed. */
#include "kernels/device/cpu_device.h"
#include "kernels/device/world.h"

enum { BLOCK = 1024 }; /* elements that are added up in the first-level cache */

/* mine (n) = Σ over ranks; received (ranks, n) has the others'. */
static void add_up(float *mine, const float *received, size_t n, const struct world *world,
                   struct stream *stream)
{
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (size_t at = 0; at < n; at += BLOCK) {
        int count = n - at < BLOCK ? (int)(n - at) : BLOCK;
        float sum[BLOCK];
        for (int r = 0; r < world->size; r++) {
            const float *x = r == world->rank ? mine + at : received + (size_t)r * n + at;
#pragma omp simd
            for (int i = 0; i < count; i++) sum[i] = r ? sum[i] + x[i] : x[i];
        }
        for (int i = 0; i < count; i++) mine[at + (size_t)i] = sum[i];
    }
}

static void reduce_piece(float *x, size_t n, float *received, const struct world *world,
                         struct stream *stream)
{
    struct world_piece send[WORLD_RANKS_MAX], receive[WORLD_RANKS_MAX];
    struct world_part own = world_divide(n, world->rank, world->size);
    const size_t bytes = own.count * sizeof *x;
    for (int r = 0; r < world->size; r++) {
        struct world_part part = world_divide(n, r, world->size);
        send[r] = (struct world_piece){x + part.first, part.count * sizeof *x};
        receive[r] = (struct world_piece){received + (size_t)r * own.count, bytes};
    }
    world->exchange(world, send, receive);
    add_up(x + own.first, received, own.count, world, stream);
    for (int r = 0; r < world->size; r++) {
        receive[r] = send[r];
        send[r] = (struct world_piece){x + own.first, bytes};
    }
    world->exchange(world, send, receive);
}

void all_reduce(float *x, void *workspace, size_t n, int ranks, const struct world *world,
                struct stream *stream)
{
    for (size_t at = 0; ranks > 1 && at < n; at += ALL_REDUCE_PIECE)
        reduce_piece(x + at, n - at < ALL_REDUCE_PIECE ? n - at : ALL_REDUCE_PIECE, workspace, world, stream);
}

void all_reduce_value(double *x, const struct world *world, struct stream *stream)
{
    world_sum(world, x, 1);
}
