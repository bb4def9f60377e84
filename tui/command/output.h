/* The result of a command, described once and printed as a page for people or as JSON for programs.
 *
 * A member of the result is a line "name  value" of the page, a list is a table whose titles are its members'
 * names. An absent value (no text, a whole number below 0, a real that is not a number) is left out of the
 * page, "-" in a table and null in JSON. Every text is made safe for a terminal.
 *
 * Rows and columns for which memory is short are left out. */
#ifndef ANNEAL_TUI_COMMAND_OUTPUT_H
#define ANNEAL_TUI_COMMAND_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/json_out.h"
#include "runs/columns.h"
#include "runs/run.h"
#include "tui/widget/chart.h"

/* Prints "anneal: ..." on standard error, safe for a terminal. */
void output_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define output_warn(...) output_say("warning: " __VA_ARGS__)

/* Asks a question on standard error and reads the answer; anything but y or yes, the end of the input and a
 * signal are a no. */
bool output_ask(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether it is a terminal that can move its cursor and erase a line; one with TERM=dumb cannot. */
bool output_is_terminal(FILE *out);
/* Whether such a terminal may show colours, too. */
bool output_has_color(FILE *out);

/* The width of a page: COLUMNS, or that of the terminal `out` is; 0: not known. */
int output_columns(FILE *out);

/* Prints a clean line and blanks up to this many columns. */
void output_padded(const char *text, int columns);

/* STATUS_IO if standard output has not taken everything printed. */
enum status output_check(struct err *err);

/* ---- tables ---- */

/* Zero the struct before use. */
struct table {
    struct arena arena;
    struct table_column {
        const char *title;
        bool right; /* right-aligned */
        int width;
    } * columns;
    const char **cells;                    /* row by row */
    size_t column_count, cell_count, next; /* next: the column of the next cell */
};

void table_row(struct table *table); /* begins the next row */
/* The next cell of the row, in a column of this title, of which 32 columns are shown if no cell is wider;
 * ">TITLE": the column is aligned at the right. */
void table_cell(struct table *table, const char *title, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

enum table_excess {
    TABLE_BLOCKS, /* columns that do not fit follow below, after the repeated first one */
    TABLE_CUT,    /* such columns are left out, after cutting the first one to 24 columns */
};

/* Prints all rows on a page of this width (0: endless) and empties the table. */
void table_print(struct table *table, int indent, int width, enum table_excess excess);

/* ---- results ---- */

struct output {
    bool json, in_list;  /* in_list: an item is open */
    bool begun;          /* the page has a line */
    struct json_out out; /* with json; also for members of JSON alone */
    struct table list;   /* without json: the open list's items */
    char list_title[80];
};

/* Begins the object. */
void output_begin(struct output *output, bool json);
/* STATUS_IO where standard output did not take all of it. */
enum status output_end(struct output *output, struct err *err);

/* Begins a part, an object by this name, under a title on the page. */
void output_open(struct output *output, const char *name, const char *title);
void output_close(struct output *output);

/* A list without items prints nothing on a page; one without a title ("") is not indented. */
void output_list(struct output *output, const char *name, const char *title);
void output_item(struct output *output); /* begins the list's next object */
void output_list_end(struct output *output);

void output_text(struct output *output, const char *name, const char *value);
void output_whole(struct output *output, const char *name, int64_t value); /* "..._bytes" as below */
void output_bytes(struct output *output, const char *name, int64_t value);
void output_real(struct output *output, const char *name, double value);
void output_flag(struct output *output, const char *name, bool value);

/* A member by the type of its value, as JSON_OUT; up to eight at once. */
#define OUTPUT(output, name, value)                                                                          \
    _Generic((value), bool                                                                                   \
             : output_flag, double                                                                           \
             : output_real, char *                                                                           \
             : output_text, const char *                                                                     \
             : output_text, default                                                                          \
             : output_whole)(output, name, value)
#define OUTPUT_MEMBERS(...) JSON_PAIRS(OUTPUT, __VA_ARGS__)

/* A line for the page alone, or in a list a cell (">NAME": aligned at the right). */
void output_line(struct output *output, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints the columns of a record that CSV has, by name. On the page `metric` takes the place of val_loss
 * in the names (NULL or "": it is val_loss). */
void output_record(struct output *output, enum store_table table, const void *record, const char *metric);

/* All columns of a run as members of the object that is open. */
void output_run(struct json_out *json, const struct run_info *run);

/* Prints a chart of 78 columns and `rows` rows on the page, after an empty line. */
enum status output_chart(const struct chart *chart, int rows, struct err *err);

/* "2026-01-31 12:00:00"; "-" if not a time. Returns buf. */
char *output_format_time(double when, char *buf, size_t size);
#define OUTPUT_TIME(when) output_format_time(when, (char[32]){0}, 32)

#endif
