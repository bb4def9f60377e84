/* See output.h. */
#include "tui/command/output.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/text.h"
#include "tui/command/command.h"
#include "tui/widget/glyph.h"

enum { GAP = 2, FIRST_LEAST = 24, END_WIDTH = 4, NAME_WIDTH = 18, TEXT_ROOM = 4096 };

/* ---- tables ---- */

static void push(struct arena *arena, struct table_texts *list, const char *text)
{
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        const char **grown = arena_alloc_array(arena, room, sizeof *grown);
        if (!grown) return;
        if (list->count) memcpy(grown, list->at, list->count * sizeof *grown);
        list->at = grown;
        list->room = room;
    }
    list->at[list->count++] = text;
}

void table_row(struct table *table)
{
    if (!table->columns) table->columns = table->cells.count;
}

void table_cell(struct table *table, const char *title, const char *format, ...)
{
    char text[TEXT_ROOM];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!table->columns) push(&table->arena, &table->titles, clean_line_new(&table->arena, title));
    push(&table->arena, &table->cells, clean_line_new(&table->arena, text));
}

static const char *title_of(const struct table *table, size_t column)
{
    const char *title = table->titles.at[column];
    return title + (*title == '>');
}

static int column_width(const struct table *table, size_t column)
{
    int widest = glyph_text_width(title_of(table, column));
    for (size_t i = column; i < table->cells.count; i += table->columns) {
        int width = glyph_text_width(table->cells.at[i]);
        if (width > widest) widest = width;
    }
    return widest;
}

/* At most `width` columns of the text, cut before its end, which tells alike names apart. */
static void print_cut(const char *text, int width)
{
    int end_width = width > 2 * END_WIDTH ? END_WIDTH : 0;
    const char *head = text, *next = text, *tail = text;
    if (glyph_text_width(text) <= width) {
        fputs(text, stdout);
        return;
    }
    while (glyph_text_width(tail) > end_width) glyph_next(&tail);
    for (int left = width - end_width; (left -= glyph_width(glyph_next(&next))) >= 1;) head = next;
    printf("%.*s~%s", (int)(head - text), text, tail);
}

/* The first column and those from `first` to `end`. Blanks are owed until something follows them: no line
 * ends with one. */
static void print_line(const struct table *table, const char *const *texts, const int *widths, int indent,
                       size_t first, size_t end)
{
    int owed = indent;
    bool empty = true;
    for (size_t c = 0; c < end; c = c ? c + 1 : first) empty = empty && !*texts[c];
    for (size_t c = 0; c < end && !empty; c = c ? c + 1 : first) {
        bool right = table->titles.at[c][0] == '>';
        const char *text = texts[c] + (texts == table->titles.at && right);
        int blanks = widths[c] - glyph_text_width(text);
        if (blanks < 0) blanks = 0;
        if (right || !*text) owed += blanks;
        if (*text) {
            printf("%*s", owed, "");
            print_cut(text, widths[c]);
            owed = 0;
        }
        owed += GAP + (right || !*text ? 0 : blanks);
    }
    if (!empty) putchar('\n');
}

/* The end of the columns from `first` on that fit into `room` beside the first one. */
static size_t fit(const struct table *table, const int *widths, int room, size_t first,
                  enum table_excess excess)
{
    size_t end = first;
    for (; end < table->columns; end++) {
        room -= GAP + widths[end];
        if (room < 0 && (end > first || excess == TABLE_CUT)) break;
    }
    return end;
}

static void print_rows(const struct table *table, int *widths, int indent, int width,
                       enum table_excess excess)
{
    size_t end, columns = table->columns;
    for (size_t c = 0; c < columns; c++) widths[c] = column_width(table, c);
    int room = width ? width - indent : 1 << 30;
    int least = excess == TABLE_CUT && widths[0] > FIRST_LEAST ? FIRST_LEAST : widths[0];
    for (size_t first = 1; first == 1 || first < columns; first = end) {
        end = fit(table, widths, room - least, first, excess);
        int left = room;
        for (size_t c = first; c < end; c++) left -= GAP + widths[c];
        if (excess == TABLE_CUT && widths[0] > left) widths[0] = left;
        if (first > 1) putchar('\n');
        print_line(table, table->titles.at, widths, indent, first, end);
        for (size_t i = 0; i + columns <= table->cells.count; i += columns)
            print_line(table, table->cells.at + i, widths, indent, first, end);
        if (excess == TABLE_CUT) return;
    }
}

void table_print(struct table *table, int indent, int width, enum table_excess excess)
{
    table_row(table);
    int *widths = arena_alloc_array(&table->arena, table->columns, sizeof *widths);
    if (widths && table->columns && table->titles.count >= table->columns)
        print_rows(table, widths, indent, width, excess);
    arena_release(&table->arena);
    *table = (struct table){0};
}

/* ---- results ---- */

void output_begin(struct output *output, bool json)
{
    *output = (struct output){.json = json};
    if (json) command_begin_json(&output->out, '{');
}

enum status output_end(struct output *output, struct err *err)
{
    return output->json ? command_end_json(&output->out, err) : STATUS_OK;
}

void output_open(struct output *output, const char *name, const char *title)
{
    char line[100];
    clean_line(line, sizeof line, title);
    if (output->json)
        json_out_open(&output->out, name, '{', JSON_OUT_LINES);
    else
        printf("\n%s\n", line);
}

void output_close(struct output *output)
{
    if (output->json) json_out_close(&output->out);
}

void output_list(struct output *output, const char *name, const char *title)
{
    snprintf(output->list_title, sizeof output->list_title, "%s", title);
    if (output->json) json_out_open(&output->out, name, '[', JSON_OUT_LINES);
}

void output_item(struct output *output)
{
    if (output->json && output->in_list) json_out_close(&output->out);
    if (output->json) json_out_open(&output->out, NULL, '{', JSON_OUT_LINES);
    if (!output->json && output->in_list) table_row(&output->list);
    output->in_list = true;
}

void output_list_end(struct output *output)
{
    if (output->json && output->in_list) json_out_close(&output->out);
    if (output->json) json_out_close(&output->out);
    if (!output->json && output->in_list) {
        printf("\n%s\n", output->list_title);
        table_print(&output->list, GAP, 0, TABLE_BLOCKS);
    }
    output->in_list = false;
}

/* On the page: a cell of the list, or a line; NULL: absent. */
static void show(struct output *output, const char *name, bool right, const char *text)
{
    char title[64], line[TEXT_ROOM];
    snprintf(title, sizeof title, "%s%s", output->in_list && right ? ">" : "", name);
    if (output->in_list) {
        table_cell(&output->list, title, "%s", text ? text : "-");
    } else if (text) {
        clean_line(line, sizeof line, text);
        clean_line(title, sizeof title, name);
        printf("%-*s %s\n", NAME_WIDTH, title, line);
    }
}

void output_text(struct output *output, const char *name, const char *value)
{
    if (output->json)
        json_out_text(&output->out, name, value);
    else
        show(output, name, false, value && *value ? value : NULL);
}

void output_whole(struct output *output, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    if (output->json)
        json_out_whole(&output->out, name, value);
    else
        show(output, name, true, value < 0 ? NULL : text);
}

void output_bytes(struct output *output, const char *name, int64_t value)
{
    if (output->json)
        json_out_whole(&output->out, name, value);
    else
        show(output, name, true, value < 0 ? NULL : TEXT_BYTES(value));
}

void output_real(struct output *output, const char *name, double value, const char *unit)
{
    char text[64];
    snprintf(text, sizeof text, fabs(value) >= 1000 && fabs(value) < 1e9 ? "%.0f%s%s" : "%.4g%s%s", value,
             unit ? " " : "", unit ? unit : "");
    if (output->json)
        json_out_real(&output->out, name, value);
    else
        show(output, name, true, isnan(value) ? NULL : text);
}

void output_flag(struct output *output, const char *name, bool value)
{
    if (output->json)
        json_out_bool(&output->out, name, value);
    else
        show(output, name, false, value ? "yes" : "no");
}

void output_line(struct output *output, const char *name, const char *format, ...)
{
    char text[TEXT_ROOM];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!output->json) show(output, name, false, text);
}

/* ---- what the store holds ---- */

char *output_format_time(double when, char *buf, size_t size)
{
    time_t seconds = (time_t)when;
    struct tm local;
    if (!isfinite(when) || !localtime_r(&seconds, &local) ||
        !strftime(buf, size, "%Y-%m-%d %H:%M:%S", &local))
        snprintf(buf, size, "-");
    return buf;
}

static void show_column(struct output *output, const struct column_info *column, const void *record)
{
    const char *name = column->name, *text = column_text(column, record);
    size_t length = strlen(name);
    double number = column_number(column, record);
    bool time =
        strstr(name, "time") || strcmp(name + length - 3, "_at") == 0 || strcmp(name, "heartbeat") == 0;
    int64_t whole = isnan(number) ? -1 : (int64_t)number;
    if (text || column_is_text(column))
        output_text(output, name, text);
    else if (column_is_real(column) && time)
        show(output, name, false, isnan(number) ? NULL : OUTPUT_TIME(number));
    else if (strstr(name, "loss"))
        show(output, name, true, TEXT_LOSS(number));
    else if (column->field == FIELD_BOOL)
        output_flag(output, name, number != 0);
    else if (column_is_real(column))
        output_real(output, name, number, NULL);
    else if (strstr(name, "bytes"))
        output_bytes(output, name, whole);
    else
        output_whole(output, name, whole);
}

void output_record(struct output *output, enum store_table table, const void *record)
{
    const struct column_info *columns[COLUMNS_MAX];
    int n = table_csv_columns(table, columns);
    if (output->json) {
        table_json(&output->out, table, record);
        return;
    }
    for (int i = 0; i < n; i++)
        if (columns[i]->field != FIELD_NONE) show_column(output, columns[i], record);
}

void output_run(struct output *output, const struct run_info *run)
{
    const struct table_info *table = &store_tables[TABLE_RUNS];
    if (output->json) json_out_text(&output->out, "run", run->id);
    for (int i = table->first; i < table->end; i++) {
        const struct column_info *column = &store_columns[i];
        bool absent = (i == COLUMN_RUNS_final_loss && !run->loss_recorded) ||
                      (i == COLUMN_RUNS_best_val_loss && run->best_step < 0);
        if (column->field == FIELD_NONE) continue;
        if (!output->json && !absent)
            show_column(output, column, run);
        else if (i == COLUMN_RUNS_parent_id && !*run->parent_id)
            json_out_null(&output->out, column->name);
        else if (output->json)
            column_json(&output->out, column, run);
    }
}

void output_setting(struct output *output, const char *name, const char *value)
{
    int64_t integer;
    double number;
    bool is_true = strcmp(value, "true") == 0;
    if (!output->json)
        show(output, name, false, *value ? value : NULL);
    else if (is_true || strcmp(value, "false") == 0)
        json_out_bool(&output->out, name, is_true);
    else if (text_parse_int(value, &integer))
        json_out_int(&output->out, name, integer);
    else if (text_parse_double(value, &number) && isfinite(number))
        json_out_real(&output->out, name, number);
    else
        json_out_text(&output->out, name, value);
}
