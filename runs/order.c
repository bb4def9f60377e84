/* See order.h. */
#include "runs/order.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "runs/run.h"
#include "runs/table.h"

enum status order_issue(struct store *store, const char *run_id, enum order_verb verb, double argument,
                        const char *issuer, int64_t *id, struct err *err)
{
    struct run_info info;
    enum status status = run_get(store, run_id, &info, err);
    if (status) return status;
    if (!run_is_alive(store, run_id)) {
        char again[RUN_ID_MAX + 600] = "";
        if (info.status == RUN_STOPPED || info.status == RUN_FAILED || info.status == RUN_CRASHED)
            snprintf(again, sizeof again, " (`%s resume %s` starts it again)", TEXT_PROGRAM, run_id);
        return err_set(err, STATUS_FAILED,
                       "run %s is not training (status: %s), so no trainer can carry out the order%s", run_id,
                       status_words[info.status], again);
    }
    if (verb == ORDER_LR_FACTOR && !(isfinite(argument) && argument >= 0))
        return err_set(err, STATUS_USAGE,
                       "lr-factor: needs a number from 0 up (1 is the schedule as configured)");
    status = store_begin(store, err);
    if (status) return status;
    status = store_do(
        store, err,
        "insert into orders(run_id, issued_at, verb, argument, issuer) values(?1, ?2, ?3, ?4, ?5)", "sdsds",
        run_id, clock_wall(), verb_words[verb], verb == ORDER_LR_FACTOR ? argument : NAN, issuer);
    int64_t own = sqlite3_last_insert_rowid(store->db);
    status = store_end(store, status, err);
    if (!status && id) *id = own;
    return status;
}

bool order_was_carried_out(const struct order_row *row)
{
    static const char *const others[] = {ORDER_FAILED, ORDER_REFUSED, ORDER_NO_TRACE};
    bool done = row->result && row->applied_step >= 0;
    for (size_t i = 0; done && i < sizeof others / sizeof *others; i++)
        done = strncmp(row->result, others[i], strlen(others[i])) != 0;
    return done;
}

enum status order_get(struct store *store, const char *run_id, int64_t id, struct arena *arena,
                      struct order_row *out, struct err *err)
{
    struct order_row *rows;
    size_t count, i = 0;
    /* of a run there are few: SQL with the id in it would be one more statement of the handle each time */
    enum status status = order_list(store, run_id, SIZE_MAX, arena, &rows, &count, err);
    if (status) return status;
    while (i < count && rows[i].id != id) i++;
    if (i == count)
        return err_set(err, STATUS_NOT_FOUND, "order %lld: there is no such order", (long long)id);
    *out = rows[i];
    return STATUS_OK;
}

enum status order_list(struct store *store, const char *run_id, size_t limit, struct arena *arena,
                       struct order_row **out, size_t *count, struct err *err)
{
    struct table_request request = {TABLE_ORDERS, run_id, "order by id desc", limit, sizeof **out, false};
    return table_list(store, &request, arena, out, count, err);
}
