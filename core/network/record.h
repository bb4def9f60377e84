/* Runs the passes once over a network that has no memory: the table of kernels/device/observed.h records each
 * call, and every buffer has a distinct address that identifies it. From the record follow the lifetimes of
 * buffers that share memory, the scratch that operations need, the matrix products to warm up, and the number
 * of calls in a step's profile.
 *
 * A content is live from the operation that writes it to the last one that reads it; a buffer written in
 * pieces is live from the first piece on. Every operation must read only what the same pass has written: the
 * record sets `problem` otherwise, and the planner asserts that it is empty. */
#ifndef ANNEAL_CORE_NETWORK_RECORD_H
#define ANNEAL_CORE_NETWORK_RECORD_H

#include "core/network/network.h"

/* One operation's access to a SHARED buffer, or to a LAYER buffer that layers share. */
struct touch {
    int call;
    enum buffer buffer;
    enum access access;
    int64_t from, to; /* bytes of the buffer */
};

/* A model has layers with and without a window, and both directions. */
enum { RECORD_ATTENTIONS_MAX = 8 };

struct record {
    struct touch *touches; /* in the order of the calls */
    size_t touch_count, touch_capacity;
    int calls;
    int64_t labelled[PHASES];    /* calls that appear in a profile */
    double flops[PHASES];        /* of all calls; may exceed an int64_t */
    size_t scratch_bytes;        /* the most that one operation needs */
    struct gemm_shape *products; /* each once */
    size_t product_count, product_capacity;
    struct attention_problem attentions[RECORD_ATTENTIONS_MAX]; /* each once, as far as there is room */
    int attention_count;
    char problem[160]; /* an operation that reads unwritten memory; "": none */
};

/* Runs the passes with this plan's sizes, but not its places. On failure nothing stays allocated. */
enum status record_init(struct record *record, const struct plan *plan, struct err *err);
void record_release(struct record *record); /* harmless on a zeroed struct */

/* Calls `walk` with a network of this plan that has no memory: what it calls of the network's table is noted
 * by the observer and not computed. */
enum status record_walk(const struct plan *plan, struct observer *observer,
                        void (*walk)(struct network *network, void *context), void *context, struct err *err);

/* For each buffer, a bit for every other one that is live at the same time. */
void record_conflicts(const struct record *record, uint64_t conflicts[BUFFERS]);

#endif
