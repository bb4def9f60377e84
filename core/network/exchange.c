/* See exchange.h. */
#include "core/network/exchange.h"

#include <limits.h>

#include "core/base/clock.h"

enum { PART_LEAST = 1 << 18 }; /* elements */

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

/* A run of trainable parameters, all matrices or all vectors, that lie behind each other: elements [begin,
 * end). The vectors of all layers lie together, apart from the matrices (core/model/model.c). */
struct run {
    size_t begin, end;
};

/* The next run below parameter *i, of parameters whose places are in [from, to). False: there is none. */
static bool run_below(const struct model *model, size_t *i, bool vectors, int from, int to, struct run *run)
{
    bool in = false;
    for (; *i > 0; --*i) {
        const struct param *p = &model->params[*i - 1];
        bool belongs = !p->frozen && (p->cols == 0) == vectors && p->place >= from && p->place < to;
        if (in && !belongs) break;
        if (!belongs) continue;
        if (!in) run->end = p->offset + p->count;
        run->begin = p->offset;
        in = true;
    }
    return in;
}

/* The next run from parameter *i on, at all places. */
static bool run_above(const struct model *model, size_t *i, bool vectors, struct run *run)
{
    bool in = false;
    for (; *i < model->param_count; ++*i) {
        const struct param *p = &model->params[*i];
        bool belongs = !p->frozen && (p->cols == 0) == vectors;
        if (in && !belongs) break;
        if (!belongs) continue;
        if (!in) run->begin = p->offset;
        run->end = p->offset + p->count;
        in = true;
    }
    return in;
}

/* ---- gradients ---- */

void exchange_begin(struct network *net)
{
    net->exchange.final = INT_MAX;
    net->exchange.last = false;
}

static void send(struct network *net, struct run run)
{
    struct exchange *x = &net->exchange;
    const struct plan_input *in = &net->plan->input;
    size_t piece = plan_piece(in), slice = plan_slice(in, 0).end;
    void *received = network_at(net, BUFFER_RECEIVED, 0);
    bool beside = overlaps(net);
    const struct backend *be = beside ? net->backend : net->table;
    for (size_t end = run.end, n; end > run.begin; end -= n) {
        n = end - run.begin < piece ? end - run.begin : piece;
        be->reduce_slices(net->gradients + (end - n), received, n, end - n, slice, in->ranks, x->world,
                          beside ? x->stream : net->calls);
    }
}

/* Sends what is used from `place` on and has not been sent. */
static void send_from(struct network *net, bool vectors, int place)
{
    struct run run;
    int sent = vectors ? INT_MAX : net->exchange.final;
    if (overlaps(net)) take_turn(net);
    for (size_t i = net->model->param_count; run_below(net->model, &i, vectors, place, sent, &run);)
        send(net, run);
    if (!vectors) net->exchange.final = place;
}

/* Whether enough is final to be sent on its own. */
static bool is_worth_it(const struct network *net, int place)
{
    size_t count = 0;
    struct run run;
    for (size_t i = net->model->param_count;
         run_below(net->model, &i, false, place, net->exchange.final, &run);)
        count += run.end - run.begin;
    return count >= plan_piece(&net->plan->input);
}

/* Also in a step that is observed, and in one that is recorded for the plan: other ranks may not observe it,
 * and send these pieces. */
void exchange_final(struct network *net, int place)
{
    bool early = net->exchange.stream || !net->backend;
    if (early && net->exchange.last && has_slices(net) && is_worth_it(net, place))
        send_from(net, false, place);
}

void exchange_finish(struct network *net)
{
    struct exchange *x = &net->exchange;
    if (!has_slices(net)) return;
    send_from(net, false, INT_MIN);
    send_from(net, true, INT_MIN);
    if (!overlaps(net)) return;
    net->backend->event_record(x->turn, x->stream);
    wait_for(net, x->turn);
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

static void receive(struct network *net, struct run run)
{
    struct exchange *x = &net->exchange;
    const struct plan_input *in = &net->plan->input;
    size_t piece = plan_piece(in), slice = plan_slice(in, 0).end;
    bool beside = overlaps(net);
    const struct backend *be = beside ? net->backend : net->table;
    for (size_t at = run.begin, n; at < run.end; at += n) {
        n = run.end - at < piece ? run.end - at : piece;
        be->gather_slices(network_compute_weights(net, at), n, at, slice, x->world,
                          beside ? x->stream : net->calls);
    }
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
    for (size_t i = 0; run_above(model, &i, true, &run);) receive(net, run); /* the first layer needs some */
    for (size_t i = 0; run_above(model, &i, false, &run);)
        for (size_t end; run.begin < run.end; run.begin = end) {
            while (part_end(net, part) <= run.begin) mark(net, part++);
            end = part_end(net, part) < run.end ? part_end(net, part) : run.end;
            receive(net, (struct run){run.begin, end});
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
