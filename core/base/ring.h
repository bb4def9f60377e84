/* A lock-free ring of messages of any length for one producer thread and one consumer thread.
 *
 * Pushing never blocks and never allocates: on a full ring it returns false. A message is contiguous, aligned
 * to 8 bytes, and stays in place until the consumer frees it, so it can be read in place, more than once. */
#ifndef ANNEAL_CORE_BASE_RING_H
#define ANNEAL_CORE_BASE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

struct ring {
    unsigned char *bytes;
    size_t capacity;                 /* a power of two */
    _Alignas(64) atomic_size_t head; /* where the next message is written; producer's */
    _Alignas(64) atomic_size_t tail; /* the oldest message that is not free; consumer's */
};

/* capacity is rounded up to a power of two; a message takes 8 bytes more than it holds. False when memory is
 * short. */
bool ring_init(struct ring *ring, size_t capacity);
void ring_release(struct ring *ring);

/* Producer: appends the parts as one message; false when the ring is full. */
bool ring_push(struct ring *ring, const struct iovec *parts, int count);

/* Consumer: returns the message at *position and advances it; NULL if there is none yet. The first message is
 * at ring->tail. */
void *ring_next(struct ring *ring, size_t *position);
/* Consumer: frees all messages before `position`. */
void ring_free(struct ring *ring, size_t position);

#endif
