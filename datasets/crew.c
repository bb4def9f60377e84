/* See crew.h. The parts wait in a ring of slots; slot i holds part i, i + slots, i + 2·slots … */
#include "datasets/crew.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/thread.h"

enum { SLOTS_PER_THREAD = 2 };

struct slot {
    struct crew_part part;
    char *copy; /* of the part's text */
    size_t capacity;
    void *result;
    enum status status;
    struct err err;
    bool done;
};

struct worker {
    struct crew *crew;
    pthread_t thread;
    int number;
};

struct crew {
    struct crew_job job;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct slot *slots;
    struct worker *workers;
    int count; /* threads; 0: the calling one works */
    size_t slot_count;
    uint64_t given, begun, taken; /* parts */
    bool closing;
};

/* ---- the threads ---- */

static void *body(void *argument)
{
    struct worker *me = argument;
    struct crew *c = me->crew;
    pthread_mutex_lock(&c->mutex);
    while (!c->closing) {
        if (c->begun == c->given) {
            pthread_cond_wait(&c->changed, &c->mutex);
            continue;
        }
        struct slot *slot = &c->slots[c->begun++ % c->slot_count];
        pthread_mutex_unlock(&c->mutex);
        slot->status = c->job.work(c->job.context, me->number, &slot->part, &slot->result, &slot->err);
        pthread_mutex_lock(&c->mutex);
        slot->done = true;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

enum status crew_open(const struct crew_job *job, int threads, struct crew **out, struct err *err)
{
    if (threads > CREW_THREADS_MAX) threads = CREW_THREADS_MAX;
    if (threads < 1) threads = 1;
    struct crew *c = calloc(1, sizeof *c);
    if (!c) return err_no_memory(err, "the threads");
    *c = (struct crew){.job = *job, .slot_count = (size_t)threads * SLOTS_PER_THREAD};
    thread_lock_init(&c->mutex, &c->changed);
    c->slots = calloc(c->slot_count, sizeof *c->slots);
    c->workers = calloc((size_t)threads, sizeof *c->workers);
    if (!c->slots || !c->workers) {
        crew_close(c);
        return err_no_memory(err, "the threads");
    }
    for (int i = 0; threads > 1 && i < threads; i++) { /* fewer, if the system has no more */
        c->workers[i] = (struct worker){.crew = c, .number = i};
        if (thread_start(&c->workers[i].thread, body, &c->workers[i])) break;
        c->count++;
    }
    *out = c;
    return STATUS_OK;
}

void crew_close(struct crew *c)
{
    if (!c) return;
    pthread_mutex_lock(&c->mutex);
    c->closing = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    for (int i = 0; i < c->count; i++) pthread_join(c->workers[i].thread, NULL);
    for (size_t i = 0; c->slots && i < c->slot_count; i++) {
        c->job.discard(c->slots[i].result);
        free(c->slots[i].copy);
    }
    thread_lock_release(&c->mutex, &c->changed);
    free(c->slots);
    free(c->workers);
    free(c);
}

/* ---- giving and taking ---- */

/* Takes the results that are there, and waits for others until at most `left` are missing. */
static enum status take(struct crew *c, uint64_t left, struct err *err)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&c->mutex);
    while (!status) {
        struct slot *slot = &c->slots[c->taken % c->slot_count];
        if (!slot->done && c->given - c->taken <= left) break;
        if (!slot->done) {
            pthread_cond_wait(&c->changed, &c->mutex);
            continue;
        }
        pthread_mutex_unlock(&c->mutex);
        status = slot->status ? err_set(err, slot->status, "%s", slot->err.text)
                              : c->job.take(c->job.context, &slot->part, slot->result, err);
        pthread_mutex_lock(&c->mutex);
        slot->done = false;
        c->taken++;
    }
    pthread_mutex_unlock(&c->mutex);
    return status;
}

static enum status do_now(struct crew *c, const struct crew_part *part, struct err *err)
{
    void **result = &c->slots->result;
    enum status status = c->job.work(c->job.context, 0, part, result, err);
    return status ? status : c->job.take(c->job.context, part, *result, err);
}

enum status crew_give(struct crew *c, const struct crew_part *part, struct err *err)
{
    if (!c->count) return do_now(c, part, err);
    enum status status = take(c, c->slot_count - 1, err);
    if (status) return status;
    struct slot *slot = &c->slots[c->given % c->slot_count];
    if (!list_reserve(&slot->copy, 0, part->n, &slot->capacity, 1))
        return err_no_memory(err, "%zu bytes of text", part->n);
    memcpy(slot->copy, part->text, part->n);
    slot->part = *part;
    slot->part.text = slot->copy;
    pthread_mutex_lock(&c->mutex);
    c->given++;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    return STATUS_OK;
}

enum status crew_finish(struct crew *c, struct err *err)
{
    return take(c, 0, err);
}

/* ---- cutting ---- */

static bool is_white(uint32_t point)
{
    return point <= ' ' || point == 0x7F || (point >= 0x80 && point <= 0xA0) || point == 0x1680 ||
           point == 0x180E || (point >= 0x2000 && point <= 0x200F) || (point >= 0x2028 && point <= 0x202F) ||
           (point >= 0x205F && point <= 0x206F) || point == 0x3000;
}

bool crew_may_cut(const char *text, size_t n, size_t at)
{
    uint32_t before, after;
    if (at < 2 || at >= n || text[at - 1] != '\n') return false;
    if (!utf8_last_character(text, at - 1, &before) || is_white(before)) return false;
    if (!utf8_character(text + at, n - at, &after) || is_white(after)) return false;
    uint32_t small = after | 0x20;
    return after >= 0x80 || (after >= '0' && after <= '9') || (small >= 'a' && small <= 'z');
}

size_t crew_cut(const char *text, size_t n)
{
    for (size_t at = CREW_PART; at < n;) {
        const char *feed = memchr(text + at - 1, '\n', n - at + 1);
        if (!feed) break;
        at = (size_t)(feed - text) + 1;
        if (crew_may_cut(text, n, at)) return at;
        at++;
    }
    return n;
}
