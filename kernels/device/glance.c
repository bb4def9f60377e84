/* See glance.h. */
#include "kernels/device/glance.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/thread.h"
#include "kernels/device/gauge.h"

/* Of both threads: the last one to let go frees it. */
struct glance {
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    bool done, left;
    char uuid[64];
    enum status status;
    struct err err;
    struct gpu_record record;
};

static enum status read_once(const char *uuid, struct gpu_record *out, struct err *err)
{
    struct gauge *gauge;
    struct gpu_process *own = NULL;
    enum status status = gauge_open(uuid, &gauge, err);
    if (status) return status;
    gauge_read(gauge, out);
    if (out->process_count > 0) {
        size_t bytes = (size_t)out->process_count * sizeof *own;
        own = malloc(bytes);
        if (own)
            memcpy(own, out->processes, bytes);
        else
            out->process_count = -1;
    }
    out->processes = own;
    gauge_close(gauge);
    return STATUS_OK;
}

static void release(struct glance *g)
{
    pthread_cond_destroy(&g->answered);
    pthread_mutex_destroy(&g->mutex);
    free(g);
}

static void *body(void *argument)
{
    struct glance *g = argument;
    struct gpu_record record;
    struct err err = {0};
    enum status status = read_once(g->uuid, &record, &err);
    pthread_mutex_lock(&g->mutex);
    g->status = status;
    g->err = err;
    if (!status) g->record = record;
    g->done = true;
    pthread_cond_signal(&g->answered);
    bool left = g->left;
    pthread_mutex_unlock(&g->mutex);
    if (!left) return NULL;
    if (!status) free(record.processes);
    release(g);
    return NULL;
}

static bool wait_answer(struct glance *g, double seconds)
{
    struct timespec until = clock_deadline(seconds);
    pthread_mutex_lock(&g->mutex);
    while (!g->done && pthread_cond_timedwait(&g->answered, &g->mutex, &until) == 0) {
    }
    bool done = g->done;
    g->left = !done;
    pthread_mutex_unlock(&g->mutex);
    return done;
}

enum status glance_take(const char *uuid, double seconds, struct gpu_record *out, struct err *err)
{
    pthread_condattr_t monotonic;
    pthread_t thread;
    if (uuid[0] == '\0') return read_once(uuid, out, err); /* a CPU always answers */
    struct glance *g = calloc(1, sizeof *g);
    if (!g) return err_set(err, STATUS_NO_MEMORY, "no memory for a device's metrics");
    snprintf(g->uuid, sizeof g->uuid, "%s", uuid);
    pthread_mutex_init(&g->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&g->answered, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (thread_start(&thread, body, g)) {
        release(g);
        return err_set(err, STATUS_FAILED, "no GPU metrics: no thread to ask in can be started");
    }
    pthread_detach(thread);
    if (!wait_answer(g, seconds))
        return err_set(err, STATUS_BUSY,
                       "no GPU metrics: NVML has not answered for %g s (does nvidia-smi? a GPU or its driver "
                       "that hangs wants a reset)",
                       seconds);
    enum status status = g->status;
    if (status)
        err_set(err, status, "%s", g->err.text);
    else
        *out = g->record;
    release(g);
    return status;
}
