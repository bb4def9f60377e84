/* The plugin anneal_mpi.so: a world of MPI's ranks (kernels/device/world.h).
 *
 * Everything is sent from rank to rank, without MPI's own collectives, whose order of additions is theirs. A
 * rank that waits first asks again and again, giving way to others, and after a while sleeps between two
 * questions: so that ranks which wait for an evaluation or a pause leave the cores to those that work. */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/device/mpi/watch.h"

static const double PATIENCE = 0.02; /* seconds without sleep */

enum { NAP = 100000 }; /* nanoseconds */

struct mpi {
    MPI_Comm comm;
    double patience; /* seconds without sleep */
    struct world_meter meter;
    struct world beside;
    struct watch *watch; /* NULL: nothing is watched */
    MPI_Request requests[2 * WORLD_RANKS_MAX];
};

static void count(uint64_t *meter, uint64_t more)
{
    __atomic_fetch_add(meter, more, __ATOMIC_RELAXED);
}

static void wait_for(struct mpi *mpi, int requests)
{
    double start = MPI_Wtime(), now = start;
    for (int done = 0;;) {
        MPI_Testall(requests, mpi->requests, &done, MPI_STATUSES_IGNORE);
        now = MPI_Wtime();
        if (done) break;
        if (now - start < mpi->patience)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = NAP}, NULL);
    }
    if (now > start) count(&mpi->meter.waited, (uint64_t)((now - start) * 1e9));
}

static void exchange(const struct world *world, const struct world_piece *send,
                     const struct world_piece *receive)
{
    struct mpi *mpi = world->context;
    int n = 0, size = world->size;
    for (int i = 1; i < size; i++) { /* each rank begins with another one */
        int from = (world->rank + size - i) % size;
        if (receive[from].bytes)
            MPI_Irecv(receive[from].memory, (int)receive[from].bytes, MPI_BYTE, from, 0, mpi->comm,
                      &mpi->requests[n++]);
    }
    for (int i = 1; i < size; i++) {
        int to = (world->rank + i) % size;
        if (send[to].bytes)
            MPI_Isend(send[to].memory, (int)send[to].bytes, MPI_BYTE, to, 0, mpi->comm, &mpi->requests[n++]);
        count(&mpi->meter.sent, send[to].bytes);
    }
    wait_for(mpi, n);
}

/* A launcher may bind each rank to cores of its own; those that may use the same cores share them. */
static int share_of_cores(MPI_Comm local, int size)
{
    cpu_set_t mine, *all = calloc((size_t)size, sizeof *all);
    int sharing = 0;
    CPU_ZERO(&mine);
    if (!all || sched_getaffinity(0, sizeof mine, &mine)) {
        free(all);
        return 1;
    }
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, local);
    for (int i = 0; i < size; i++) sharing += CPU_EQUAL(&mine, &all[i]);
    free(all);
    int share = CPU_COUNT(&mine) / sharing;
    return share > 0 ? share : 1;
}

static void find_place(struct world *world)
{
    MPI_Comm local;
    char host[MPI_MAX_PROCESSOR_NAME];
    int length;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world->rank, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &world->local_rank);
    MPI_Comm_size(local, &world->local_size);
    world->cores = share_of_cores(local, world->local_size);
    MPI_Comm_free(&local);
    MPI_Get_processor_name(host, &length);
    snprintf(world->hosts[world->rank], WORLD_HOST, "%.63s", host);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, world->hosts, WORLD_HOST, MPI_BYTE, MPI_COMM_WORLD);
}

static void mpi_close(struct world *world)
{
    struct mpi *mpi = world->context;
    struct mpi *beside = mpi ? mpi->beside.context : NULL;
    if (mpi) watch_close(mpi->watch);
    if (beside) MPI_Comm_free(&beside->comm);
    if (mpi) MPI_Comm_free(&mpi->comm);
    free(beside);
    free(mpi);
    free(world->hosts);
    MPI_Finalize();
}

static const char *mpi_open(struct world *world)
{
    int provided;
    *world = (struct world){.exchange = exchange};
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE,
                    &provided); /* a failure ends the process, and MPI says why */
    MPI_Comm_rank(MPI_COMM_WORLD, &world->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world->size);
    struct mpi *mpi = world->context = calloc(1, sizeof *mpi);
    world->hosts = calloc((size_t)world->size, sizeof *world->hosts);
    if (world->size > WORLD_RANKS_MAX) return "at most 1024 ranks can train together";
    if (!mpi || !world->hosts) return "no memory for the ranks";
    struct mpi *beside = mpi->beside.context = calloc(1, sizeof *beside);
    if (!beside) return "no memory for the ranks";
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi->comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &beside->comm);
    mpi->patience = PATIENCE;
    find_place(world);
    mpi->beside = *world;
    mpi->beside.context = beside;
    mpi->beside.meter = &beside->meter;
    world->meter = &mpi->meter;
    if (provided == MPI_THREAD_MULTIPLE) world->beside = &mpi->beside;
    return NULL;
}

static void mpi_watch(struct world *world, double seconds, world_lost *lost, void *context)
{
    struct mpi *mpi = world->context;
    mpi->watch = watch_open(world, seconds, lost, context);
}

__attribute__((visibility("default"))) const struct mpi_plugin mpi_plugin = {
    sizeof(struct mpi_plugin), sizeof(struct world), mpi_open, mpi_watch, mpi_close};
