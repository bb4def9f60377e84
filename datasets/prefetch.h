/* Batches in advance. A thread prepares the next two batches while the current one is trained on, and
 * announces the one after to the system: waiting for the disk, page faults and widening 16-bit ids happen
 * there, not in the step.
 *
 * A batch is exactly that of its source: the thread and the timing change no bit. Batches are expected in
 * order, each beginning where the previous one ended, or in steps; any other cursor also works, after a wait,
 * and is the first of a step. No memory is allocated after prefetch_open. */
#ifndef ANNEAL_DATASETS_PREFETCH_H
#define ANNEAL_DATASETS_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/batch.h"

struct prefetch;

/* Batches of at most B rows of `source`, whose context must outlive the prefetch. Without `async`, or if no
 * thread can be started, prefetch_take prepares each batch. */
enum status prefetch_open(struct batch_source source, int B, bool async, struct prefetch **out,
                          struct err *err);
void prefetch_close(struct prefetch *prefetch); /* ends the thread; NULL is harmless */

/* Call before the first take of a step: from now on the expected order is steps of `batches` batches, B rows
 * each, and a step begins `rows` rows after the one before. By default a step is one batch of B rows. What
 * was prepared for another order is dropped. */
void prefetch_expect_steps(struct prefetch *prefetch, int batches, uint64_t rows);

/* Call before the first take. Of inputs, ids from `inputs` on become 0, and of targets, those from `targets`
 * on LABEL_IGNORED: the model has no rows for them. A file of tokens has them if it was changed after it was
 * opened and measured. */
void prefetch_expect_ids(struct prefetch *prefetch, int32_t inputs, int32_t targets);
/* The newest such id of the batches taken so far; -1: there was none. */
int64_t prefetch_strange_id(const struct prefetch *prefetch);

/* (b,T) int32 each, borrowed until the next take. */
struct prefetched {
    const int32_t *inputs, *targets, *positions; /* positions NULL: the source is not packed */
};

/* The b <= B rows from `cursor` on. Only one thread may take. */
struct prefetched prefetch_take(struct prefetch *prefetch, uint64_t cursor, int b);

/* Seconds that training has waited for batches. Call it from the thread that takes. */
double prefetch_waited(const struct prefetch *prefetch);

#endif
