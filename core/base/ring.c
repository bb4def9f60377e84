/* See ring.h. Head and tail only grow: their difference is the bytes in use, their low bits are the offset.
 * Each message follows a header with its size. If a message does not fit before the end of the buffer, SKIP
 * marks the rest and the message goes to the start. */
#include "core/base/ring.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = sizeof(uint64_t) };

static const uint64_t SKIP = UINT64_MAX;

bool ring_init(struct ring *ring, size_t capacity)
{
    size_t rounded = HEADER;
    while (rounded < capacity && rounded <= SIZE_MAX / 4) rounded *= 2;
    ring->bytes = rounded >= capacity ? calloc(1, rounded) : NULL;
    ring->capacity = ring->bytes ? rounded : 0;
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    return ring->bytes != NULL;
}

void ring_release(struct ring *ring)
{
    free(ring->bytes);
    ring->bytes = NULL;
    ring->capacity = 0;
}

bool ring_push(struct ring *ring, const struct iovec *parts, int count)
{
    uint64_t size = HEADER;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    size = (size + HEADER - 1) / HEADER * HEADER;
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    size_t offset = head & (ring->capacity - 1), rest = ring->capacity - offset;
    size_t skip = size > rest ? rest : 0;
    if (head + skip + size - tail > ring->capacity) return false;
    if (skip) memcpy(ring->bytes + offset, &SKIP, HEADER);
    unsigned char *at = ring->bytes + ((head + skip) & (ring->capacity - 1));
    memcpy(at, &size, HEADER);
    at += HEADER;
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len) memcpy(at, parts[i].iov_base, parts[i].iov_len);
        at += parts[i].iov_len;
    }
    atomic_store_explicit(&ring->head, head + skip + size, memory_order_release);
    return true;
}

void *ring_next(struct ring *ring, size_t *position)
{
    size_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    while (*position != head) {
        size_t offset = *position & (ring->capacity - 1);
        uint64_t size;
        memcpy(&size, ring->bytes + offset, HEADER);
        *position += size == SKIP ? ring->capacity - offset : size;
        if (size != SKIP) return ring->bytes + offset + HEADER;
    }
    return NULL;
}

void ring_free(struct ring *ring, size_t position)
{
    atomic_store_explicit(&ring->tail, position, memory_order_release);
}
