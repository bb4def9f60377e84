/* See world.h. */
#include "core/train/world.h"

static void sum_alone(const struct world *world, double *values, size_t count, struct stream *stream)
{
    (void)world, (void)values, (void)count, (void)stream;
}

static void share_alone(const struct world *world, void *memory, size_t bytes)
{
    (void)world, (void)memory, (void)bytes;
}

const struct world *world_of_one(void)
{
    static const struct world one = {.rank = 0, .size = 1, .sum = sum_alone, .share = share_alone};
    return &one;
}
