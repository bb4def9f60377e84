/* See journal.h. A record that has a key (run, segment, step, for memory the category, for the
 * profile phase, layer and operation) replaces an earlier one of the same key, so that evaluating twice at
 * one step leaves one row; samples and events have none and are all kept. That a batch repeated after a
 * failure leaves each row once is not owed to this, but to its transaction: the failed one was rolled back
 * whole. */
#include "runs/journal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "runs/run_row.h"
#include "runs/segment.h"
#include "runs/table.h"

/* Val loss `value` after `step` steps; the first value counts even when it is NaN, any number beats NaN. */
static void note_best(struct journal *journal, int64_t step, double value)
{
    if (journal->has_best && !(value < journal->best_val_loss) &&
        !(isnan(journal->best_val_loss) && !isnan(value)))
        return;
    journal->best_val_loss = value;
    journal->best_step = step;
    journal->has_best = true;
}

/* The best evaluation again, without those that this segment replaces. */
static enum status reload_best(struct journal *journal, struct err *err)
{
    struct segment_list list = {0};
    sqlite3_stmt *select;
    bool row;
    enum status status = segment_read(journal->store, journal->run_id, 0, &list, err);
    if (!status)
        status =
            store_query(journal->store, &select, err,
                        "select segment, step, val_loss from evals where run_id = ?1 order by step, segment",
                        "s", journal->run_id);
    if (!status) journal->has_best = false;
    while (!status && !(status = store_step(journal->store, select, &row, err)) && row)
        if (segment_shows(&list, sqlite3_column_int(select, 0), sqlite3_column_int64(select, 1) - 1))
            note_best(journal, sqlite3_column_int64(select, 1), store_column_double(select, 2));
    segment_release(&list);
    return status;
}

static enum status set_first_step(struct journal *journal, int64_t step, struct err *err)
{
    enum status status =
        rollup_begin(&journal->rollup, journal->store, journal->run_id, journal->segment, step, err);
    if (!status)
        status = store_do(journal->store, err,
                          "update segments set first_step = ?3 where run_id = ?1 and segment = ?2", "sni",
                          journal->run_id, journal->segment, step);
    if (!status && journal->segment > 1) status = reload_best(journal, err);
    if (!status) journal->has_steps = true;
    return status;
}

enum status journal_add(struct journal *journal, enum store_table table, const void *record, struct err *err)
{
    return table_add(journal->store, table, journal->run_id, journal->segment, record, err);
}

enum status journal_step(struct journal *journal, const struct step_record *r, struct err *err)
{
    enum status status = journal->has_steps ? STATUS_OK : set_first_step(journal, r->step, err);
    if (!status) status = journal_add(journal, TABLE_STEPS, r, err);
    if (!status) status = rollup_add(&journal->rollup, journal->store, journal->run_id, r, err);
    if (status) return status;

    journal->steps = r->step + 1;
    journal->tokens = r->tokens;
    journal->final_loss = r->loss;
    journal->has_loss = true;
    if (isfinite(r->tokens_per_sec))
        journal->tokens_per_sec =
            isfinite(journal->tokens_per_sec)
                ? journal->tokens_per_sec + 0.1 * (r->tokens_per_sec - journal->tokens_per_sec)
                : r->tokens_per_sec;
    return STATUS_OK;
}

enum status journal_eval(struct journal *journal, const struct eval_record *r, struct err *err)
{
    enum status status = journal_add(journal, TABLE_EVALS, r, err);
    if (status) return status;
    note_best(journal, r->step, r->val_loss);
    return STATUS_OK;
}

enum status journal_order_done(struct journal *journal, int64_t order_id, int64_t applied_step,
                               const char *result, struct err *err)
{
    return store_do(journal->store, err,
                    "update orders set applied_step = ?2, result = ?3 where id = ?1 and run_id = ?4", "iiss",
                    order_id, applied_step, result, journal->run_id);
}

enum status journal_row(struct journal *journal, struct err *err)
{
    double loss = journal->has_loss ? journal->final_loss : NAN,
           best = journal->has_best ? journal->best_val_loss : NAN;
    int nan = 0;
    if (journal->has_loss && isnan(loss)) nan |= store_columns[COLUMN_RUNS_final_loss].null;
    if (journal->has_best && isnan(best)) nan |= store_columns[COLUMN_RUNS_best_val_loss].null;
    return store_do(journal->store, err,
                    "update runs set steps = ?2, tokens = ?3, final_loss = ?4, best_val_loss = ?5,"
                    " best_step = nullif(?6, -1), tokens_per_sec = ?7, heartbeat = ?8, status = ?9, nan = ?10"
                    " where id = ?1",
                    "siiddiddsn", journal->run_id, journal->steps, journal->tokens, loss, best,
                    journal->has_best ? journal->best_step : -1, journal->tokens_per_sec, journal->heartbeat,
                    run_status_name(journal->status), nan);
}

/* ---- beginning and ending a segment ---- */

static enum status answer_old_orders(struct journal *journal, const char *result, struct err *err)
{
    return store_do(
        journal->store, err,
        "update orders set result = ?2 where run_id = ?1 and result is null and applied_step is null", "ss",
        journal->run_id, result);
}

static enum status insert_segment(struct journal *journal, struct err *err)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return store_do(journal->store, err,
                    "insert into segments(run_id, segment, started_at, status, pid, host)"
                    " values(?1, ?2, ?3, 'running', ?4, ?5)",
                    "sndns", journal->run_id, journal->segment, clock_wall(), (int)getpid(), host);
}

static enum status mark_running(struct journal *journal, struct err *err)
{
    return store_do(
        journal->store, err,
        "update runs set status = 'running', segment = ?2, pid = ?3, heartbeat = ?4, ended_at = null,"
        " message = '' where id = ?1",
        "snnd", journal->run_id, journal->segment, (int)getpid(), journal->heartbeat);
}

enum status journal_begin(struct journal *journal, struct store *store, const char *run_id, struct err *err)
{
    struct run_info info;
    enum status status = store_begin(store, err);
    if (status) return status;
    status = run_row_find(store, run_id, &info, err);
    if (!status) {
        *journal = (struct journal){.store = store,
                                    .segment = info.segment + 1,
                                    .steps = info.steps > 0 ? info.steps : 0,
                                    .tokens = info.tokens > 0 ? info.tokens : 0,
                                    .best_step = info.best_step,
                                    .final_loss = info.final_loss,
                                    .best_val_loss = info.best_val_loss,
                                    .tokens_per_sec = NAN,
                                    .heartbeat = clock_wall(),
                                    .has_loss = info.steps > 0,
                                    .has_best = info.best_step >= 0,
                                    .status = RUN_RUNNING};
        snprintf(journal->run_id, sizeof journal->run_id, "%s", run_id);
        status = insert_segment(journal, err);
    }
    if (!status) status = mark_running(journal, err);
    if (!status) status = answer_old_orders(journal, "not obeyed: the trainer had already ended", err);
    if (!status) status = store_commit(store, err);
    store_rollback(store);
    return status;
}

static enum status end_segment(struct journal *journal, enum run_status final, double now, struct err *err)
{
    return store_do(journal->store, err,
                    "update segments set ended_at = ?3, status = ?4 where run_id = ?1 and segment = ?2",
                    "snds", journal->run_id, journal->segment, now, run_status_name(final));
}

enum status journal_next_segment(struct journal *journal, struct err *err)
{
    enum status status = end_segment(journal, RUN_FAILED, clock_wall(), err);
    if (status) return status;
    journal->segment++;
    journal->has_steps = false;
    journal->tokens_per_sec = NAN;
    journal->status = RUN_RUNNING;
    journal->heartbeat = clock_wall();
    status = insert_segment(journal, err);
    return status ? status : mark_running(journal, err);
}

enum status journal_device(struct journal *journal, const char *device, const char *precision,
                           struct err *err)
{
    return store_do(journal->store, err, "update runs set device = ?2, precision = ?3 where id = ?1", "sss",
                    journal->run_id, device, precision);
}

enum status journal_end(struct journal *journal, enum run_status final, const char *message, struct err *err)
{
    struct store *store = journal->store;
    double now = clock_wall();
    enum status status = store_begin(store, err);
    if (status) return status;
    journal->status = final;
    journal->heartbeat = now;
    status = journal_row(journal, err);
    if (!status)
        status = store_do(store, err, "update runs set ended_at = ?2, message = ?3 where id = ?1", "sds",
                          journal->run_id, now, message ? message : "");
    if (!status) status = end_segment(journal, final, now, err);
    if (!status) status = answer_old_orders(journal, "not obeyed: the trainer ended first", err);
    if (!status) status = store_commit(store, err);
    store_rollback(store);
    return status;
}
