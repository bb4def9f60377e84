/* `anneal runs`: the list of runs. */
#include <langinfo.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clean.h"
#include "core/base/text.h"
#include "tui/command/command.h"
#include "tui/command/run_table.h"

enum { COLUMNS = 8, CELL_MAX = 128, GAP = 2 };
enum { RUN_LEAST = 24 }; /* of an id: when it started and the beginning of its name */

static const char *const titles[COLUMNS] = {"RUN",      "STATUS",   "STEP",   "LOSS",
                                            "BEST VAL", "TOKENS/S", "DEVICE", "STARTED"};
static const bool right_aligned[COLUMNS] = {false, false, true, true, true, true, false, false};

static void format_number(double value, bool present, char *buf)
{
    if (present)
        text_format_loss(value, buf, CELL_MAX);
    else
        snprintf(buf, CELL_MAX, "-");
}

static void fill_cells(const struct run_info *run, char cells[COLUMNS][CELL_MAX])
{
    time_t created = (time_t)run->created_at;
    struct tm local;
    clean_line(cells[0], CELL_MAX, run->id);
    snprintf(cells[1], CELL_MAX, "%s", run_status_name(run->status));
    if (run->total_steps > 0)
        snprintf(cells[2], CELL_MAX, "%lld/%lld", (long long)(run->steps > 0 ? run->steps : 0),
                 (long long)run->total_steps);
    else
        snprintf(cells[2], CELL_MAX, "%lld", (long long)(run->steps > 0 ? run->steps : 0));
    format_number(run->final_loss, run->loss_recorded, cells[3]);
    format_number(run->best_val_loss, run->best_step >= 0, cells[4]);
    if (isnan(run->tokens_per_sec))
        snprintf(cells[5], CELL_MAX, "-");
    else
        text_format_count(run->tokens_per_sec, cells[5], CELL_MAX);
    clean_line(cells[6], CELL_MAX, *run->device ? run->device : "-");
    if (!localtime_r(&created, &local) || !strftime(cells[7], CELL_MAX, "%Y-%m-%d %H:%M", &local))
        snprintf(cells[7], CELL_MAX, "-");
}

/* Columns of the terminal that standard output is; 0: it is none. */
static int terminal_width(void)
{
    int width = isatty(STDOUT_FILENO) ? command_columns(stdout) : 0;
    return isatty(STDOUT_FILENO) && !width ? 80 : width;
}

/* How many columns fit into `room`, the last ones going first; the first, the id, shrinks before any goes,
 * down to RUN_LEAST, and takes what is left over. */
static int fit_columns(int widths[COLUMNS], int room)
{
    int n = 1;
    int least = widths[0] < RUN_LEAST ? widths[0] : RUN_LEAST, used = least;
    while (n < COLUMNS && used + GAP + widths[n] <= room) used += GAP + widths[n++];
    if (widths[0] > least + room - used) widths[0] = least + room - used;
    return n;
}

static bool inside_character(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/* Cuts an id from its middle: the start is what a user types, the end tells alike ones apart (-2). */
static void shorten(char *text, int width)
{
    bool utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    int length = (int)strlen(text), tail = length - (width > RUN_LEAST / 2 ? 4 : 0), head = width - 1;
    char whole[CELL_MAX];
    if (length <= width) return;
    head -= length - tail;
    memcpy(whole, text, sizeof whole);
    while (head > 0 && inside_character(whole[head])) head--;
    while (inside_character(whole[tail])) tail++;
    snprintf(text, CELL_MAX, "%.*s%s%s", head, whole, utf8 ? "\xE2\x80\xA6" : "~", whole + tail);
}

/* Columns that printf must be asked for, which counts bytes, so that `text` takes `width` on the screen. */
static int padded(const char *text, int width)
{
    for (; *text; text++) width += inside_character(*text);
    return width;
}

static void print_row(char cells[COLUMNS][CELL_MAX], const int widths[COLUMNS], int columns)
{
    for (int c = 0; c < columns; c++) {
        if (c) printf("%*s", GAP, "");
        if (right_aligned[c])
            printf("%*s", widths[c], cells[c]);
        else if (c + 1 < columns)
            printf("%-*s", padded(cells[c], widths[c]), cells[c]);
        else
            fputs(cells[c], stdout);
    }
    putchar('\n');
}

static void print_table(const struct run_info *runs, size_t count)
{
    int widths[COLUMNS];
    char cells[COLUMNS][CELL_MAX];
    for (int c = 0; c < COLUMNS; c++) widths[c] = (int)strlen(titles[c]);
    for (size_t i = 0; i < count; i++) {
        fill_cells(&runs[i], cells);
        for (int c = 0; c < COLUMNS; c++)
            if ((int)strlen(cells[c]) > widths[c]) widths[c] = (int)strlen(cells[c]);
    }
    int room = terminal_width();
    int columns = room ? fit_columns(widths, room) : COLUMNS;
    for (int c = 0; c < COLUMNS; c++) snprintf(cells[c], CELL_MAX, "%s", titles[c]);
    if (room) shorten(cells[0], widths[0]);
    print_row(cells, widths, columns);
    for (size_t i = 0; i < count; i++) {
        fill_cells(&runs[i], cells);
        if (room) shorten(cells[0], widths[0]);
        print_row(cells, widths, columns);
    }
}

static enum status print_json(const struct run_info *runs, size_t count, struct err *err)
{
    struct json_out json;
    json_out_begin(&json, stdout);
    json_out_open(&json, NULL, '[', JSON_OUT_LINES);
    for (size_t i = 0; i < count; i++) {
        json_out_open(&json, NULL, '{', JSON_OUT_LINES);
        run_table_json(&json, &runs[i]);
        json_out_close(&json);
    }
    json_out_close(&json);
    return command_end_json(&json, err);
}

struct options {
    const char *filter, *sort;
    bool json;
};
#define AT(field) offsetof(struct options, field)

static enum status run(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct arena arena;
    struct store *store = NULL;
    struct run_info *runs = NULL;
    size_t count = 0;
    (void)words;
    arena_init(&arena, 0);
    enum status status = command_open_store(true, &store, err);
    if (!status) status = run_list(store, &arena, &runs, &count, err);
    bool any = count > 0;
    if (!status && o->filter) status = run_table_filter(store, o->filter, runs, &count, err);
    if (!status && o->sort) status = run_table_sort(o->sort, runs, count, err);
    if (!status && o->json)
        status = print_json(runs, count, err);
    else if (!status && count)
        print_table(runs, count);
    else if (!status)
        fputs(any ? "no run fits the filter\n" : "there are no runs yet (start one with `anneal train`)\n",
              stderr);
    store_close(store);
    arena_release(&arena);
    return status;
}

static const struct options defaults = {0};

static const struct option_spec options[] = {
    OPTION("filter", OPTION_ANY_TEXT, AT(filter), "EXPR",
           "only runs for which EXPR holds: COLUMN OP VALUE, joined by commas (and); OP is = != < <= > >= or "
           "~ (contains)"),
    OPTION("sort", OPTION_TEXT, AT(sort), "KEY",
           "by a column, rising; -KEY falling; runs without a value come last"),
    OPTION("json", OPTION_FLAG, AT(json), NULL, "one JSON list of objects, one a run"),
    {0},
};

const struct command command_runs = {
    .line = {.name = "runs",
             .words = "",
             .options = options,
             .about = "Lists the runs, newest first. A run whose trainer died shows as crashed. `anneal show "
                      "RUN` shows one.",
             .notes =
                 "  Columns: id name status created_at ended_at device precision parameters steps tokens\n"
                 "           final_loss best_val_loss best_step tokens_per_sec total_steps heartbeat pid "
                 "message\n"
                 "           parent_id parent_step (of a fork)\n"
                 "  Status:  created running paused finished early_stopped stopped failed crashed\n"
                 "\n"
                 "--filter also knows the keys of the configuration, such as train.learning_rate.\n"
                 "\n"
                 "  anneal runs --filter status=running\n"
                 "  anneal runs --filter 'name~kjv,best_val_loss<3.2' --sort best_val_loss\n"
                 "  anneal runs --filter 'train.learning_rate<1e-3,train.optimizer=lion'"},
    .summary = "list the runs",
    .defaults = &defaults,
    .size = sizeof defaults,
    .run = run,
};
