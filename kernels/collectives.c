/* CPU twins of the sums over ranks. Each rank adds up a slice of its own: it gets that slice of all ranks,
 * adds in their order, and sends the sum to all. So a rank sends and receives 2·(ranks − 1)/ranks of the
 * range, and the order of additions is fixed. */
#include "kernels/device/cpu_device.h"
#include "kernels/device/worker.h"
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
    for (size_t at = 0; world->size > 1 && at < n; at += ALL_REDUCE_PIECE)
        reduce_piece(x + at, n - at < ALL_REDUCE_PIECE ? n - at : ALL_REDUCE_PIECE, workspace, world, stream);
}

void all_reduce_value(double *x, const struct world *world, struct stream *stream)
{
    world_sum(world, x, 1);
}

/* ---- slices ---- */

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
    size_t begin = (size_t)rank * e->slice, end = begin + e->slice, last = e->from + e->n;
    if (begin < e->from) begin = e->from;
    if (end > last) end = last;
    return begin < end ? (struct world_piece){e->x + (begin - e->from) * e->width, (end - begin) * e->width}
                       : (struct world_piece){0};
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
    add_up(own.memory, e->received, n, e->world, &(struct stream){.threads = e->threads});
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

void reduce_slices(float *x, void *workspace, size_t n, size_t from, size_t slice, int ranks,
                   const struct world *world, struct stream *stream)
{
    run(reduce, (struct exchange){(unsigned char *)x, workspace, n, from, slice, sizeof *x, world, 0},
        stream);
}

void gather_slices(void *x, size_t n, size_t from, size_t slice, const struct world *world,
                   struct stream *stream)
{
    run(gather, (struct exchange){x, NULL, n, from, slice, sizeof(float), world, 0}, stream);
}
