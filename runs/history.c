/* See history.h. */
#include "runs/history.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "runs/table.h"

#define NEWEST_FIRST "order by step desc, segment desc"
/* of the evaluation, or the report, that was made last and counts (table.h) */
#define NEWEST_STEP(table)                                                                                   \
    "and (segment, step) = (select segment, step from " table                                                \
    " n where run_id = ?1 and not exists (select 1 from segments where run_id = ?1 and segment > n.segment"  \
    " and first_step < n.step) order by segment desc, step desc limit 1) "

#define LIST(table, shown, rows, count, tail)                                                                \
    {                                                                                                        \
        table, shown, sizeof *((struct run_history *)0)->rows, offsetof(struct run_history, rows),           \
            offsetof(struct run_history, count), tail                                                        \
    }

static const struct {
    enum store_table table;
    bool shown;
    size_t size, rows, count; /* bytes of a row; offsets in struct run_history */
    const char *tail;
} lists[] = {
    LIST(TABLE_EVALS, true, evals, eval_count, NEWEST_FIRST),
    LIST(TABLE_MEASURES, true, measures, measure_count, NEWEST_FIRST ", name desc"),
    LIST(TABLE_CLASSES, true, classes, class_count, NEWEST_STEP("classes") "order by label desc"),
    LIST(TABLE_CONFUSION, true, confusion, confusion_count,
         NEWEST_STEP("confusion") "order by label desc, predicted desc"),
    LIST(TABLE_RANKS, false, ranks, rank_count, NEWEST_STEP("ranks") "order by step_ms desc, rank"),
    LIST(TABLE_STOPPING, true, stopping, stopping_count, NEWEST_FIRST),
    LIST(TABLE_SAMPLES, true, samples, sample_count, NEWEST_FIRST ", id desc"),
    LIST(TABLE_EVENTS, false, events, event_count, "order by id desc"),
    LIST(TABLE_CHECKPOINTS, false, checkpoints, checkpoint_count,
         "and not exists (select 1 from checkpoints c where run_id = ?1 and path = t.path"
         " and (segment, wall_time) > (t.segment, t.wall_time))"
         " order by segment desc, step desc, wall_time desc"),
    LIST(TABLE_ORDERS, false, orders, order_count, "order by id desc"),
};

/* How many rows of a list are read. Part of what one evaluation or report recorded would show a wrong matrix
 * or a wrong median. Charts mark events and orders of all steps, an evaluation has many measures, and the
 * first sample texts show how a model began. */
static size_t most_rows(enum store_table table, size_t limit, const struct run_history *history)
{
    if (table == TABLE_EVENTS || table == TABLE_ORDERS || table == TABLE_MEASURES || table == TABLE_SAMPLES)
        return limit > HISTORY_LEAST ? limit : HISTORY_LEAST;
    if (table == TABLE_CONFUSION) return history->class_count > limit ? 0 : SIZE_MAX;
    return table == TABLE_CLASSES || table == TABLE_RANKS ? SIZE_MAX : limit;
}

enum status run_history_read(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                             struct run_history *out, struct err *err)
{
    enum status status = STATUS_OK;
    char *at = (char *)out;
    for (size_t i = 0; !status && i < sizeof lists / sizeof *lists; i++) {
        size_t most = most_rows(lists[i].table, limit, out);
        struct table_request request = {lists[i].table, run_id,        lists[i].tail,
                                        most,           lists[i].size, lists[i].shown};
        status = table_list(store, &request, arena, at + lists[i].rows, (size_t *)(at + lists[i].count), err);
    }
    return status;
}

enum status run_stopping_read(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                              struct stopping_row **out, size_t *count, struct err *err)
{
    struct table_request request = {TABLE_STOPPING, run_id, NEWEST_FIRST, limit, sizeof **out, true};
    return table_list(store, &request, arena, out, count, err);
}

const struct measure_record *run_history_find(const struct run_history *history, int64_t step,
                                              const char *name)
{
    for (size_t i = 0; i < history->measure_count; i++)
        if (history->measures[i].step == step && strcmp(history->measures[i].name, name) == 0)
            return &history->measures[i];
    return NULL;
}

double run_history_measure(const struct run_history *history, int64_t step, const char *name)
{
    const struct measure_record *found = run_history_find(history, step, name);
    return found ? found->value : NAN;
}

enum status run_best_checkpoints(struct store *store, const char *run_id, struct arena *arena,
                                 struct checkpoint_record **out, size_t *count, struct err *err)
{
    static const char still_best[] =
        "and (kind = 'best' or (kind = 'forked' and step = (select best_step from early_stopping"
        "  where run_id = ?1 order by segment desc, step desc limit 1)))"
        " and segment = (select max(segment) from checkpoints c where run_id = ?1 and step = t.step)"
        " order by segment desc, step desc";
    struct table_request request = {TABLE_CHECKPOINTS, run_id, still_best, SIZE_MAX, sizeof **out, false};
    return table_list(store, &request, arena, out, count, err);
}

enum status run_checkpoints_read(struct store *store, const char *run_id, struct arena *arena,
                                 struct checkpoint_record **out, size_t *count, struct err *err)
{
    const char *order = "order by segment desc, step desc";
    struct table_request request = {TABLE_CHECKPOINTS, run_id, order, SIZE_MAX, sizeof **out, true};
    return table_list(store, &request, arena, out, count, err);
}

enum status run_lists_checkpoint(struct store *store, const char *run_id, int64_t step, int64_t *listed,
                                 struct err *err)
{
    return store_number(
        store, listed, 0, err,
        "select count(*) from checkpoints where run_id = ?1 and step = ?2 and kind <> 'deleted'", "si",
        run_id, step);
}

bool run_has_checkpoint(struct store *store, const char *run_id, const struct checkpoint_record *checkpoint)
{
    char folder[PATH_MAX], expected[64], path[PATH_MAX + 80];
    snprintf(expected, sizeof expected, "checkpoints/step-%" PRId64, checkpoint->step);
    if (!checkpoint->path || strcmp(checkpoint->path, expected) != 0) return false;
    run_folder(store, run_id, folder, sizeof folder);
    snprintf(path, sizeof path, "%s/%s", folder, expected);
    return file_is_folder(path);
}

enum status run_peak_memory(struct store *store, const char *run_id, int64_t *bytes, struct err *err)
{
    return store_number(store, bytes, -1, err,
                        "select cast(sum(1.0 * peak) as integer)" /* whole numbers could overflow */
                        " from (select max(peak_bytes) peak from memory where run_id = ?1 group by category)",
                        "s", run_id);
}

enum status run_measure(struct store *store, const char *run_id, const char *name, int64_t step,
                        double *value, struct err *err)
{
    char sql[TABLE_HISTORY_MAX + 200];
    sqlite3_stmt *select;
    bool own = *name && strcmp(name, "val_loss") != 0 && strcmp(name, "val_perplexity") != 0;
    snprintf(sql, sizeof sql,
             "select t.%s %s and t.step <= ?2 and %s = ?3 order by t.segment desc, t.step desc limit 1",
             own     ? "value"
             : *name ? name
                     : "val_loss",
             table_history(own ? TABLE_MEASURES : TABLE_EVALS), own ? "t.name" : "?3");
    enum status status = store_query(store, &select, err, sql, "sis", run_id, step, name);
    bool row = store_next(store, select, &status, err);
    if (status) return status;
    *value = row ? store_column_double(select, 0) : NAN;
    sqlite3_reset(select);
    return STATUS_OK;
}

enum status run_ranks(struct store *store, const char *run_id, struct run_ranks *out, struct err *err)
{
    static const char of_newest[] =
        "from ranks where run_id = ?1 and segment = (select max(segment) from steps"
        " where run_id = ?1) and step = (select max(step) from ranks r"
        " where run_id = ?1 and r.segment = ranks.segment)";
    char sql[400];
    snprintf(sql, sizeof sql, "select max(count(*), 1) %s", of_newest);
    enum status status = store_number(store, &out->count, 1, err, sql, "s", run_id);
    snprintf(sql, sizeof sql, "select max(count(distinct host), 1) %s", of_newest);
    return status ? status : store_number(store, &out->hosts, 1, err, sql, "s", run_id);
}

enum status run_missing_steps(struct store *store, const struct run_info *run, int64_t done,
                              struct arena *arena, struct step_range **out, size_t *count, struct err *err)
{
    /* a step before the first one and one after the last are edges of what must be there */
    static const char sql[] =
        "with seen(step) as (select ?2 - 1 union select step from steps where run_id = ?1 and step >= ?2"
        "  union select ?3 where ?3 > (select ifnull(max(step), ?2 - 1) from steps where run_id = ?1)),"
        " pairs as (select step, lead(step) over (order by step) as next from seen)"
        " select step + 1, next - 1 from pairs where next > step + 1 and exists"
        "  (select 1 from segments where run_id = ?1 and host is not null)";
    int64_t begin = *run->parent_id && run->parent_step > 0 ? run->parent_step : 0;
    sqlite3_stmt *select;
    void *list = NULL;
    *count = 0;
    enum status status = store_query(store, &select, err, sql, "sii", run->id, begin, done);
    while (store_next(store, select, &status, err)) {
        struct step_range *range = arena_grow(arena, &list, *count, sizeof *range);
        if (!range) {
            status = err_no_memory(err, "run %s", run->id);
            continue;
        }
        *range = (struct step_range){sqlite3_column_int64(select, 0), sqlite3_column_int64(select, 1)};
        ++*count;
    }
    *out = list;
    return status;
}

enum status run_last_step(struct store *store, const char *run_id, struct step_record *out, struct err *err)
{
    struct arena arena = {0};
    struct step_record *last;
    size_t count;
    struct table_request request = {TABLE_STEPS, run_id,       "order by segment desc, step desc",
                                    1,           sizeof *last, true};
    enum status status = table_list(store, &request, &arena, &last, &count, err);
    if (!status && count == 0)
        status = err_set(err, STATUS_NOT_FOUND, "run %s: no step has been recorded yet", run_id);
    if (!status) *out = *last;
    if (!status && out->tokens < 0) out->tokens = 0; /* an import may not have them */
    arena_release(&arena);
    return status;
}
