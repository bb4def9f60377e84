/* `anneal compare`: the configuration keys in which runs differ, and the outcome of each. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "tui/command/clean.h"
#include "tui/command/column_table.h"
#include "tui/command/comparison.h"
#include "tui/command/run_commands.h"

static const char *keep(struct comparison *c, const char *text)
{
    const char *copy = arena_strdup(&c->arena, text);
    return copy ? copy : "?";
}

static const char *format_value(struct comparison *c, size_t run, enum outcome which)
{
    char value[64], cell[72];
    double number = c->runs[run].values[which];
    if (!c->runs[run].present[which])
        snprintf(value, sizeof value, "-");
    else if (which == FINAL_LOSS || which == BEST_VAL_LOSS)
        text_format_loss(number, value, sizeof value);
    else if (which == TOKENS_PER_SEC)
        text_format_count(number, value, sizeof value);
    else if (which == PEAK_MEMORY)
        text_format_bytes((uint64_t)number, value, sizeof value);
    else if (which == WALL_TIME)
        clock_format_duration(number, value, sizeof value);
    else
        snprintf(value, sizeof value, "%.0f", number);
    snprintf(cell, sizeof cell, "%s%s", value, comparison_is_best(c, run, which) ? " *" : "  ");
    return keep(c, cell);
}

/* How far from the first run; "" for that one, where a value is missing and where there is no difference. */
static const char *format_delta(struct comparison *c, size_t run, enum outcome which)
{
    char cell[64];
    double first = c->runs[0].values[which], delta = c->runs[run].values[which] - first;
    if (run == 0 || !isfinite(delta) || delta == 0) return "";
    if (outcomes[which].percent && (first <= 0 || fabs(delta / first) < 5e-4)) return ""; /* not in 0.1 % */
    if (outcomes[which].percent)
        snprintf(cell, sizeof cell, "%+.1f%%  ", 100 * delta / first);
    else if (which == STEPS || which == BEST_STEP)
        snprintf(cell, sizeof cell, "%+.0f  ", delta);
    else
        snprintf(cell, sizeof cell, "%+.4f  ", delta);
    return keep(c, cell);
}

typedef const char *(*cell_format)(struct comparison *, size_t, enum outcome);

static const char *const *make_cells(struct comparison *c, cell_format format, enum outcome which, bool *any)
{
    const char **cells = arena_alloc_array(&c->arena, c->count, sizeof *cells);
    *any = false;
    for (size_t i = 0; cells && i < c->count; i++) {
        cells[i] = format(c, i, which);
        *any = *any || *cells[i];
    }
    return cells;
}

static size_t add_outcomes(struct comparison *c, struct column_row *rows)
{
    size_t n = 0;
    bool any;
    const char **states = arena_alloc_array(&c->arena, c->count, sizeof *states);
    if (!states) return 0;
    for (size_t i = 0; i < c->count; i++) {
        char cell[40];
        snprintf(cell, sizeof cell, "%s  ", run_status_name(c->runs[i].info.status));
        states[i] = keep(c, cell);
    }
    rows[n++] = (struct column_row){"status", states};
    for (int o = 0; o < OUTCOMES; o++) {
        const char *const *cells = make_cells(c, format_value, (enum outcome)o, &any);
        if (cells) rows[n++] = (struct column_row){outcomes[o].label, cells};
        cells = make_cells(c, format_delta, (enum outcome)o, &any);
        if (cells && any) rows[n++] = (struct column_row){"", cells};
    }
    return n;
}

static size_t add_differences(struct comparison *c, struct column_row *rows)
{
    size_t n = 0;
    for (size_t d = 0; d < c->difference_count; d++) {
        const char **cells = arena_alloc_array(&c->arena, c->count, sizeof *cells);
        if (!cells) return n;
        for (size_t i = 0; i < c->count; i++) {
            const char *value = c->differences[d].values[i];
            cells[i] = value && *value ? clean_line_new(&c->arena, value) : value ? "\"\"" : "-";
        }
        rows[n++] = (struct column_row){clean_line_new(&c->arena, c->differences[d].key), cells};
    }
    return n;
}

/* 80 where standard output is no terminal: so it is the same everywhere. */
static int page_width(void)
{
    struct winsize window;
    int64_t width;
    const char *set = getenv("COLUMNS");
    if (set && text_parse_int(set, &width) && width > 0) return width < 10000 ? (int)width : 10000;
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col
               ? window.ws_col
               : 80;
}

static enum status print_page(struct comparison *c, struct err *err)
{
    size_t most = c->difference_count + 2 * OUTCOMES + 8, n = 0;
    struct column_row *rows = arena_alloc_array(&c->arena, most, sizeof *rows);
    const char **headings = arena_alloc_array(&c->arena, c->count, sizeof *headings);
    if (!rows || !headings) return err_set(err, STATUS_NO_MEMORY, "comparing runs: not enough memory");
    for (size_t i = 0; i < c->count; i++) {
        const char *name = clean_line_new(&c->arena, c->runs[i].info.name);
        headings[i] = arena_printf(&c->arena, "%zu %s", i + 1, name);
        if (!headings[i]) return err_set(err, STATUS_NO_MEMORY, "comparing runs: not enough memory");
        printf("%zu  %s\n", i + 1, clean_line_new(&c->arena, c->runs[i].info.id));
    }
    size_t recorded = 0; /* configurations: an imported run has none */
    char of[64] = "";
    for (size_t i = 0; i < c->count; i++) recorded += c->runs[i].param_count > 0;
    if (recorded < c->count) snprintf(of, sizeof of, " (recorded of %zu of %zu runs)", recorded, c->count);
    const char *title =
        recorded == 0   ? "No configuration is recorded."
        : recorded == 1 ? arena_printf(&c->arena, "No configurations to compare%s.", of)
        : c->difference_count == 0
            ? arena_printf(&c->arena, "All %zu keys of the configuration are the same%s.", c->key_count, of)
            : arena_printf(&c->arena, "Configuration: %zu of %zu keys differ%s", c->difference_count,
                           c->key_count, of);
    rows[n++] = (struct column_row){title ? title : "", NULL};
    n += add_differences(c, rows + n);
    rows[n++] = (struct column_row){"", NULL};
    rows[n++] = (struct column_row){"Outcome (* the best; below it, how far from the first run)", NULL};
    n += add_outcomes(c, rows + n);
    putchar('\n');
    struct column_table table = {headings, c->count, rows, n};
    column_table_print(stdout, &table, page_width());
    return STATUS_OK;
}

/* ---- the command ---- */

static void print_help(void)
{
    puts(
        "usage: anneal compare RUN RUN... [--json]\n"
        "\n"
        "Shows in which keys of the configuration the runs differ, and only those, then the outcome of each: "
        "status,\n"
        "steps, losses, speed, memory and time, each with its distance to the first run; the best is marked. "
        "Many\n"
        "runs come in blocks of columns that fit the terminal (80 columns elsewhere, or COLUMNS).\n"
        "\n"
        "  --json   one JSON object: runs (the columns of `anneal runs`, peak_memory_bytes, wall_time_sec, "
        "and\n"
        "           delta, the distances to the first), config (key: one value a run), best (ids)\n"
        "\n"
        "Speed is the recent one; memory is the sum of each category's peak; wall time is how long the "
        "run's\n"
        "trainers lived.\n"
        "\n"
        "RUN is an id, the start of one, a name (the newest of that name), or latest.\n"
        "\n"
        "  anneal compare base wide latest\n"
        "  anneal runs --filter 'train.learning_rate<1e-3'      which runs there are to compare");
}

int command_compare(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    bool json = false;
    opterr = 0;
    optind = 0;
    for (int option; (option = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        if (option == 'h') {
            print_help();
            return 0;
        }
        if (option != 'j') return run_option_error(argv, option);
        json = true;
    }
    if (argc - optind < 2) return command_usage("compare", "needs at least two RUNs");

    struct store *store = NULL;
    struct comparison c = {0};
    struct err err = {0};
    enum status status = run_open_store_to_read(&store, &err);
    if (!status) status = comparison_read(store, argv + optind, (size_t)(argc - optind), &c, &err);
    if (!status) status = json ? run_print_json(comparison_json(&c), &err) : print_page(&c, &err);
    if (!status) status = run_check_stdout(&err);
    comparison_release(&c);
    store_close(store);
    return status ? command_fail(&err) : 0;
}
