/* See watch.h. Each rank sends a message every second to the next one, the last to the first. And each rank
 * notices at once when the process of the rank before it on its own host has died; a rank that is alone on
 * its host is missed after some time only. Whoever misses another one tells rank 0. Rank 0 lets all others
 * know that it takes the report on, reports, and lets them end; so none of them ends before, which would make
 * the launcher kill the rest sooner. If rank 0 is the one that is missed, or does not answer, the rank that
 * noticed does the same. A rank whose launcher has ended fails, too: nobody could end it any more. */
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

/* Seconds between two beats; for rank 0 to answer about a silent rank and, as the launcher kills all soon
 * after a death, about a dead one; for the rank that reports to do so; for a message that was sent before a
 * death. */
static const double BEAT = 1, ANSWERING = 5, ANSWERING_DEATH = 1, REPORTING = 10, ARRIVING = 0.1;

/* A rank's process, and what says whether its number means the same process to another rank. */
struct process {
    int64_t pid;
    uint64_t space; /* of process numbers */
    char host[WORLD_HOST];
};

struct notice {
    int rank;
    bool died; /* else it is silent */
    enum { NOTICED, TAKEN, REPORTED } stage;
    char why[200]; /* it cannot go on; "": it has died or is silent */
};

struct watch {
    const struct world *world;
    MPI_Comm comm;
    double seconds;
    world_lost *lost;
    void *context;
    int mate;  /* the rank before this one on this host */
    int pidfd; /* of its process; -1: there is none */
    pid_t launcher;
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

/* Takes hold of the process of the rank before this one on this host. */
static void find_mate(struct watch *w)
{
    int size = w->world->size;
    struct process *all = calloc((size_t)size, sizeof *all), *mine = all + w->world->rank;
    if (!all) abort(); /* the others wait for this one */
    describe_process(mine, w->world->hosts[w->world->rank]);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, sizeof *all, MPI_BYTE, w->comm);
    w->pidfd = -1;
    for (int back = 1; back < size && w->pidfd < 0; back++) {
        w->mate = neighbour(w, -back);
        const struct process *other = &all[w->mate];
        bool near = mine->space && other->space == mine->space && strcmp(other->host, mine->host) == 0;
        if (near) w->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)other->pid, 0);
    }
    free(all);
}

/* Tells ranks [from, to); `notice` stays as it is until this process ends. */
static void tell(struct watch *w, int from, int to, const struct notice *notice)
{
    MPI_Request request;
    for (int rank = from; rank < to; rank++)
        if (rank != w->world->rank && !(notice->died && rank == notice->rank))
            MPI_Isend(notice, sizeof *notice, MPI_BYTE, rank, TAG_LOST, w->comm, &request);
}

/* Reports that a rank is lost, and ends this process; the launcher ends those that do not end themselves. */
static void end(struct watch *w, struct notice taken)
{
    char text[320];
    int done;
    struct notice reported = taken;
    const char *host = w->world->hosts[taken.rank];
    taken.stage = TAKEN;
    reported.stage = REPORTED;
    tell(w, 0, w->world->size, &taken);
    if (*taken.why)
        snprintf(text, sizeof text, "rank %d on %s: %s", taken.rank, host, taken.why);
    else if (taken.died)
        snprintf(text, sizeof text, "rank %d on %s has died", taken.rank, host);
    else
        snprintf(text, sizeof text, "rank %d on %s gave no sign of life for %g s (world.timeout)", taken.rank,
                 host, w->seconds);
    w->lost(w->context, text);
    tell(w, 0, w->world->size, &reported);
    poll(NULL, 0, LOOK_MS);
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_LOST, w->comm, &done, MPI_STATUS_IGNORE); /* moves the messages on */
    _exit(EXIT_FAILURE);
}

/* Messages on their way to and from the watching thread. */
struct beats {
    MPI_Request sent, heard, told;
    char out, in;
    struct notice notice, mine;
    double sent_at, heard_at, looked_at;
    double until; /* another rank reports, until then at most; 0: none is lost */
    bool taken;   /* and has said that it does */
};

static void hear_of_lost(struct watch *w, struct beats *b)
{
    MPI_Irecv(&b->notice, sizeof b->notice, MPI_BYTE, MPI_ANY_SOURCE, TAG_LOST, w->comm, &b->told);
}

static void begin(struct watch *w, struct beats *b)
{
    *b = (struct beats){.sent = MPI_REQUEST_NULL, .told = MPI_REQUEST_NULL};
    b->heard_at = b->looked_at = MPI_Wtime();
    MPI_Irecv(&b->in, 1, MPI_BYTE, neighbour(w, -1), TAG_BEAT, w->comm, &b->heard);
    hear_of_lost(w, b);
}

/* Learns of a lost rank from another one; `wait`: also soon. */
static void listen(struct watch *w, struct beats *b, double now, bool wait)
{
    int done;
    for (;;) {
        MPI_Test(&b->told, &done, MPI_STATUS_IGNORE);
        if (done || !wait || MPI_Wtime() - now > ARRIVING) break;
        poll(NULL, 0, 1);
    }
    if (!done) return;
    if (b->notice.stage == REPORTED) _exit(EXIT_FAILURE);
    if (b->notice.stage == NOTICED) end(w, b->notice);
    b->until = now + REPORTING;
    b->taken = true;
    hear_of_lost(w, b);
}

/* This rank has noticed it. */
static void notice(struct watch *w, struct beats *b, double now, struct notice mine)
{
    b->mine = mine;
    if (w->world->rank == 0 || b->mine.rank == 0) end(w, b->mine);
    tell(w, 0, 1, &b->mine);
    b->until = now + (mine.died ? ANSWERING_DEATH : ANSWERING);
}

/* Whether this rank itself cannot go on, for which the others may wait. */
static bool fails_itself(struct watch *w, struct notice *out)
{
    struct world_watched *also = w->world->watched;
    *out = (struct notice){.rank = w->world->rank};
    pthread_mutex_lock(&also->lock);
    const char *why = also->failure ? also->failure(also->context) : NULL;
    if (!why && getppid() != w->launcher) why = "the process that has started it, such as mpirun, has ended";
    if (why) snprintf(out->why, sizeof out->why, "%s", why);
    pthread_mutex_unlock(&also->lock);
    return why;
}

/* died: the mate has. */
static void look(struct watch *w, struct beats *b, bool died)
{
    int done;
    struct notice mine;
    double now = MPI_Wtime();
    listen(w, b, now, died && !b->until);
    if (b->until && now < b->until) return;
    if (b->until && b->taken) _exit(EXIT_FAILURE);
    if (b->until) end(w, b->mine);
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
    if (died || now - b->heard_at > w->seconds)
        notice(w, b, now, (struct notice){.rank = died ? w->mate : neighbour(w, -1), .died = died});
    else if (fails_itself(w, &mine))
        notice(w, b, now, mine);
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
    while (!w->closing) {
        bool died = poll(&pid, 1, LOOK_MS) > 0;
        look(w, &beats, died);
        if (died) pid.fd = -1; /* it stays readable */
    }
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
    w->launcher = getppid();
    MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
    find_mate(w);
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
