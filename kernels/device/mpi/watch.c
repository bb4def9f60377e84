/* See watch.h. Each rank watches the one before it, the first one the last: it hears from it every second,
 * and where both are on one host it also knows at once when that process has died. Whoever misses its
 * neighbour tells rank 0, which reports and ends; then the launcher ends all others. If rank 0 is the one
 * that is missed, or does not end, the rank that noticed does the same. */
#include "kernels/device/mpi/watch.h"

#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOK_MS = 100, TAG_BEAT = 0, TAG_LOST = 1 };

static const double BEAT = 1, REPORTING = 5; /* seconds: between two beats; for rank 0 to report */

/* A rank's process, and what says whether its number means the same process to another rank. */
struct process {
    int64_t pid;
    uint64_t space; /* of process numbers */
    char host[WORLD_HOST];
};

struct notice {
    int rank;
    bool died, reported; /* died: else it is silent */
};

struct watch {
    const struct world *world;
    MPI_Comm comm;
    double seconds;
    world_lost *lost;
    void *context;
    struct process watched;
    int pidfd; /* of the watched process; -1: on another host */
    pthread_t thread;
    atomic_bool closing;
};

static void describe_process(struct process *process, const char *host)
{
    struct stat space;
    *process = (struct process){.pid = getpid()};
    if (stat("/proc/self/ns/pid", &space) == 0) process->space = space.st_ino;
    snprintf(process->host, sizeof process->host, "%s", host);
}

static int neighbour(const struct watch *w, int distance)
{
    return (w->world->rank + w->world->size + distance) % w->world->size;
}

/* Learns the process to watch and, on this host, takes hold of it. */
static void find_watched(struct watch *w)
{
    struct process mine;
    describe_process(&mine, w->world->hosts[w->world->rank]);
    MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, neighbour(w, 1), TAG_BEAT, &w->watched, sizeof w->watched,
                 MPI_BYTE, neighbour(w, -1), TAG_BEAT, w->comm, MPI_STATUS_IGNORE);
    bool near = mine.space && w->watched.space == mine.space && strcmp(w->watched.host, mine.host) == 0;
    w->pidfd = near ? (int)syscall(SYS_pidfd_open, (pid_t)w->watched.pid, 0) : -1;
}

/* Tells ranks [from, to), and gives the messages `seconds` to leave. */
static void tell(struct watch *w, int from, int to, const struct notice *notice, double seconds)
{
    MPI_Request request;
    int done;
    double start = MPI_Wtime();
    for (int rank = from; rank < to; rank++)
        if (rank != w->world->rank && !(notice->died && rank == notice->rank))
            MPI_Isend(notice, sizeof *notice, MPI_BYTE, rank, TAG_LOST, w->comm, &request);
    do {
        poll(NULL, 0, LOOK_MS);
        MPI_Iprobe(MPI_ANY_SOURCE, TAG_LOST, w->comm, &done, MPI_STATUS_IGNORE); /* moves messages on */
    } while (MPI_Wtime() - start < seconds);
}

/* Reports that a rank is lost, and ends this process; the launcher ends the others. */
static void end(struct watch *w, struct notice notice)
{
    char text[256];
    const char *host = w->world->hosts[notice.rank];
    if (notice.died)
        snprintf(text, sizeof text, "rank %d on %s has died", notice.rank, host);
    else
        snprintf(text, sizeof text, "rank %d on %s gave no sign of life for %g s (world.timeout)",
                 notice.rank, host, w->seconds);
    w->lost(w->context, text);
    notice.reported = true; /* so that nobody reports this rank; the launcher wakes a silent one to end it */
    tell(w, 0, w->world->size, &notice, 0);
    _exit(EXIT_FAILURE);
}

static void report(struct watch *w, struct notice notice)
{
    if (w->world->rank > 0 && notice.rank > 0) tell(w, 0, 1, &notice, REPORTING);
    end(w, notice);
}

/* What the watching thread waits for. */
struct beats {
    MPI_Request sent, heard, told;
    char out, in;
    struct notice notice;
    double sent_at, heard_at, looked_at;
};

static void begin(struct watch *w, struct beats *b)
{
    *b = (struct beats){.sent = MPI_REQUEST_NULL, .told = MPI_REQUEST_NULL};
    b->heard_at = b->looked_at = MPI_Wtime();
    MPI_Irecv(&b->in, 1, MPI_BYTE, neighbour(w, -1), TAG_BEAT, w->comm, &b->heard);
    MPI_Irecv(&b->notice, sizeof b->notice, MPI_BYTE, MPI_ANY_SOURCE, TAG_LOST, w->comm, &b->told);
}

/* died: the watched process has. */
static void look(struct watch *w, struct beats *b, bool died)
{
    int done;
    double now = MPI_Wtime();
    MPI_Test(&b->told, &done, MPI_STATUS_IGNORE);
    if (done && b->notice.reported) _exit(EXIT_FAILURE);
    if (done) end(w, b->notice);
    /* it is this process that stood still, and has not heard what was sent meanwhile */
    if (now - b->looked_at > BEAT) b->heard_at = now;
    b->looked_at = now;
    MPI_Test(&b->sent, &done, MPI_STATUS_IGNORE);
    if (done && now - b->sent_at > BEAT) {
        MPI_Isend(&b->out, 1, MPI_BYTE, neighbour(w, 1), TAG_BEAT, w->comm, &b->sent);
        b->sent_at = now;
    }
    MPI_Test(&b->heard, &done, MPI_STATUS_IGNORE);
    if (done) {
        b->heard_at = now;
        MPI_Irecv(&b->in, 1, MPI_BYTE, neighbour(w, -1), TAG_BEAT, w->comm, &b->heard);
    }
    if (died || now - b->heard_at > w->seconds) report(w, (struct notice){neighbour(w, -1), died, false});
}

static void finish(struct beats *b)
{
    MPI_Cancel(&b->heard);
    MPI_Cancel(&b->told);
    MPI_Waitall(3, (MPI_Request[]){b->sent, b->heard, b->told}, MPI_STATUSES_IGNORE);
}

static void *run(void *context)
{
    struct watch *w = context;
    struct beats beats;
    struct pollfd pid = {w->pidfd, POLLIN, 0};
    begin(w, &beats);
    while (!w->closing) look(w, &beats, poll(&pid, 1, LOOK_MS) > 0);
    finish(&beats);
    return NULL;
}

struct watch *watch_open(const struct world *world, double seconds, world_lost *lost, void *context)
{
    int provided;
    sigset_t all, before;
    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_MULTIPLE) return NULL; /* as on all ranks */
    struct watch *w = calloc(1, sizeof *w);
    if (!w) abort(); /* the others wait for this one */
    *w = (struct watch){.world = world, .seconds = seconds, .lost = lost, .context = context};
    MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
    find_watched(w);
    sigfillset(&all); /* signals are for the training thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&w->thread, NULL, run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code) abort();
    return w;
}

void watch_close(struct watch *w)
{
    if (!w) return;
    w->closing = true;
    pthread_join(w->thread, NULL);
    MPI_Barrier(w->comm); /* none is watched any more when one leaves */
    MPI_Comm_free(&w->comm);
    if (w->pidfd >= 0) close(w->pidfd);
    free(w);
}
