/* See column_table.h. */
#include "tui/command/column_table.h"

#include <stdbool.h>
#include <string.h>

#include "tui/widget/glyph.h"

enum { GAP = 2, COLUMN_LEAST = 6, COLUMN_MOST = 28, LINES_MOST = 12, LABEL_LEAST = 8 };

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

static int column_width(const struct column_table *table, int room)
{
    int widest = COLUMN_LEAST;
    for (size_t c = 0; c < table->columns; c++) {
        int own = glyph_text_width(table->headings[c]);
        if (own > widest) widest = own;
        for (size_t r = 0; r < table->row_count; r++) {
            const char *const *cells = table->rows[r].cells;
            own = cells ? glyph_text_width(text_or_empty(cells[c])) : 0;
            if (own > widest) widest = own;
        }
    }
    if (widest > COLUMN_MOST) widest = COLUMN_MOST;
    if (widest > room) widest = room;
    return widest < COLUMN_LEAST ? COLUMN_LEAST : widest;
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

struct layout {
    FILE *out;
    int label, column;
    size_t first, count; /* columns of this block */
};

static int print_piece(const struct layout *layout, const char *start, const char *end)
{
    int used = 0;
    for (const char *c = start; c < end;) used += glyph_width(glyph_next(&c));
    fwrite(start, 1, (size_t)(end - start), layout->out);
    return used;
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
        int width = 0;
        for (const char *c = start; c < end;) width += glyph_width(glyph_next(&c));
        owed += GAP + (whole ? layout->column - width : 0);
        if (start < end) print_blanks(layout, &owed);
        bool cut = line + 1 == LINES_MOST && *end;
        if (cut)
            fputs("...", layout->out);
        else
            print_piece(layout, start, end);
        owed += whole ? (start < end ? 0 : width) : layout->column - (cut ? 3 : width);
        more = more || *end;
    }
    fputc('\n', layout->out);
    return more;
}

static void print_row(const struct layout *layout, const char *label, const char *const *cells)
{
    for (int line = 0; line < LINES_MOST && print_line(layout, label, cells, line);) line++;
}

void column_table_print(FILE *out, const struct column_table *table, int width)
{
    struct layout layout = {.out = out, .label = label_width(table, width)};
    layout.column = column_width(table, width - layout.label - GAP);
    int fit = (width - layout.label) / (GAP + layout.column);
    size_t most = fit > 0 ? (size_t)fit : 1;
    for (layout.first = 0; layout.first < table->columns; layout.first += layout.count) {
        size_t left = table->columns - layout.first;
        layout.count = left < most ? left : most;
        if (layout.first) fputc('\n', out);
        print_row(&layout, "", table->headings);
        for (size_t r = 0; r < table->row_count; r++)
            if (table->rows[r].cells)
                print_row(&layout, table->rows[r].label, table->rows[r].cells);
            else
                fprintf(out, "%s\n", table->rows[r].label);
    }
}
