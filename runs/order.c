/* See order.h. */
#include "runs/order.h"

#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "runs/database.h"
#include "runs/run_row.h"

static const char *const verb_names[] = {"pause", "continue", "stop",      "checkpoint",
                                         "eval",  "sample",   "lr-factor", "trace"};

const char *order_verb_name(enum order_verb verb)
{
    return verb_names[verb];
}

bool order_verb_parse(const char *word, enum order_verb *out)
{
    for (size_t i = 0; i < sizeof verb_names / sizeof *verb_names; i++)
        if (strcmp(word, verb_names[i]) == 0) {
            *out = (enum order_verb)i;
            return true;
        }
    return false;
}

enum status order_issue(struct store *store, const char *run_id, enum order_verb verb, double argument,
                        const char *issuer, int64_t *id, struct err *err)
{
    struct run_info info;
    sqlite3_stmt *insert;
    enum status status = run_row_find(store, run_id, &info, err);
    if (status) return status;
    if (!run_is_alive(store, run_id))
        return err_set(err, STATUS_FAILED,
                       "run %s: it is %s, so nobody is there to obey (`anneal resume` starts it again)",
                       run_id, run_status_name(info.status));
    if (verb == ORDER_LR_FACTOR && !(isfinite(argument) && argument >= 0))
        return err_set(err, STATUS_USAGE,
                       "lr-factor: needs a number from 0 up (1 is the schedule as configured)");
    status = store_begin(store, err);
    if (status) return status;
    status = store_prepare(
        store, "insert into orders(run_id, issued_at, verb, argument, issuer) values(?1, ?2, ?3, ?4, ?5)",
        &insert, err);
    if (!status) {
        store_bind_text(insert, 1, run_id);
        sqlite3_bind_double(insert, 2, clock_wall());
        store_bind_text(insert, 3, order_verb_name(verb));
        store_bind_double(insert, 4, verb == ORDER_LR_FACTOR ? argument : NAN);
        store_bind_text(insert, 5, issuer);
        status = store_run(store, insert, err);
    }
    int64_t own = sqlite3_last_insert_rowid(store->db);
    if (!status) status = store_commit(store, err);
    store_rollback(store);
    if (!status && id) *id = own;
    return status;
}

#define ORDER_SELECT "select id, issued_at, verb, argument, issuer, applied_step, result from orders"

/* False when memory is short. */
static bool read_order(sqlite3_stmt *row, struct arena *arena, struct order_row *out)
{
    const char *verb = (const char *)sqlite3_column_text(row, 2),
               *issuer = (const char *)sqlite3_column_text(row, 4),
               *result = (const char *)sqlite3_column_text(row, 6);
    *out = (struct order_row){.id = sqlite3_column_int64(row, 0),
                              .issued_at = store_column_double(row, 1),
                              .argument = store_column_double(row, 3),
                              .applied_step = store_column_int(row, 5, -1)};
    if (verb) order_verb_parse(verb, &out->verb);
    out->issuer = arena_strdup(arena, issuer ? issuer : "");
    if (result) out->result = arena_strdup(arena, result);
    return out->issuer && (!result || out->result);
}

enum status order_get(struct store *store, int64_t id, struct arena *arena, struct order_row *out,
                      struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    enum status status = store_prepare(store, ORDER_SELECT " where id = ?1", &select, err);
    if (status) return status;
    sqlite3_bind_int64(select, 1, id);
    status = store_step(store, select, &row, err);
    if (status) return status;
    if (!row) return err_set(err, STATUS_NOT_FOUND, "order %lld: there is no such order", (long long)id);
    if (!read_order(select, arena, out))
        status = err_set(err, STATUS_NO_MEMORY, "reading orders: not enough memory");
    sqlite3_reset(select);
    return status;
}

enum status order_list(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                       struct order_row **out, size_t *count, struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    size_t used = 0, capacity = 0;
    struct order_row *rows = NULL;
    enum status status =
        store_prepare(store, ORDER_SELECT " where run_id = ?1 order by id desc limit ?2", &select, err);
    if (status) return status;
    store_bind_text(select, 1, run_id);
    sqlite3_bind_int64(select, 2, limit < INT64_MAX ? (int64_t)limit : -1);
    while (!(status = store_step(store, select, &row, err)) && row) {
        if (used == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            struct order_row *grown = arena_alloc_array(arena, capacity, sizeof *grown);
            if (grown && used) memcpy(grown, rows, used * sizeof *rows);
            rows = grown;
        }
        if (!rows || !read_order(select, arena, &rows[used])) {
            sqlite3_reset(select);
            return err_set(err, STATUS_NO_MEMORY, "reading orders: not enough memory");
        }
        used++;
    }
    if (status) return status;
    *out = rows;
    *count = used;
    return STATUS_OK;
}
