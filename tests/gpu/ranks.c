/* See ranks.h. */
#include "tests/gpu/ranks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/device/world.h"

enum { RANKS = 2 };

/* ---- a world of two processes with a socket between them ---- */

static void all_bytes(int socket, void *memory, size_t bytes, bool sends)
{
    for (char *at = memory; bytes;) {
        ssize_t n = sends ? write(socket, at, bytes) : read(socket, at, bytes);
        if (n <= 0) _exit(EXIT_FAILURE); /* the other rank has ended */
        at += n;
        bytes -= (size_t)n;
    }
}

/* The messages of ranks fit in the socket's buffer. */
static void exchange(const struct world *world, const struct world_piece *send,
                     const struct world_piece *receive)
{
    int other = 1 - world->rank;
    if (world->size == 1) return;
    all_bytes(*(int *)world->context, send[other].memory, send[other].bytes, true);
    all_bytes(*(int *)world->context, receive[other].memory, receive[other].bytes, false);
}

/* ---- a rank ---- */

/* Whole numbers, whose sums are exact in any order. */
static float value(size_t i, int rank)
{
    return (float)((i * 7 + (size_t)rank * 13) % 1000);
}

static float sum(size_t i, int ranks)
{
    float all = 0;
    for (int r = 0; r < ranks; r++) all += value(i, r);
    return all;
}

static bool is_sum(const struct backend *be, struct stream *stream, const float *x, float *host, size_t n,
                   int ranks)
{
    size_t i = 0;
    be->mem_download(host, x, n * sizeof *host, stream);
    while (i < n && host[i] == sum(i, ranks)) i++;
    return i == n;
}

static void fill(const struct backend *be, struct stream *stream, float *x, float *host, size_t n, int rank)
{
    for (size_t i = 0; i < n; i++) host[i] = value(i, rank);
    be->mem_upload(x, host, n * sizeof *host, stream);
}

struct rank {
    const struct backend *be;
    struct device *device;
    struct stream *stream;
    struct event *from, *to;
    float *x, *host;
    double *total;
};

static enum status open_rank(struct rank *r, const struct world *world, size_t n, struct err *err)
{
    enum status status = r->be->device_open(world->rank, 0, &r->device, err);
    status = world_agree(world, status, err);
    if (!status) status = r->be->device_join(r->device, world, err);
    if (!status) status = r->be->stream_open(r->device, PRECISION_FP32, &r->stream, err);
    if (!status) status = r->be->event_open(r->device, &r->from, err);
    if (!status) status = r->be->event_open(r->device, &r->to, err);
    if (!status) status = r->be->mem_alloc(r->device, n * sizeof *r->x, (void **)&r->x, err);
    if (!status) status = r->be->mem_alloc(r->device, sizeof *r->total, (void **)&r->total, err);
    if (!status && !(r->host = malloc(n * sizeof *r->host))) status = err_no_memory(err, "the values");
    return world_agree(world, status, err);
}

static void close_rank(struct rank *r)
{
    free(r->host);
    if (r->total) r->be->mem_free(r->device, r->total);
    if (r->x) r->be->mem_free(r->device, r->x);
    if (r->to) r->be->event_close(r->to);
    if (r->from) r->be->event_close(r->from);
    if (r->stream) r->be->stream_close(r->stream);
    if (r->device) r->be->device_close(r->device);
}

static enum status look(struct rank *r, const struct world *world, size_t n, struct ranks_sight *out,
                        struct err *err)
{
    const struct backend *be = r->be;
    size_t slice = slice_elements(n, world->size);
    double total = value(1, world->rank);
    fill(be, r->stream, r->x, r->host, n, world->rank);
    be->reduce_slices(r->x, NULL, n, 0, slice, world->size, world, r->stream);
    be->gather_slices(r->x, n, 0, slice, world, r->stream);
    out->exact = is_sum(be, r->stream, r->x, r->host, n, world->size);
    fill(be, r->stream, r->x, r->host, n, world->rank);
    be->event_record(r->from, r->stream);
    be->all_reduce(r->x, NULL, n, world->size, world, r->stream);
    be->event_record(r->to, r->stream);
    out->exact &= is_sum(be, r->stream, r->x, r->host, n, world->size);
    be->mem_upload(r->total, &total, sizeof total, r->stream);
    be->all_reduce_value(r->total, world, r->stream);
    be->mem_download(&total, r->total, sizeof total, r->stream);
    out->exact &= total == sum(1, world->size);
    out->milliseconds = be->event_elapsed(r->from, r->to);
    out->ranks = world->size;
    return be->stream_wait(r->stream, err);
}

struct answer {
    enum status status;
    struct err err;
    struct ranks_sight sight;
};

static struct answer be_rank(const struct backend *be, int rank, int ranks, int socket, size_t n)
{
    static char hosts[RANKS][WORLD_HOST] = {"this host", "this host"};
    struct world world = {.rank = rank,
                          .size = ranks,
                          .local_rank = rank,
                          .local_size = ranks,
                          .hosts = hosts,
                          .exchange = exchange,
                          .context = &socket};
    struct rank r = {.be = be};
    struct answer answer = {0};
    answer.status = open_rank(&r, &world, n, &answer.err);
    if (!answer.status) answer.status = look(&r, &world, n, &answer.sight, &answer.err);
    close_rank(&r);
    return answer;
}

/* ---- processes ---- */

static pid_t start(const struct backend *be, int rank, int ranks, int socket, size_t n, int pipe)
{
    pid_t child = fork();
    if (child) return child;
    struct answer answer = be_rank(be, rank, ranks, socket, n);
    all_bytes(pipe, &answer, sizeof answer, true);
    _exit(EXIT_SUCCESS);
}

static int count_gpus(const struct cuda_plugin *plugin)
{
    struct cuda_driver_report driver;
    int status = 0;
    pid_t child = fork();
    if (child == 0) _exit(plugin->inspect(&driver, NULL) || driver.devices > 100 ? 0 : driver.devices);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* Takes the answers, and the end, of all ranks. */
static enum status collect(int ranks, const pid_t *children, const int *pipes, struct ranks_sight *out,
                           struct err *err)
{
    struct answer answer;
    enum status status = STATUS_OK;
    bool exact = true;
    for (int r = ranks - 1; r >= 0; r--) {
        bool answered = read(pipes[r], &answer, sizeof answer) == sizeof answer;
        waitpid(children[r], NULL, 0);
        if (status) continue;
        if (!answered)
            status = err_set(err, STATUS_FAILED, "the process of rank %d ended without an answer", r);
        else if (answer.status)
            *err = answer.err, status = answer.status;
        exact = exact && answered && answer.sight.exact;
    }
    if (status) return status;
    *out = answer.sight;
    out->exact = exact;
    return STATUS_OK;
}

enum status ranks_look(const struct cuda_plugin *plugin, size_t n, struct ranks_sight *out, struct err *err)
{
    int gpus = count_gpus(plugin), ranks = gpus < RANKS ? gpus : RANKS;
    int sockets[RANKS], ends[RANKS][2], pipes[RANKS];
    pid_t children[RANKS];
    if (gpus == 0) return err_set(err, STATUS_NOT_FOUND, "there is no GPU");
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) return err_set(err, STATUS_FAILED, "no socket");
    for (int r = 0; r < ranks; r++) {
        if (pipe(ends[r])) return err_set(err, STATUS_FAILED, "no pipe");
        pipes[r] = ends[r][0];
        children[r] = start(plugin->table, r, ranks, sockets[r], n, ends[r][1]);
        close(ends[r][1]);
    }
    for (int r = 0; r < RANKS; r++) close(sockets[r]);
    enum status status = collect(ranks, children, pipes, out, err);
    for (int r = 0; r < ranks; r++) close(pipes[r]);
    return status;
}
