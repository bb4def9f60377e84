/* See import.h: makes a run from the rows of the files. */
#include "runs/exchange/import.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "runs/exchange/import_paths.h"
#include "runs/exchange/import_scalars.h"
#include "runs/exchange/import_stage.h"
#include "runs/journal.h"
#include "runs/table.h"

/* ---- from the rows to a run: the values that a trainer would have stored are computed from them ---- */

enum { ROWS_AT_ONCE = 1000, STEPS_AT_ONCE = 20000 };

/* Leaves out tags that a run has no room for: what reads them would cut them off anywhere. */
static enum status fit_tags(struct import *import)
{
    enum status status =
        store_do(import->store, import->err,
                 "delete from temp.stage_tags where rowid in (select at from (select rowid as at,"
                 " sum(length(cast(tag as blob)) + 1) over (order by rowid) as bytes from temp.stage_tags)"
                 " where bytes > ?1)",
                 "n", RUN_TAGS_MAX);
    int count = sqlite3_changes(import->store->db);
    if (!status && count)
        text_add(import->remark, sizeof import->remark, "; ",
                 "%d tag%s left out: a run has at most %d bytes of tags", count,
                 count == 1 ? " was" : "s were", RUN_TAGS_MAX - 1);
    return status;
}

/* Copies the staged rows of a table to the run. */
static enum status copy_table(struct import *import, enum store_table which)
{
    const char *table = store_tables[which].name;
    char sql[300], last[100];
    int64_t end;
    snprintf(last, sizeof last, "select max(rowid) from temp.stage_%s", table);
    enum status status = store_number(import->store, &end, 0, import->err, last, "");
    snprintf(
        sql, sizeof sql,
        "insert into main.%s select * from temp.stage_%s where rowid > ?1 and rowid <= ?2 order by rowid",
        table, table);
    for (int64_t from = 0; !status && from < end; from += ROWS_AT_ONCE) {
        if (from) status = import_next_turn(&import->turns);
        if (!status) status = store_do(import->store, import->err, sql, "ii", from, from + ROWS_AT_ONCE);
    }
    return status;
}

/* Writes the run's id into the staged rows, which needs no lock. */
static enum status name_staged(struct import *import, const char *id)
{
    char sql[100];
    enum status status = STATUS_OK;
    for (int t = 0; !status && t < TABLE_COUNT; t++) {
        snprintf(sql, sizeof sql, "update temp.stage_%s set run_id = ?1", store_tables[t].name);
        if (import->staged[t] && t != TABLE_RUNS) status = store_do(import->store, import->err, sql, "s", id);
    }
    return status;
}

/* Summarises the steps, some buckets at a time. */
static enum status make_rollups(struct import *import, const char *id)
{
    const int64_t bucket = rollup_level[ROLLUP_LEVELS - 1];
    struct rollup rollup;
    enum status status = STATUS_OK;
    for (int64_t end = 0, next; !status && end < INT64_MAX; end = next) {
        next = INT64_MAX;
        /* of each segment, as the index finds no step without its segment */
        status = store_number(import->store, &next, INT64_MAX, import->err,
                              "select min((select step from steps where run_id = ?1 and segment = s.segment"
                              " and step >= ?2 order by step limit 1 offset ?3))"
                              " from segments s where run_id = ?1",
                              "sii", id, end, (int64_t)STEPS_AT_ONCE);
        if (next < INT64_MAX) next = next / bucket * bucket;
        if (next <= end) next = end + bucket; /* steps that several segments repeat */
        if (!status && end) status = import_next_turn(&import->turns);
        if (!status) status = rollup_begin(&rollup, import->store, id, next, import->err);
    }
    return status;
}

/* By section, then by name. */
static int compare_params(const void *a, const void *b)
{
    const struct run_param *x = a, *y = b;
    size_t n = run_param_section(x), m = run_param_section(y);
    int order = memcmp(x->name, y->name, n < m ? n : m);
    return order ? order : n != m ? (n < m ? -1 : 1) : strcmp(x->name + n, y->name + n);
}

/* Makes the INI text of the configuration from its keys. */
static enum status restore_config(struct import *import, const char *id)
{
    struct arena arena = {0};
    struct run_param *params;
    size_t count, size, last = 0;
    char *text = NULL;
    enum status status = run_params_list(import->store, id, &arena, &params, &count, import->err);
    FILE *out = status ? NULL : open_memstream(&text, &size);
    if (out && count) qsort(params, count, sizeof *params, compare_params);
    for (size_t i = 0; out && i < count; i++) {
        const char *name = params[i].name;
        size_t n = run_param_section(&params[i]);
        if (n != last || memcmp(name, params[i - 1].name, n) != 0)
            fprintf(out, "%s[%.*s]\n", i ? "\n" : "", (int)n, name);
        fprintf(out, "%s = %s\n", name + n + 1, params[i].value);
        last = n;
    }
    if (!status && !text_stream_end(out, &text)) status = err_no_memory(import->err, "a configuration");
    if (!status)
        status =
            store_do(import->store, import->err, "update runs set config = ?2 where id = ?1", "ss", id, text);
    free(text);
    arena_release(&arena);
    return status;
}

/* Makes one row per segment that any table names, unless a table of segments was imported. In a run without
 * steps a segment begins with its first evaluation or measure, so that these are shown. Measures have no
 * times in the store: without steps and evaluations those of the log count. They are found before the
 * transaction in which they are stored: a long history takes seconds to read. */
static enum status make_segments(struct import *import, const char *id, double now)
{
    enum status status = store_commit(import->store, import->err);
    if (!status)
        status = store_do(
            import->store, import->err,
            "insert into temp.found_segments"
            " select ?1 as run_id, segment, case when (select max(step) from steps where run_id = ?1) is null"
            "  then max(0, min(eval) - 1) else min(step) end,"
            "  ifnull(min(began), ?2), ifnull(max(ended), ?3), 'finished' from"
            "  (select segment, step, null as eval, wall_time - ifnull(step_ms, 0) / 1e3 as began,"
            "    wall_time as ended from steps where run_id = ?1"
            "   union all select segment, null, step, wall_time, wall_time from evals where run_id = ?1"
            "   union all select segment, null, min(step), null, null from measures where run_id = ?1"
            "    group by segment"
            "   union all select segment, null, null, null, null from classes where run_id = ?1"
            "   union all select segment, null, null, null, null from confusion where run_id = ?1"
            "   union all select segment, null, null, null, null from early_stopping where run_id = ?1"
            "   union all select segment, null, null, null, null from samples where run_id = ?1"
            "   union all select segment, null, null, null, null from memory where run_id = ?1"
            "   union all select segment, null, null, null, null from ranks where run_id = ?1"
            "   union all select segment, null, null, null, null from layer_profile where run_id = ?1)"
            " group by segment",
            "sdd", id, import->began > 0 ? import->began : now, import->began > 0 ? import->ended : now);
    if (!status) status = import_first_turn(&import->turns);
    if (!status)
        status = store_do(
            import->store, import->err,
            "insert or ignore into segments(run_id, segment, first_step, started_at, ended_at, status)"
            " select * from temp.found_segments",
            "");
    return status;
}

static enum status update_row(struct import *import, const char *id, const char *message, double now)
{
    static const char sql[] =
        "update runs set status = 'finished', message = ?2, steps = max(steps,"
        "  ifnull((select max(step) " COUNTED_EVALS "), 0),"
        "  ifnull((select max(step) " COUNTED_MEASURES "), 0)),"
        " ended_at = ifnull((select max(ended_at) from segments where run_id = ?1"
        "  having max(ended_at) between 0 and ?3), ?4),"
        " segment = ifnull((select max(segment) from segments where run_id = ?1), 1) where id = ?1";
    enum status status =
        store_do(import->store, import->err, "update runs set tokens = null where id = ?1", "s", id);
    if (!status) status = journal_count_steps(import->store, id, import->err);
    if (!status) status = journal_count_evals(import->store, id, import->err);
    if (!status)
        status = store_do(import->store, import->err, sql, "ssdd", id, message, IMPORT_TIME_MAX, now);
    if (status) return status;
    return store_do(import->store, import->err,
                    "update runs set heartbeat = ended_at, total_steps = steps where id = ?1", "s", id);
}

static enum status fill_run(struct import *import, const char *id, const char *message, double now)
{
    enum status status = STATUS_OK;
    for (int t = 0; !status && t < TABLE_COUNT; t++)
        if (import->staged[t] && t != TABLE_RUNS) status = copy_table(import, (enum store_table)t);
    if (!status && import->staged[TABLE_PARAMS]) status = restore_config(import, id);
    if (!status)
        status = store_do(
            import->store, import->err,
            "update runs set note = ifnull((select note from temp.stage_runs), '') where id = ?1", "s", id);
    if (!status) status = make_segments(import, id, now);
    if (!status) status = make_rollups(import, id);
    if (!status) status = import_next_turn(&import->turns);
    return status ? status : update_row(import, id, message, now);
}

/* Names the run by its staged row or else by `fallback`: with -2, -3, … where a run has the name, as commands
 * would then find the import by it, or where it is "latest". message: that of the run. */
static enum status choose_name(struct import *import, const char *fallback, const char *message,
                               struct import_outcome *made)
{
    char stem[RUN_NAME_CLEAN_MAX];
    sqlite3_stmt *select;
    int64_t others, again = 0;
    enum status status =
        store_query(import->store, &select, import->err, "select name from temp.stage_runs", "");
    bool row = store_next(import->store, select, &status, import->err);
    if (status) return status;
    const char *recorded = row ? (const char *)sqlite3_column_text(select, 0) : NULL;
    run_name_clean(recorded ? recorded : fallback, stem, sizeof stem);
    sqlite3_reset(select);
    strcpy(made->name, stem);
    for (int n = 2; !status; n++) {
        status = store_number(import->store, &others, 0, import->err,
                              "select count(*) from runs where name = ?1", "s", made->name);
        if (status || (!others && strcmp(made->name, "latest") != 0)) break;
        strcpy(made->wanted, stem);
        snprintf(made->name, sizeof made->name, "%.*s-%d",
                 (int)utf8_cut(stem, strnlen(stem, RUN_NAME_CLEAN_MAX - 12)), stem, n);
    }
    if (!status && *made->wanted)
        status =
            store_number(import->store, &again, 0, import->err,
                         "select count(*) from runs where name = ?1 and message = ?2", "ss", stem, message);
    made->again = again > 0;
    return status;
}

/* Describes the staged rows: the numbers of rows, the recorded start of the history (*start is unchanged if
 * there is none), and the fields that only a row of `runs` has; their texts belong to the statement. */
static enum status look_at_staged(struct import *import, struct import_outcome *made, double *start,
                                  struct run_new *run, sqlite3_stmt **select)
{
    enum status status = store_query(
        import->store, select, import->err,
        "select (select count(*) from temp.stage_steps), (select count(*) from temp.stage_evals),"
        " coalesce((select created_at from temp.stage_runs where created_at between 1 and ?1),"
        "  (select t from (select wall_time - ifnull(step_ms, 0) / 1e3 as t from temp.stage_steps"
        "   where wall_time is not null order by segment, step limit 1) where t between 0 and ?1),"
        "  (select min(wall_time) as t from temp.stage_evals having t between 0 and ?1)),"
        " device, precision, parameters,"
        " case when frozen_parameters between 0 and parameters then frozen_parameters end,"
        " parent_id, parent_step, (select count(*) from temp.stage_measures)"
        " from (select 1) left join temp.stage_runs",
        "d", IMPORT_TIME_MAX);
    if (!store_next(import->store, *select, &status, import->err)) return status;
    made->steps = sqlite3_column_int64(*select, 0);
    made->evals = sqlite3_column_int64(*select, 1);
    made->measures = sqlite3_column_int64(*select, 9);
    if (sqlite3_column_type(*select, 2) != SQLITE_NULL)
        *start = sqlite3_column_double(*select, 2);
    else if (import->began > 0)
        *start = import->began;
    run->device = (const char *)sqlite3_column_text(*select, 3);
    run->precision = (const char *)sqlite3_column_text(*select, 4);
    run->parameters = store_column_int(*select, 5, -1);
    run->frozen_parameters = store_column_int(*select, 6, 0);
    run->parent_id = (const char *)sqlite3_column_text(*select, 7);
    run->parent_step = store_column_int(*select, 8, 0);
    if (run->parent_id && !import_is_id(run->parent_id)) run->parent_id = NULL;
    if (made->steps + made->evals + made->measures) return STATUS_OK;
    sqlite3_reset(*select);
    return err_set(import->err, STATUS_CORRUPT, "%s: contains neither steps nor evaluations", import->path);
}

/* Looks for a run that was imported from the same log, maybe when that was shorter. It has the same start and
 * the same `message` or name, where one of both names may begin at a folder higher up; a log without times is
 * known by `message` alone. */
static enum status find_known(struct import *import, const char *message, struct import_outcome *made)
{
    struct run_new run = {0};
    sqlite3_stmt *staged, *select;
    double start = 0;
    enum status status = look_at_staged(import, made, &start, &run, &staged);
    if (status) return status;
    sqlite3_reset(staged);
    status = store_query(import->store, &select, import->err,
                         "select id, (select count(*) from steps where run_id = id)"
                         " + (select count(*) from evals where run_id = id)"
                         " + (select count(*) from measures where run_id = id) from runs"
                         " where message like '" RUN_FROM_FILES "%' and (message = ?3 and ?1 = 0"
                         "  or created_at = ?1 and (message = ?3"
                         "   or substr('-' || name, -length(?2) - 1) = '-' || ?2"
                         "   or substr('-' || ?2, -length(name) - 1) = '-' || name))"
                         " order by id limit 1",
                         "dss", start, *made->wanted ? made->wanted : made->name, message);
    made->here = store_next(import->store, select, &status, import->err);
    if (!made->here) return status;
    store_column_text(select, 0, made->id, sizeof made->id);
    made->grown = sqlite3_column_int64(select, 1) < made->steps + made->evals + made->measures;
    sqlite3_reset(select);
    return STATUS_OK;
}

/* Stores the run. On failure nothing is left; only a process that is killed leaves a run, which is marked.
 * `once`: it may be here already. */
static enum status make_run(struct import *import, const char *name, const char *fallback, bool once,
                            const char *message, struct import_outcome *out)
{
    struct import_outcome made = {0};
    struct run_new run = {.config = ""};
    struct run_lock lock = {-1};
    char incomplete[PATH_MAX + 160];
    sqlite3_stmt *staged;
    double now = clock_wall(), start = now;
    snprintf(incomplete, sizeof incomplete, RUN_PARTIAL "%s (import the same files again)", message);
    /* before `staged` is open: with what is read here it would hold on to a state of the database that may be
     * old when the run is written, and such a write fails at once */
    enum status status = import_remove_incomplete(&import->turns, incomplete);
    bool keep = !name && import_is_id(import->run);
    if (!status && !name) status = choose_name(import, keep ? import->run + 16 : fallback, message, &made);
    if (!status && once) status = find_known(import, message, &made);
    if (!status && made.here) *out = made;
    if (status || made.here) return status;
    status = look_at_staged(import, &made, &start, &run, &staged);
    if (status) return status;
    run.name = name ? name : made.name;
    status =
        import_begin_run(&import->turns, &run, start, keep ? import->run : NULL, incomplete, made.id, &lock);
    sqlite3_reset(staged);
    if (status) return status;
    status = name_staged(import, made.id);
    if (!status) status = import_first_turn(&import->turns);
    if (!status) status = fill_run(import, made.id, message, now);
    if (!status) status = store_commit(import->store, import->err);
    store_rollback(import->store);
    run_lock_release(&lock);
    if (status)
        (void)run_delete(import->store, made.id, NULL);
    else
        *out = made;
    return status;
}

/* ---- all of it ---- */

/* Stages on disk, as a long history does not fit into memory. The handle may have no other temporary
 * tables. */
static enum status begin(struct import *import)
{
    static const enum store_table always[] = {TABLE_STEPS, TABLE_EVALS, TABLE_MEASURES, TABLE_RUNS};
    enum status status = store_exec(import->store, "pragma temp_store = file", import->err);
    if (!status) status = store_read_begin(import->store, import->err);
    if (!status)
        status = import_temporary(
            import, "found_segments",
            "create temp table found_segments(run_id, segment, first_step, started_at, ended_at, status)");
    for (size_t i = 0; !status && i < sizeof always / sizeof *always; i++)
        status = import_stage(import, always[i]);
    return status;
}

static void end(struct import *import)
{
    store_read_end(import->store);
    import_metrics_release(&import->metrics);
}

/* `fallback`: the name where neither `name` nor the files have one; NULL: that of the folder. */
static enum status import_paths(struct store *store, const char *const *paths, size_t count, const char *name,
                                const char *fallback, bool once, struct import_outcome *out, struct err *err)
{
    struct err own;
    struct import import = {.store = store, .err = err ? err : &own};
    char names[sizeof out->names] = "";
    import.turns = (struct import_turns){store, import.err, 0};
    char message[PATH_MAX + 64], called[RUN_NAME_MAX], folder[PATH_MAX], word[PATH_MAX], whole[PATH_MAX];
    int lock;
    enum status status = import_lock(store, &lock, import.err);
    if (!status) status = begin(&import);
    if (!status) status = import_read_paths(&import, paths, count);
    if (!status && import.staged[TABLE_TAGS]) status = fit_tags(&import);
    if (!status) status = import_scalars_end(&import, names, sizeof names);
    if (!status) status = store_do(store, import.err, "commit", "");
    if (!status) {
        /* "logs/main.log" gives "logs", as does "logs/train" beside other parts of the run */
        import_folder_of(paths[0], folder, word);
        bool part = import.several && !import.strangers;
        snprintf(message, sizeof message, RUN_FROM_FILES "%s", realpath(paths[0], whole) ? whole : paths[0]);
        snprintf(called, sizeof called, "%s", fallback ? fallback : part ? basename(dirname(folder)) : word);
        if (count > 1)
            text_add(message, sizeof message, " and ", "%zu more file%s", count - 1,
                     text_plural((int64_t)count - 1));
        status = make_run(&import, name, called, once, message, out);
    }
    if (!status && import.left_out)
        text_add(import.remark, sizeof import.remark, "; ",
                 "%lld value%s left out: the step is not a whole number from 0 to 10^15",
                 (long long)import.left_out, import.left_out == 1 ? " was" : "s were");
    if (!status) {
        memcpy(out->remark, import.remark, sizeof out->remark);
        memcpy(out->names, names, sizeof out->names);
    }
    end(&import);
    if (lock >= 0) close(lock);
    return status;
}

enum status import_files(struct store *store, const char *const *paths, size_t count, const char *name,
                         struct import_outcome *out, struct err *err)
{
    return import_paths(store, paths, count, name, NULL, false, out, err);
}

enum status import_once(struct store *store, const struct import_source *source, struct import_outcome *out,
                        struct err *err)
{
    return import_paths(store, &source->folder, 1, NULL, source->name, true, out, err);
}
