/* The rows for panels that series.h promises: evaluations, early stopping, samples, checkpoints, events,
 * newest first. Of a resumed run only what counts is given (segment.h); checkpoints and events are all given.
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "runs/schema.h"
#include "runs/segment.h"
#include "runs/series.h"

/* A growing array in an arena: what a list of rows is made in. */
struct rows {
    struct arena *arena;
    void *data;
    size_t size, count, capacity; /* size of one */
};

static void *add_row(struct rows *rows)
{
    if (rows->count == rows->capacity) {
        size_t capacity = rows->capacity ? 2 * rows->capacity : 32;
        void *grown = arena_alloc_array(rows->arena, capacity, rows->size);
        if (!grown) return NULL;
        if (rows->count) memcpy(grown, rows->data, rows->count * rows->size);
        rows->data = grown;
        rows->capacity = capacity;
    }
    return (char *)rows->data + rows->size * rows->count++;
}

/* The text of a column as a copy in the arena; NULL when memory is short. */
static const char *text_of(sqlite3_stmt *row, int column, struct arena *arena)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return arena_strdup(arena, text ? text : "");
}

/* Fills the record at `out` from a row; false when memory is short. */
typedef bool fill_function(sqlite3_stmt *row, struct arena *arena, void *out);

/* Rows of `sql` (?1 the run; columns 0 and 1 are segment and step, ordered by step then segment, falling).
 * Of several rows at one step only those of the newest segment are given. `all`: every row, replaced or not.
 */
static enum status read_rows(struct store *store, const char *run_id, const char *sql, size_t limit, bool all,
                             struct rows *rows, fill_function *fill, struct err *err)
{
    struct segment_list list = {0};
    sqlite3_stmt *select;
    bool row;
    int64_t step = INT64_MIN;
    int segment = 0;
    enum status status = all ? STATUS_OK : segment_read(store, run_id, 0, &list, err);
    if (!status) status = store_prepare(store, sql, &select, err);
    if (status) goto out;
    store_bind_text(select, 1, run_id);
    while (!(status = store_step(store, select, &row, err)) && row) {
        if (rows->count == limit) {
            sqlite3_reset(select);
            break;
        }
        if (!all) {
            int own_segment = sqlite3_column_int(select, 0);
            int64_t own_step = sqlite3_column_int64(select, 1);
            if (!segment_shows(&list, own_segment, own_step - 1)) continue;
            if (own_step == step && own_segment != segment) continue;
            step = own_step;
            segment = own_segment;
        }
        void *out = add_row(rows);
        if (!out || !fill(select, rows->arena, out)) {
            sqlite3_reset(select);
            status = err_set(err, STATUS_NO_MEMORY, "reading run %s: not enough memory", run_id);
            break;
        }
    }
out:
    segment_release(&list);
    return status;
}

static bool fill_stopping(sqlite3_stmt *row, struct arena *arena, void *out)
{
    struct stopping_row *r = out;
    (void)arena;
    const char *verdict = (const char *)sqlite3_column_text(row, 10);
    r->segment = sqlite3_column_int(row, 0);
    r->record = (struct stopping_record){
        .step = sqlite3_column_int64(row, 1),
        .val_loss = store_column_double(row, 2),
        .best_val_loss = store_column_double(row, 3),
        .best_step = store_column_int(row, 4, -1),
        .min_delta = store_column_double(row, 5),
        .improved = sqlite3_column_int(row, 6) != 0,
        .patience_used = sqlite3_column_int64(row, 8),
        .patience = sqlite3_column_int64(row, 9),
        .verdict = verdict && strcmp(verdict, "stop") == 0       ? VERDICT_STOP
                   : verdict && strcmp(verdict, "improved") == 0 ? VERDICT_IMPROVED
                                                                 : VERDICT_WAITING,
    };
    return true;
}

enum status series_stopping(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                            struct stopping_row **out, size_t *count, struct err *err)
{
    struct rows rows = {.arena = arena, .size = sizeof **out};
    enum status status =
        read_rows(store, run_id,
                  "select segment, step, val_loss, best_val_loss, best_step, min_delta, improved, nan,"
                  " patience_used, patience, verdict from early_stopping where run_id = ?1"
                  " order by step desc, segment desc",
                  limit, false, &rows, fill_stopping, err);
    if (status) return status;
    *out = rows.data;
    *count = rows.count;
    return STATUS_OK;
}

static bool fill_sample(sqlite3_stmt *row, struct arena *arena, void *out)
{
    struct sample_record *r = out;
    *r = (struct sample_record){sqlite3_column_int64(row, 1), text_of(row, 2, arena), text_of(row, 3, arena)};
    return r->prompt && r->text;
}

enum status series_samples(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                           struct sample_record **out, size_t *count, struct err *err)
{
    struct rows rows = {.arena = arena, .size = sizeof **out};
    enum status status = read_rows(store, run_id,
                                   "select segment, step, prompt, text from samples where run_id = ?1"
                                   " order by step desc, segment desc, id desc",
                                   limit, false, &rows, fill_sample, err);
    if (status) return status;
    *out = rows.data;
    *count = rows.count;
    return STATUS_OK;
}

static bool fill_event(sqlite3_stmt *row, struct arena *arena, void *out)
{
    struct event_record *r = out;
    *r = (struct event_record){store_column_int(row, 1, -1), store_column_double(row, 2),
                               text_of(row, 3, arena), text_of(row, 4, arena)};
    return r->level && r->text;
}

enum status series_events(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                          struct event_record **out, size_t *count, struct err *err)
{
    struct rows rows = {.arena = arena, .size = sizeof **out};
    enum status status = read_rows(
        store, run_id,
        "select segment, step, wall_time, level, text from events where run_id = ?1 order by id desc", limit,
        true, &rows, fill_event, err);
    if (status) return status;
    *out = rows.data;
    *count = rows.count;
    return STATUS_OK;
}

static bool fill_checkpoint(sqlite3_stmt *row, struct arena *arena, void *out)
{
    struct checkpoint_record *r = out;
    *r = (struct checkpoint_record){sqlite3_column_int64(row, 1), store_column_double(row, 2),
                                    text_of(row, 3, arena), text_of(row, 4, arena),
                                    store_column_int(row, 5, -1)};
    return r->path && r->kind;
}

enum status series_checkpoints(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                               struct checkpoint_record **out, size_t *count, struct err *err)
{
    struct rows rows = {.arena = arena, .size = sizeof **out};
    enum status status = read_rows(
        store, run_id,
        "select segment, step, wall_time, path, kind, bytes from checkpoints as c where run_id = ?1 and not "
        "exists (select 1 from checkpoints where run_id = ?1 and path = c.path and (segment > c.segment or "
        "(segment = c.segment and wall_time > c.wall_time)))"
        " order by segment desc, step desc, wall_time desc",
        limit, true, &rows, fill_checkpoint, err);
    if (status) return status;
    *out = rows.data;
    *count = rows.count;
    return STATUS_OK;
}

static bool fill_step(sqlite3_stmt *row, struct arena *arena, void *out)
{
    (void)arena;
    *(int64_t *)out = sqlite3_column_int64(row, 1);
    return true;
}

/* A later life of the run may have written another checkpoint of the step in its place. */
enum status series_best_steps(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                              int64_t **out, size_t *count, struct err *err)
{
    struct rows rows = {.arena = arena, .size = sizeof **out};
    enum status status = read_rows(
        store, run_id,
        "select segment, step from checkpoints as c where run_id = ?1 and kind = 'best' and segment "
        "= (select max(segment) from checkpoints where run_id = ?1 and step = c.step)"
        " order by segment desc, step desc",
        limit, true, &rows, fill_step, err);
    if (status) return status;
    *out = rows.data;
    *count = rows.count;
    return STATUS_OK;
}

static bool fill_eval(sqlite3_stmt *row, struct arena *arena, void *out)
{
    (void)arena;
    *(struct eval_record *)out = (struct eval_record){
        .step = sqlite3_column_int64(row, 1),
        .tokens = store_column_int(row, 2, -1),
        .wall_time = store_column_double(row, 3),
        .val_loss = store_column_double(row, 4),
        .val_perplexity = store_column_double(row, 5),
        .eval_ms = store_column_double(row, 6),
    };
    return true;
}

enum status series_evals(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                         struct eval_record **out, size_t *count, struct err *err)
{
    struct rows rows = {.arena = arena, .size = sizeof **out};
    enum status status =
        read_rows(store, run_id,
                  "select segment, step, tokens, wall_time, val_loss, val_perplexity, eval_ms from"
                  " evals where run_id = ?1 order by step desc, segment desc",
                  limit, false, &rows, fill_eval, err);
    if (status) return status;
    *out = rows.data;
    *count = rows.count;
    return STATUS_OK;
}

enum status series_peak_memory(struct store *store, const char *run_id, int64_t *bytes, struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    enum status status = store_prepare(store,
                                       "select sum(peak) from (select max(peak_bytes) peak from memory"
                                       " where run_id = ?1 group by category)",
                                       &select, err);
    if (status) return status;
    store_bind_text(select, 1, run_id);
    status = store_step(store, select, &row, err);
    if (status) return status;
    *bytes = row ? store_column_int(select, 0, -1) : -1;
    sqlite3_reset(select);
    return STATUS_OK;
}

enum status series_last_step(struct store *store, const char *run_id, struct step_record *out,
                             struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    enum status status =
        store_prepare(store,
                      "select step, epoch, tokens, wall_time, step_ms, loss, lr, grad_norm, clip_scale,"
                      " tokens_per_sec, mfu from steps where run_id = ?1 and segment ="
                      " (select max(segment) from segments where run_id = ?1 and first_step is not"
                      " null) order by step desc limit 1",
                      &select, err);
    if (status) return status;
    store_bind_text(select, 1, run_id);
    status = store_step(store, select, &row, err);
    if (status) return status;
    if (!row) return err_set(err, STATUS_NOT_FOUND, "run %s: no step has been recorded yet", run_id);
    *out = (struct step_record){
        .step = sqlite3_column_int64(select, 0),
        .epoch = store_column_double(select, 1),
        .tokens = store_column_int(select, 2, 0),
        .wall_time = store_column_double(select, 3),
        .step_ms = store_column_double(select, 4),
        .loss = store_column_double(select, 5),
        .lr = store_column_double(select, 6),
        .grad_norm = store_column_double(select, 7),
        .clip_scale = store_column_double(select, 8),
        .tokens_per_sec = store_column_double(select, 9),
        .mfu = store_column_double(select, 10),
    };
    sqlite3_reset(select);
    return STATUS_OK;
}
