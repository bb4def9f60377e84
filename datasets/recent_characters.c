/* See recent_characters.h. */
#include "datasets/recent_characters.h"

#include <stddef.h>

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

uint32_t recent_like(uint32_t point)
{
    size_t low = 0, high = RECENT_COUNT;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (point > recent[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < RECENT_COUNT && point >= recent[low].first ? recent[low].like : point;
}
