/* Where buffers lie that need not all be there at the same time: two whose contents are never needed together
 * may overlap. Places the largest first, each as low as those before it allow. The height that comes out is
 * at least what is needed at the fullest moment; it is not always the least there could be. */
#ifndef ANNEAL_CORE_NETWORK_PLACEMENT_H
#define ANNEAL_CORE_NETWORK_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

struct placement {
    size_t bytes;       /* a multiple of the alignment that the offset is to have */
    uint64_t conflicts; /* a bit for each `number` that it must not overlap with */
    int number;
    size_t offset; /* what comes out */
};

/* Returns the height: the largest offset + bytes. The order of `at` stays. */
size_t placement_solve(struct placement *at, size_t count);

#endif
