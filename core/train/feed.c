/* See feed.h. */
#include "core/train/feed.h"

#include <string.h>

enum status feed_open(struct feed *f, struct network *network, struct task_data *data, struct err *err)
{
    const struct backend *be = network->backend;
    *f = (struct feed){.network = network, .data = data};
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

int feed_take(struct feed *f, uint64_t cursor, int rows)
{
    const struct backend *be = f->network->backend;
    const struct plan_input *in = &f->network->plan->input;
    int slot = f->next, place = slot % 2, parts = plan_batch_parts(in);
    size_t n = (size_t)in->B * (size_t)in->T;
    int32_t *host = f->host + (size_t)slot * (size_t)parts * n; /* (parts,B,T) */
    f->next = (slot + 1) % f->network->plan->host_batch_count;
    struct batch_view batch = task_batch(f->data, TASK_TRAINING, cursor, in->B);
    const int32_t *arrays[] = {batch.inputs, batch.labels, batch.positions};
    /* the network's stream reports a failure: it is the same device */
    be->event_wait(f->arrived[slot], f->stream, NULL);
    for (int i = 0; i < parts; i++) memcpy(host + (size_t)i * n, arrays[i], n * sizeof *host);
    for (size_t i = (size_t)rows * (size_t)in->T; i < n; i++) host[n + i] = LABEL_IGNORED;
    be->stream_after(f->stream, f->consumed[place]);
    be->mem_upload(network_batch(f->network, place), host, (size_t)parts * n * sizeof *host, f->stream);
    be->event_record(f->arrived[slot], f->stream);
    be->stream_after(f->network->stream, f->arrived[slot]);
    return place;
}

void feed_release(struct feed *f, int place)
{
    f->network->backend->event_record(f->consumed[place], f->network->stream);
}
