/* Packs examples of different length into rows of T tokens, so that few places stay empty.
 *
 * The examples, in an order drawn from the seed, are divided into windows. Within a window each example, the
 * longest first, goes to the fullest row that has room for it (best fit decreasing). So the rows are a pure
 * function of the lengths and the seed: the same in every epoch and on every machine. What is kept is one
 * number for each window; the rows of a window are computed when one of them is wanted, in a few
 * microseconds. Each epoch has every row exactly once, in an order of its own. */
#ifndef ANNEAL_DATASETS_PACKING_H
#define ANNEAL_DATASETS_PACKING_H

#include <stdint.h>

#include "core/base/err.h"
#include "datasets/batch.h"

enum { PACKING_WINDOW = 256 }; /* examples, and the most of one row */

/* How the examples of a task are read, which a packing knows by their numbers alone. */
struct packed {
    const void *context; /* borrowed */
    /* fills the places of an example; its targets are LABEL_IGNORED before */
    void (*fill)(const void *context, uint64_t example, int32_t *inputs, int32_t *targets);
    /* how many targets of it count, or the sum of their weights */
    double (*labels)(const void *context, uint64_t example);
};

struct packing {
    const uint32_t *lengths; /* (count), borrowed: places that an example takes, from 1 to T */
    uint64_t count;
    int T;
    uint64_t rows;   /* in an epoch */
    double span;     /* the mean over all places of the length of their sequence; the rest of a row is one */
    uint64_t *first; /* (windows + 1), owned: the first row of each window */
    struct split drawing; /* the order of the examples */
    struct split order;   /* the order of the rows in an epoch */
    struct packed packed; /* of packing_source */
};

/* At least one example. */
enum status packing_open(const uint32_t *lengths, uint64_t count, int T, uint64_t seed, enum shuffle shuffle,
                         struct packing *out, struct err *err);
void packing_close(struct packing *packing); /* harmless on a zeroed struct */

/* The examples in row `number`, counted through all epochs, one after the other from the row's first place:
 * their numbers, up to PACKING_WINDOW, to `examples`. Returns how many. Any thread may call it. */
int packing_row(const struct packing *packing, uint64_t number, uint64_t *examples);

/* The source of its rows, which borrows the packing. Places behind the last example of a row are a sequence
 * of the token 0 and have no target. */
struct batch_source packing_source(struct packing *packing, struct packed packed);

#endif
