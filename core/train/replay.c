/* See replay.h. */
#include "core/train/replay.h"

#include <math.h>
#include <string.h>

#include "core/base/clock.h"

/* The first step loads code and prepares products; the next few are measured, and the fastest counts. */
enum { MEASURED_STEPS = 3 };

/* Share of the device's time. If the host needs more to queue a step, the device soon waits for it. */
static const double HOST_SHARE = 0.5;

static void pass(void *context)
{
    const struct replay *r = context;
    network_micro_batch(r->network, r->place, r->dropout);
}

static void update(void *context)
{
    const struct replay *r = context;
    optimizer_step(r->optimizer, r->network);
}

enum status replay_open(struct replay *r, struct network *network, const struct optimizer *optimizer,
                        enum replay_mode mode, float dropout, struct err *err)
{
    const struct backend *be = network->backend;
    /* on a synchronous device, queueing takes as long as the work */
    if (mode == REPLAY_AUTO && !be->queues) mode = REPLAY_OFF;
    /* those of several ranks wait for another stream, which exchanges gradients and weights */
    if (network->world->size > 1) mode = REPLAY_OFF;
    *r = (struct replay){.network = network,
                         .optimizer = optimizer,
                         .mode = mode,
                         .dropout = dropout,
                         .host_seconds = INFINITY,
                         .device_seconds = INFINITY};
    enum status status = be->event_open(network->device, &r->begin, err);
    return status ? status : be->event_open(network->device, &r->end, err);
}

static void forget_graphs(struct replay *r)
{
    const struct backend *be = r->network->backend;
    for (int i = 0; i < 4; i++) be->graph_close(r->passes[i / 2][i % 2]);
    be->graph_close(r->update);
    memset(r->passes, 0, sizeof r->passes);
    r->update = NULL;
}

void replay_close(struct replay *r)
{
    if (!r->network) return;
    forget_graphs(r);
    if (r->begin) r->network->backend->event_close(r->begin);
    if (r->end) r->network->backend->event_close(r->end);
    *r = (struct replay){0};
}

bool replay_measures(const struct replay *r)
{
    return r->mode == REPLAY_AUTO && r->steps > 1;
}

static enum status record(struct replay *r, struct err *err)
{
    const struct backend *be = r->network->backend;
    struct stream *stream = r->network->stream;
    enum status status = STATUS_OK;
    int kinds = r->network->plan->input.micro_batches > 1 ? 2 : 1;
    for (int i = 0; !status && i < 2 * kinds; i++) {
        r->network->adds = i / 2;
        r->place = i % 2;
        status = be->graph_open(stream, pass, r, &r->passes[i / 2][r->place], err);
    }
    if (!status) status = be->graph_open(stream, update, r, &r->update, err);
    if (!status) return STATUS_OK;
    forget_graphs(r);
    r->mode = REPLAY_OFF;
    return status;
}

enum status replay_prepare(struct replay *r, struct err *err)
{
    r->steps++;
    if (r->update || r->mode != REPLAY_ON || r->steps < 2) return STATUS_OK;
    return record(r, err);
}

void replay_micro_batch(struct replay *r, int place, bool graph)
{
    const struct backend *be = r->network->backend;
    struct stream *stream = r->network->stream;
    r->place = place;
    if (graph) {
        be->graph_run(r->passes[r->network->adds][place], stream);
        r->network->adds = true;
        return;
    }
    if (!replay_measures(r) || r->measured == r->steps) {
        pass(r);
        return;
    }
    be->event_record(r->begin, stream);
    double start = clock_monotonic();
    pass(r);
    r->host_seconds = fmin(r->host_seconds, clock_monotonic() - start);
    be->event_record(r->end, stream);
    r->measured = r->steps; /* only the first micro-batch of a step: others may wait behind it */
}

void replay_update(struct replay *r, bool graph)
{
    if (graph)
        r->network->backend->graph_run(r->update, r->network->stream);
    else
        update(r);
}

void replay_judge(struct replay *r)
{
    if (!replay_measures(r)) return;
    double device = r->network->backend->event_elapsed(r->begin, r->end) * 1e-3;
    r->device_seconds = fmin(r->device_seconds, device);
    if (r->steps <= MEASURED_STEPS) return;
    r->mode = r->host_seconds > HOST_SHARE * r->device_seconds ? REPLAY_ON : REPLAY_OFF;
}
