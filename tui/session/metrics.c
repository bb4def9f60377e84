/* See metrics.h. */
#include "tui/session/metrics.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/thread.h"
#include "kernels/device/gauge.h"
#include "runs/memory_usage.h"
#include "runs/run.h"

enum { SECONDS = 2 };

/* Shared by both threads; freed by metrics_stop, or by the recording thread if that was left behind. */
struct metrics {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool leave, ended, left;
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct device_info device;
};

/* Waits until `next`, or returns true when asked to stop. */
static bool wait_until(struct metrics *m, const struct timespec *next)
{
    pthread_mutex_lock(&m->mutex);
    while (!m->leave && pthread_cond_timedwait(&m->changed, &m->mutex, next) == 0) {
    }
    bool leave = m->leave;
    pthread_mutex_unlock(&m->mutex);
    return leave;
}

/* Whether the thread was left behind. */
static bool is_left(struct metrics *m)
{
    pthread_mutex_lock(&m->mutex);
    bool left = m->left;
    pthread_mutex_unlock(&m->mutex);
    return left;
}

/* Skips a row that cannot be stored (the next comes soon), and any row once left behind. */
static void take(struct metrics *m, struct store *store, struct gauge *gauge)
{
    struct gpu_record record;
    int number;
    if (gauge) /* else the GPU cannot be observed */
        gauge_read(gauge, &record);
    else
        gauge_read_host(sscanf(m->device.short_name, "cuda:%d", &number) == 1 ? number : -1, &record);
    if (!is_left(m)) gpu_samples_add(store, m->id, &record, NULL);
}

static void release(struct metrics *m)
{
    thread_lock_release(&m->mutex, &m->changed);
    free(m);
}

/* The last sample is taken after the request to stop, even if the run ended before this thread began. */
static void *body(void *argument)
{
    struct metrics *m = argument;
    struct store *store = NULL;
    struct gauge *gauge = NULL;
    struct timespec next = clock_deadline(0);
    gauge_open(m->device.uuid, &gauge, NULL);
    bool leave = is_left(m) || store_open(m->home, STORE_WRITE, &store, NULL) != STATUS_OK;
    while (!leave) {
        next.tv_sec += SECONDS;
        leave = wait_until(m, &next);
        take(m, store, gauge);
    }
    gauge_close(gauge);
    store_close(store);
    pthread_mutex_lock(&m->mutex);
    m->ended = true;
    pthread_cond_signal(&m->changed);
    bool left = m->left;
    pthread_mutex_unlock(&m->mutex);
    if (left) release(m);
    return NULL;
}

enum status metrics_start(const char *home, const char *run_id, const struct device_info *device,
                          struct metrics **out, struct err *err)
{
    struct metrics *m = calloc(1, sizeof *m);
    if (!m) return err_no_memory(err, "a device's metrics");
    thread_lock_init(&m->mutex, &m->changed);
    snprintf(m->home, sizeof m->home, "%s", home);
    snprintf(m->id, sizeof m->id, "%s", run_id);
    m->device = *device;
    if (thread_start(&m->thread, body, m)) {
        release(m);
        return err_set(err, STATUS_FAILED, "cannot start a thread for metrics");
    }
    *out = m;
    return STATUS_OK;
}

enum status metrics_stop(struct metrics *m, double seconds, struct err *err)
{
    struct timespec until = clock_deadline(seconds);
    if (!m) return STATUS_OK;
    pthread_mutex_lock(&m->mutex);
    m->leave = true;
    pthread_cond_signal(&m->changed);
    while (!m->ended && pthread_cond_timedwait(&m->changed, &m->mutex, &until) == 0) {
    }
    pthread_t thread = m->thread;
    bool left = m->left = !m->ended;
    pthread_mutex_unlock(&m->mutex);
    if (left) { /* the thread owns m from here on */
        pthread_detach(thread);
        return err_set(err, STATUS_BUSY,
                       "device metrics end before the run: the driver or the run store has not answered for "
                       "%g s (training is not affected; if nvidia-smi hangs, too, the GPU needs a reset)",
                       seconds);
    }
    pthread_join(thread, NULL);
    release(m);
    return STATUS_OK;
}
