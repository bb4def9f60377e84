/* Notices that a rank has died or hangs, which the others would wait for without end. */
#ifndef ANNEAL_KERNELS_DEVICE_MPI_WATCH_H
#define ANNEAL_KERNELS_DEVICE_MPI_WATCH_H

#include "kernels/device/world.h"

struct watch;

/* Begins to watch, in a thread of its own; all ranks call it. See world_watch. NULL: nothing is watched,
 * because only one thread may use this MPI. */
struct watch *watch_open(const struct world *world, double seconds, world_lost *lost, void *context);
void watch_close(struct watch *watch); /* NULL is harmless */

#endif
