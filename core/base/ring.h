/* A lock-free ring of messages of any length for one producer thread and one consumer thread.
 *
 * Never blocks, never allocates after ring_init: a full ring refuses the message and says so. A message lies
 * in one piece, aligned to 8 bytes, and stays where it is until the consumer frees it, so that it can be read
 * in place, and read again. */
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

/* The producer's: puts the parts one after the other, as one message; false: full. */
bool ring_push(struct ring *ring, const struct iovec *parts, int count);

/* The consumer's: the message at *position, which moves behind it; NULL: there is none yet. The first one is
 * at ring->tail. */
void *ring_next(struct ring *ring, size_t *position);
/* Frees all messages before `position`. */
void ring_free(struct ring *ring, size_t position);

#endif
