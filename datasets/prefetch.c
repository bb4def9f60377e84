/* See prefetch.h.
 *
 * There are three slots: one that was taken and is being read, two that are ready or being filled. The thread
 * writes slots, the consumer reads the one it holds; the lock protects only the counters that assign them. A
 * take out of order empties the ring, and a batch that the thread is filling at that moment is dropped,
 * because its generation is old. */
#include "datasets/prefetch.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/thread.h"

enum { AHEAD = 2, SLOTS = AHEAD + 1 };

struct slot {
    int32_t *inputs, *targets, *positions; /* (B,T) */
    int64_t strange_id;                    /* -1: none */
};

struct prefetch {
    struct batch_source source;
    int B;
    int batches;   /* of a step */
    uint64_t rows; /* from the beginning of a step to that of the next */
    bool async;
    int32_t *memory; /* of all slots */
    struct slot slots[SLOTS];
    int32_t inputs_below, targets_below; /* prefetch_expect_ids; 0: any */
    int64_t strange_id;                  /* of the batches that were taken */
    double waited;                       /* seconds, by the consumer */

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ready_changed, work_changed;
    uint64_t next;       /* cursor of the batch in slots[head] */
    int place;           /* of that batch in its step */
    uint64_t generation; /* of the sequence of batches that `next` belongs to */
    int head, ready;     /* slots[head] and the ready - 1 after it are filled */
    bool runs;           /* the thread is running */
    bool started, stop;  /* no batch is expected before the first take */
};

static void replace_strange(struct slot *slot, int32_t *ids, size_t count, int32_t below, int32_t by)
{
    for (size_t i = 0; below && i < count; i++) {
        if ((ids[i] >= 0 && ids[i] < below) || ids[i] == by) continue;
        slot->strange_id = (uint32_t)ids[i];
        ids[i] = by;
    }
}

static void fill(const struct prefetch *p, uint64_t cursor, int b, struct slot *slot)
{
    size_t count = (size_t)b * (size_t)p->source.T;
    p->source.fill(p->source.context, cursor, b, slot->inputs, slot->targets, slot->positions);
    slot->strange_id = -1;
    replace_strange(slot, slot->inputs, count, p->inputs_below, 0);
    replace_strange(slot, slot->targets, count, p->targets_below, LABEL_IGNORED);
}

/* The cursor of the batch that is `ahead` after that in slots[head]. */
static uint64_t cursor_of(const struct prefetch *p, int ahead)
{
    uint64_t B = (uint64_t)p->B, step = p->next - (uint64_t)p->place * B, i = (uint64_t)(p->place + ahead);
    return step + i / (uint64_t)p->batches * p->rows + i % (uint64_t)p->batches * B;
}

static void *run(void *context)
{
    struct prefetch *p = context;
    uint64_t announced = UINT64_MAX;
    pthread_mutex_lock(&p->lock);
    p->runs = true;
    pthread_cond_signal(&p->ready_changed);
    for (;;) {
        while (!p->stop && (!p->started || p->ready == AHEAD)) pthread_cond_wait(&p->work_changed, &p->lock);
        if (p->stop) break;
        uint64_t generation = p->generation, cursor = cursor_of(p, p->ready),
                 after = cursor_of(p, p->ready + 1);
        struct slot *slot = &p->slots[(p->head + p->ready) % SLOTS];
        pthread_mutex_unlock(&p->lock);

        if (announced != cursor) p->source.announce(p->source.context, cursor, p->B);
        p->source.announce(p->source.context, after, p->B);
        announced = after;
        fill(p, cursor, p->B, slot);

        pthread_mutex_lock(&p->lock);
        if (generation != p->generation) continue;
        p->ready++;
        pthread_cond_signal(&p->ready_changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Waits until the thread runs, so that everything its start allocates is allocated. */
static bool start(struct prefetch *p)
{
    bool started = thread_start(&p->thread, run, p) == 0;
    pthread_mutex_lock(&p->lock);
    while (started && !p->runs) pthread_cond_wait(&p->ready_changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return started;
}

enum status prefetch_open(struct batch_source source, int B, bool async, struct prefetch **out,
                          struct err *err)
{
    assert(B > 0);
    int slots = async ? SLOTS : 1;
    size_t elements = (size_t)B * (size_t)source.T, each = source.packed ? 3 : 2,
           parts = each * (size_t)slots;
    struct prefetch *p = calloc(1, sizeof *p);
    if (p && elements <= SIZE_MAX / sizeof *p->memory / parts)
        p->memory = malloc(parts * elements * sizeof *p->memory);
    if (!p || !p->memory) {
        free(p);
        return err_no_memory(err, "%d batches of %zu tokens", slots, elements);
    }
    p->source = source;
    p->B = B;
    p->batches = 1;
    p->rows = (uint64_t)B;
    p->strange_id = -1;
    for (size_t i = 0; i < (size_t)slots; i++) {
        int32_t *at = p->memory + each * i * elements;
        p->slots[i] = (struct slot){at, at + elements, source.packed ? at + 2 * elements : NULL, -1};
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->ready_changed, NULL);
    pthread_cond_init(&p->work_changed, NULL);
    p->async = async && start(p);
    *out = p;
    return STATUS_OK;
}

void prefetch_expect_steps(struct prefetch *p, int batches, uint64_t rows)
{
    pthread_mutex_lock(&p->lock);
    if (p->batches != batches || p->rows != rows) p->started = false;
    p->batches = batches;
    p->rows = rows;
    pthread_mutex_unlock(&p->lock);
}

void prefetch_expect_ids(struct prefetch *p, int32_t inputs, int32_t targets)
{
    pthread_mutex_lock(&p->lock);
    p->inputs_below = inputs;
    p->targets_below = targets;
    pthread_mutex_unlock(&p->lock);
}

int64_t prefetch_strange_id(const struct prefetch *p)
{
    return p->strange_id;
}

void prefetch_close(struct prefetch *p)
{
    if (!p) return;
    if (p->async) {
        pthread_mutex_lock(&p->lock);
        p->stop = true;
        pthread_cond_signal(&p->work_changed);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
    }
    pthread_cond_destroy(&p->work_changed);
    pthread_cond_destroy(&p->ready_changed);
    pthread_mutex_destroy(&p->lock);
    free(p->memory);
    free(p);
}

/* The slot with the batch at `cursor`; frees the slot taken before. */
static const struct slot *take_ahead(struct prefetch *p, uint64_t cursor)
{
    pthread_mutex_lock(&p->lock);
    if (!p->started || p->next != cursor) {
        p->started = true;
        p->generation++;
        p->next = cursor;
        p->place = 0;
        p->ready = 0;
        pthread_cond_signal(&p->work_changed);
    }
    if (!p->ready) {
        double start = clock_monotonic();
        while (!p->ready) pthread_cond_wait(&p->ready_changed, &p->lock);
        p->waited += clock_monotonic() - start;
    }
    const struct slot *slot = &p->slots[p->head];
    p->head = (p->head + 1) % SLOTS;
    p->ready--;
    p->next = cursor_of(p, 1);
    p->place = (p->place + 1) % p->batches;
    pthread_cond_signal(&p->work_changed);
    pthread_mutex_unlock(&p->lock);
    return slot;
}

struct prefetched prefetch_take(struct prefetch *p, uint64_t cursor, int b)
{
    assert(b > 0 && b <= p->B);
    const struct slot *slot = &p->slots[0];
    if (p->async) {
        slot = take_ahead(p, cursor);
    } else {
        double start = clock_monotonic();
        fill(p, cursor, b, &p->slots[0]);
        p->waited += clock_monotonic() - start;
    }
    if (slot->strange_id >= 0) p->strange_id = slot->strange_id;
    return (struct prefetched){slot->inputs, slot->targets, slot->positions};
}

double prefetch_waited(const struct prefetch *p)
{
    return p->waited;
}
