/* See profile_heat.h. */
#include "tui/view/profile_heat.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/widget/axis.h"

enum { OPERATIONS_MOST = 8, CANDIDATES_MOST = 128, LAYERS_MOST = 4096, AROUND = 2, TABLE_LEAST = 12 };
enum { LABEL_W = 26, SHADES = 5, CELL_WIDEST = 4 };

/* One operation of a phase, in all layers. */
struct operation {
    const char *phase, *op;
    double time_us;
};

enum style profile_phase_style(const char *phase)
{
    static const struct {
        const char *phase;
        enum style style;
    } styles[] = {{"forward", STYLE_TRAIN},
                  {"backward", STYLE_VAL},
                  {"recompute", STYLE_LR},
                  {"optimizer", STYLE_SPEED}};
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (strcmp(phase, styles[i].phase) == 0) return styles[i].style;
    return STYLE_DIM;
}

static bool counts(const struct profile_row *row)
{
    return row->layer >= 0 && row->layer < LAYERS_MOST && isfinite(row->time_us) && row->time_us > 0;
}

static int slower_first(const void *a, const void *b)
{
    const struct operation *left = a, *right = b;
    return (left->time_us < right->time_us) - (left->time_us > right->time_us);
}

static int find(const struct operation *operations, int count, const struct profile_row *row)
{
    int i = 0;
    while (i < count &&
           (strcmp(operations[i].op, row->op) != 0 || strcmp(operations[i].phase, row->phase) != 0))
        i++;
    return i;
}

/* The operations, the slowest first; *layers: how many there are. */
static int list_operations(const struct profile *profile, struct operation out[CANDIDATES_MOST], int *layers)
{
    int count = 0;
    *layers = 0;
    for (size_t i = 0; i < profile->count; i++) {
        const struct profile_row *row = &profile->rows[i];
        if (!counts(row)) continue;
        if (row->layer >= *layers) *layers = row->layer + 1;
        int at = find(out, count, row);
        if (at == CANDIDATES_MOST) continue;
        if (at == count) out[count++] = (struct operation){row->phase, row->op, 0};
        out[at].time_us += row->time_us;
    }
    qsort(out, (size_t)count, sizeof *out, slower_first);
    return count;
}

/* Blanks to full: also in ASCII, where the substitutes of the blocks are the same. */
static uint32_t shade(const struct grid *grid, double share)
{
    static const uint32_t blocks[SHADES] = {0xB7, 0x2591, 0x2592, 0x2593, 0x2588};
    static const char ascii[SHADES + 1] = ".:+*#";
    int level = (int)(share * SHADES);
    if (level >= SHADES) level = SHADES - 1;
    return grid->level == GLYPHS_ASCII ? (unsigned char)ascii[level] : blocks[level];
}

/* The numbers of the layers below their columns: the first, the last, and tens between. */
static void draw_layers(struct grid *grid, int x, int y, int cells, int cell_w, int layers)
{
    int free_x = x;
    char text[16];
    for (int layer = 0; layer < layers; layer++) {
        int at = x + (int)((int64_t)layer * cells / layers) * cell_w, n;
        if (layer % 10 != 0 && layer != layers - 1) continue;
        n = snprintf(text, sizeof text, "%d", layer);
        if (at < free_x || at + n > x + cells * cell_w + 3) continue;
        free_x = at + grid_text(grid, at, y, n, STYLE_DIM, ATTR_NONE, text) + 1;
    }
}

int profile_heat_draw(struct grid *grid, struct rect area, const struct profile *profile)
{
    struct operation operations[CANDIDATES_MOST];
    int layers, count = list_operations(profile, operations, &layers),
                most_rows = (area.h - TABLE_LEAST) / 2 - AROUND;
    int label = area.w / 3 < LABEL_W ? area.w / 3 : LABEL_W, room = area.w - label - 4;
    double most = 0;
    char detail[80];
    if (most_rows > OPERATIONS_MOST) most_rows = OPERATIONS_MOST;
    if (count > most_rows) count = most_rows;
    if (count < 2 || layers < 2 || room < 4) return 0;
    int cells = layers < room ? layers : room, cell_w = room / cells;
    if (cell_w > CELL_WIDEST) cell_w = CELL_WIDEST;
    size_t size = (size_t)count * (size_t)cells;
    double *sums = grid_scratch(grid, 2 * size * sizeof *sums), *ns = sums + size;
    if (!sums) return 0;
    for (size_t i = 0; i < profile->count; i++) {
        const struct profile_row *row = &profile->rows[i];
        int at = counts(row) ? find(operations, count, row) : count;
        if (at == count) continue;
        size_t cell = (size_t)at * (size_t)cells + (size_t)((int64_t)row->layer * cells / layers);
        sums[cell] += row->time_us;
        ns[cell]++;
    }
    for (size_t i = 0; i < size; i++) most = fmax(most, ns[i] > 0 ? sums[i] / ns[i] : 0);
    snprintf(detail, sizeof detail, "the fullest is %s ms a step", AXIS_TEXT(most / 1e3));
    grid_title(grid, &area, "layers", detail);
    for (int i = 0; i < count; i++) {
        struct pen pen = {grid, area.x + 1, area.y + i, area.x + 1 + label};
        pen_print(&pen, STYLE_TEXT, ATTR_NONE, "%s ", operations[i].op);
        pen_print(&pen, STYLE_DIM, ATTR_NONE, "%s", operations[i].phase);
        for (int c = 0; c < cells * cell_w; c++) {
            size_t cell = (size_t)i * (size_t)cells + (size_t)(c / cell_w);
            if (!(ns[cell] > 0)) continue;
            grid_put(grid, area.x + 2 + label + c, area.y + i, shade(grid, sums[cell] / ns[cell] / most),
                     profile_phase_style(operations[i].phase), ATTR_NONE);
        }
    }
    draw_layers(grid, area.x + 2 + label, area.y + count, cells, cell_w, layers);
    return count + AROUND;
}
