/* Reads runs, and finds the run that a user's RUN argument means: see run.h. */
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/run.h"
#include "runs/table.h"

#define NEWEST_FIRST "order by created_at desc, rowid desc"

/* ---- rows ---- */

enum { LOCKED_WITHIN_SECONDS = 10 };

/* The seconds that a run's trainers ran. If the end of a segment was not recorded, the newest segment ends at
 * the run's heartbeat and an older one at its last recorded step. */
#define ELAPSED                                                                                              \
    "(select sum(max(0.0, coalesce(s.ended_at, case when s.segment = t.segment then t.heartbeat else"        \
    "  (select w.wall_time from steps w where w.run_id = s.run_id and w.segment = s.segment"                 \
    "   order by w.step desc limit 1) end, s.started_at) - s.started_at))"                                   \
    " from segments s where s.run_id = t.id)"

#define TAGS "(select group_concat(tag, ' ') from tags where run_id = t.id)"

#define GROWTH "(select value from params where run_id = t.id and name = 'train.accumulation_plan')"

/* A resume or a fork may have another batch than the steps before it. */
#define STEP_TOKENS                                                                                          \
    "(select tokens_per_sec * step_ms / 1e3 from steps w where w.run_id = t.id and w.segment = t.segment"    \
    " order by step desc limit 1)"

enum { ELAPSED_COLUMN, LOSS_RECORDED_COLUMN, TAGS_COLUMN, GROWTH_COLUMN, STEP_TOKENS_COLUMN, FIELDS_COLUMN };

/* "select … from runs t TAIL", ?1 being `word`. */
static enum status select_runs(struct store *store, const char *tail, const char *word, sqlite3_stmt **out,
                               struct err *err)
{
    char fields[600], sql[1700];
    table_fields(TABLE_RUNS, fields, sizeof fields);
    snprintf(sql, sizeof sql,
             "select " ELAPSED ", t.final_loss is not null or t.nan & %d, " TAGS ", " GROWTH ", " STEP_TOKENS
             ", %s from runs t %s",
             COLUMN(RUNS, final_loss)->null, fields, tail);
    return store_query(store, out, err, sql, word ? "s" : "", word);
}

static void read_run(struct store *store, sqlite3_stmt *row, struct run_info *out)
{
    *out = (struct run_info){.loss_recorded = sqlite3_column_int(row, LOSS_RECORDED_COLUMN) != 0};
    table_read(TABLE_RUNS, row, FIELDS_COLUMN, NULL, out);     /* all its texts lie in the record */
    out->elapsed = sqlite3_column_double(row, ELAPSED_COLUMN); /* 0: no trainer yet */
    store_column_text(row, TAGS_COLUMN, out->tags, sizeof out->tags);
    store_column_text(row, GROWTH_COLUMN, out->accumulation_plan, sizeof out->accumulation_plan);
    out->step_tokens = store_column_double(row, STEP_TOKENS_COLUMN);
    if (accumulation_check(out->accumulation_plan, NULL)) *out->accumulation_plan = '\0';
    /* a trainer takes the lock within milliseconds of adding the row: a run without a lock has crashed */
    bool began = status_is_live(out->status) ||
                 (out->status == RUN_CREATED && clock_wall() - out->created_at > LOCKED_WITHIN_SECONDS);
    if (began && !run_is_alive(store, out->id) && !store_check_place(store, NULL))
        out->status = RUN_CRASHED; /* else its end may be in another database */
    if (status_is_live(out->status)) out->suspended = run_is_suspended(store, out->id);
}

/* The first run of select_runs; STATUS_NOT_FOUND, without a message: there is none. */
static enum status first_run(struct store *store, const char *tail, const char *word, struct run_info *out,
                             struct err *err)
{
    sqlite3_stmt *select;
    enum status status = select_runs(store, tail, word, &select, err);
    if (!store_next(store, select, &status, err)) return status ? status : STATUS_NOT_FOUND;
    read_run(store, select, out);
    sqlite3_reset(select);
    return STATUS_OK;
}

static enum status no_such_run(const char *id, struct err *err)
{
    return err_set(err, STATUS_NOT_FOUND, "run %s: there is no such run", id);
}

enum status run_get(struct store *store, const char *id, struct run_info *out, struct err *err)
{
    enum status status = first_run(store, "where id = ?1", id, out, err);
    return status == STATUS_NOT_FOUND ? no_such_run(id, err) : status;
}

static enum status list_runs(struct store *store, const char *tail, struct arena *arena,
                             struct run_info **out, size_t *count, struct err *err)
{
    sqlite3_stmt *select;
    void *runs = NULL;
    size_t used = 0;
    enum status status = select_runs(store, tail, NULL, &select, err);
    while (store_next(store, select, &status, err)) {
        struct run_info *info = arena_grow(arena, &runs, used, sizeof *info);
        if (!info) {
            status = err_no_memory(err, "the list of runs");
            continue;
        }
        read_run(store, select, info);
        used++;
    }
    if (status) return status;
    *out = runs;
    *count = used;
    return STATUS_OK;
}

enum status run_list(struct store *store, struct arena *arena, struct run_info **out, size_t *count,
                     struct err *err)
{
    return list_runs(store, NEWEST_FIRST, arena, out, count, err);
}

enum status run_list_begun(struct store *store, struct arena *arena, struct run_info **out, size_t *count,
                           struct err *err)
{
    return list_runs(store, "where t.status in ('running', 'paused') " NEWEST_FIRST, arena, out, count, err);
}

enum status run_config(struct store *store, const char *id, char **out, struct err *err)
{
    sqlite3_stmt *statement;
    enum status status =
        store_query(store, &statement, err, "select config from runs where id = ?1", "s", id);
    if (!store_next(store, statement, &status, err)) return status ? status : no_such_run(id, err);
    const char *config = (const char *)sqlite3_column_text(statement, 0);
    char *copy = strdup(config ? config : "");
    sqlite3_reset(statement);
    if (!copy) return err_no_memory(err, "run %s", id);
    *out = copy;
    return STATUS_OK;
}

enum status run_params_list(struct store *store, const char *run_id, struct arena *arena,
                            struct run_param **out, size_t *count, struct err *err)
{
    struct table_request request = {TABLE_PARAMS, run_id, "order by name", SIZE_MAX, sizeof **out, false};
    return table_list(store, &request, arena, out, count, err);
}

static int compare_name(const void *name, const void *param)
{
    return strcmp(name, ((const struct run_param *)param)->name);
}

const char *run_params_get(const struct run_param *params, size_t count, const char *name)
{
    const struct run_param *found = count ? bsearch(name, params, count, sizeof *params, compare_name) : NULL;
    return found ? found->value : NULL;
}

void run_param_json(struct json_out *out, const char *name, const char *value)
{
    int64_t integer;
    double number;
    bool is_true = value && strcmp(value, "true") == 0;
    if (!value)
        json_out_text(out, name, NULL);
    else if (is_true || strcmp(value, "false") == 0)
        json_out_bool(out, name, is_true);
    else if (text_parse_int(value, &integer))
        json_out_int(out, name, integer);
    else if (text_parse_double(value, &number) && isfinite(number))
        json_out_real(out, name, number);
    else
        json_out_text(out, name, value);
}

size_t run_param_section(const struct run_param *param)
{
    const char *dot = strrchr(param->name, '.');
    return dot ? (size_t)(dot - param->name) : 0;
}

static bool same_section(const struct run_param *a, const struct run_param *b)
{
    size_t n = run_param_section(a);
    return n == run_param_section(b) && strncmp(a->name, b->name, n) == 0;
}

/* Keys are "section.key", or "param_group.NAME.key" for a group. An imported run may have wandb.model.dim
 * between keys of the section wandb. */
void run_params_json(struct json_out *out, const char *name, const struct run_param *params, size_t count)
{
    json_out_open(out, name, '{', JSON_OUT_LINES);
    for (size_t i = 0; i < count; i++) {
        size_t n = run_param_section(&params[i]), first = 0;
        char section[160];
        while (!same_section(&params[first], &params[i])) first++;
        if (first < i) continue; /* written with the section's first key */
        snprintf(section, sizeof section, "%.*s", (int)n, params[i].name);
        json_out_open(out, section, '{', JSON_OUT_LINES);
        for (size_t k = i; k < count; k++)
            if (same_section(&params[k], &params[i]))
                run_param_json(out, params[k].name + n + (n > 0), params[k].value);
        json_out_close(out);
    }
    json_out_close(out);
}

/* ---- from a word to a run ---- */

/* Whether there is the folder of a run. */
static bool has_folder(struct store *store)
{
    char folder[PATH_MAX], lock[PATH_MAX];
    struct dirent *entry;
    bool found = false;
    run_folder(store, "", folder, sizeof folder);
    DIR *runs = opendir(folder);
    while (runs && !found && (entry = readdir(runs)))
        found =
            *entry->d_name != '.' && !run_path(store, entry->d_name, "lock", lock, NULL) && file_exists(lock);
    if (runs) closedir(runs);
    return found;
}

void run_none_words(struct store *store, char *buf, size_t size)
{
    if (has_folder(store))
        snprintf(
            buf, size,
            "%.200s has folders of runs, but its database has no run (`%s doctor --repair` makes the runs "
            "again)",
            store_home(store), TEXT_PROGRAM);
    else
        snprintf(buf, size, "there are no runs yet in %.200s (start one with `%s train`)", store_home(store),
                 TEXT_PROGRAM);
}

static enum status not_found(struct store *store, const char *word, struct err *err)
{
    enum { NAMES_MAX = 1000 };
    const char *names[NAMES_MAX];
    struct arena arena = {0};
    struct run_info *runs = NULL;
    size_t count = 0;
    enum status status = run_list(store, &arena, &runs, &count, err);
    if (!status && count == 0) {
        char none[400];
        run_none_words(store, none, sizeof none);
        status = err_set(err, STATUS_NOT_FOUND, "run \"%.100s\": %s", word, none);
    } else if (!status) {
        size_t n = 0;
        for (size_t i = 0; i < count && n + 2 <= NAMES_MAX; i++) {
            names[n++] = runs[i].name;
            names[n++] = runs[i].id;
        }
        status =
            err_set(err, STATUS_NOT_FOUND, "run \"%.100s\": there is no such run%s (`%s runs` lists them)",
                    word, DID_YOU_MEAN(text_nearest(word, names, n)), TEXT_PROGRAM);
    }
    arena_release(&arena);
    return status;
}

/* Lists the ids that begin with the word, `first` and those of the following rows, in an error. */
static enum status refuse_several(sqlite3_stmt *select, const char *first, const char *word, struct err *err)
{
    char names[320];
    int matches = 1;
    snprintf(names, sizeof names, "%s", first);
    for (; sqlite3_step(select) == SQLITE_ROW; matches++)
        if (matches < 3)
            text_add(names, sizeof names, ", ", "%.*s", RUN_ID_MAX,
                     (const char *)sqlite3_column_text(select, FIELDS_COLUMN));
    sqlite3_reset(select);
    if (matches == 1) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "run \"%.100s\": %d runs match: %s%s (type more of the id)", word,
                   matches, names, matches > 3 ? ", ..." : "");
}

enum { DATE_LENGTH = 16 }; /* "YYYYMMDD-HHMMSS-", with which ids begin */

/* Whether the word may be the whole id of another run, which is gone: id is the word and "-2", "-3", … */
static bool is_sibling(const char *id, const char *word)
{
    size_t n = strlen(word);
    return n > DATE_LENGTH && id[n] == '-' && id[n + 1] && !id[n + 1 + strspn(id + n + 1, "0123456789")];
}

enum status run_find(struct store *store, const char *word, struct run_info *out, struct err *err)
{
    sqlite3_stmt *select;
    bool latest = strcmp(word, "latest") == 0; /* checked before names, so that it has one meaning */
    struct run_info info;
    if (!*word)
        return err_set(err, STATUS_USAGE, "no run given (an id, the start of one, a name, or latest)");
    enum status status = select_runs(
        store,
        latest ? NEWEST_FIRST
               : "where id = ?1 or name = ?1 or substr(id, 17) = ?1 or substr(id, 1, length(?1)) = ?1"
                 " order by id = ?1 desc, case ?1 when name then 2 when substr(id, 17) then 1 else 0"
                 " end desc, created_at desc, rowid desc",
        latest ? NULL : word, &select, err);
    bool found = store_next(store, select, &status, err);
    if (status) return status;
    if (!found) return not_found(store, word, err);
    read_run(store, select, &info);
    const char *after_date = strlen(info.id) > DATE_LENGTH ? info.id + DATE_LENGTH : "";
    if (latest || strcmp(info.id, word) == 0 || strcmp(info.name, word) == 0 || strcmp(after_date, word) == 0)
        sqlite3_reset(select);
    else if (!(status = refuse_several(select, info.id, word, err)) && is_sibling(info.id, word))
        return not_found(store, word, err);
    if (!status) *out = info;
    return status;
}

enum status run_find_named(struct store *store, const char *name, struct run_info *out, struct err *err)
{
    enum status status = first_run(store, "where name = ?1 " NEWEST_FIRST, name, out, err);
    return status == STATUS_NOT_FOUND ? not_found(store, name, err) : status;
}

bool run_is_partial(const struct run_info *run)
{
    return run->status == RUN_CRASHED && strncmp(run->message, RUN_PARTIAL, strlen(RUN_PARTIAL)) == 0;
}

bool run_is_imported(const struct run_info *run)
{
    return run->status == RUN_FINISHED && strncmp(run->message, RUN_FROM_FILES, strlen(RUN_FROM_FILES)) == 0;
}

enum status run_find_all(struct store *store, const char *const *words, size_t count, struct arena *arena,
                         struct run_info **out, struct err *err)
{
    struct run_info *runs = arena_alloc_array(arena, count + 1, sizeof *runs);
    if (!runs) return err_no_memory(err, "%zu runs", count);
    enum status status = STATUS_OK;
    for (size_t i = 0; !status && i < count; i++) {
        status = run_find(store, words[i], &runs[i], err);
        for (size_t k = 0; !status && k < i; k++)
            if (strcmp(runs[k].id, runs[i].id) == 0)
                return err_set(err, STATUS_USAGE,
                               "\"%s\" is run %s, which was already named (name different runs)", words[i],
                               runs[i].id);
    }
    *out = runs;
    return status;
}
