/* Batches before they are asked for. A thread of its own cuts the next two while the current one is trained
 * on, and tells the system about the one after: waiting for the disk, page faults and widening 16-bit ids
 * happen there, not in the step.
 *
 * A batch is exactly that of split_batch: which thread cuts it, and when, changes no bit. Batches are
 * expected in order, each beginning where the one before ended; any other cursor is served all the same,
 * after a wait. No memory is allocated after prefetch_open. */
#ifndef ANNEAL_DATASETS_PREFETCH_H
#define ANNEAL_DATASETS_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/batch.h"

struct prefetch;

/* Batches of at most B sequences of `split`, which has sequences, is borrowed and must outlive the prefetch.
 * Not `async`, or where the system gives no thread: each batch is cut in prefetch_take. */
enum status prefetch_open(const struct split *split, int B, bool async, struct prefetch **out,
                          struct err *err);
void prefetch_close(struct prefetch *prefetch); /* ends the thread; NULL is harmless */

/* *inputs and *targets (b,T) int32 are what split_batch(split, cursor, b, ...) fills, b <= B; borrowed until
 * the next take. One thread takes. */
void prefetch_take(struct prefetch *prefetch, uint64_t cursor, int b, const int32_t **inputs,
                   const int32_t **targets);

/* Seconds that training has waited for batches. By the thread that takes. */
double prefetch_waited(const struct prefetch *prefetch);

#endif
