/* A bump allocator on the host heap: many small pieces of one lifetime, freed together. It grows by chaining
 * blocks, so pointers stay valid until arena_release. Memory is zeroed. Start with {0}. */
#ifndef ANNEAL_CORE_BASE_ARENA_H
#define ANNEAL_CORE_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
};

/* Zeroed memory aligned to 16 bytes; NULL when the system has no more. */
void *arena_alloc(struct arena *arena, size_t bytes);

/* count × size with an overflow check; NULL on overflow. */
void *arena_alloc_array(struct arena *arena, size_t count, size_t size);

/* Returns room for one more element of `size` bytes behind the `count` of an array in the arena. A full array
 * is moved, therefore `array` is the address of the pointer to it. NULL when memory runs out. */
void *arena_grow(struct arena *arena, void *array, size_t count, size_t size);

char *arena_strdup(struct arena *arena, const char *text);
char *arena_printf(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Frees everything; the arena may be used again. Harmless on a zeroed struct. */
void arena_release(struct arena *arena);

/* Grows a malloc'd array so that `more` elements of `size` bytes fit behind its `count`. `list` is the
 * address of the array's pointer. When memory runs out it returns false and nothing has changed. */
bool list_reserve(void *list, size_t count, size_t more, size_t *capacity, size_t size);

#endif
