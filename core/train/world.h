/* A world: the processes that train one model together. Each is a rank with its share of the batches. A
 * single process is a world of one, whose collectives do nothing.
 *
 * Decisions between two steps depend only on facts that `share` has made equal, so that no rank takes another
 * course (decide.h); the results of `sum` have the same bits on all ranks. */
#ifndef ANNEAL_CORE_TRAIN_WORLD_H
#define ANNEAL_CORE_TRAIN_WORLD_H

#include <stddef.h>

struct stream;

struct world {
    int rank, size; /* rank 0 asks the run's observer */
    /* Device memory (count): each rank's values become the sum over all ranks. Queued on the stream, or
     * recorded into a graph, as an update may be one (replay.h). */
    void (*sum)(const struct world *world, double *values, size_t count, struct stream *stream);
    /* Host memory: every rank gets the bytes of rank 0. Returns when they are here. */
    void (*share)(const struct world *world, void *memory, size_t bytes);
};

const struct world *world_of_one(void);

#endif
