/* `anneal runs`: the list of runs. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "core/base/text.h"
#include "tui/command/clean.h"
#include "tui/command/run_commands.h"
#include "tui/command/run_table.h"

enum { COLUMNS = 8, CELL_MAX = 128 };

static const char *const titles[COLUMNS] = {"RUN",      "STATUS",   "STEP",   "LOSS",
                                            "BEST VAL", "TOKENS/S", "DEVICE", "STARTED"};
static const bool right_aligned[COLUMNS] = {false, false, true, true, true, true, false, false};

static void format_number(double value, char *buf)
{
    if (isnan(value))
        snprintf(buf, CELL_MAX, "-");
    else
        snprintf(buf, CELL_MAX, "%.4f", value);
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
    format_number(run->final_loss, cells[3]);
    format_number(run->best_val_loss, cells[4]);
    if (isnan(run->tokens_per_sec))
        snprintf(cells[5], CELL_MAX, "-");
    else
        text_format_count(run->tokens_per_sec, cells[5], CELL_MAX);
    clean_line(cells[6], CELL_MAX, *run->device ? run->device : "-");
    if (!localtime_r(&created, &local) || !strftime(cells[7], CELL_MAX, "%Y-%m-%d %H:%M", &local))
        snprintf(cells[7], CELL_MAX, "-");
}

/* Columns that fit: all of them unless standard output is a terminal. */
static int columns_that_fit(const int widths[COLUMNS])
{
    struct winsize window;
    if (!isatty(STDOUT_FILENO)) return COLUMNS;
    const char *set = getenv("COLUMNS");
    int64_t room = 0;
    if (!set || !text_parse_int(set, &room) || room < 1)
        room = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col ? window.ws_col : 80;
    int n = 0;
    for (int64_t used = 0; n < COLUMNS; n++) {
        used += widths[n] + (n ? 2 : 0);
        if (used > room && n >= 2) break;
    }
    return n;
}

static void print_row(char cells[COLUMNS][CELL_MAX], const int widths[COLUMNS], int columns)
{
    for (int c = 0; c < columns; c++) {
        if (c) fputs("  ", stdout);
        if (right_aligned[c])
            printf("%*s", widths[c], cells[c]);
        else if (c + 1 < columns)
            printf("%-*s", widths[c], cells[c]);
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
    int columns = columns_that_fit(widths);
    for (int c = 0; c < COLUMNS; c++) snprintf(cells[c], CELL_MAX, "%s", titles[c]);
    print_row(cells, widths, columns);
    for (size_t i = 0; i < count; i++) {
        fill_cells(&runs[i], cells);
        print_row(cells, widths, columns);
    }
}

static enum status print_json(const struct run_info *runs, size_t count, struct err *err)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++) json_array_append_new(list, run_table_json(&runs[i]));
    return run_print_json(list, err);
}

static void print_help(void)
{
    puts("usage: anneal runs [--json] [--filter EXPR] [--sort KEY]\n"
         "\n"
         "Lists the runs, newest first. A run whose trainer died shows as crashed.\n"
         "\n"
         "  --filter EXPR  only runs for which EXPR holds: COLUMN OP VALUE, joined by commas (and);\n"
         "                 OP is = != < <= > >= or ~ (contains)\n"
         "  --sort KEY     by a column, rising; -KEY falling; runs without a value come last\n"
         "  --json         one JSON list of objects, one a run\n"
         "\n"
         "Columns: id name status created_at ended_at device precision parameters steps tokens\n"
         "         final_loss best_val_loss best_step tokens_per_sec total_steps heartbeat pid message\n"
         "Status:  created running paused finished early_stopped stopped failed crashed\n"
         "\n"
         "  anneal runs --filter status=running\n"
         "  anneal runs --filter 'name~kjv,best_val_loss<3.2' --sort best_val_loss");
}

int command_runs(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"filter", required_argument, NULL, 'f'},
                                            {"sort", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    const char *filter = NULL, *sort = NULL;
    bool json = false;
    opterr = 0;
    optind = 0;
    for (int option; (option = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        if (option == 'h') {
            print_help();
            return 0;
        }
        if (option == 'j')
            json = true;
        else if (option == 'f')
            filter = optarg;
        else if (option == 's')
            sort = optarg;
        else
            return run_option_error(argv, option);
    }
    if (optind < argc) return command_usage("runs", "takes no RUN (anneal show RUN shows one)");

    struct arena arena;
    struct store *store = NULL;
    struct run_info *runs = NULL;
    size_t count = 0;
    struct err err = {0};
    arena_init(&arena, 0);
    enum status status = run_open_store(&store, &err);
    if (!status) status = run_list(store, &arena, &runs, &count, &err);
    bool any = count > 0;
    if (!status && filter) status = run_table_filter(filter, runs, &count, &err);
    if (!status && sort) status = run_table_sort(sort, runs, count, &err);
    if (!status && json)
        status = print_json(runs, count, &err);
    else if (!status && count)
        print_table(runs, count);
    else if (!status)
        fprintf(stderr,
                any ? "no run fits the filter\n" : "there are no runs yet (start one with `anneal train`)\n");
    if (!status) status = run_check_stdout(&err);
    store_close(store);
    arena_release(&arena);
    return status ? command_fail(&err) : 0;
}
