/* See exchange.h. */
#include "core/network/exchange.h"

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

/* ---- gradients ---- */

void exchange_begin(struct network *net)
{
    net->exchange.sent = net->model->elements;
    net->exchange.last = false;
}

/* Sends the pieces that begin at `from` or later, the last ones first. */
static void send_down_to(struct network *net, size_t from)
{
    struct exchange *x = &net->exchange;
    const struct plan_input *in = &net->plan->input;
    size_t piece = plan_piece(in), slice = plan_slice(in, 0).end;
    void *received = network_at(net, BUFFER_RECEIVED, 0);
    bool beside = overlaps(net);
    while (x->sent > from) {
        size_t begin = (x->sent - 1) / piece * piece, n = x->sent - begin;
        if (begin < from) return;
        if (beside) take_turn(net);
        const struct backend *be = beside ? net->backend : net->table;
        be->reduce_slices(net->gradients + begin, received, n, begin, slice, in->ranks, x->world,
                          beside ? x->stream : net->calls);
        x->sent = begin;
    }
}

void exchange_final(struct network *net, int place)
{
    const struct model *model = net->model;
    size_t from = model->elements;
    if (!net->exchange.last || !overlaps(net)) return;
    for (size_t i = model->param_count; i-- > 0;) {
        const struct param *p = &model->params[i];
        if (p->frozen) continue;
        if (p->place < place) break;
        from = p->offset;
    }
    send_down_to(net, from);
}

void exchange_finish(struct network *net)
{
    struct exchange *x = &net->exchange;
    if (!has_slices(net)) return;
    send_down_to(net, 0);
    if (!overlaps(net)) return;
    net->backend->event_record(x->turn, x->stream);
    net->backend->stream_after(net->stream, x->turn);
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

void exchange_weights(struct network *net)
{
    struct exchange *x = &net->exchange;
    const struct plan_input *in = &net->plan->input;
    size_t piece = plan_piece(in), slice = plan_slice(in, 0).end, at = 0;
    bool beside = overlaps(net);
    const struct backend *be = beside ? net->backend : net->table;
    if (!has_slices(net)) return;
    if (beside) take_turn(net);
    for (int part = 0; part < EXCHANGE_PARTS; part++) {
        for (size_t end = part_end(net, part), n; at < end; at += n) {
            n = end - at < piece ? end - at : piece;
            be->gather_slices(network_compute_weights(net, at), n, at, slice, x->world,
                              beside ? x->stream : net->calls);
        }
        if (beside) be->event_record(x->arrived[part], x->stream);
    }
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
        if (!p->frozen && p->place <= place) needed = p->offset + p->count;
    }
    for (int part = EXCHANGE_PARTS - x->parts_ahead; part < EXCHANGE_PARTS; part++) {
        if (part && part_end(net, part - 1) >= needed) return;
        net->backend->stream_after(net->stream, x->arrived[part]);
        x->parts_ahead--;
    }
}
