/* See ring.h. Head and tail only grow; their difference is the fill, their low bits the slot. */
#include "core/base/ring.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool ring_init(struct ring *ring, size_t record_bytes, size_t capacity)
{
    size_t rounded = 1;
    while (rounded < capacity && rounded <= SIZE_MAX / 4) rounded *= 2;
    ring->records = record_bytes && rounded >= capacity ? calloc(rounded, record_bytes) : NULL;
    ring->record_bytes = record_bytes;
    ring->capacity = ring->records ? rounded : 0;
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    return ring->records != NULL;
}

void ring_release(struct ring *ring)
{
    free(ring->records);
    ring->records = NULL;
    ring->capacity = 0;
}

bool ring_push(struct ring *ring, const void *record)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    if (head - tail == ring->capacity) return false;
    memcpy(ring->records + (head & (ring->capacity - 1)) * ring->record_bytes, record, ring->record_bytes);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return true;
}

bool ring_pop(struct ring *ring, void *record)
{
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    size_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    if (head == tail) return false;
    memcpy(record, ring->records + (tail & (ring->capacity - 1)) * ring->record_bytes, ring->record_bytes);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

size_t ring_count(const struct ring *ring)
{
    size_t tail = atomic_load_explicit(&((struct ring *)ring)->tail, memory_order_acquire);
    return atomic_load_explicit(&((struct ring *)ring)->head, memory_order_acquire) - tail;
}
