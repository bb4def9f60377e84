/* See arena.h. */
#include "core/base/arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16, SMALLEST = 4096, LARGEST = 1 << 18 };

struct arena_block {
    struct arena_block *older;
    size_t capacity, used;
    _Alignas(ALIGN) unsigned char data[];
};

void *arena_alloc(struct arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX - sizeof(struct arena_block) - ALIGN) return NULL;
    size_t padded = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct arena_block *block = arena->blocks;
    if (!block || block->capacity - block->used < padded) {
        size_t next = !block ? SMALLEST : block->capacity < LARGEST ? 2 * block->capacity : LARGEST;
        size_t capacity = padded > next ? padded : next;
        block = calloc(1, sizeof *block + capacity);
        if (!block) return NULL;
        block->capacity = capacity;
        block->older = arena->blocks;
        arena->blocks = block;
    }
    void *piece = block->data + block->used;
    block->used += padded;
    return piece;
}

void *arena_alloc_array(struct arena *arena, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size) return NULL;
    return arena_alloc(arena, count * size);
}

void *arena_grow(struct arena *arena, void *array, size_t count, size_t size)
{
    char *at;
    memcpy(&at, array, sizeof at);
    bool full = count == 0 || (count >= 16 && (count & (count - 1)) == 0); /* room for 16, 32, 64, … */
    if (full) {
        char *grown = arena_alloc_array(arena, count ? 2 * count : 16, size);
        if (!grown) return NULL;
        if (count) memcpy(grown, at, count * size);
        memcpy(array, &grown, sizeof grown);
        at = grown;
    }
    return at + count * size;
}

char *arena_strdup(struct arena *arena, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = arena_alloc(arena, n);
    return copy ? memcpy(copy, text, n) : NULL;
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n < 0 ? NULL : arena_alloc(arena, (size_t)n + 1);
    if (!text) return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}

void arena_release(struct arena *arena)
{
    for (struct arena_block *block = arena->blocks, *older; block; block = older) {
        older = block->older;
        free(block);
    }
    arena->blocks = NULL;
}

bool list_reserve(void *list, size_t count, size_t more, size_t *capacity, size_t size)
{
    void *old;
    if (*capacity - count >= more) return true;
    memcpy(&old, list, sizeof old);
    size_t wanted = 2 * count + more;
    void *grown = reallocarray(old, wanted, size);
    if (!grown) return false;
    memcpy(list, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}
