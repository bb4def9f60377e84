/* See run_table.h. */
#include "tui/command/run_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

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
    const struct column *column;
    enum operator operator;
    char text[128];
    double number;
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
        return err_set(
            err, STATUS_USAGE,
            "--filter: \"%s\" is not COLUMN OP VALUE, such as status=running or best_val_loss<3.2 (OP is "
            "one of = != < <= > >= ~; a comma means and)",
            whole);
    trim(&start, &name_end);
    trim(&value, &end);
    copy_range(name, sizeof name, start, name_end);
    copy_range(out->text, sizeof out->text, value, end);
    enum status status = find_column(name, "--filter", &out->column, err);
    if (status) return status;
    if (!is_text(out->column) && (out->operator== CONTAINS || !text_parse_double(out->text, &out->number)))
        return err_set(err, STATUS_USAGE, "--filter: %s is compared with a number, not \"%s\"", name, whole);
    if (is_text(out->column) && out->operator!= EQUAL && out->operator!= UNEQUAL && out->operator!= CONTAINS)
        return err_set(err, STATUS_USAGE, "--filter: %s is a text and knows = != ~ only, not \"%s\"", name,
                       whole);
    return STATUS_OK;
}

static bool holds(const struct condition *condition, const struct run_info *run)
{
    if (is_text(condition->column)) {
        const char *text = text_of(run, condition->column);
        if (condition->operator== CONTAINS) return strstr(text, condition->text) != NULL;
        return (strcmp(text, condition->text) == 0) == (condition->operator== EQUAL);
    }
    double value = number_of(run, condition->column);
    switch (condition->operator) {
    case LESS:
        return value < condition->number;
    case LESS_EQUAL:
        return value <= condition->number;
    case GREATER:
        return value > condition->number;
    case GREATER_EQUAL:
        return value >= condition->number;
    case UNEQUAL:
        return value != condition->number;
    default:
        return value == condition->number;
    }
}

enum status run_table_filter(const char *expr, struct run_info *runs, size_t *count, struct err *err)
{
    for (const char *start = expr, *end; start; start = *end ? end + 1 : NULL) {
        struct condition condition;
        end = strchr(start, ',');
        if (!end) end = start + strlen(start);
        enum status status = parse_condition(start, end, &condition, err);
        if (status) return status;
        size_t kept = 0;
        for (size_t i = 0; i < *count; i++)
            if (holds(&condition, &runs[i])) runs[kept++] = runs[i];
        *count = kept;
    }
    return STATUS_OK;
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

/* A merge of two sorted halves: the standard library's sorts do not promise to keep equal ones in order. */
static void merge_sort(const struct column *column, bool falling, const struct run_info **runs,
                       const struct run_info **scratch, size_t n)
{
    if (n < 2) return;
    size_t half = n / 2, i = 0, j = half;
    merge_sort(column, falling, runs, scratch, half);
    merge_sort(column, falling, runs + half, scratch, n - half);
    for (size_t k = 0; k < n; k++) {
        bool left = j == n || (i < half && !in_wrong_order(column, falling, runs[i], runs[j]));
        scratch[k] = left ? runs[i++] : runs[j++];
    }
    memcpy(runs, scratch, n * sizeof *runs);
}

enum status run_table_sort(const char *key, struct run_info *runs, size_t count, struct err *err)
{
    const struct column *column;
    bool falling = *key == '-';
    enum status status = find_column(key + falling, "--sort", &column, err);
    if (status || count < 2) return status;
    const struct run_info **order = malloc(2 * count * sizeof *order);
    struct run_info *copy = malloc(count * sizeof *copy);
    if (!order || !copy) {
        status = err_set(err, STATUS_NO_MEMORY, "sorting runs: not enough memory");
        goto out;
    }
    memcpy(copy, runs, count * sizeof *copy);
    for (size_t i = 0; i < count; i++) order[i] = &copy[i];
    merge_sort(column, falling, order, order + count, count);
    for (size_t i = 0; i < count; i++) runs[i] = *order[i];
out:
    free(order);
    free(copy);
    return status;
}

/* ---- JSON ---- */

json_t *run_table_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *run_table_json(const struct run_info *run)
{
    json_t *object = json_object();
    for (size_t i = 0; object && i < COLUMN_COUNT; i++) {
        const struct column *column = &columns[i];
        json_t *value;
        if (is_text(column))
            value = json_string(text_of(run, column));
        else if (column->kind == NUMBER)
            value = run_table_number(number_of(run, column));
        else if (isnan(number_of(run, column)))
            value = json_null();
        else
            value = json_integer(*(const int64_t *)((const char *)run + column->offset));
        if (!value) value = json_null(); /* text that is not UTF-8 */
        if (json_object_set_new(object, column->name, value)) {
            json_decref(object);
            return NULL;
        }
    }
    if (object && json_object_set_new(object, "segment", json_integer(run->segment))) {
        json_decref(object);
        return NULL;
    }
    return object;
}
