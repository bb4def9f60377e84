/* A lock-free ring of fixed-size records for one producer thread and one consumer thread.
 * Never blocks, never allocates after ring_init: a full ring refuses the record and says so. */
#ifndef ANNEAL_CORE_BASE_RING_H
#define ANNEAL_CORE_BASE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct ring {
    unsigned char *records;
    size_t record_bytes, capacity;   /* capacity is a power of two */
    _Alignas(64) atomic_size_t head; /* next record to write; producer's */
    _Alignas(64) atomic_size_t tail; /* next record to read; consumer's */
};

/* capacity is rounded up to a power of two. False when memory is short. */
bool ring_init(struct ring *ring, size_t record_bytes, size_t capacity);
void ring_release(struct ring *ring);

bool ring_push(struct ring *ring, const void *record); /* producer; false: full */
bool ring_pop(struct ring *ring, void *record);        /* consumer; false: empty */
size_t ring_count(const struct ring *ring);            /* either side; a snapshot */

#endif
