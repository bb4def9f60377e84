/* Several ranks with slices (ZeRO-1: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
 * Parameter Models", 2020): each rank gets the sum of all gradients in its slice, and after the update the
 * others' weights for computing. Both go in pieces, which are the same on all ranks.
 *
 * With overlap the gradients of layers' matrices are sent, a piece or more at a time, while the backward pass
 * computes the layers below it, and a layer's forward pass waits for the weights up to its own. Vectors are
 * few, and lie together: all their gradients are sent last, all their weights first. The results are the same
 * bits. In a step that is observed nothing overlaps, so that every operation shows its own time. Without
 * slices nothing here has an effect. */
#ifndef ANNEAL_CORE_NETWORK_EXCHANGE_H
#define ANNEAL_CORE_NETWORK_EXCHANGE_H

#include "core/network/network.h"

/* Elements that GPUs exchange at a time, 32 MiB of gradients: NVLink takes about 0.1 ms for them, many times
 * as long as the hops of a ring, and a billion parameters still have a hundred pieces to hide. */
enum { EXCHANGE_PIECE_GPU = 1 << 23 };

/* Joins the ranks of a world, which outlives the network. */
enum status exchange_open(struct network *network, const struct world *world, bool overlap, struct err *err);
void exchange_close(struct network *network); /* waits for what is under way; harmless on a zeroed struct */

/* Before the first micro-batch of a step. */
void exchange_begin(struct network *network);

/* The gradients of all parameters that are used from this place on (param_place) are final: in the last
 * micro-batch they are sent. */
void exchange_final(struct network *network, int place);

/* Before the update: sends the rest of the gradients and waits for their sums. */
void exchange_finish(struct network *network);

/* Around the wait for the sums of a step, and once the step is done: adds to exchange.waited what a device
 * that queues its work has waited there, which no clock of the host shows. */
void exchange_sums_begin(struct network *network);
void exchange_sums_end(struct network *network);
void exchange_measure(struct network *network);

/* After the update: sends the weights for computing of this rank's slice, and queues those of the others. */
void exchange_weights(struct network *network);

/* Work that is queued from now on finds the weights for computing of all parameters that are used up to this
 * place. */
void exchange_await(struct network *network, int place);

#endif
