/* See placement.h. */
#include "core/network/placement.h"

#include <stdbool.h>

static bool collide(const struct placement *a, const struct placement *b)
{
    return (a->conflicts >> b->number & 1) && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* Whether `a` is placed before `b`: the larger one, or of two alike the one that was named first. */
static bool comes_before(const struct placement *a, const struct placement *b)
{
    return a->bytes > b->bytes || (a->bytes == b->bytes && a < b);
}

/* The lowest offset at which it collides with none that comes before it: it only ever moves up, past what is
 * in its way, so no gap is passed over. */
static void place(struct placement *at, size_t count, struct placement *next)
{
    bool moved = true;
    next->offset = 0;
    while (moved) {
        moved = false;
        for (size_t i = 0; i < count; i++) {
            const struct placement *other = &at[i];
            if (!comes_before(other, next) || !collide(other, next)) continue;
            next->offset = other->offset + other->bytes;
            moved = true;
        }
    }
}

size_t placement_solve(struct placement *at, size_t count)
{
    size_t height = 0;
    struct placement *last = NULL;
    for (size_t done = 0; done < count; done++) {
        struct placement *next = NULL;
        for (size_t i = 0; i < count; i++)
            if ((!last || comes_before(last, &at[i])) && &at[i] != last &&
                (!next || comes_before(&at[i], next)))
                next = &at[i];
        place(at, count, next);
        if (next->offset + next->bytes > height) height = next->offset + next->bytes;
        last = next;
    }
    return height;
}
