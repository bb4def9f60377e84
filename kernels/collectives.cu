/* CUDA twins of the sums over ranks. Each part of a range has an owner: the sum of a part is built on its
 * owner, and goes from there to the others. What an element is added up in, and in which order, thus depends
 * on its place alone, and all ranks get the same bits. NCCL needs no workspace of ours. */
#include "kernels/device/cuda_device.cuh"

extern "C" {
#include "kernels/device/nccl.h"
#include "kernels/device/world.h"
}

/* x (n) are elements [from, from + n) of a range in slices of `slice` elements, the first of rank 0. */
struct parts {
    void *x;
    size_t n, from, slice;
    int type;
    size_t width; /* bytes of an element */
};

static struct slice_part part_of(const struct parts *parts, int rank)
{
    return slice_part_of(parts->n, parts->from, parts->slice, rank);
}

static void exchange(const struct parts *parts, bool sums, const struct world *world, struct stream *stream)
{
    peers_begin(stream);
    for (int owner = 0; owner < world->size; owner++) {
        struct slice_part part = part_of(parts, owner);
        if (part.count > 0)
            peers_exchange((unsigned char *)parts->x + part.first * parts->width, part.count, parts->type, sums,
                           owner, stream);
    }
    peers_end(stream);
}

static void reduce(const struct parts *parts, const struct world *world, struct stream *stream)
{
    exchange(parts, true, world, stream);
    world_count_sent(world, (parts->n - part_of(parts, world->rank).count) * parts->width);
}

/* A rank sends the others' parts on, but one. Which one, NCCL decides: on average it is as if it sent its own
 * to all. */
static void gather(const struct parts *parts, const struct world *world, struct stream *stream)
{
    exchange(parts, false, world, stream);
    world_count_sent(world, part_of(parts, world->rank).count * parts->width * (size_t)(world->size - 1));
}

static void reduce_all(const struct parts *parts, const struct world *world, struct stream *stream)
{
    reduce(parts, world, stream);
    gather(parts, world, stream);
}

void all_reduce(float *x, void *, size_t n, int ranks, const struct world *world, struct stream *stream)
{
    struct parts parts = {x, n, 0, slice_elements(n, ranks), NCCL_TYPE_FP32, sizeof *x};
    reduce_all(&parts, world, stream);
}

void all_reduce_value(double *x, const struct world *world, struct stream *stream)
{
    struct parts parts = {x, 1, 0, 1, NCCL_TYPE_FP64, sizeof *x};
    reduce_all(&parts, world, stream);
}

void reduce_slices(float *x, void *, size_t n, size_t from, size_t slice, int, const struct world *world,
                   struct stream *stream)
{
    struct parts parts = {x, n, from, slice, NCCL_TYPE_FP32, sizeof *x};
    reduce(&parts, world, stream);
}

void gather_slices(void *x, size_t n, size_t from, size_t slice, const struct world *world,
                   struct stream *stream)
{
    bool bf16 = stream->precision == PRECISION_BF16;
    struct parts parts = {
        x, n, from, slice, bf16 ? NCCL_TYPE_BF16 : NCCL_TYPE_FP32, precision_bytes(stream->precision)};
    gather(&parts, world, stream);
}
