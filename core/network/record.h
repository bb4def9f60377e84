/* One walk over the passes of a network that has no memory: the table of kernels/device/observed.h notes each
 * call, and every buffer has an address of its own that says which one it is. From the record follow the
 * lifetimes of the buffers that share places, the scratch that operations ask for, the matrix products to
 * warm up, and how many calls a profile of a step has.
 *
 * A content lives from the operation that writes it to the last one that reads it; a buffer that is written
 * piece by piece is live from the first piece on. What an operation of a pass reads must have been written in
 * that pass: that is asserted. */
#ifndef ANNEAL_CORE_NETWORK_RECORD_H
#define ANNEAL_CORE_NETWORK_RECORD_H

#include "core/network/network.h"

/* One operation's access to a SHARED buffer, or to the set that layers share. */
struct touch {
    int call;
    enum buffer buffer;
    enum access access;
    int64_t from, to; /* bytes of the buffer */
};

struct record {
    struct touch *touches; /* in the order of the calls */
    size_t touch_count, touch_capacity;
    int calls;
    int64_t labelled[PHASES];    /* calls that a profile shows */
    double flops[PHASES];        /* of all calls; the largest plans have more than an int64_t holds */
    size_t scratch_bytes;        /* the most that one operation asks for */
    struct gemm_shape *products; /* each once */
    size_t product_count, product_capacity;
    char problem[160]; /* an operation that reads what is not written; "": none does */
};

/* Walks the passes of a network with this plan, whose places count for nothing; its sizes do. On failure
 * nothing is left. */
enum status record_init(struct record *record, const struct plan *plan, struct err *err);
void record_release(struct record *record); /* harmless on a zeroed struct */

/* For each buffer, a bit for every other one that holds what is needed while it does. */
void record_conflicts(const struct record *record, uint64_t conflicts[BUFFERS]);

#endif
