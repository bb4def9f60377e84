/* Stands in for NCCL between processes with a simulated GPU each: libnccl.so.2 with the functions that
 * kernels/device/nccl.h declares. Sums and copies go through memory that the processes share, in the order of
 * NCCL's ring. Where two ranks make different exchanges, or exchange what is no device memory, one sentence
 * says so and the process ends.
 *
 * As with NCCL, a rank waits without end for one that is gone. $ANNEAL_SIM_NCCL=lost_at:N[:RANK] loses the
 * connection in the N-th exchange (of this rank): it never ends, and the communicator has an error. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

extern "C" {
#include "kernels/device/nccl.h"
}
#include "tests/cuda_sim/simulator.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

constexpr int RANKS_MOST = 8, SUCCESS = NCCL_CODE_SUCCESS, INVALID = 4,
              REMOTE = 6;         /* the last: of ncclResult_t */
constexpr size_t PIECE = 1 << 16; /* bytes */

struct exchange {
    bool sums;
    size_t count;
    int type, owner;
    unsigned char *memory;
};

/* Shared by the ranks; it begins with zeros. */
struct table {
    std::atomic<int> arrived;
    std::atomic<unsigned> round;
    struct exchange made[RANKS_MOST];
    unsigned char pieces[RANKS_MOST][PIECE];
};

decltype(&sim_queue_exchange) queue_exchange;

} // namespace

struct ncclComm {
    struct table *table;
    int ranks, rank;
    long lost_at, exchanges;
    std::atomic<int> error;
    std::atomic<bool> aborted;
};

namespace {

thread_local int open_groups;

[[noreturn]] void fail(const char *sentence)
{
    fprintf(stderr, "the stand-in for NCCL: %s\n", sentence);
    _exit(SIM_FAILURE_STATUS);
}

void nap()
{
    const struct timespec time = {0, 50000};
    nanosleep(&time, NULL);
}

/* Returns when all ranks have come. */
void meet(ncclComm *comm)
{
    struct table *t = comm->table;
    unsigned round = t->round;
    if (++t->arrived == comm->ranks) {
        t->arrived = 0;
        t->round++;
    }
    while (t->round == round && !comm->aborted) nap();
}

size_t width_of(int type)
{
    return type == NCCL_TYPE_FP64 ? 8 : type == NCCL_TYPE_FP32 ? 4 : 2;
}

template <typename T> void add(void *sum, const void *more, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(T); i++) ((T *)sum)[i] += ((const T *)more)[i];
}

/* The ring begins behind the owner, and ends with it. */
void reduce_piece(ncclComm *comm, const struct exchange *e, unsigned char *at, size_t bytes)
{
    memcpy(comm->table->pieces[comm->rank], at, bytes);
    meet(comm);
    for (int i = 1; comm->rank == e->owner && i <= comm->ranks; i++) {
        const unsigned char *piece = comm->table->pieces[(e->owner + i) % comm->ranks];
        if (i == 1)
            memcpy(at, piece, bytes);
        else if (e->type == NCCL_TYPE_FP64)
            add<double>(at, piece, bytes);
        else
            add<float>(at, piece, bytes);
    }
    meet(comm);
}

void broadcast_piece(ncclComm *comm, const struct exchange *e, unsigned char *at, size_t bytes)
{
    if (comm->rank == e->owner) memcpy(comm->table->pieces[0], at, bytes);
    meet(comm);
    if (comm->rank != e->owner) memcpy(at, comm->table->pieces[0], bytes);
    meet(comm);
}

void lose_connection(ncclComm *comm)
{
    comm->error = REMOTE;
    while (!comm->aborted) nap();
}

struct queued {
    ncclComm *comm;
    struct exchange exchange;
};

void carry_out(void *context)
{
    struct queued *q = (struct queued *)context;
    ncclComm *comm = q->comm;
    const struct exchange e = q->exchange, *other = &comm->table->made[e.owner];
    size_t bytes = e.count * width_of(e.type);
    delete q;
    if (++comm->exchanges == comm->lost_at) lose_connection(comm);
    comm->table->made[comm->rank] = e;
    meet(comm);
    if (other->sums != e.sums || other->count != e.count || other->type != e.type || other->owner != e.owner)
        fail("the ranks make different exchanges");
    meet(comm);
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < PIECE ? bytes - at : PIECE;
        (e.sums ? reduce_piece : broadcast_piece)(comm, &e, e.memory + at, n);
    }
}

int queue(ncclComm *comm, void *memory, const void *from, struct exchange e, void *stream)
{
    if (memory != from || e.owner < 0 || e.owner >= comm->ranks) return INVALID;
    if (e.sums && e.type == NCCL_TYPE_BF16) return INVALID; /* not needed */
    if (open_groups != 1) fail("an exchange outside of a group");
    e.memory = (unsigned char *)memory;
    queue_exchange((struct sim_stream *)stream, e.sums ? "ncclReduce" : "ncclBroadcast", memory,
                   e.count * width_of(e.type), carry_out, new queued{comm, e});
    return SUCCESS;
}

} // namespace

/* The simulator is in memory already: as plugin, or as part of the program. */
EXPORTED int ncclGetVersion(int *version)
{
    const char *name = getenv("ANNEAL_CUDA_PLUGIN");
    void *plugin = name != NULL ? dlopen(name, RTLD_NOW | RTLD_NOLOAD) : NULL;
    queue_exchange =
        (decltype(&sim_queue_exchange))dlsym(plugin != NULL ? plugin : RTLD_DEFAULT, "sim_queue_exchange");
    const char *wish = getenv("ANNEAL_SIM_NCCL");
    *version = wish != NULL && strcmp(wish, "old") == 0 ? 21203 : 22809;
    return queue_exchange != NULL ? SUCCESS : INVALID;
}

EXPORTED int ncclGetUniqueId(struct nccl_id *out)
{
    snprintf(out->bytes, sizeof out->bytes, "/anneal-nccl-%d", (int)getpid());
    int file = shm_open(out->bytes, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct table)) != 0) return INVALID;
    close(file);
    return SUCCESS;
}

EXPORTED int ncclCommInitRank(nccl_comm *out, int ranks, struct nccl_id id, int rank)
{
    int file = shm_open(id.bytes, O_RDWR, 0), lost_rank = rank;
    const char *wish = getenv("ANNEAL_SIM_NCCL");
    if (file < 0 || ranks > RANKS_MOST) return INVALID;
    void *memory = mmap(NULL, sizeof(struct table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return INVALID;
    ncclComm *comm = new ncclComm();
    comm->table = (struct table *)memory;
    comm->ranks = ranks;
    comm->rank = rank;
    if (wish != NULL && sscanf(wish, "lost_at:%ld:%d", &comm->lost_at, &lost_rank) > 0 && lost_rank != rank)
        comm->lost_at = 0;
    meet(comm);
    if (rank == 0) shm_unlink(id.bytes);
    *out = comm;
    return SUCCESS;
}

EXPORTED int ncclCommDestroy(nccl_comm comm)
{
    munmap(comm->table, sizeof *comm->table);
    delete comm;
    return SUCCESS;
}

EXPORTED int ncclCommAbort(nccl_comm comm)
{
    comm->aborted = true;
    return SUCCESS;
}

EXPORTED int ncclCommGetAsyncError(nccl_comm comm, int *code)
{
    *code = comm->error;
    return SUCCESS;
}

EXPORTED int ncclReduce(const void *from, void *to, size_t count, int type, int, int root, nccl_comm comm,
                        void *stream)
{
    return queue(comm, to, from, {true, count, type, root, NULL}, stream);
}

EXPORTED int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, nccl_comm comm,
                           void *stream)
{
    return queue(comm, to, from, {false, count, type, root, NULL}, stream);
}

EXPORTED int ncclGroupStart(void)
{
    open_groups++;
    return SUCCESS;
}

EXPORTED int ncclGroupEnd(void)
{
    return open_groups-- == 1 ? SUCCESS : INVALID;
}

EXPORTED const char *ncclGetErrorString(int code)
{
    return code == REMOTE ? "remote process exited or there was a network error" : "invalid argument";
}
