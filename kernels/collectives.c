/* CPU twins of the sums over ranks. Each rank adds up a slice of its own: it gets that slice of all ranks,
 * adds in their order, and sends the sum to all. So a rank sends and receives 2·(ranks − 1)/ranks of the
 * range, and the order of additions is fixed. */
#include "kernels/device/cpu_device.h"
#include "kernels/device/worker.h"
#include "kernels/device/world.h"
#include "kernels/real.h"

enum { BLOCK = 1024 }; /* elements that are added up in the first-level cache */

/* mine (n) = Σ over ranks; received (ranks, n) has the others'. */
static void add_up(float *mine, const float *received, size_t n, const struct world *world, int threads)
{
#pragma omp parallel for num_threads(threads) schedule(static)
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

void all_reduce_value(double *x, const struct world *world, struct stream *stream)
{
    world_sum(world, x, 1);
}

/* The arguments of an operation, for the thread of its stream. */
struct exchange {
    unsigned char *x;
    float *received;
    size_t n, from, slice, width; /* width: bytes of an element */
    const struct world *world;
    int threads;
};

/* What a rank's slice has of x. */
static struct world_piece part_of(const struct exchange *e, int rank)
{
    struct slice_part part = slice_part_of(e->n, e->from, e->slice, rank);
    return (struct world_piece){e->x + part.first * e->width, part.count * e->width};
}

static void reduce(const void *arguments)
{
    const struct exchange *e = arguments;
    struct world_piece send[WORLD_RANKS_MAX], receive[WORLD_RANKS_MAX], own = part_of(e, e->world->rank);
    size_t n = own.bytes / sizeof(float);
    for (int r = 0; r < e->world->size; r++) {
        send[r] = part_of(e, r);
        receive[r] = (struct world_piece){e->received + (size_t)r * n, own.bytes};
    }
    e->world->exchange(e->world, send, receive);
    add_up(own.memory, e->received, n, e->world, e->threads);
}

static void gather(const void *arguments)
{
    const struct exchange *e = arguments;
    struct world_piece send[WORLD_RANKS_MAX], receive[WORLD_RANKS_MAX];
    for (int r = 0; r < e->world->size; r++) {
        send[r] = part_of(e, e->world->rank);
        receive[r] = part_of(e, r);
    }
    e->world->exchange(e->world, send, receive);
}

static void run(void (*work)(const void *arguments), struct exchange exchange, struct stream *stream)
{
    _Static_assert(sizeof exchange <= WORKER_ARGUMENTS, "there is room for the arguments");
    if (exchange.world->size == 1) return;
    exchange.threads = stream->threads;
    if (stream->worker)
        worker_queue(stream->worker, work, &exchange, sizeof exchange);
    else
        work(&exchange);
}

/* Piece by piece, each in slices of its own. */
void all_reduce(float *x, void *workspace, size_t n, int ranks, const struct world *world,
                struct stream *stream)
{
    for (size_t at = 0, count; world->size > 1 && at < n; at += count) {
        count = n - at < ALL_REDUCE_PIECE ? n - at : ALL_REDUCE_PIECE;
        size_t slice = (count + (size_t)world->size - 1) / (size_t)world->size;
        struct exchange piece = {
            (unsigned char *)(x + at), workspace, count, 0, slice, sizeof *x, world, stream->threads};
        reduce(&piece);
        gather(&piece);
    }
}

void reduce_slices(float *x, void *workspace, size_t n, size_t from, size_t slice, int ranks,
                   const struct world *world, struct stream *stream)
{
    run(reduce, (struct exchange){(unsigned char *)x, workspace, n, from, slice, sizeof *x, world, 0},
        stream);
}

void gather_slices(void *x, size_t n, size_t from, size_t slice, const struct world *world,
                   struct stream *stream)
{
    run(gather, (struct exchange){x, NULL, n, from, slice, sizeof(real), world, 0}, stream);
}
