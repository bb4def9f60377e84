/* A world: the processes that train one model together, each a rank with its share of the batches. One
 * process is a world of one, whose collectives do nothing.
 *
 * Always: what all ranks decide between two steps they decide from facts that `share` has made the same, so
 * that none takes another course (decide.h); and what all add up with `sum` has the same bits on each. */
#ifndef ANNEAL_CORE_TRAIN_WORLD_H
#define ANNEAL_CORE_TRAIN_WORLD_H

#include <stddef.h>

struct stream;

struct world {
    int rank, size; /* rank 0 is who asks the run's observer */
    /* Device memory (count): each rank's values become the sum of all ranks'. Queued on the stream, or
     * recorded where its calls are: an update is a graph (replay.h). */
    void (*sum)(const struct world *world, double *values, size_t count, struct stream *stream);
    /* Host memory: the bytes of rank 0 become everybody's. Returns when they are here. */
    void (*share)(const struct world *world, void *memory, size_t bytes);
};

const struct world *world_of_one(void);

#endif
