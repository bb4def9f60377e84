/* See output.h. */
#include "tui/command/output.h"

#include <errno.h>
#include <langinfo.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "core/base/text.h"

enum { GAP = 2, FIRST_LEAST = 24, TITLE_MOST = 32, END_WIDTH = 4, NAME_WIDTH = 18, TEXT_ROOM = 4096 };

void output_say(const char *format, ...)
{
    char text[4096]; /* room for file names and recorded text */
    TEXT_FORMAT(text, format);
    fprintf(stderr, "anneal: %s\n", CLEAN_LINE(text));
}

bool output_ask(const char *format, ...)
{
    char question[400], line[16] = "";
    TEXT_FORMAT(question, format);
    fprintf(stderr, "%s [y/N] ", CLEAN_LINE(question));
    if (poll(&(struct pollfd){STDIN_FILENO, POLLIN, 0}, 1, -1) < 0) return false; /* a signal */
    return fgets(line, sizeof line, stdin) && (strcmp(line, "y\n") == 0 || strcmp(line, "yes\n") == 0);
}

bool output_is_terminal(FILE *out)
{
    const char *term = getenv("TERM");
    return isatty(fileno(out)) && term && *term && strcmp(term, "dumb") != 0;
}

bool output_has_color(FILE *out)
{
    const char *no_color = getenv("NO_COLOR");
    return output_is_terminal(out) && !(no_color && *no_color);
}

int output_columns(FILE *out)
{
    int64_t columns;
    struct winsize size;
    const char *set = getenv("COLUMNS");
    if (set && text_parse_int(set, &columns) && columns > 0) return columns < 10000 ? (int)columns : 10000;
    return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void output_padded(const char *text, int columns)
{
    int blanks = columns - glyph_text_width(text);
    printf("%s%*s", text, blanks > 0 ? blanks : 0, "");
}

enum status output_check(struct err *err)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return STATUS_OK;
    return err_set(err, STATUS_IO, "standard output: cannot write: %s",
                   errno ? strerror(errno) : "write error");
}

/* ---- tables ---- */

static bool add_column(struct table *table, const char *title)
{
    bool right = *title == '>';
    const char *text = clean_line_new(&table->arena, title + right);
    struct table_column *added =
        arena_grow(&table->arena, &table->columns, table->column_count, sizeof *added);
    if (!added) return false;
    int width = glyph_text_width(text);
    *added =
        (struct table_column){text, right, width < TITLE_MOST ? width : TITLE_MOST}; /* longer ones are cut */
    table->column_count++;
    return true;
}

void table_row(struct table *table)
{
    table->next = 0;
}

void table_cell(struct table *table, const char *title, const char *format, ...)
{
    char text[TEXT_ROOM];
    TEXT_FORMAT(text, format);
    const char **added = arena_grow(&table->arena, &table->cells, table->cell_count, sizeof *added);
    if (!added || (table->next == table->column_count && !add_column(table, title))) return;
    struct table_column *column = &table->columns[table->next++];
    const char *cell = clean_line_new(&table->arena, text);
    int width = glyph_text_width(cell);
    if (width > column->width) column->width = width;
    *added = cell;
    table->cell_count++;
}

/* At most `width` columns of the text, cut before its end, which differs in similar names. */
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

/* Prints the first column and those from `first` to `end`; titles if `cells` is NULL. */
static void print_line(const struct table *table, const char *const *cells, int indent, size_t first,
                       size_t end)
{
    int before = indent; /* blanks before the next text: none are printed after the last one */
    for (size_t c = 0; c < end; c = c ? c + 1 : first) {
        const struct table_column *column = &table->columns[c];
        const char *text = cells ? cells[c] : column->title;
        int blanks = column->width - glyph_text_width(text);
        if (blanks < 0) blanks = 0; /* it is cut */
        if (*text) {
            printf("%*s", before + (column->right ? blanks : 0), "");
            print_cut(text, column->width);
            before = GAP + (column->right ? 0 : blanks);
        } else {
            before += GAP + blanks;
        }
    }
    putchar('\n');
}

void table_print(struct table *table, int indent, int width, enum table_excess excess)
{
    struct table_column *columns = table->columns;
    size_t count = table->column_count, end;
    int room = width ? width - indent : 1 << 30;
    for (size_t first = 1; count && (first == 1 || first < count); first = end) {
        int left = room - columns[0].width;
        if (excess == TABLE_CUT && columns[0].width > FIRST_LEAST) left = room - FIRST_LEAST;
        for (end = first; end < count; end++) {
            if (GAP + columns[end].width > left && (end > first || excess == TABLE_CUT)) break;
            left -= GAP + columns[end].width;
        }
        if (excess == TABLE_CUT && columns[0].width > FIRST_LEAST + left)
            columns[0].width = FIRST_LEAST + left;
        if (first > 1) putchar('\n');
        print_line(table, NULL, indent, first, end);
        for (size_t i = 0; i + count <= table->cell_count; i += count)
            print_line(table, table->cells + i, indent, first, end);
        if (excess == TABLE_CUT || end == count) break;
    }
    arena_release(&table->arena);
    *table = (struct table){0};
}

/* ---- results ---- */

void output_begin(struct output *output, bool json)
{
    *output = (struct output){.json = json};
    json_out_begin(&output->out, stdout);
    if (json) json_out_open(&output->out, NULL, '{', JSON_OUT_LINES);
}

enum status output_end(struct output *output, struct err *err)
{
    if (!output->json) return STATUS_OK;
    json_out_close(&output->out);
    int code = json_out_finish(&output->out);
    return code ? err_set(err, STATUS_IO, "standard output: cannot write: %s", strerror(code)) : STATUS_OK;
}

/* After an empty line, unless it opens the page. */
static void print_title(struct output *output, const char *title)
{
    printf(output->begun ? "\n%s\n" : "%s\n", title);
    output->begun = true;
}

void output_open(struct output *output, const char *name, const char *title)
{
    if (output->json)
        json_out_open(&output->out, name, '{', JSON_OUT_LINES);
    else
        print_title(output, title);
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
    table_row(&output->list);
    output->in_list = true;
}

void output_list_end(struct output *output)
{
    if (output->json && output->in_list) json_out_close(&output->out);
    if (output->json) json_out_close(&output->out);
    if (!output->json && output->in_list) {
        bool titled = *output->list_title;
        if (titled) print_title(output, output->list_title);
        table_print(&output->list, titled ? GAP : 0, 0, TABLE_BLOCKS);
        output->begun = true;
    }
    output->in_list = false;
}

/* On the page: a cell of the list, or a line; NULL: absent. */
static void show(struct output *output, const char *name, bool right, const char *text)
{
    char title[64];
    output->begun = output->begun || (text && !output->in_list);
    snprintf(title, sizeof title, "%s%s", output->in_list && right ? ">" : "", name);
    if (output->in_list) {
        table_cell(&output->list, title, "%s", text ? text : "-");
    } else if (text) {
        output_padded(CLEAN_LINE(name), NAME_WIDTH);
        printf(" %s\n", CLEAN_LINE(text));
    }
}

void output_text(struct output *output, const char *name, const char *value)
{
    if (output->json)
        json_out_text(&output->out, name, value);
    else
        show(output, name, false, value && *value ? value : NULL);
}

void output_bytes(struct output *output, const char *name, int64_t value)
{
    if (output->json)
        json_out_whole(&output->out, name, value);
    else
        show(output, name, true, value < 0 ? NULL : TEXT_BYTES(value));
}

void output_whole(struct output *output, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    if (name && strstr(name, "bytes"))
        output_bytes(output, name, value);
    else if (output->json)
        json_out_whole(&output->out, name, value);
    else
        show(output, name, true, value < 0 ? NULL : output->in_list ? text : TEXT_NUMBER(value));
}

void output_real(struct output *output, const char *name, double value)
{
    char text[64];
    bool large = fabs(value) >= 1000 && fabs(value) < 1e9;
    if (name && (strstr(name, "loss") || strstr(name, "bits")))
        text_format_loss(value, text, sizeof text);
    else if (large && value > 0 && !output->in_list)
        text_format_number((uint64_t)llround(value), text, sizeof text);
    else
        snprintf(text, sizeof text, large ? "%.0f" : "%.4g", value);
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
    TEXT_FORMAT(text, format);
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

static void show_column(struct output *output, const struct column_info *column, const void *record,
                        const char *metric)
{
    const char *name = column->name, *text = column_text(column, record), *loss = strstr(name, "val_loss");
    double number = column_number(column, record);
    char title[96];
    if (loss && metric && *metric) {
        snprintf(title, sizeof title, "%.*s%s", (int)(loss - name), name, metric);
        name = title;
    }
    if (text || column_is_text(column))
        output_text(output, name, text);
    else if (strcmp(name, "wall_time") == 0 || strcmp(name, "issued_at") == 0)
        show(output, name, false, OUTPUT_TIME(number));
    else if (strstr(column->name, "loss"))
        show(output, name, true, TEXT_LOSS(number));
    else if (column->field == FIELD_BOOL)
        output_flag(output, name, number != 0);
    else if (column_is_real(column))
        output_real(output, name, number);
    else
        output_whole(output, name, isnan(number) ? -1 : (int64_t)number);
}

void output_record(struct output *output, enum store_table table, const void *record, const char *metric)
{
    const struct column_info *columns[COLUMNS_MAX];
    int n = table_csv_columns(table, columns);
    if (output->json) table_json(&output->out, table, record);
    for (int i = 0; i < n && !output->json; i++)
        if (columns[i]->field != FIELD_NONE) show_column(output, columns[i], record, metric);
}

void output_run(struct json_out *json, const struct run_info *run)
{
    const struct table_info *table = &store_tables[TABLE_RUNS];
    json_out_text(json, "run", run->id);
    for (int i = table->first; i < table->end; i++)
        if (i == COLUMN_RUNS_parent_id && !*run->parent_id)
            json_out_text(json, "parent_id", NULL);
        else if (store_columns[i].field != FIELD_NONE)
            column_json(json, &store_columns[i], run);
    json_out_text(json, "tags", run->tags);
}

enum status output_chart(const struct chart *chart, int rows, struct err *err)
{
    enum { COLUMNS = 78 };
    struct grid grid = {0};
    char row[COLUMNS * 4 + 1];
    enum status status = grid_resize(&grid, COLUMNS, rows, err);
    if (status) return status;
    grid.level = glyph_level_detect(nl_langinfo(CODESET), getenv("TERM"));
    chart_draw(&grid, (struct rect){0, 0, COLUMNS, rows}, chart);
    putchar('\n');
    for (int y = 0; y < rows; y++) printf("%s\n", grid_row(&grid, y, row, sizeof row));
    grid_release(&grid);
    return STATUS_OK;
}
