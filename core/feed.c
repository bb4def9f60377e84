/* See feed.h. */
#include "core/feed.h"

#include <string.h>

enum status feed_open(struct feed *f, struct network *network, struct prefetch *batches, struct err *err)
{
    const struct backend *be = network->backend;
    *f = (struct feed){.network = network, .batches = batches};
    size_t bytes = 2 * (size_t)network->plan->input.B * (size_t)network->plan->input.T * sizeof(int32_t);
    enum status status = be->stream_open(network->device, network->plan->input.precision, &f->stream, err);
    for (int i = 0; !status && i < 2; i++) {
        void *host = NULL;
        status = allocator_alloc_host(allocator_root(network->allocator), "batches", bytes, &host, err);
        f->host[i] = host;
        if (!status) status = be->event_open(network->device, &f->arrived[i], err);
        if (!status) status = be->event_open(network->device, &f->consumed[i], err);
    }
    return status;
}

void feed_close(struct feed *f)
{
    if (!f->network) return;
    const struct backend *be = f->network->backend;
    if (f->stream) be->stream_close(f->stream); /* waits for what still reads the page-locked memory */
    for (int i = 0; i < 2; i++) {
        if (f->arrived[i]) be->event_close(f->arrived[i]);
        if (f->consumed[i]) be->event_close(f->consumed[i]);
    }
    *f = (struct feed){0};
}

int feed_take(struct feed *f, uint64_t cursor)
{
    const struct backend *be = f->network->backend;
    int place = f->next, B = f->network->plan->input.B;
    size_t n = (size_t)B * (size_t)f->network->plan->input.T;
    const int32_t *inputs, *targets; /* (B,T) */
    f->next = 1 - place;
    prefetch_take(f->batches, cursor, B, &inputs, &targets);
    /* a failure is found by whoever looks at the network's stream: it is the same device */
    be->event_wait(f->arrived[place], f->stream, NULL);
    memcpy(f->host[place], inputs, n * sizeof *inputs);
    memcpy(f->host[place] + n, targets, n * sizeof *targets);
    be->stream_after(f->stream, f->consumed[place]);
    be->mem_upload(network_batch(f->network, place), f->host[place], 2 * n * sizeof *inputs, f->stream);
    be->event_record(f->arrived[place], f->stream);
    be->stream_after(f->network->stream, f->arrived[place]);
    return place;
}

void feed_release(struct feed *f, int place)
{
    f->network->backend->event_record(f->consumed[place], f->network->stream);
}
