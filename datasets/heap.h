/* A heap of keys, the lowest on top. A zeroed struct is an empty heap. HEAP_KEY is the type of the keys;
 * define it first if 64 bits are too few; wider keys take twice the time. */
#ifndef ANNEAL_DATASETS_HEAP_H
#define ANNEAL_DATASETS_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"

#ifndef HEAP_KEY
#define HEAP_KEY uint64_t
#endif
typedef HEAP_KEY heap_key;

struct heap {
    heap_key *keys;
    size_t count, capacity;
};

static inline bool heap_push(struct heap *heap, heap_key key)
{
    if (!list_reserve(&heap->keys, heap->count, 1, &heap->capacity, sizeof key)) return false;
    size_t at = heap->count++;
    for (size_t up; at && heap->keys[up = (at - 1) / 2] > key; at = up) heap->keys[at] = heap->keys[up];
    heap->keys[at] = key;
    return true;
}

static inline heap_key heap_pop(struct heap *heap)
{
    heap_key top = heap->keys[0], last = heap->keys[--heap->count];
    size_t at = 0;
    for (size_t down; (down = 2 * at + 1) < heap->count; at = down) {
        if (down + 1 < heap->count && heap->keys[down + 1] < heap->keys[down]) down++;
        if (heap->keys[down] >= last) break;
        heap->keys[at] = heap->keys[down];
    }
    heap->keys[at] = last;
    return top;
}

#endif
