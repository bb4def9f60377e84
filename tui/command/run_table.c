/* See run_table.h. */
#include "tui/command/run_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/model/config.h"
#include "runs/run_params.h"

enum kind { TEXT, WHOLE, NUMBER, STATUS };

static const struct column {
    const char *name;
    enum kind kind;
    size_t offset;
} columns[] = {
    {"id", TEXT, offsetof(struct run_info, id)},
    {"run", TEXT, offsetof(struct run_info, id)},
    {"name", TEXT, offsetof(struct run_info, name)},
    {"status", STATUS, offsetof(struct run_info, status)},
    {"created_at", NUMBER, offsetof(struct run_info, created_at)},
    {"ended_at", NUMBER, offsetof(struct run_info, ended_at)},
    {"device", TEXT, offsetof(struct run_info, device)},
    {"precision", TEXT, offsetof(struct run_info, precision)},
    {"parameters", WHOLE, offsetof(struct run_info, parameters)},
    {"steps", WHOLE, offsetof(struct run_info, steps)},
    {"tokens", WHOLE, offsetof(struct run_info, tokens)},
    {"final_loss", NUMBER, offsetof(struct run_info, final_loss)},
    {"best_val_loss", NUMBER, offsetof(struct run_info, best_val_loss)},
    {"best_step", WHOLE, offsetof(struct run_info, best_step)},
    {"tokens_per_sec", NUMBER, offsetof(struct run_info, tokens_per_sec)},
    {"total_steps", WHOLE, offsetof(struct run_info, total_steps)},
    {"heartbeat", NUMBER, offsetof(struct run_info, heartbeat)},
    {"pid", WHOLE, offsetof(struct run_info, pid)},
    {"message", TEXT, offsetof(struct run_info, message)},
    {"parent_id", TEXT, offsetof(struct run_info, parent_id)},
    {"parent_step", WHOLE, offsetof(struct run_info, parent_step)},
};
enum { COLUMN_COUNT = sizeof columns / sizeof *columns };

static const char *text_of(const struct run_info *run, const struct column *column)
{
    return column->kind == STATUS ? run_status_name(run->status) : (const char *)run + column->offset;
}

/* NaN for an absent value. */
static double number_of(const struct run_info *run, const struct column *column)
{
    if (column->kind == NUMBER) return *(const double *)((const char *)run + column->offset);
    int64_t value = *(const int64_t *)((const char *)run + column->offset);
    return value < 0 ? NAN : (double)value;
}

static bool is_text(const struct column *column)
{
    return column->kind == TEXT || column->kind == STATUS;
}

static enum status find_column(const char *name, const char *what, const struct column **out, struct err *err)
{
    char all[320] = "";
    const char *names[COLUMN_COUNT];
    for (size_t i = 0, used = 0; i < COLUMN_COUNT; i++) {
        if (strcmp(columns[i].name, name) == 0) {
            *out = &columns[i];
            return STATUS_OK;
        }
        names[i] = columns[i].name;
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", columns[i].name);
    }
    const char *nearest = text_nearest(name, names, COLUMN_COUNT);
    return err_set(err, STATUS_USAGE, "%s: no column \"%.40s\"%s%s%s (columns: %s)", what, name,
                   nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "", all);
}

/* ---- filter ---- */

enum operator{ EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, CONTAINS };

struct condition {
    const struct column *column; /* NULL: a key of the configuration */
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
        const char *text = text_of(run, condition->column);
        if (condition->operator== CONTAINS) return strstr(text, condition->text) != NULL;
        return (strcmp(text, condition->text) == 0) == (condition->operator== EQUAL);
    }
    return holds_number(condition->operator, number_of(run, condition->column), condition->number);
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

enum status run_table_filter(struct store *store, const char *expr, struct run_info *runs, size_t *count,
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
static bool in_wrong_order(const struct column *column, bool falling, const struct run_info *a,
                           const struct run_info *b)
{
    if (is_text(column)) {
        int order = strcmp(text_of(a, column), text_of(b, column));
        return falling ? order < 0 : order > 0;
    }
    double x = number_of(a, column), y = number_of(b, column);
    if (isnan(x) || isnan(y)) return isnan(x) && !isnan(y);
    return falling ? x < y : x > y;
}

struct order {
    const struct column *column;
    bool falling;
};

/* Equal ones keep their order: they lie in it. */
static int compare_runs(const void *a, const void *b, void *context)
{
    const struct run_info *left = *(const struct run_info *const *)a,
                          *right = *(const struct run_info *const *)b;
    const struct order *order = context;
    if (in_wrong_order(order->column, order->falling, left, right)) return 1;
    if (in_wrong_order(order->column, order->falling, right, left)) return -1;
    return (left > right) - (left < right);
}

enum status run_table_sort(const char *key, struct run_info *runs, size_t count, struct err *err)
{
    struct order order = {.falling = *key == '-'};
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

/* ---- JSON ---- */

void run_table_json(struct json_out *json, const struct run_info *run)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        const struct column *column = &columns[i];
        if (column->offset == offsetof(struct run_info, parent_id) && !*run->parent_id)
            json_out_null(json, column->name);
        else if (is_text(column))
            json_out_text(json, column->name, text_of(run, column));
        else if (column->kind == NUMBER)
            json_out_real(json, column->name, number_of(run, column));
        else
            json_out_whole(json, column->name, *(const int64_t *)((const char *)run + column->offset));
    }
    json_out_int(json, "segment", run->segment);
}
