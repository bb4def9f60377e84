/* See record.h. In an address the upper bits are the buffer's number, the lower bits the offset in it; LAYER
 * buffers have the bytes of one layer after those of the previous one. */
#include "core/network/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ROUGH_PIECES: chunks of the loss in a rough plan: first, middle, last. Lifetimes stay the same. */
enum { OFFSET_BITS = 57, ROUGH_PIECES = 3 };
_Static_assert(BUFFERS < 1 << (63 - OFFSET_BITS),
               "a buffer's number fits above the offset, and into a bit set");

/* The range of a buffer that has been written, for one layer. */
struct written {
    int layer;
    int64_t from, to;
};

struct recorder {
    struct record *record;
    struct network network;
    struct plan plan;        /* the network's plan, with addresses instead of places */
    int64_t layer_bytes;     /* distance between the addresses of two layers */
    struct written *written; /* (L+1, BUFFERS) */
    bool no_memory;
};

static void note_product(struct recorder *r, struct gemm_shape shape)
{
    struct record *record = r->record;
    for (size_t i = 0; i < record->product_count; i++)
        if (gemm_shape_same(&record->products[i], &shape)) return;
    if (list_reserve(&record->products, record->product_count, 1, &record->product_capacity, sizeof shape))
        record->products[record->product_count++] = shape;
    else
        r->no_memory = true;
}

/* Notes a product of a call. Later micro-batches add to a weight's gradient, which the walk's overwrites. */
static void note_products(struct recorder *r, struct gemm_shape shape)
{
    note_product(r, shape);
    if (!shape.transpose_a || r->plan.input.micro_batches <= 1) return;
    if (r->network.where.phase == PHASE_OPTIMIZER) return;
    shape.accumulate = true;
    note_product(r, shape);
}

static void note_attention(struct record *record, struct attention_problem problem)
{
    for (int i = 0; i < record->attention_count; i++)
        if (attention_problem_same(&record->attentions[i], &problem)) return;
    if (record->attention_count < RECORD_ATTENTIONS_MAX)
        record->attentions[record->attention_count++] = problem;
}

/* Layers that share a buffer overwrite each other's content. Pieces are written in order, so the written part
 * is always one range. */
static void check_written(struct recorder *r, const struct operation_call *call, const struct operand *o,
                          enum buffer b, int layer, int64_t from)
{
    bool own = plan_saves(&r->plan, b, layer);
    struct written *w = &r->written[(own ? layer : 0) * BUFFERS + (int)b];
    int64_t to = from + o->bytes;
    bool whole = w->layer == layer && from >= w->from && to <= w->to;
    if (o->access != ACCESS_WRITTEN && !whole && !*r->record->problem)
        snprintf(r->record->problem, sizeof r->record->problem,
                 "%s in layer %d reads \"%s\" before it is written", operation_name(call->operation),
                 r->network.where.layer, buffer_facts[b].name);
    if (o->access != ACCESS_WRITTEN || whole) return;
    if (w->layer != layer || to < w->from || from > w->to) *w = (struct written){layer, from, to};
    if (from < w->from) w->from = from;
    if (to > w->to) w->to = to;
}

static void note_operand(struct recorder *r, const struct operation_call *call, const struct operand *o)
{
    uintptr_t address = (uintptr_t)o->at;
    enum buffer b = (enum buffer)((address >> OFFSET_BITS) - 1);
    int64_t offset = (int64_t)(address & (((uintptr_t)1 << OFFSET_BITS) - 1));
    enum buffer_kind kind = buffer_facts[b].kind;
    struct record *record = r->record;
    int layer = 0;
    if (o->access == ACCESS_SCRATCH && (size_t)o->bytes > record->scratch_bytes)
        record->scratch_bytes = (size_t)o->bytes;
    if (kind != BUFFER_SHARED && kind != BUFFER_LAYER) return;
    if (kind == BUFFER_LAYER) {
        layer = (int)(offset / r->layer_bytes);
        offset %= r->layer_bytes;
    }
    if (o->access != ACCESS_SCRATCH) check_written(r, call, o, b, layer, offset);
    if (plan_saves(&r->plan, b, layer)) return;
    if (!list_reserve(&record->touches, record->touch_count, 1, &record->touch_capacity,
                      sizeof(struct touch)))
        r->no_memory = true;
    else
        record->touches[record->touch_count++] =
            (struct touch){record->calls, b, o->access, offset, offset + o->bytes};
}

static void note(void *context, const struct operation_call *call)
{
    struct recorder *r = context;
    enum phase phase = r->network.where.phase;
    if (call->operation == OPERATION_gemm) note_products(r, operation_product(call));
    if (call->operation == OPERATION_attention_forward || call->operation == OPERATION_attention_backward)
        note_attention(r->record, operation_attention(call));
    for (int writes = 0; writes < 2; writes++) /* reads come first, as a call reads what was there before */
        for (int i = 0; i < call->operand_count && !r->no_memory; i++)
            if ((call->operands[i].access == ACCESS_WRITTEN) == writes)
                note_operand(r, call, &call->operands[i]);
    r->record->calls++;
    r->record->labelled[phase] += call->label != NULL;
    r->record->flops[phase] += (double)call->flops;
}

/* Sets up a network whose buffers have distinct addresses but no memory. */
static enum status spread(struct recorder *r, const struct plan *plan, struct err *err)
{
    size_t layers = (size_t)plan->input.model->config.num_layers + 1, largest = 1;
    r->plan = *plan;
    int rows = (plan->input.B * plan->input.T - 1) / ROUGH_PIECES + 1;
    if (plan->input.rough && rows > plan->loss_chunk) r->plan.loss_chunk = rows;
    r->plan.places = calloc(layers * BUFFERS, sizeof *r->plan.places);
    r->written = calloc(layers * BUFFERS, sizeof *r->written);
    if (!r->plan.places || !r->written) return err_no_memory(err, "a plan of %zu layers", layers - 1);
    for (int b = 0; b < BUFFERS; b++)
        if (buffer_facts[b].kind == BUFFER_LAYER && plan->bytes[b] > largest) largest = plan->bytes[b];
    r->layer_bytes = (int64_t)largest;
    for (size_t i = 0; i < layers * BUFFERS; i++) {
        enum buffer b = (enum buffer)(i % BUFFERS);
        size_t of_layer = buffer_facts[b].kind == BUFFER_LAYER ? i / BUFFERS * largest : 0;
        r->plan.places[i].offset = ((size_t)plan_alias(plan, b) << OFFSET_BITS) + of_layer;
    }
    for (size_t i = 0; i < layers * BUFFERS; i++) r->written[i].layer = -1;
    r->network = (struct network){.model = plan->input.model, .plan = &r->plan};
    for (int c = 0; c < PLAN_CATEGORIES; c++)
        r->network.memory[c] = (unsigned char *)((uintptr_t)1 << OFFSET_BITS);
    network_point(&r->network);
    return STATUS_OK;
}

enum status record_init(struct record *record, const struct plan *plan, struct err *err)
{
    struct recorder r = {.record = record};
    struct observer observer = {.note = note, .context = &r};
    *record = (struct record){0};
    enum status status = spread(&r, plan, err);
    if (!status) {
        network_observe(&r.network, &observer);
        if (plan->input.cache_slots > 0) network_walk_rows(&r.network);
        /* Without dropout, DX itself instead of a copy is read until the last product of a half. That makes a
         * difference if the backward pass ends there. */
        if (plan->input.model->frozen_bytes) network_walk(&r.network, 0);
        memset(record->labelled, 0, sizeof record->labelled);
        memset(record->flops, 0, sizeof record->flops);
        network_walk(&r.network, plan->input.moments > 0 ? 0.5f : 0);
    }
    if (r.no_memory) status = err_no_memory(err, "the record of a step");
    free(r.plan.places);
    free(r.written);
    if (status) record_release(record);
    return status;
}

enum status record_walk(const struct plan *plan, struct observer *observer,
                        void (*walk)(struct network *network, void *context), void *context, struct err *err)
{
    struct recorder r = {0};
    enum status status = spread(&r, plan, err);
    if (!status) {
        network_observe(&r.network, observer);
        walk(&r.network, context);
    }
    free(r.plan.places);
    free(r.written);
    return status;
}

void record_release(struct record *record)
{
    free(record->touches);
    free(record->products);
    *record = (struct record){0};
}

/* ---- lifetimes ---- */

/* The bytes of a buffer that later calls need; none if to <= from. */
struct needed {
    int64_t from, to;
};

/* Pieces are written first to last, so backwards in time each one shortens the needed range from its end. */
static void write_over(struct needed *n, const struct touch *t)
{
    if (t->to >= n->to && t->from < n->to) n->to = t->from;
}

static void read_from(struct needed *n, const struct touch *t)
{
    bool none = n->to <= n->from;
    if (none || t->from < n->from) n->from = t->from;
    if (none || t->to > n->to) n->to = t->to;
}

/* Goes from the last call to the first: buffers needed after a call, or touched by it, are live together. */
void record_conflicts(const struct record *record, uint64_t conflicts[BUFFERS])
{
    struct needed needed[BUFFERS] = {0};
    uint64_t live = 0;
    for (int b = 0; b < BUFFERS; b++) conflicts[b] = 0;
    for (size_t end = record->touch_count, begin; end > 0; end = begin) {
        uint64_t here = live;
        for (begin = end; begin > 0 && record->touches[begin - 1].call == record->touches[end - 1].call;
             begin--)
            here |= (uint64_t)1 << record->touches[begin - 1].buffer;
        for (uint64_t left = here; left; left &= left - 1) conflicts[__builtin_ctzll(left)] |= here;
        for (size_t i = begin; i < end; i++) {
            const struct touch *t = &record->touches[i];
            if (t->access == ACCESS_WRITTEN) write_over(&needed[t->buffer], t);
        }
        for (size_t i = begin; i < end; i++) {
            const struct touch *t = &record->touches[i];
            if (t->access == ACCESS_READ || t->access == ACCESS_ADDED) read_from(&needed[t->buffer], t);
            uint64_t bit = (uint64_t)1 << t->buffer;
            live = needed[t->buffer].to > needed[t->buffer].from ? live | bit : live & ~bit;
        }
    }
    for (int b = 0; b < BUFFERS; b++) conflicts[b] &= ~((uint64_t)1 << b);
}
