/* An index from hashes to numbers. A zeroed struct is an empty index. */
#ifndef ANNEAL_DATASETS_HASH_INDEX_H
#define ANNEAL_DATASETS_HASH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONE UINT32_MAX

/* Open addressing, at most half full. */
struct hash_index {
    struct hash_slot {
        uint32_t hash, number; /* number + 1; 0: empty */
    } * slots;
    size_t mask, count;
};

static inline uint64_t hash_pair(uint32_t left, uint32_t right)
{
    uint64_t x = ((uint64_t)left << 32 | right) ^ left;
    x *= 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
}

/* The next number added under `hash`, HASH_NONE after the last. Set *at to the hash before the first call. */
static inline uint32_t hash_index_next(const struct hash_index *index, uint64_t hash, uint64_t *at)
{
    while (index->count) {
        const struct hash_slot *slot = &index->slots[(*at)++ & index->mask];
        if (!slot->number) break;
        if (slot->hash == (uint32_t)hash) return slot->number - 1;
    }
    return HASH_NONE;
}

static inline void hash_index_put(struct hash_index *index, struct hash_slot slot)
{
    size_t at = slot.hash & index->mask;
    while (index->slots[at].number) at = (at + 1) & index->mask;
    index->slots[at] = slot;
    index->count++;
}

/* False if memory runs out or the number is too large. */
static inline bool hash_index_add(struct hash_index *index, uint64_t hash, size_t number)
{
    if (number >= HASH_NONE) return false;
    if (2 * index->count >= index->mask) {
        struct hash_index grown = {.mask = index->mask ? 2 * index->mask + 1 : 255};
        grown.slots = calloc(grown.mask + 1, sizeof *grown.slots);
        if (!grown.slots) return false;
        for (size_t i = 0; i < index->mask + 1 && index->slots; i++)
            if (index->slots[i].number) hash_index_put(&grown, index->slots[i]);
        free(index->slots);
        *index = grown;
    }
    hash_index_put(index, (struct hash_slot){(uint32_t)hash, (uint32_t)number + 1});
    return true;
}

/* Keeps its memory. */
static inline void hash_index_empty(struct hash_index *index)
{
    if (index->count) memset(index->slots, 0, (index->mask + 1) * sizeof *index->slots);
    index->count = 0;
}

static inline void hash_index_release(struct hash_index *index)
{
    free(index->slots);
    *index = (struct hash_index){0};
}

#endif
