/* See column_table.h. */
#include "tui/command/column_table.h"

#include <stdbool.h>
#include <string.h>

#include "tui/widget/glyph.h"

enum { GAP = 2, COLUMN_LEAST = 6, COLUMN_MOST = 28, ORDINARY = 16, LINES_MOST = 12, LABEL_LEAST = 8 };

static const char *text_or_empty(const char *text)
{
    return text ? text : "";
}

/* The end of what of `text` fits into `width` columns; at least one character, so that there is progress. */
static const char *end_of_line(const char *text, int width)
{
    const char *end = text;
    for (int used = 0; *end;) {
        const char *next = end;
        used += glyph_width(glyph_next(&next));
        if (used > width && end > text) break;
        end = next;
    }
    return end;
}

static int label_width(const struct column_table *table, int width)
{
    int widest = 0;
    for (size_t r = 0; r < table->row_count; r++) {
        int own = table->rows[r].cells ? glyph_text_width(table->rows[r].label) : 0;
        if (own > widest) widest = own;
    }
    int most = width - GAP - COLUMN_LEAST;
    if (most < LABEL_LEAST) most = LABEL_LEAST;
    return widest < most ? widest : most;
}

static void widen(const char *text, int *widest, int *ordinary)
{
    int own = glyph_text_width(text_or_empty(text));
    if (own > *widest) *widest = own;
    if (own > *ordinary && own <= ORDINARY) *ordinary = own;
}

/* Wide enough for all texts where the columns then fit side by side; else for those of ordinary length, and
 * as much wider as the number of columns that a block has leaves room. */
static int column_width(const struct column_table *table, int room)
{
    int widest = COLUMN_LEAST, ordinary = COLUMN_LEAST;
    for (size_t c = 0; c < table->columns; c++) {
        widen(table->headings[c], &widest, &ordinary);
        for (size_t r = 0; r < table->row_count; r++)
            if (table->rows[r].cells) widen(table->rows[r].cells[c], &widest, &ordinary);
    }
    if (widest > COLUMN_MOST) widest = COLUMN_MOST;
    size_t columns = table->columns ? table->columns : 1;
    size_t fit = room > GAP + ordinary ? (size_t)room / (size_t)(GAP + ordinary) : 1;
    int width = (int)((size_t)room / (columns < fit ? columns : fit)) - GAP;
    if (width > widest) width = widest;
    return width < COLUMN_LEAST ? COLUMN_LEAST : width;
}

/* The piece of `text` on its line number `line`; *whole says whether it is all of the text. */
static void piece_of(const char *text, int line, int width, const char **start, const char **end, bool *whole)
{
    *start = text;
    *end = end_of_line(text, width);
    *whole = !**end;
    for (int i = 0; i < line; i++) {
        *start = *end;
        *end = end_of_line(*start, width);
    }
}

static int width_of(const char *start, const char *end)
{
    int width = 0;
    while (start < end) width += glyph_width(glyph_next(&start));
    return width;
}

struct layout {
    FILE *out;
    int label, column;
    size_t first, count; /* columns of this block */
};

static int print_piece(const struct layout *layout, const char *start, const char *end)
{
    fwrite(start, 1, (size_t)(end - start), layout->out);
    return width_of(start, end);
}

/* Blanks are owed until something follows them: no line ends with one. */
static void print_blanks(const struct layout *layout, int *owed)
{
    fprintf(layout->out, "%*s", *owed, "");
    *owed = 0;
}

/* Line `line` of a row; whether there is more of it. */
static bool print_line(const struct layout *layout, const char *label, const char *const *cells, int line)
{
    const char *start, *end;
    bool whole, more;
    piece_of(label, line, layout->label, &start, &end, &whole);
    int owed = layout->label - print_piece(layout, start, end);
    more = *end != '\0';
    for (size_t i = 0; i < layout->count; i++) {
        piece_of(text_or_empty(cells[layout->first + i]), line, layout->column, &start, &end, &whole);
        more = more || *end;
        int width = width_of(start, end);
        owed += GAP + (whole ? layout->column - width : 0);
        if (line + 1 == LINES_MOST && *end) {
            start = "...";
            end = start + 3;
            width = 3;
        }
        const char *last = end;
        while (last > start && last[-1] == ' ') last--;
        if (last > start) print_blanks(layout, &owed);
        owed += width - print_piece(layout, start, last) + (whole ? 0 : layout->column - width);
    }
    fputc('\n', layout->out);
    return more;
}

/* A row that says nothing in this block is left out. */
static bool is_empty(const struct layout *layout, const struct column_row *row)
{
    for (size_t i = 0; i < layout->count; i++)
        if (*text_or_empty(row->cells[layout->first + i])) return false;
    return !*row->label;
}

static void print_row(const struct layout *layout, const char *label, const char *const *cells)
{
    for (int line = 0; line < LINES_MOST && print_line(layout, label, cells, line);) line++;
}

void column_table_print(FILE *out, const struct column_table *table, int width)
{
    struct layout layout = {.out = out, .label = label_width(table, width)};
    layout.column = column_width(table, width - layout.label);
    int fit = (width - layout.label) / (GAP + layout.column);
    size_t most = fit > 0 ? (size_t)fit : 1;
    for (layout.first = 0; layout.first < table->columns; layout.first += layout.count) {
        size_t left = table->columns - layout.first;
        layout.count = left < most ? left : most;
        if (layout.first) fputc('\n', out);
        print_row(&layout, "", table->headings);
        for (size_t r = 0; r < table->row_count; r++)
            if (table->rows[r].cells && is_empty(&layout, &table->rows[r]))
                continue;
            else if (table->rows[r].cells)
                print_row(&layout, table->rows[r].label, table->rows[r].cells);
            else
                fprintf(out, "%s\n", table->rows[r].label);
    }
}
