/* A world: the processes that train one model together, one rank each, and how they exchange host memory. A
 * single process is a world of one: it exchanges nothing, and none of these functions waits.
 *
 * All ranks call the functions below in the same order, with the same sizes; a call returns when this rank's
 * part is done. Nothing is allocated after world_open. Sums are added in the order of ranks, so that all
 * ranks get the same bits, from run to run. Sums over device memory are operations (kernels/operations.def),
 * which do not use these functions on GPUs.
 *
 * A world of several ranks is opened by the plugin anneal_mpi.so, so the program itself links no MPI: it is
 * $ANNEAL_MPI_PLUGIN (a file), else anneal_mpi.so in the executable's folder, else in ../lib/anneal of that
 * folder. */
#ifndef ANNEAL_KERNELS_DEVICE_WORLD_H
#define ANNEAL_KERNELS_DEVICE_WORLD_H

#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

enum { WORLD_RANKS_MAX = 1024, WORLD_HOST = 64 };

struct world_piece {
    void *memory;
    size_t bytes; /* below 2 GiB; 0: nothing is sent */
};

/* What the exchanges of a world took so far. The thread that exchanges adds; others may read. */
struct world_meter {
    uint64_t sent;   /* bytes */
    uint64_t waited; /* nanoseconds until the others' parts were there and its own were gone */
};

/* NULL, or why this rank cannot go on; the sentence stays valid. */
typedef const char *world_failure(void *context);

struct world_watched {
    pthread_mutex_t lock;
    world_failure *failure; /* NULL: nothing */
    void *context;
};

struct world {
    int rank, size;
    int local_rank, local_size; /* among the ranks of this host */
    int cores;                  /* this rank's share of the host's cores; 0: all of them */
    char (*hosts)[WORLD_HOST];  /* (size): the name of each rank's host; NULL in a world of one */
    /* Sends send[r] to rank r and receives receive[r] from it, for all ranks but this one. Both (size); the
     * bytes to receive are those that the other rank sends. */
    void (*exchange)(const struct world *world, const struct world_piece *send,
                     const struct world_piece *receive);
    const struct world *beside; /* the same ranks, for another thread: what it exchanges does not mix with the
                                 * rest, and it leaves the core to others while it waits. NULL: one
                                 * rank, or an MPI that only one thread may use */
    struct world_watched *watched; /* see world_also_watch; NULL: nothing is watched */
    struct world_meter *meter; /* of this world alone, without what is beside it; NULL in a world of one */
    void *context;             /* of the plugin */
};

const struct world *world_of_one(void);

/* The ranks that mpirun, srun or another launcher has started, by the environment that it gives; 1: this
 * process was not started as one of several; 0: perhaps it was, MPI knows. */
int world_launched(void);

/* Where the plugin is. STATUS_NOT_FOUND: there is none. */
enum status world_plugin(char path[PATH_MAX], struct err *err);

/* Joins the world that a launcher has started; world_of_one if it has started none. Fails where the plugin or
 * MPI is missing. Once in a process; world_close ends it, and all ranks close. */
enum status world_open(const struct world **out, struct err *err);
void world_close(const struct world *world); /* NULL is harmless */

/* From now on this rank watches another one, and is watched. If a rank dies, or gives no sign of life for so
 * many seconds, one of the others calls `lost`, in a thread of its own and with a sentence that names rank
 * and host; then the processes of all ranks end. All ranks call it; again it has no effect. */
typedef void world_lost(void *context, const char *sentence);
void world_watch(const struct world *world, double seconds, world_lost *lost, void *context);

/* Watches something of this rank, too: asks about ten times a second, in the watching thread. Once there is a
 * failure all ranks end, as if this one were lost. One at a time; failure NULL ends it, and then nobody asks
 * any more. */
void world_also_watch(const struct world *world, world_failure *failure, void *context);

/* For exchanges outside of MPI. */
static inline void world_count_sent(const struct world *world, uint64_t bytes)
{
    if (world->meter) __atomic_fetch_add(&world->meter->sent, bytes, __ATOMIC_RELAXED);
}

/* Bytes that this rank has sent, with those of the other thread, and seconds that this thread has waited in
 * exchanges; 0 in a world of one. */
uint64_t world_sent(const struct world *world);
double world_waited(const struct world *world);

/* The part of `total` items that a rank takes: they are divided in order, and the parts differ by at most 1.
 * part.first + part.count of a rank is part.first of the next. */
struct world_part {
    uint64_t first, count;
};
static inline struct world_part world_divide(uint64_t total, int rank, int size)
{
    uint64_t r = (uint64_t)rank, n = (uint64_t)size, first = total / n * r + total % n * r / n;
    struct world_part part = {first, total / n * (r + 1) + total % n * (r + 1) / n - first};
    return part;
}

/* Rank `to`, which is another one, gets the bytes (below 2 GiB) of rank `from`. */
void world_send(const struct world *world, int from, int to, void *memory, size_t bytes);

/* Every rank gets the bytes of rank 0. */
void world_share(const struct world *world, void *memory, size_t bytes);

/* all (size, bytes): every rank has filled in its own item, all[rank], and gets those of the others. */
void world_gather(const struct world *world, void *all, size_t bytes);

/* Returns the first failure of any rank, with its error, and where another rank failed the name of that rank
 * and its host; STATUS_OK: none failed. Each gives its status, and its error unless that is STATUS_OK. */
enum status world_agree(const struct world *world, enum status status, struct err *err);

/* values (count) become the sums over all ranks. */
void world_sum(const struct world *world, double *values, size_t count);

/* The one symbol of the plugin, "mpi_plugin". */
struct mpi_plugin {
    uint32_t plugin_bytes, world_bytes;     /* sizes of the two structs, which must match the program's */
    const char *(*open)(struct world *out); /* sets everything; NULL, or why it failed */
    void (*watch)(struct world *world, double seconds, world_lost *lost, void *context);
    void (*close)(struct world *world);
};

#endif
