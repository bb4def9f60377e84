/* Worlds of threads: sums over ranks, and what ranks tell each other. Each rank is a thread, and exchanging
 * is a copy between two barriers; worlds of processes are in tests/tui/command/test_ranks.c. */
#include <errno.h>
#include <pthread.h>

#include "kernels/device/backend.h"
#include "kernels/device/world.h"
#include "tests/cmocka.h"
#include "tests/kernels/check.h"

enum { RANKS_MOST = 5 };

struct room {
    pthread_barrier_t barrier;
    const struct world_piece *sent[RANKS_MOST];
    struct world worlds[RANKS_MOST];
    char hosts[RANKS_MOST][WORLD_HOST];
    void (*work)(const struct world *world, void *context);
    void *context;
};

static void exchange(const struct world *world, const struct world_piece *send,
                     const struct world_piece *receive)
{
    struct room *room = world->context;
    room->sent[world->rank] = send;
    pthread_barrier_wait(&room->barrier);
    for (int r = 0; r < world->size; r++) {
        const struct world_piece *from = &room->sent[r][world->rank];
        if (r == world->rank) continue;
        if (from->bytes != receive[r].bytes) abort(); /* a rank waits for what none sends */
        if (from->bytes) memcpy(receive[r].memory, from->memory, from->bytes);
    }
    pthread_barrier_wait(&room->barrier);
}

static void *run(void *world)
{
    struct room *room = ((struct world *)world)->context;
    room->work(world, room->context);
    return NULL;
}

static void in_a_world(int size, void (*work)(const struct world *, void *), void *context)
{
    struct room room = {.work = work, .context = context};
    pthread_t threads[RANKS_MOST];
    pthread_barrier_init(&room.barrier, NULL, (unsigned)size);
    for (int r = 0; r < size; r++) {
        snprintf(room.hosts[r], WORLD_HOST, "host%d", r);
        room.worlds[r] = (struct world){
            .rank = r, .size = size, .hosts = room.hosts, .exchange = exchange, .context = &room};
        assert_int_equal(pthread_create(&threads[r], NULL, run, &room.worlds[r]), 0);
    }
    for (int r = 0; r < size; r++) pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&room.barrier);
}

/* ---- sums over device memory ---- */

/* Fills x of all ranks with numbers of their own; returns the sums, added in the order of ranks; yours to
 * free. */
static float *sum_of_all(int size, size_t n, float **x)
{
    float *sum = calloc(n, sizeof *sum);
    for (int r = 0; r < size; r++) {
        x[r] = check_random(n, (uint32_t)(10 * size + r), 1);
        for (size_t i = 0; i < n; i++) sum[i] = r ? sum[i] + x[r][i] : x[r][i];
    }
    return sum;
}

static void expect_sum(const char *what, int size, size_t n, float **x, float *sum)
{
    for (int r = 0; r < size; r++) {
        check_same_bits(what, x[r], sum, n);
        free(x[r]);
    }
    free(sum);
}

struct sum {
    size_t n;
    float *x[RANKS_MOST];
    double value[RANKS_MOST];
};

static void add_up(const struct world *world, void *context)
{
    struct sum *s = context;
    const struct backend *be = cpu_backend();
    struct device *device;
    struct stream *stream;
    if (be->device_open(0, 1, &device, NULL) || be->stream_open(device, PRECISION_FP32, &stream, NULL))
        abort();
    size_t bytes = all_reduce_workspace(s->n, world->size);
    void *workspace = malloc(bytes); /* a sanitizer sees what is beyond */
    memset(workspace, 0xff, bytes);
    be->all_reduce(s->x[world->rank], workspace, s->n, world->size, world, stream);
    be->all_reduce_value(&s->value[world->rank], world, stream);
    free(workspace);
    be->stream_close(stream);
    be->device_close(device);
}

TEST_CASE(all_ranks_get_the_sum_in_the_order_of_ranks)
{
    const size_t sizes[] = {1, 2, 3, 7, 1000, 4099, ALL_REDUCE_PIECE + 5};
    for (int size = 1; size <= RANKS_MOST; size++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            struct sum s = {.n = sizes[k]};
            float *expected = sum_of_all(size, s.n, s.x);
            double value = 0;
            for (int r = 0; r < size; r++) value += s.value[r] = 0.1 * (r + 1);
            in_a_world(size, add_up, &s);
            for (int r = 0; r < size; r++) assert_true(size == 1 || s.value[r] == value);
            expect_sum("all_reduce", size, s.n, s.x, expected);
        }
}

/* ---- slices ---- */

struct slices {
    size_t n, piece;
    bool beside; /* on a stream of stream_beside */
    float *x[RANKS_MOST];
};

/* Reduces the pieces from the last one on, and gathers them from the first one on. */
static void exchange_slices(const struct world *world, void *context)
{
    struct slices *s = context;
    const struct backend *be = cpu_backend();
    struct device *device;
    struct stream *stream;
    float *x = s->x[world->rank];
    size_t slice = (s->n + (size_t)world->size - 1) / (size_t)world->size;
    size_t bytes = reduce_slices_workspace(s->piece, slice, world->size);
    if (be->device_open(0, 2, &device, NULL) ||
        (s->beside ? be->stream_beside : be->stream_open)(device, PRECISION_FP32, &stream, NULL))
        abort();
    void *workspace = malloc(bytes);
    for (size_t end = s->n, begin; end > 0; end = begin) {
        begin = (end - 1) / s->piece * s->piece;
        be->reduce_slices(x + begin, workspace, end - begin, begin, slice, world->size, world, stream);
    }
    for (size_t at = 0; at < s->n; at += s->piece)
        be->gather_slices(x + at, s->n - at < s->piece ? s->n - at : s->piece, at, slice, world, stream);
    struct event *done;
    if (be->event_open(device, &done, NULL)) abort();
    be->event_record(done, stream);
    if (be->event_wait(done, stream, NULL) || !be->event_done(done)) abort();
    be->event_close(done);
    free(workspace);
    be->stream_close(stream);
    be->device_close(device);
}

TEST_CASE(slices_that_are_reduced_and_gathered_are_the_sums_of_all)
{
    const size_t sizes[] = {1, 2, 7, 64, 1000, 4099}, pieces[] = {1 << 20, 1024, 100, 7};
    for (int size = 1; size <= RANKS_MOST; size++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (int way = 0; way < 8; way++) {
                struct slices s = {.n = sizes[k], .piece = pieces[way % 4], .beside = way >= 4};
                float *expected = sum_of_all(size, s.n, s.x);
                in_a_world(size, exchange_slices, &s);
                expect_sum("slices", size, s.n, s.x, expected);
            }
}

/* ---- what ranks tell each other ---- */

static void talk(const struct world *world, void *context)
{
    int rank = world->rank, shared = rank == 0 ? 42 : -1, all[RANKS_MOST];
    double sums[20]; /* more than are sent at a time */
    bool *well = context;
    world_share(world, &shared, sizeof shared);
    all[rank] = 10 + rank;
    world_gather(world, all, sizeof *all);
    for (int i = 0; i < 20; i++) sums[i] = rank + i;
    world_sum(world, sums, 20);
    well[rank] = shared == 42;
    for (int r = 0; r < world->size; r++) well[rank] &= all[r] == 10 + r;
    for (int i = 0; i < 20; i++)
        well[rank] &= sums[i] == world->size * (world->size - 1) / 2 + i * world->size;
}

TEST_CASE(every_rank_learns_what_the_others_say)
{
    for (int size = 1; size <= RANKS_MOST; size++) {
        bool well[RANKS_MOST] = {false};
        in_a_world(size, talk, well);
        for (int r = 0; r < size; r++) assert_true(well[r]);
    }
}

struct failing {
    int rank;
    struct err errs[RANKS_MOST];
    enum status statuses[RANKS_MOST];
};

static void fail_from(const struct world *world, void *context)
{
    struct failing *f = context;
    struct err *err = &f->errs[world->rank];
    enum status status = STATUS_OK;
    errno = ENOSPC;
    if (world->rank >= f->rank) status = err_set(err, STATUS_IO, "disk %d is full", world->rank);
    errno = EIO;
    f->statuses[world->rank] = world_agree(world, status, err);
}

TEST_CASE(the_first_failure_is_that_of_all_ranks)
{
    static const char *const texts[] = {"disk 0 is full", "rank 1 on host1: disk 1 is full",
                                        "rank 2 on host2: disk 2 is full"};
    for (int rank = 0; rank <= 3; rank++) {
        struct failing f = {.rank = rank};
        in_a_world(3, fail_from, &f);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(f.statuses[r], rank < 3 ? STATUS_IO : STATUS_OK);
            if (rank < 3) assert_string_equal(f.errs[r].text, texts[rank]);
            if (rank < 3) assert_int_equal(f.errs[r].system, ENOSPC); /* all act on the cause alike */
        }
    }
}

TEST_CASE(parts_follow_each_other_and_differ_by_one_at_most)
{
    const uint64_t totals[] = {0, 1, 2, 9, 10, 1000003, UINT64_MAX / 2};
    for (size_t k = 0; k < sizeof totals / sizeof *totals; k++)
        for (int size = 1; size <= 7; size++) {
            uint64_t next = 0;
            for (int r = 0; r < size; r++) {
                struct world_part part = world_divide(totals[k], r, size);
                assert_true(part.first == next);
                assert_true(part.count - totals[k] / (uint64_t)size <= 1);
                next += part.count;
            }
            assert_true(next == totals[k]);
        }
}

TEST_MAIN()
