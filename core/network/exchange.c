/* See exchange.h. */
#include "core/network/exchange.h"

#include <limits.h>
#include <math.h>

#include "core/base/clock.h"

enum { PART_LEAST = 1 << 18 }; /* elements */

/* GPUs need no room for what others send. */
static size_t piece_of(const struct network *net)
{
    return net->backend && net->backend->queues ? EXCHANGE_PIECE_GPU : plan_piece(&net->plan->input);
}

static bool has_slices(const struct network *net)
{
    return net->plan->input.shard && net->plan->input.ranks > 1;
}

/* Not while a step is observed. */
static bool overlaps(const struct network *net)
{
    return net->exchange.stream && net->table == net->backend;
}

enum status exchange_open(struct network *net, const struct world *world, bool overlap, struct err *err)
{
    const struct backend *be = net->backend;
    struct exchange *x = &net->exchange;
    enum status status = STATUS_OK;
    net->world = x->world = world;
    for (int i = 0; !status && i < 2 && be->queues && world->size > 1; i++)
        status = be->event_open(net->device, &x->sums[i], err);
    if (status) return status;
    if (!has_slices(net) || !overlap || !world->beside) return STATUS_OK;
    x->world = world->beside;
    status = be->stream_beside(net->device, net->plan->input.precision, &x->stream, err);
    if (!status) status = be->event_open(net->device, &x->turn, err);
    for (int i = 0; !status && i < EXCHANGE_PARTS; i++)
        status = be->event_open(net->device, &x->arrived[i], err);
    return status;
}

void exchange_close(struct network *net)
{
    struct exchange *x = &net->exchange;
    for (int i = 0; i < EXCHANGE_PARTS; i++)
        if (x->arrived[i]) net->backend->event_close(x->arrived[i]);
    for (int i = 0; i < 2; i++)
        if (x->sums[i]) net->backend->event_close(x->sums[i]);
    if (x->turn) net->backend->event_close(x->turn);
    if (x->stream) net->backend->stream_close(x->stream);
    *x = (struct exchange){0};
}

/* The exchange begins after the network's work so far. */
static void take_turn(struct network *net)
{
    struct exchange *x = &net->exchange;
    net->backend->event_record(x->turn, net->stream);
    net->backend->stream_after(x->stream, x->turn);
}

/* The network goes on after the event. On a CPU it waits here. */
static void wait_for(struct network *net, struct event *event)
{
    double start = clock_monotonic();
    net->backend->stream_after(net->stream, event);
    net->exchange.waited += clock_monotonic() - start;
}

/* A run of trainable parameters that lie behind each other: elements [begin, end). The vectors of all layers
 * lie together, apart from the matrices, and behind them those that Muon updates (core/model/model.c). */
struct run {
    size_t begin, end;
};

/* Parameters whose places are in [from, to): vectors, matrices, or matrices that Muon updates. */
enum sort { MATRICES, ORTHOGONAL_MATRICES, VECTORS };
struct choice {
    enum sort sort;
    int from, to;
};

static enum sort sort_of(const struct param *p)
{
    return p->cols == 0 ? VECTORS : p->orthogonal ? ORTHOGONAL_MATRICES : MATRICES;
}

/* The next run of chosen parameters from *i on, `step` 1, or below *i, `step` -1. False: there is none. */
static bool next_run(const struct model *model, size_t *i, int step, struct choice choice, struct run *run)
{
    bool in = false;
    for (; step > 0 ? *i < model->param_count : *i > 0; *i += (size_t)step) {
        const struct param *p = &model->params[step > 0 ? *i : *i - 1];
        bool belongs =
            !p->frozen && sort_of(p) == choice.sort && p->place >= choice.from && p->place < choice.to;
        if (in && !belongs) break;
        if (!belongs) continue;
        if (!in || step < 0) run->begin = p->offset;
        if (!in || step > 0) run->end = p->offset + p->count;
        in = true;
    }
    return in;
}

/* Exchanges a run piece by piece: its gradients, or its weights for computing. With Muon slices differ in
 * length: each piece lies in one slice, and is passed as if all slices were as long as the piece, so that its
 * owner's is the piece. */
static void travel(struct network *net, struct run run, bool gradients)
{
    struct exchange *x = &net->exchange;
    const struct plan_input *in = &net->plan->input;
    size_t piece = piece_of(net), even = slice_elements(net->model->elements, in->ranks);
    bool beside = overlaps(net);
    const struct backend *be = beside ? net->backend : net->table;
    struct stream *stream = beside ? x->stream : net->calls;
    for (size_t at = run.begin, n; at < run.end; at += n) {
        int owner;
        size_t from = at, slice = even;
        n = run.end - at < piece ? run.end - at : piece;
        if (net->model->orthogonal) {
            n = slice = plan_slice_run(in, at, n, &owner);
            from = (size_t)owner * n;
        }
        if (gradients)
            be->reduce_slices(net->gradients + at, network_at(net, BUFFER_RECEIVED, 0), n, from, slice,
                              in->ranks, x->world, stream);
        else
            be->gather_slices(network_compute_weights(net, at), n, from, slice, x->world, stream);
    }
}

/* ---- gradients ---- */

void exchange_begin(struct network *net)
{
    net->exchange.final = INT_MAX;
    net->exchange.last = false;
}

/* Sends what is used from `place` on, up to `end`. */
static void send(struct network *net, enum sort sort, int place, int end)
{
    struct run run;
    struct choice rest = {sort, place, end};
    for (size_t i = net->model->param_count; next_run(net->model, &i, -1, rest, &run);)
        travel(net, run, true);
}

/* Sends the matrices used from `place` on that have not been sent. */
static void send_matrices(struct network *net, int place)
{
    if (overlaps(net)) take_turn(net);
    send(net, ORTHOGONAL_MATRICES, place, net->exchange.final);
    send(net, MATRICES, place, net->exchange.final);
    net->exchange.final = place;
}

/* Whether enough is final to be sent on its own. */
static bool is_worth_it(const struct network *net, int place)
{
    size_t count = 0;
    struct run run;
    for (enum sort sort = MATRICES; sort < VECTORS; sort++) {
        struct choice rest = {sort, place, net->exchange.final};
        for (size_t i = net->model->param_count; next_run(net->model, &i, -1, rest, &run);)
            count += run.end - run.begin;
    }
    return count >= piece_of(net);
}

/* Also in a step that is observed, and in one that is recorded for the plan: other ranks may not observe it,
 * and send these pieces. */
void exchange_final(struct network *net, int place)
{
    bool early = net->exchange.stream || !net->backend;
    if (early && net->exchange.last && has_slices(net) && is_worth_it(net, place)) send_matrices(net, place);
}

void exchange_finish(struct network *net)
{
    struct exchange *x = &net->exchange;
    if (!has_slices(net)) return;
    send_matrices(net, INT_MIN);
    send(net, VECTORS, INT_MIN, INT_MAX);
    if (!overlaps(net)) return;
    net->backend->event_record(x->turn, x->stream);
    wait_for(net, x->turn);
}

void exchange_sums_begin(struct network *net)
{
    if (net->exchange.sums[0]) net->backend->event_record(net->exchange.sums[0], net->stream);
}

void exchange_sums_end(struct network *net)
{
    if (net->exchange.sums[1]) net->backend->event_record(net->exchange.sums[1], net->stream);
}

void exchange_measure(struct network *net)
{
    struct exchange *x = &net->exchange;
    double ms = x->sums[0] ? net->backend->event_elapsed(x->sums[0], x->sums[1]) : 0;
    if (isfinite(ms)) x->waited += ms * 1e-3;
}

/* ---- weights ---- */

/* Where a part of the weights ends. Of a small model the last parts are empty: each part takes a while,
 * however short it is. */
static size_t part_end(const struct network *net, int part)
{
    size_t all = net->model->elements, each = all / EXCHANGE_PARTS + 1;
    if (each < PART_LEAST) each = PART_LEAST;
    return each * (size_t)(part + 1) < all ? each * (size_t)(part + 1) : all;
}

/* This part has been queued. */
static void mark(struct network *net, int part)
{
    if (overlaps(net)) net->backend->event_record(net->exchange.arrived[part], net->exchange.stream);
}

void exchange_weights(struct network *net)
{
    struct exchange *x = &net->exchange;
    const struct model *model = net->model;
    bool beside = overlaps(net);
    struct run run;
    int part = 0;
    if (!has_slices(net)) return;
    if (beside) take_turn(net);
    /* the first layer needs some vectors */
    for (size_t i = 0; next_run(model, &i, 1, (struct choice){VECTORS, INT_MIN, INT_MAX}, &run);)
        travel(net, run, false);
    for (enum sort sort = MATRICES; sort < VECTORS; sort++)
        for (size_t i = 0; next_run(model, &i, 1, (struct choice){sort, INT_MIN, INT_MAX}, &run);)
            for (size_t end; run.begin < run.end; run.begin = end) {
                while (part_end(net, part) <= run.begin) mark(net, part++);
                end = part_end(net, part) < run.end ? part_end(net, part) : run.end;
                travel(net, (struct run){run.begin, end}, false);
            }
    while (part < EXCHANGE_PARTS) mark(net, part++);
    x->parts_ahead = beside ? EXCHANGE_PARTS : 0;
}

void exchange_await(struct network *net, int place)
{
    struct exchange *x = &net->exchange;
    const struct model *model = net->model;
    size_t needed = 0;
    if (!x->parts_ahead) return;
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        if (!p->frozen && p->cols && p->place <= place && p->offset + p->count > needed)
            needed = p->offset + p->count;
    }
    for (int part = EXCHANGE_PARTS - x->parts_ahead; part < EXCHANGE_PARTS; part++) {
        if (part && part_end(net, part - 1) >= needed) return;
        wait_for(net, x->arrived[part]);
        x->parts_ahead--;
    }
}
