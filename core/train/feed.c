/* See feed.h. */
#include "core/train/feed.h"

#include <string.h>

enum status feed_open(struct feed *f, struct network *network, const struct task *task, void *data,
                      struct err *err)
{
    const struct backend *be = network->backend;
    *f = (struct feed){.network = network, .task = task, .data = data};
    enum status status = be->stream_open(network->device, network->plan->input.precision, &f->stream, err);
    f->host = network_at(network, BUFFER_HOST_BATCHES, 0);
    for (int i = 0; !status && i < network->plan->host_batch_count; i++)
        status = be->event_open(network->device, &f->arrived[i], err);
    for (int i = 0; !status && i < 2; i++) status = be->event_open(network->device, &f->consumed[i], err);
    return status;
}

void feed_close(struct feed *f)
{
    if (!f->network) return;
    const struct backend *be = f->network->backend;
    if (f->stream) be->stream_close(f->stream); /* waits for copies that read the page-locked memory */
    for (int i = 0; i < PLAN_HOST_BATCHES_MAX; i++)
        if (f->arrived[i]) be->event_close(f->arrived[i]);
    for (int i = 0; i < 2; i++)
        if (f->consumed[i]) be->event_close(f->consumed[i]);
    *f = (struct feed){0};
}

int feed_take(struct feed *f, uint64_t cursor)
{
    const struct backend *be = f->network->backend;
    int slot = f->next, place = slot % 2, B = f->network->plan->input.B;
    size_t n = (size_t)B * (size_t)f->network->plan->input.T;
    const int32_t *inputs, *labels;                 /* (B,T) */
    int32_t *host = f->host + (size_t)slot * 2 * n; /* (2,B,T) */
    f->next = (slot + 1) % f->network->plan->host_batch_count;
    f->task->batch(f->data, TASK_TRAINING, cursor, B, &inputs, &labels);
    /* the network's stream reports a failure: it is the same device */
    be->event_wait(f->arrived[slot], f->stream, NULL);
    memcpy(host, inputs, n * sizeof *inputs);
    memcpy(host + n, labels, n * sizeof *labels);
    be->stream_after(f->stream, f->consumed[place]);
    be->mem_upload(network_batch(f->network, place), host, 2 * n * sizeof *inputs, f->stream);
    be->event_record(f->arrived[slot], f->stream);
    be->stream_after(f->network->stream, f->arrived[slot]);
    return place;
}

void feed_release(struct feed *f, int place)
{
    f->network->backend->event_record(f->consumed[place], f->network->stream);
}
