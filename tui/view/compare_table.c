/* See compare_table.h. */
#include "tui/view/compare_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tui/view/labels.h"
#include "tui/widget/axis.h"
#include "tui/widget/layout.h"

enum { COLUMNS_MOST = 256, CELL_MAX = 96, NAME_WIDEST = 28, CELL_WIDEST = 28 };

/* The first two columns are the run and its value at the cursor. */
struct column {
    enum { COLUMN_NAME, COLUMN_VALUE, COLUMN_ROW } kind;
    const struct comparison_row *row; /* of COLUMN_ROW: its cells stand below each other here */
    const char *title;
};

/* The last word of a setting's name, or all of it where another setting of the table ends in that word. */
static const char *row_title(const struct comparison *c, const struct comparison_row *row)
{
    const char *dot = row->section == COMPARED_SETTINGS ? strrchr(row->name, '.') : NULL;
    for (size_t i = 0; dot && i < c->row_count; i++) {
        const char *other = c->rows[i].section == COMPARED_SETTINGS ? strrchr(c->rows[i].name, '.') : NULL;
        if (other && &c->rows[i] != row && strcmp(other, dot) == 0) return row->name;
    }
    return dot ? dot + 1 : row->name;
}

static size_t list_columns(const struct compare_table *table, struct column *columns)
{
    const struct comparison *c = &table->model->comparison;
    size_t count = 2;
    columns[0] = (struct column){COLUMN_NAME, NULL, "run"};
    columns[1] = (struct column){COLUMN_VALUE, NULL, table->request->look.title};
    for (int target = 1; target >= 0; target--) /* the target comes first */
        for (size_t i = 0; i < c->row_count && count < COLUMNS_MOST; i++) {
            const struct comparison_row *row = &c->rows[i];
            bool status = row->section == COMPARED_OUTCOMES && row->unit == IN_WORDS;
            if (row->target == (target > 0) && !status)
                columns[count++] = (struct column){COLUMN_ROW, row, row_title(c, row)};
        }
    return count;
}

/* A value as the chart shows it. */
static double shown(const struct compare_table *table, double value)
{
    const struct chart_look *look = &table->request->look;
    return (look->exponential ? exp(value) : value) * look->scale;
}

/* The value of a curve at the cursor or its newest; of several runs with their range, of a smoothed one the
 * average first. */
static void value_text(const struct compare_table *table, size_t row, char *buf, size_t size)
{
    const struct compare_value *v = &table->values[row];
    double value = shown(table, v->value);
    bool several = table->model->comparison.runs[row].run_count > 1;
    if (!v->known)
        snprintf(buf, size, "--");
    else if (several && v->runs)
        snprintf(buf, size, "%s (%s to %s, n %zu)", AXIS_TEXT(value), AXIS_TEXT(shown(table, v->low)),
                 AXIS_TEXT(shown(table, v->high)), v->runs);
    else if (!isnan(v->average))
        snprintf(buf, size, "%s (%s)", AXIS_TEXT(shown(table, v->average)), AXIS_TEXT(value));
    else
        axis_format(value, buf, size);
}

static const char *cell_text(const struct compare_table *table, const struct column *column, size_t row,
                             char *buf, size_t size)
{
    const struct comparison *c = &table->model->comparison;
    if (column->kind == COLUMN_ROW) return comparison_text(c, column->row, row, buf, size);
    if (column->kind == COLUMN_NAME) return c->runs[row].title;
    value_text(table, row, buf, size);
    return buf;
}

/* The columns that the widest cell takes, within limits. */
static int column_width(const struct compare_table *table, const struct column *column)
{
    char text[CELL_MAX];
    int width = glyph_text_width(column->title), widest = column->kind == COLUMN_NAME    ? NAME_WIDEST
                                                          : column->kind == COLUMN_VALUE ? CELL_MAX
                                                                                         : CELL_WIDEST;
    for (size_t row = 0; row < table->model->curve_count; row++) {
        int w = glyph_text_width(cell_text(table, column, row, text, sizeof text));
        if (w > width) width = w;
    }
    return width < widest ? width : widest;
}

static bool is_left(const struct column *column)
{
    return column->kind == COLUMN_NAME || (column->row && column->row->section == COMPARED_SETTINGS);
}

static void draw_cell(const struct compare_table *table, struct grid *grid, int x, int y, int w,
                      const struct column *column, size_t row)
{
    char buf[CELL_MAX];
    const struct compared *run = &table->model->comparison.runs[row];
    const char *text = cell_text(table, column, row, buf, sizeof buf);
    if (column->kind != COLUMN_NAME) {
        (is_left(column) ? grid_name : grid_text_right)(grid, x, y, w, STYLE_TEXT, 0, text);
        return;
    }
    struct status_label status = label_status(run->info->status);
    grid_put(grid, x, y, (unsigned char)COMPARE_DIGITS[row], (enum style)(STYLE_CURVE + row), ATTR_BOLD);
    grid_put(grid, x + 1, y, status.symbol, status.style, 0);
    const char *name = strchr(text, ' ');
    grid_name(grid, x + 3, y, w - 3, STYLE_TEXT, ATTR_BOLD, name ? name + 1 : text);
}

void compare_table_draw(struct compare_table *table, struct grid *grid, struct rect area)
{
    enum { GAP = 2, FIXED = 2, CUT_LEAST = 12 };
    struct column columns[COLUMNS_MOST];
    size_t count = list_columns(table, columns), rows = table->model->curve_count;
    int x = area.x + 1, end = area.x + area.w - 1;
    if (area.h < 2) return;
    if (table->first_column + FIXED >= count) table->first_column = count > FIXED ? count - FIXED - 1 : 0;
    grid_fill(grid, (struct rect){area.x, area.y, area.w, 1}, 0x2500, STYLE_RULE);
    table->page = (size_t)area.h - 1;
    table_scroll(&table->scroll, table->selected, rows, table->page);
    size_t c = 0;
    for (; c < count && x < end; c = c + 1 == FIXED ? c + 1 + table->first_column : c + 1) {
        const struct column *column = &columns[c];
        int w = column_width(table, column) + (column->kind == COLUMN_NAME ? 2 : 0), room = end - x;
        if (w > room && c >= FIXED && room < CUT_LEAST) break;
        if (w > room) w = room;
        grid_fill(grid, (struct rect){x - 1, area.y, w + 2 < room ? w + 2 : room + 1, 1}, ' ', STYLE_TEXT);
        (is_left(column) ? grid_text : grid_text_right)(grid, x, area.y, w, STYLE_DIM, 0, column->title);
        for (size_t r = 0; r < table->page && table->scroll + r < rows; r++)
            draw_cell(table, grid, x, area.y + 1 + (int)r, w, column, table->scroll + r);
        x += w + GAP;
    }
    if (table->first_column) grid_put(grid, area.x, area.y, 0x2190, STYLE_ACCENT, ATTR_BOLD);
    if (c < count) grid_put(grid, area.x + area.w - 1, area.y, 0x2192, STYLE_ACCENT, ATTR_BOLD);
    int y = area.y + 1 + (int)(table->selected - table->scroll); /* table_scroll has put it on the page */
    grid_put(grid, area.x, y, 0x25B8, STYLE_ACCENT, ATTR_BOLD);
    grid_mark(grid, (struct rect){area.x, y, area.w, 1}, ATTR_REVERSE);
    grid_scroll_marks(grid, (struct rect){area.x, area.y + 1, area.w, area.h - 1}, table->scroll > 0,
                      table->scroll + table->page < rows);
}
