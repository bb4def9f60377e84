/* See field.h. */
#include "runs/field.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/table.h"

/* ---- names ---- */

/* Fields that are no column, and other names for columns: those of the workbench's table. */
static const struct {
    const char *name, *column;
    int made;
    enum field_unit unit;
} others[] = {
    {"run", "id", MADE_NOT, UNIT_TEXT},
    {"loss", "final_loss", MADE_NOT, UNIT_NUMBER},
    {"best", "best_val_loss", MADE_NOT, UNIT_NUMBER},
    {"tok/s", "tokens_per_sec", MADE_NOT, UNIT_COUNT},
    {"age", NULL, MADE_AGE, UNIT_SECONDS},
    {"time", NULL, MADE_AGE, UNIT_SECONDS},
    {"curve", NULL, MADE_CURVE, UNIT_TEXT}, /* only to be drawn: it has no value */
    {"disk", NULL, MADE_DISK, UNIT_BYTES},  /* that the run's folder takes */
    {"elapsed", NULL, MADE_ELAPSED, UNIT_SECONDS},
    {"progress", NULL, MADE_PROGRESS, UNIT_FRACTION},
    {"tags", NULL, MADE_TAGS, UNIT_WORDS},
    /* not listed, as they are there by another name */
    {"tag", NULL, MADE_TAGS, UNIT_WORDS},
    {"started", "created_at", MADE_NOT, UNIT_TIME}, /* the title of `anneal runs` */
};
enum { OTHERS = sizeof others / sizeof *others, LISTED_OTHERS = OTHERS - 2 };

static enum field_unit unit_of(const struct column_info *column)
{
    static const char counts[] = "parameters steps tokens best_step tokens_per_sec total_steps parent_step "
                                 "frozen_parameters trained_parameters";
    if (column_is_text(column)) return UNIT_TEXT;
    if (text_ends_with(column->name, "_at") || strcmp(column->name, "heartbeat") == 0) return UNIT_TIME;
    return text_word_index(counts, column->name, strlen(column->name)) >= 0 ? UNIT_COUNT : UNIT_NUMBER;
}

bool field_find(const char *name, struct field *out)
{
    const struct column_info *column = table_column(TABLE_RUNS, name);
    *out = (struct field){.metric = METRIC_COUNT};
    if (!*name || strlen(name) >= sizeof out->name) return false;
    memcpy(out->name, name, strlen(name) + 1);
    for (int i = 0; i < OTHERS; i++)
        if (strcmp(others[i].name, name) == 0) {
            out->unit = others[i].unit;
            out->made = others[i].made;
            out->column = others[i].column ? table_column(TABLE_RUNS, others[i].column) : NULL;
            return true;
        }
    if (column && column->field) {
        out->column = column;
        out->unit = unit_of(column);
        return true;
    }
    for (int m = 0; m < METRIC_COUNT; m++)
        if (strcmp(metric_name(m), name) == 0) {
            out->metric = m;
            out->unit = UNIT_NUMBER;
        }
    return true;
}

/* Appends a name; names that are in the list already are left out by the caller. */
static bool add_name(struct arena *arena, const char ***names, size_t *count, const char *name)
{
    if (!name) return true; /* a damaged database may lack it */
    const char **slot = arena_grow(arena, names, *count, sizeof *slot);
    char *copy = arena_strdup(arena, name);
    if (!slot || !copy) return false;
    *slot = copy;
    (*count)++;
    return true;
}

/* The keys and the measures of all runs. */
static const char stored_names[] =
    "select distinct name from params union select distinct name from measures order by 1";

enum status field_names_read(struct store *store, struct arena *arena, const char *const **out, size_t *count,
                             struct err *err)
{
    const struct table_info *table = &store_tables[TABLE_RUNS];
    sqlite3_stmt *select;
    const char **names = NULL;
    size_t n = 0;
    bool room = true;
    for (int i = 0; room && i < LISTED_OTHERS; i++) room = add_name(arena, &names, &n, others[i].name);
    for (int c = table->first; room && c < table->end; c++)
        if (store_columns[c].field) room = add_name(arena, &names, &n, store_columns[c].name);
    for (int m = METRIC_LR; room && m < METRIC_COUNT; m++)
        if (m != METRIC_TOKENS_PER_SEC) room = add_name(arena, &names, &n, metric_name(m));
    enum status status = store_query(store, &select, err, stored_names, "");
    while (room && store_next(store, select, &status, err))
        room = add_name(arena, &names, &n, (const char *)sqlite3_column_text(select, 0));
    sqlite3_reset(select);
    if (!room) return err_no_memory(err, "a list of fields");
    if (status) return status;
    *out = names;
    *count = n;
    return STATUS_OK;
}

enum status field_check(const char *name, const char *const *names, size_t count, struct err *err)
{
    struct field field;
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return STATUS_OK;
    if (field_find(name, &field) && (field.column || field.made || field.metric != METRIC_COUNT))
        return STATUS_OK; /* another name of one in the list */
    return err_set(err, STATUS_USAGE, "no column, key or metric is called \"%.40s\"%s", name,
                   DID_YOU_MEAN(text_nearest(name, names, count)));
}

/* ---- values ---- */

static struct field_value value_of_number(double number, bool known)
{
    return (struct field_value){known, NULL, number};
}

static struct field_value value_of_text(const char *text)
{
    return (struct field_value){text && *text, text, NAN};
}

static struct field_value value_of_column(const struct column_info *column, const struct run_info *run)
{
    double number = column_number(column, run);
    if (column->field == FIELD_WORD) /* sorted by its number: created, running, ... crashed */
        return (struct field_value){true, column_text(column, run), number};
    if (column_is_text(column)) return value_of_text(column_text(column, run));
    if (column == COLUMN(RUNS, final_loss)) return value_of_number(number, run->loss_recorded);
    if (column == COLUMN(RUNS, best_val_loss))
        return value_of_number(number, run->best_step >= 0 || !isnan(number));
    return value_of_number(number, !isnan(number));
}

static struct field_value value_made(const struct field *field, const struct run_info *run, double now)
{
    if (field->made == MADE_CURVE) return value_of_text(NULL);
    if (field->made == MADE_TAGS) return value_of_text(run->tags);
    if (field->made == MADE_AGE) return value_of_number(now - run->created_at, true);
    if (field->made == MADE_ELAPSED) return value_of_number(run->elapsed, true);
    return value_of_number(run_progress(run), run->total_steps > 0);
}

/* The number of the run among earlier ones, `count` if it is not there. Both lists are in the same order, so
 * that the search goes on at *at, where it ended for the run before. */
static size_t find_before(const struct field_past *past, const struct run_info *run, size_t *at)
{
    for (size_t i = 0; i < past->count; i++) {
        size_t n = (*at + i) % past->count;
        if (strcmp(past->runs[n].id, run->id) == 0) return *at = n;
    }
    return past->count;
}

static bool has_ended(const struct run_info *run)
{
    return run->status != RUN_CREATED && !status_is_live(run->status);
}

/* Whether something may have been added to this folder or removed from it since then, or the folder is gone.
 */
static bool has_changed(const char *folder, double since)
{
    enum { SLACK = 2 /* seconds that a file system's times may be behind */ };
    struct stat found;
    return stat(folder, &found) != 0 || (double)found.st_mtime > since - SLACK;
}

/* A folder is read again only where it may have changed: many runs have many files. */
static struct field_value value_of_disk(struct store *store, const struct run_info *run,
                                        const struct field_past *past, size_t *at)
{
    char folder[PATH_MAX], checkpoints[PATH_MAX + 16];
    size_t n = past ? find_before(past, run, at) : 0;
    run_folder(store, run->id, folder, sizeof folder);
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", folder);
    if (past && n < past->count && has_ended(run) && has_ended(&past->runs[n]) &&
        !has_changed(folder, past->read_at) && !has_changed(checkpoints, past->read_at))
        return past->values[n];
    return value_of_number((double)file_tree_bytes(folder, NULL), true);
}

/* Steps once through the statement; its first column is a value, its second whether a NULL stands for NaN. */
static enum status read_number(struct store *store, sqlite3_stmt *select, struct field_value *out,
                               struct err *err)
{
    enum status status = STATUS_OK;
    if (!store_next(store, select, &status, err)) return status;
    double number = store_column_double(select, 0);
    *out = value_of_number(number, !isnan(number) || sqlite3_column_int(select, 1) != 0);
    sqlite3_reset(select);
    return STATUS_OK;
}

/* The metric's newest value: that of the newest rows, which may lack it in an import, else that of the newest
 * summary of steps that has one. */
static enum status read_metric(struct store *store, enum metric metric, const char *run_id,
                               struct field_value *out, struct err *err)
{
    enum { NEWEST_ROWS = 64 /* those after the last summary are no more */ };
    const struct column_info *column = metric_column(metric);
    char sql[TABLE_HISTORY_MAX + 200];
    sqlite3_stmt *select;
    snprintf(sql, sizeof sql,
             "select value, bit from (select %s as value, nan & %d as bit %s"
             " order by t.segment desc, t.step desc limit %d) where value is not null or bit limit 1",
             column->name, column->null, table_history(metric == METRIC_VAL_LOSS ? TABLE_EVALS : TABLE_STEPS),
             NEWEST_ROWS);
    enum status status = store_query(store, &select, err, sql, "s", run_id);
    if (!status) status = read_number(store, select, out, err);
    if (status || out->known || metric == METRIC_VAL_LOSS) return status;
    status = store_query(store, &select, err,
                         "select last, 0 from rollup where run_id = ?1 and metric = ?2 and level = ?3"
                         " and last is not null order by first_step desc limit 1",
                         "ssi", run_id, column->name, rollup_level[0]);
    return status ? status : read_number(store, select, out, err);
}

/* A key of the configuration or, if the run has none of this name, the newest value of a measure. */
static enum status read_named(struct store *store, const char *name, const char *run_id, struct arena *arena,
                              struct field_value *out, struct err *err)
{
    sqlite3_stmt *select;
    enum status status = store_query(
        store, &select, err, "select value from params where run_id = ?1 and name = ?2", "ss", run_id, name);
    bool row = store_next(store, select, &status, err);
    if (status) return status;
    if (row) {
        char *copy = store_column_copy(select, 0, arena);
        sqlite3_reset(select);
        if (!copy) return err_no_memory(err, "the value of %s", name);
        *out = (struct field_value){true, copy, NAN};
        if (!text_parse_double(copy, &out->number)) out->number = NAN;
        return STATUS_OK;
    }
    status = store_query(store, &select, err,
                         "select value, nan " COUNTED_MEASURES
                         " and t.name = ?2 order by t.segment desc, t.step desc limit 1",
                         "ss", run_id, name);
    return status ? status : read_number(store, select, out, err);
}

enum status field_read(struct store *store, const struct field *field, const struct run_info *runs,
                       size_t count, const struct field_past *past, struct arena *arena,
                       struct field_value **out, struct err *err)
{
    size_t at = 0;
    struct field_value *values = arena_alloc_array(arena, count + 1, sizeof *values);
    double now = clock_wall();
    enum status status = STATUS_OK;
    if (!values) return err_no_memory(err, "the values of %s", field->name);
    for (size_t i = 0; !status && i < count; i++) {
        if (field->column)
            values[i] = value_of_column(field->column, &runs[i]);
        else if (field->made == MADE_DISK)
            values[i] = value_of_disk(store, &runs[i], past, &at);
        else if (field->made)
            values[i] = value_made(field, &runs[i], now);
        else if (field->metric != METRIC_COUNT)
            status = read_metric(store, field->metric, runs[i].id, &values[i], err);
        else
            status = read_named(store, field->name, runs[i].id, arena, &values[i], err);
    }
    if (!status) *out = values;
    return status;
}

const char *field_text(const struct field_value *value, char *buf, size_t size)
{
    if (value->text) return value->text;
    if (value->known) return text_format_double(value->number, buf, size);
    return "";
}

char *field_show(const struct field *field, const struct field_value *value, char *buf, size_t size)
{
    double number = value->number;
    time_t seconds = (time_t)number;
    struct tm local;
    if (value->text || !value->known)
        clean_line(buf, size, value->known ? value->text : "");
    else if (!isfinite(number))
        text_format_loss(number, buf, size);
    else if (field->unit == UNIT_COUNT)
        text_format_count(number, buf, size);
    else if (field->unit == UNIT_BYTES)
        text_format_bytes((uint64_t)fmax(number, 0), buf, size);
    else if (field->unit == UNIT_SECONDS)
        clock_format_duration(number, buf, size);
    else if (field->unit == UNIT_FRACTION)
        snprintf(buf, size, "%d%%", text_percent(number));
    else if (field->unit != UNIT_TIME)
        snprintf(buf, size, "%.5g", number);
    else if (fabs(number) > 1e12 || !localtime_r(&seconds, &local) ||
             !strftime(buf, size, "%Y-%m-%d %H:%M", &local))
        snprintf(buf, size, "?");
    return buf;
}

static bool is_number(const struct field_value *value)
{
    return !value->text || !isnan(value->number);
}

int field_compare(const struct field_value *a, const struct field_value *b, bool falling)
{
    char left[32], right[32];
    double x = a->number, y = b->number;
    int order;
    if (!a->known || !b->known) return (int)b->known - (int)a->known;
    if (is_number(a) != is_number(b)) /* numbers come before texts */
        order = (int)is_number(b) - (int)is_number(a);
    else if (!is_number(a))
        order = strcmp(field_text(a, left, sizeof left), field_text(b, right, sizeof right));
    else
        order = isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x > y) - (x < y);
    return falling ? -order : order;
}

/* ---- numbers with units ---- */

static bool parse_date(const char *word, double *out)
{
    struct tm day = {.tm_isdst = -1};
    const char *end = strptime(word, "%Y-%m-%d", &day);
    if (!end || *end || strlen(word) < 8) return false;
    struct tm same = day;
    timegm(&same); /* of February 30 it makes March 2 */
    if (same.tm_mday != day.tm_mday) return false;
    *out = (double)mktime(&day);
    return *out > 0;
}

bool field_parse_number(const struct field *field, const char *word, double *out, bool *seconds)
{
    static const struct {
        char letter;
        double factor;
        bool seconds;
    } units[] = {{'k', 1e3, false},  {'M', 1e6, false},  {'G', 1e9, false},  {'B', 1e9, false},
                 {'T', 1e12, false}, {'%', 100, false},  {'s', 1, true},     {'m', 60, true},
                 {'h', 3600, true},  {'d', 86400, true}, {'w', 604800, true}};
    enum field_unit unit = field->unit;
    bool times = unit == UNIT_TIME || unit == UNIT_SECONDS, any = unit == UNIT_TEXT;
    char digits[64];
    size_t n = strlen(word), bytes;
    *seconds = false;
    if (text_parse_double(word, out)) return true;
    if (unit == UNIT_BYTES) {
        if (!text_parse_bytes(word, &bytes)) return false;
        *out = (double)bytes;
        return true;
    }
    if ((any || unit == UNIT_TIME) && parse_date(word, out)) return true;
    if (n < 2 || n >= sizeof digits) return false;
    memcpy(digits, word, n);
    digits[n - 1] = '\0';
    if (!strchr("0123456789.", digits[n - 2]) || !text_parse_double(digits, out)) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        bool same = any ? units[i].letter == word[n - 1] : tolower(units[i].letter) == tolower(word[n - 1]);
        if (!same || !(any || units[i].seconds == times)) continue;
        *out = units[i].letter == '%' ? *out / units[i].factor : *out * units[i].factor;
        *seconds = units[i].seconds;
        return true;
    }
    return false;
}
