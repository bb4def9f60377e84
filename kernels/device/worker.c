/* See worker.h. */
#include "kernels/device/worker.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/thread.h"

enum { QUEUE = 64 };

struct work {
    void (*run)(const void *arguments);
    _Alignas(max_align_t) unsigned char arguments[WORKER_ARGUMENTS];
};

struct worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct work queue[QUEUE]; /* by number modulo QUEUE */
    uint64_t queued, done;
    bool closing;
};

static void *carry_out(void *context)
{
    struct worker *w = context;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->done == w->queued && !w->closing) pthread_cond_wait(&w->changed, &w->lock);
        if (w->done == w->queued) break;
        const struct work *work = &w->queue[w->done % QUEUE];
        pthread_mutex_unlock(&w->lock);
        work->run(work->arguments);
        pthread_mutex_lock(&w->lock);
        w->done++;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct worker *worker_open(void)
{
    struct worker *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (thread_start(&w->thread, carry_out, w) == 0) return w;
    free(w);
    return NULL;
}

void worker_close(struct worker *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void worker_queue(struct worker *w, void (*run)(const void *arguments), const void *arguments, size_t bytes)
{
    assert(bytes <= WORKER_ARGUMENTS);
    pthread_mutex_lock(&w->lock);
    while (w->queued - w->done == QUEUE) pthread_cond_wait(&w->changed, &w->lock);
    struct work *work = &w->queue[w->queued++ % QUEUE];
    work->run = run;
    memcpy(work->arguments, arguments, bytes);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

uint64_t worker_queued(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    uint64_t count = w->queued;
    pthread_mutex_unlock(&w->lock);
    return count;
}

uint64_t worker_done(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    uint64_t count = w->done;
    pthread_mutex_unlock(&w->lock);
    return count;
}

void worker_wait(struct worker *w, uint64_t count)
{
    pthread_mutex_lock(&w->lock);
    while (w->done < count) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}
