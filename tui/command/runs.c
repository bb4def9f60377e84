/* `anneal runs`: the list of runs, filtered, sorted, as a table or as JSON. */
#include <langinfo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clean.h"
#include "core/base/text.h"
#include "core/model/config.h"
#include "runs/columns.h"
#include "runs/run_params.h"
#include "tui/command/command.h"
#include "tui/command/show.h"

/* ---- columns, as the store declares them; `run` is another word for `id` ---- */

static bool is_text(const struct column_info *column)
{
    return column->field == FIELD_CHARS || column->field == FIELD_WORD;
}

static enum status find_column(const char *name, const char *what, const struct column_info **out,
                               struct err *err)
{
    const struct table_info *table = &store_tables[TABLE_RUNS];
    const char *names[COLUMNS_MAX + 1], *nearest;
    char all[320] = "";
    size_t count = 0;
    *out = table_column(TABLE_RUNS, strcmp(name, "run") == 0 ? "id" : name);
    if (*out && (*out)->field != FIELD_NONE) return STATUS_OK;
    for (int i = table->first; i < table->end; i++)
        if (store_columns[i].field != FIELD_NONE) names[count++] = store_columns[i].name;
    for (size_t i = 0, used = 0; i < count; i++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names[i]);
    nearest = text_nearest(name, names, count);
    return err_set(err, STATUS_USAGE, "%s: no column \"%.40s\"%s%s%s (columns: %s)", what, name,
                   nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "", all);
}

/* ---- filter ---- */

enum operator{ EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, CONTAINS };

struct condition {
    const struct column_info *column; /* NULL: a key of the configuration */
    char key[64];
    enum operator operator;
    char text[128];
    double number;
    bool is_number;
};

static const struct {
    const char *word;
    enum operator operator;
} operators[] = {{"!=", UNEQUAL}, {"<=", LESS_EQUAL}, {">=", GREATER_EQUAL}, {"==", EQUAL},
                 {"=", EQUAL},    {"<", LESS},        {">", GREATER},        {"~", CONTAINS}};

static void trim(const char **start, const char **end)
{
    while (*start < *end && (**start == ' ' || **start == '\t')) ++*start;
    while (*end > *start && ((*end)[-1] == ' ' || (*end)[-1] == '\t')) --*end;
}

static void copy_range(char *buf, size_t size, const char *start, const char *end)
{
    size_t n = (size_t)(end - start) < size ? (size_t)(end - start) : size - 1;
    memcpy(buf, start, n);
    buf[n] = '\0';
}

/* A key may be compared as a number or as a text; what is no number has no order. */
static enum status parse_key(const char *name, const char *whole, struct condition *out, struct err *err)
{
    snprintf(out->key, sizeof out->key, "%s", name);
    out->is_number = text_parse_double(out->text, &out->number);
    if (!out->is_number && out->operator!= EQUAL && out->operator!= UNEQUAL && out->operator!= CONTAINS)
        return err_set(err, STATUS_USAGE, "--filter: < <= > >= compare with a number, not \"%s\"", whole);
    return STATUS_OK;
}

static enum status parse_condition(const char *start, const char *end, struct condition *out, struct err *err)
{
    char name[64], whole[96];
    trim(&start, &end);
    copy_range(whole, sizeof whole, start, end);
    const char *op = start;
    while (op < end && !strchr("=!<>~", *op)) op++;
    const char *value = op, *name_end = op;
    for (size_t i = 0; op < end && value == op && i < sizeof operators / sizeof *operators; i++)
        if (strncmp(op, operators[i].word, strlen(operators[i].word)) == 0) {
            out->operator= operators[i].operator;
            value = op + strlen(operators[i].word);
        }
    if (value == op)
        return err_set(err, STATUS_USAGE,
                       "--filter: \"%s\" is not COLUMN OP VALUE, such as status=running or best_val_loss<3.2 "
                       "(OP is one of = != < <= > >= ~; a comma means and)",
                       whole);
    trim(&start, &name_end);
    trim(&value, &end);
    copy_range(name, sizeof name, start, name_end);
    copy_range(out->text, sizeof out->text, value, end);
    out->column = NULL;
    if (strchr(name, '.')) return parse_key(name, whole, out, err);
    enum status status = find_column(name, "--filter", &out->column, err);
    if (status) return status;
    if (!is_text(out->column) && (out->operator== CONTAINS || !text_parse_double(out->text, &out->number)))
        return err_set(err, STATUS_USAGE, "--filter: %s is compared with a number, not \"%s\"", name, whole);
    if (is_text(out->column) && out->operator!= EQUAL && out->operator!= UNEQUAL && out->operator!= CONTAINS)
        return err_set(err, STATUS_USAGE, "--filter: %s is a text and knows = != ~ only, not \"%s\"", name,
                       whole);
    return STATUS_OK;
}

static bool holds_number(enum operator operator, double value, double wanted)
{
    switch (operator) {
    case LESS:
        return value < wanted;
    case LESS_EQUAL:
        return value <= wanted;
    case GREATER:
        return value > wanted;
    case GREATER_EQUAL:
        return value >= wanted;
    case UNEQUAL:
        return value != wanted;
    default:
        return value == wanted;
    }
}

static bool holds(const struct condition *condition, const struct run_info *run)
{
    if (is_text(condition->column)) {
        const char *text = column_text(condition->column, run);
        if (condition->operator== CONTAINS) return strstr(text, condition->text) != NULL;
        return (strcmp(text, condition->text) == 0) == (condition->operator== EQUAL);
    }
    return holds_number(condition->operator, column_number(condition->column, run), condition->number);
}

/* `value` is the run's, NULL when its configuration has no such key. */
static bool holds_key(const struct condition *condition, const char *value)
{
    double number;
    if (!value) return condition->operator== UNEQUAL;
    if (condition->operator== CONTAINS) return strstr(value, condition->text) != NULL;
    if (condition->is_number && text_parse_double(value, &number))
        return holds_number(condition->operator, number, condition->number);
    if (condition->operator== EQUAL) return strcmp(value, condition->text) == 0;
    return condition->operator== UNEQUAL && strcmp(value, condition->text) != 0;
}

static enum status unknown_key(const char *key, const struct run_param *params, size_t count, struct err *err)
{
    enum { NAMES_MAX = 200 };
    const char *names[NAMES_MAX];
    size_t n = 0;
    while (n < count && n < NAMES_MAX) {
        names[n] = params[n].name;
        n++;
    }
    const char *nearest = text_nearest(key, names, n);
    return err_set(err, STATUS_USAGE,
                   "--filter: no configuration key \"%s\"%s%s%s (anneal train --help-config lists them)", key,
                   nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

/* Keeps the runs whose configuration satisfies the condition. A key that neither this anneal nor any of the
 * runs knows is an error. */
static enum status filter_by_key(struct store *store, const struct condition *condition,
                                 struct run_info *runs, size_t *count, struct err *err)
{
    struct config config;
    char ignored[CONFIG_TEXT_MAX];
    config_init(&config);
    bool known = config_get(&config, condition->key, ignored, sizeof ignored);
    size_t kept = 0, n = 0, i;
    struct run_param *params = NULL;
    struct arena arena;
    arena_init(&arena, 16384);
    enum status status = STATUS_OK;
    for (i = 0; !status && i < *count; i++) {
        if (i) arena_release(&arena);
        params = NULL;
        n = 0;
        status = run_params_list(store, runs[i].id, &arena, &params, &n, err);
        const char *value = status ? NULL : run_params_get(params, n, condition->key);
        if (value) known = true;
        if (!status && holds_key(condition, value)) runs[kept++] = runs[i];
    }
    if (!status && !known) status = unknown_key(condition->key, params, n, err);
    if (!status) *count = kept;
    arena_release(&arena);
    return status;
}

/* Keeps the runs for which all conditions of EXPR hold, in order. A COLUMN with a dot is a key of the
 * configuration, compared as a number where both sides are one. A run without a value satisfies only !=. */
static enum status filter_runs(struct store *store, const char *expr, struct run_info *runs, size_t *count,
                               struct err *err)
{
    enum status status = STATUS_OK;
    for (const char *start = expr, *end; !status && start; start = *end ? end + 1 : NULL) {
        struct condition condition = {0};
        end = strchr(start, ',');
        if (!end) end = start + strlen(start);
        status = parse_condition(start, end, &condition, err);
        if (!status && !condition.column) {
            status = filter_by_key(store, &condition, runs, count, err);
            continue;
        }
        size_t kept = 0;
        for (size_t i = 0; !status && i < *count; i++)
            if (holds(&condition, &runs[i])) runs[kept++] = runs[i];
        if (!status) *count = kept;
    }
    return status;
}

/* ---- sort ---- */

/* Whether `b` belongs before `a`. */
static bool in_wrong_order(const struct column_info *column, bool falling, const struct run_info *a,
                           const struct run_info *b)
{
    if (is_text(column)) {
        int order = strcmp(column_text(column, a), column_text(column, b));
        return falling ? order < 0 : order > 0;
    }
    double x = column_number(column, a), y = column_number(column, b);
    if (isnan(x) || isnan(y)) return isnan(x) && !isnan(y);
    return falling ? x < y : x > y;
}

struct sorting {
    const struct column_info *column;
    bool falling;
};

/* Equal ones keep their order: they lie in it. */
static int compare_runs(const void *a, const void *b, void *context)
{
    const struct run_info *left = *(const struct run_info *const *)a,
                          *right = *(const struct run_info *const *)b;
    const struct sorting *order = context;
    if (in_wrong_order(order->column, order->falling, left, right)) return 1;
    if (in_wrong_order(order->column, order->falling, right, left)) return -1;
    return (left > right) - (left < right);
}

/* Runs without a value come last. */
static enum status sort_runs(const char *key, struct run_info *runs, size_t count, struct err *err)
{
    struct sorting order = {.falling = *key == '-'};
    enum status status = find_column(key + order.falling, "--sort", &order.column, err);
    if (status || count < 2) return status;
    const struct run_info **sorted = malloc(count * sizeof *sorted);
    struct run_info *copy = malloc(count * sizeof *copy);
    if (sorted && copy) {
        memcpy(copy, runs, count * sizeof *copy);
        for (size_t i = 0; i < count; i++) sorted[i] = &copy[i];
        qsort_r(sorted, count, sizeof *sorted, compare_runs, &order);
        for (size_t i = 0; i < count; i++) runs[i] = *sorted[i];
    } else {
        status = err_set(err, STATUS_NO_MEMORY, "sorting runs: not enough memory");
    }
    free(sorted);
    free(copy);
    return status;
}

/* ---- the table ---- */

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

/* ---- the command ---- */

static enum status print_json(const struct run_info *runs, size_t count, struct err *err)
{
    struct json_out json;
    command_begin_json(&json, '[');
    for (size_t i = 0; i < count; i++) {
        json_out_open(&json, NULL, '{', JSON_OUT_LINES);
        show_run_json(&json, &runs[i]);
        json_out_close(&json);
    }
    return command_end_json(&json, err);
}

struct options {
    const char *filter, *sort;
    bool json;
};

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
    if (!status && o->filter) status = filter_runs(store, o->filter, runs, &count, err);
    if (!status && o->sort) status = sort_runs(o->sort, runs, count, err);
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
    COMMAND_RUN(run, (struct options){0}),
};
