/* See metrics.h. */
#include "tui/command/metrics.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/gauge.h"
#include "runs/gpu_samples.h"
#include "runs/run.h"

enum { SECONDS = 2 };

struct metrics {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool leave;
    char id[RUN_ID_MAX];
    struct store *store;
    struct gauge *gauge;
};

/* A row that cannot be stored is left out: the next one comes soon. */
static void take(struct metrics *m)
{
    struct gpu_record record;
    gauge_read(m->gauge, &record);
    gpu_samples_add(m->store, m->id, &record, NULL);
}

static void *body(void *argument)
{
    struct metrics *m = argument;
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    pthread_mutex_lock(&m->mutex);
    while (!m->leave) {
        next.tv_sec += SECONDS;
        while (!m->leave && pthread_cond_timedwait(&m->wake, &m->mutex, &next) == 0) {
        }
        pthread_mutex_unlock(&m->mutex);
        take(m);
        pthread_mutex_lock(&m->mutex);
    }
    pthread_mutex_unlock(&m->mutex);
    return NULL;
}

/* Signals are for the training thread. */
static bool start_thread(struct metrics *m)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&m->thread, NULL, body, m) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static void release(struct metrics *m)
{
    gauge_close(m->gauge);
    store_close(m->store);
    pthread_cond_destroy(&m->wake);
    pthread_mutex_destroy(&m->mutex);
    free(m);
}

enum status metrics_start(const char *home, const char *run_id, const char *uuid, struct metrics **out,
                          struct err *err)
{
    struct metrics *m = calloc(1, sizeof *m);
    pthread_condattr_t monotonic;
    if (!m) return err_set(err, STATUS_NO_MEMORY, "no memory for a device's metrics");
    pthread_mutex_init(&m->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&m->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    snprintf(m->id, sizeof m->id, "%s", run_id);
    enum status status = gauge_open(uuid, &m->gauge, err);
    if (!status) status = store_open(home, &m->store, err);
    if (!status && !start_thread(m))
        status = err_set(err, STATUS_FAILED, "cannot start a thread for metrics");
    if (status) {
        release(m);
        return status;
    }
    *out = m;
    return STATUS_OK;
}

void metrics_stop(struct metrics *m)
{
    if (!m) return;
    pthread_mutex_lock(&m->mutex);
    m->leave = true;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->mutex);
    pthread_join(m->thread, NULL);
    release(m);
}
