/* See recent_characters.h. */
#include "datasets/recent_characters.h"

#include <stdlib.h>

static const struct recent {
    uint32_t first, last, like;
} recent[] = {
#define RECENT(first, last, like) {first, last, like},
#include "datasets/recent_characters.def"
};

enum { RECENT_COUNT = sizeof recent / sizeof *recent };

void recent_pages(bool pages[RECENT_PAGES])
{
    for (size_t i = 0; i < RECENT_COUNT; i++)
        for (uint32_t page = recent[i].first >> 8; page <= recent[i].last >> 8; page++) pages[page] = true;
}

static int compare(const void *key, const void *range)
{
    const uint32_t point = *(const uint32_t *)key;
    const struct recent *r = range;
    return (point > r->last) - (point < r->first);
}

uint32_t recent_like(uint32_t point)
{
    const struct recent *found = bsearch(&point, recent, RECENT_COUNT, sizeof *recent, compare);
    return found ? found->like : point;
}
