/* See packing.h. */
#include "datasets/packing.h"

#include <stdlib.h>

/* A window's examples, and the row that each is in. */
struct window {
    struct placed {
        uint64_t example;
        uint32_t length;
        int row;
    } placed[PACKING_WINDOW];
    int64_t room[PACKING_WINDOW]; /* places left in each row */
    int count, rows;
};

/* Puts one more among the `count` that are sorted: the longest first, equal lengths in the order of the
 * examples. qsort would allocate memory, and steps compute rows. */
static void insert(struct placed *sorted, int count, struct placed next)
{
    int at = count;
    for (; at > 0; at--) {
        const struct placed *before = &sorted[at - 1];
        if (before->length > next.length) break;
        if (before->length == next.length && before->example < next.example) break;
        sorted[at] = *before;
    }
    sorted[at] = next;
}

static void fill_window(const struct packing *p, uint64_t number, struct window *w)
{
    uint64_t from = number * PACKING_WINDOW, left = p->count - from;
    int64_t *room = w->room;
    *w = (struct window){.count = left < PACKING_WINDOW ? (int)left : PACKING_WINDOW};
    for (int i = 0; i < w->count; i++) {
        uint64_t example = split_permute(&p->drawing, 0, from + (uint64_t)i);
        insert(w->placed, i, (struct placed){example, p->lengths[example], 0});
    }
    for (int i = 0; i < w->count; i++) {
        int64_t length = w->placed[i].length;
        int best = w->rows;
        for (int r = 0; r < w->rows; r++)
            if (room[r] >= length && (best == w->rows || room[r] < room[best])) best = r;
        if (best == w->rows) room[w->rows++] = p->T;
        room[best] -= length;
        w->placed[i].row = best;
    }
}

enum status packing_open(const uint32_t *lengths, uint64_t count, int T, uint64_t seed, enum shuffle shuffle,
                         struct packing *out, struct err *err)
{
    uint64_t windows = (count + PACKING_WINDOW - 1) / PACKING_WINDOW;
    struct packing p = {.lengths = lengths, .count = count, .T = T};
    struct window w;
    enum shuffle drawn = shuffle == SHUFFLE_NONE ? SHUFFLE_NONE : SHUFFLE_RANDOM;
    p.drawing = (struct split){.sequences = count, .seed = seed, .shuffle = drawn};
    p.first = malloc((windows + 1) * sizeof *p.first);
    if (!p.first) return err_no_memory(err, "packing the examples");
    for (uint64_t i = 0; i < windows; i++) {
        fill_window(&p, i, &w);
        p.first[i] = p.rows;
        p.rows += (uint64_t)w.rows;
        for (int k = 0; k < w.count; k++) p.span += (double)w.placed[k].length * w.placed[k].length;
        for (int r = 0; r < w.rows; r++) p.span += (double)w.room[r] * (double)w.room[r];
    }
    p.span /= (double)p.rows * T;
    p.first[windows] = p.rows;
    p.order = (struct split){.sequences = p.rows, .seed = seed, .shuffle = shuffle};
    *out = p;
    return STATUS_OK;
}

void packing_close(struct packing *p)
{
    free(p->first);
    *p = (struct packing){0};
}

/* The last window that begins at or before the row. */
static uint64_t window_of(const struct packing *p, uint64_t row)
{
    uint64_t low = 0, high = (p->count + PACKING_WINDOW - 1) / PACKING_WINDOW;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        *(p->first[middle] <= row ? &low : &high) = middle;
    }
    return low;
}

int packing_row(const struct packing *p, uint64_t number, uint64_t *examples)
{
    uint64_t row = split_permute(&p->order, number / p->rows, number % p->rows), window = window_of(p, row);
    struct window w;
    int count = 0;
    fill_window(p, window, &w);
    for (int i = 0; i < w.count; i++)
        if (p->first[window] + (uint64_t)w.placed[i].row == row) examples[count++] = w.placed[i].example;
    return count;
}

static void fill(const void *context, uint64_t cursor, int B, int32_t *inputs, int32_t *targets,
                 int32_t *positions)
{
    const struct packing *p = context;
    uint64_t chosen[PACKING_WINDOW];
    for (int b = 0; b < B; b++, inputs += p->T, targets += p->T, positions += p->T) {
        int count = packing_row(p, cursor + (uint64_t)b, chosen), at = 0;
        for (int t = 0; t < p->T; t++) inputs[t] = 0, targets[t] = LABEL_IGNORED;
        for (int i = 0; i < count; i++) {
            p->packed.fill(p->packed.context, chosen[i], inputs + at, targets + at);
            for (int t = 0; t < (int)p->lengths[chosen[i]]; t++) positions[at++] = t;
        }
        for (int t = 0; at < p->T; t++) positions[at++] = t;
    }
}

static double labels(const void *context, uint64_t cursor, uint64_t rows)
{
    const struct packing *p = context;
    uint64_t chosen[PACKING_WINDOW];
    double sum = 0;
    for (uint64_t b = 0; b < rows; b++) {
        int count = packing_row(p, cursor + b, chosen);
        for (int i = 0; i < count; i++) sum += p->packed.labels(p->packed.context, chosen[i]);
    }
    return sum;
}

/* Rows are scattered over the data, in pieces too small to be worth a hint. */
static void announce(const void *context, uint64_t cursor, int B)
{
    (void)context, (void)cursor, (void)B;
}

struct batch_source packing_source(struct packing *p, struct packed packed)
{
    p->packed = packed;
    return (struct batch_source){.context = p,
                                 .T = p->T,
                                 .packed = true,
                                 .rows = p->rows,
                                 .span = p->span,
                                 .fill = fill,
                                 .labels = labels,
                                 .announce = announce};
}
