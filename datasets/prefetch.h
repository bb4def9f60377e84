/* Batches in advance. A thread prepares the next two batches while the current one is trained on, and
 * announces the one after to the system: waiting for the disk, page faults and widening 16-bit ids happen
 * there, not in the step.
 *
 * A batch is exactly that of split_batch: the thread and the timing change no bit. Batches are expected in
 * order, each beginning where the previous one ended; any other cursor also works, after a wait. No memory is
 * allocated after prefetch_open. */
#ifndef ANNEAL_DATASETS_PREFETCH_H
#define ANNEAL_DATASETS_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/batch.h"

struct prefetch;

/* Batches of at most B sequences of `split`, which must have sequences and outlive the prefetch. Without
 * `async`, or if no thread can be started, prefetch_take prepares each batch. */
enum status prefetch_open(const struct split *split, int B, bool async, struct prefetch **out,
                          struct err *err);
void prefetch_close(struct prefetch *prefetch); /* ends the thread; NULL is harmless */

/* Sets *inputs and *targets (b,T) int32 to the batch of split_batch(split, cursor, b, ...), b <= B; borrowed
 * until the next take. Only one thread may take. */
void prefetch_take(struct prefetch *prefetch, uint64_t cursor, int b, const int32_t **inputs,
                   const int32_t **targets);

/* Seconds that training has waited for batches. Call it from the thread that takes. */
double prefetch_waited(const struct prefetch *prefetch);

#endif
