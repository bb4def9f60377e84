/* CUDA twins of the sums over ranks. They need NCCL, which is not used yet: a session with several ranks is
 * refused on a GPU (tui/session/ranks.c), and a world of one has nothing to add. */
#include "kernels/device/cuda_device.cuh"
#include "kernels/device/world.h"

static void check_alone(const struct world *world, struct stream *stream)
{
    if (world->size > 1) stream_fault(stream, "all reduce", "several ranks train on CPUs alone");
}

void all_reduce(float *, void *, size_t, int, const struct world *world, struct stream *stream)
{
    check_alone(world, stream);
}

void all_reduce_value(double *, const struct world *world, struct stream *stream)
{
    check_alone(world, stream);
}

void reduce_slices(float *, void *, size_t, size_t, size_t, int, const struct world *world, struct stream *stream)
{
    check_alone(world, stream);
}

void gather_slices(void *, size_t, size_t, size_t, const struct world *world, struct stream *stream)
{
    check_alone(world, stream);
}
