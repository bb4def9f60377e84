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
#include "runs/schema.h"
#include "runs/segment.h"

/* The statement with run_id, segment and step bound as ?1..?3. */
static enum status prepare_row(struct journal *journal, const char *sql, int64_t step, sqlite3_stmt **out,
                               struct err *err)
{
    enum status status = store_prepare(journal->store, sql, out, err);
    if (status) return status;
    store_bind_text(*out, 1, journal->run_id);
    sqlite3_bind_int(*out, 2, journal->segment);
    sqlite3_bind_int64(*out, 3, step);
    return STATUS_OK;
}

/* Binds a value; a NaN sets `bit` in *mask. */
static void bind_flagged(sqlite3_stmt *statement, int index, double value, int bit, int *mask)
{
    store_bind_double(statement, index, value);
    if (isnan(value)) *mask |= bit;
}

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
        status = store_prepare(
            journal->store,
            "select segment, step, val_loss from evals where run_id = ?1 order by step, segment", &select,
            err);
    if (status) goto out;
    store_bind_text(select, 1, journal->run_id);
    journal->has_best = false;
    while (!(status = store_step(journal->store, select, &row, err)) && row)
        if (segment_shows(&list, sqlite3_column_int(select, 0), sqlite3_column_int64(select, 1) - 1))
            note_best(journal, sqlite3_column_int64(select, 1), store_column_double(select, 2));
out:
    segment_release(&list);
    return status;
}

static enum status set_first_step(struct journal *journal, int64_t step, struct err *err)
{
    sqlite3_stmt *update;
    enum status status =
        rollup_begin(&journal->rollup, journal->store, journal->run_id, journal->segment, step, err);
    if (!status)
        status =
            prepare_row(journal, "update segments set first_step = ?3 where run_id = ?1 and segment = ?2",
                        step, &update, err);
    if (!status) status = store_run(journal->store, update, err);
    if (!status && journal->segment > 1) status = reload_best(journal, err);
    if (!status) journal->has_steps = true;
    return status;
}

enum status journal_step(struct journal *journal, const struct step_record *r, struct err *err)
{
    sqlite3_stmt *insert;
    int nan = 0;
    enum status status = journal->has_steps ? STATUS_OK : set_first_step(journal, r->step, err);
    if (!status)
        status = prepare_row(
            journal,
            "insert or replace into steps(run_id, segment, step, epoch, tokens, wall_time, step_ms,"
            " loss, lr, grad_norm, clip_scale, tokens_per_sec, mfu, nan)"
            " values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            r->step, &insert, err);
    if (status) return status;
    bind_flagged(insert, 4, r->epoch, NAN_STEP_EPOCH, &nan);
    sqlite3_bind_int64(insert, 5, r->tokens);
    bind_flagged(insert, 6, r->wall_time, NAN_STEP_WALL_TIME, &nan);
    bind_flagged(insert, 7, r->step_ms, NAN_STEP_STEP_MS, &nan);
    bind_flagged(insert, 8, r->loss, NAN_STEP_LOSS, &nan);
    bind_flagged(insert, 9, r->lr, NAN_STEP_LR, &nan);
    bind_flagged(insert, 10, r->grad_norm, NAN_STEP_GRAD_NORM, &nan);
    bind_flagged(insert, 11, r->clip_scale, NAN_STEP_CLIP_SCALE, &nan);
    bind_flagged(insert, 12, r->tokens_per_sec, NAN_STEP_TOKENS_PER_SEC, &nan);
    store_bind_double(insert, 13, r->mfu);
    sqlite3_bind_int(insert, 14, nan);
    status = store_run(journal->store, insert, err);
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
    journal->dirty = true;
    return STATUS_OK;
}

enum status journal_eval(struct journal *journal, const struct eval_record *r, struct err *err)
{
    sqlite3_stmt *insert;
    int nan = 0;
    enum status status =
        prepare_row(journal,
                    "insert or replace into evals(run_id, segment, step, tokens, wall_time, val_loss,"
                    " val_perplexity, eval_ms, nan) values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                    r->step, &insert, err);
    if (status) return status;
    sqlite3_bind_int64(insert, 4, r->tokens);
    bind_flagged(insert, 5, r->wall_time, NAN_EVAL_WALL_TIME, &nan);
    bind_flagged(insert, 6, r->val_loss, NAN_EVAL_VAL_LOSS, &nan);
    bind_flagged(insert, 7, r->val_perplexity, NAN_EVAL_VAL_PERPLEXITY, &nan);
    bind_flagged(insert, 8, r->eval_ms, NAN_EVAL_EVAL_MS, &nan);
    sqlite3_bind_int(insert, 9, nan);
    status = store_run(journal->store, insert, err);
    if (status) return status;
    note_best(journal, r->step, r->val_loss);
    journal->dirty = true;
    return STATUS_OK;
}

enum status journal_stopping(struct journal *journal, const struct stopping_record *r, struct err *err)
{
    static const char *const verdicts[] = {"improved", "waiting", "stop"};
    sqlite3_stmt *insert;
    int nan = 0;
    enum status status =
        prepare_row(journal,
                    "insert or replace into early_stopping(run_id, segment, step, val_loss,"
                    " best_val_loss, best_step, min_delta, improved, patience_used, patience, verdict,"
                    " nan) values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                    r->step, &insert, err);
    if (status) return status;
    bind_flagged(insert, 4, r->val_loss, NAN_STOPPING_VAL_LOSS, &nan);
    bind_flagged(insert, 5, r->best_val_loss, NAN_STOPPING_BEST_VAL_LOSS, &nan);
    sqlite3_bind_int64(insert, 6, r->best_step);
    bind_flagged(insert, 7, r->min_delta, NAN_STOPPING_MIN_DELTA, &nan);
    sqlite3_bind_int(insert, 8, r->improved);
    sqlite3_bind_int64(insert, 9, r->patience_used);
    sqlite3_bind_int64(insert, 10, r->patience);
    store_bind_text(insert, 11, verdicts[r->verdict]);
    sqlite3_bind_int(insert, 12, nan);
    return store_run(journal->store, insert, err);
}

enum status journal_sample(struct journal *journal, const struct sample_record *r, struct err *err)
{
    sqlite3_stmt *insert;
    enum status status = prepare_row(
        journal, "insert into samples(run_id, segment, step, prompt, text) values(?1, ?2, ?3, ?4, ?5)",
        r->step, &insert, err);
    if (status) return status;
    store_bind_text(insert, 4, r->prompt);
    store_bind_text(insert, 5, r->text);
    return store_run(journal->store, insert, err);
}

enum status journal_checkpoint(struct journal *journal, const struct checkpoint_record *r, struct err *err)
{
    sqlite3_stmt *insert;
    enum status status =
        prepare_row(journal,
                    "insert or replace into checkpoints(run_id, segment, step, wall_time, path, kind,"
                    " bytes) values(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    r->step, &insert, err);
    if (status) return status;
    store_bind_double(insert, 4, r->wall_time);
    store_bind_text(insert, 5, r->path);
    store_bind_text(insert, 6, r->kind);
    sqlite3_bind_int64(insert, 7, r->bytes);
    return store_run(journal->store, insert, err);
}

enum status journal_memory(struct journal *journal, const struct memory_record *r, struct err *err)
{
    sqlite3_stmt *insert;
    enum status status =
        prepare_row(journal,
                    "insert or replace into memory(run_id, segment, step, category, planned_bytes,"
                    " live_bytes, peak_bytes) values(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    r->step, &insert, err);
    if (status) return status;
    store_bind_text(insert, 4, r->category);
    sqlite3_bind_int64(insert, 5, r->planned_bytes);
    sqlite3_bind_int64(insert, 6, r->live_bytes);
    sqlite3_bind_int64(insert, 7, r->peak_bytes);
    return store_run(journal->store, insert, err);
}

enum status journal_profile(struct journal *journal, const struct profile_record *r, struct err *err)
{
    sqlite3_stmt *insert;
    enum status status =
        prepare_row(journal,
                    "insert or replace into layer_profile(run_id, segment, step, phase, layer, op, calls,"
                    " time_us, bytes, flops) values(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                    r->step, &insert, err);
    if (status) return status;
    store_bind_text(insert, 4, r->phase);
    sqlite3_bind_int(insert, 5, r->layer);
    store_bind_text(insert, 6, r->op);
    sqlite3_bind_int64(insert, 7, r->calls);
    store_bind_double(insert, 8, r->time_us);
    sqlite3_bind_int64(insert, 9, r->bytes);
    sqlite3_bind_int64(insert, 10, r->flops);
    return store_run(journal->store, insert, err);
}

enum status journal_event(struct journal *journal, const struct event_record *r, struct err *err)
{
    sqlite3_stmt *insert;
    enum status status = prepare_row(
        journal,
        "insert into events(run_id, segment, step, wall_time, level, text) values(?1, ?2, ?3, ?4, ?5, ?6)",
        r->step, &insert, err);
    if (status) return status;
    store_bind_double(insert, 4, r->wall_time);
    store_bind_text(insert, 5, r->level);
    store_bind_text(insert, 6, r->text);
    return store_run(journal->store, insert, err);
}

enum status journal_order_done(struct journal *journal, int64_t order_id, int64_t applied_step,
                               const char *result, struct err *err)
{
    sqlite3_stmt *update;
    enum status status = store_prepare(
        journal->store, "update orders set applied_step = ?2, result = ?3 where id = ?1 and run_id = ?4",
        &update, err);
    if (status) return status;
    sqlite3_bind_int64(update, 1, order_id);
    sqlite3_bind_int64(update, 2, applied_step);
    store_bind_text(update, 3, result);
    store_bind_text(update, 4, journal->run_id);
    return store_run(journal->store, update, err);
}

enum status journal_row(struct journal *journal, struct err *err)
{
    sqlite3_stmt *update;
    int nan = 0;
    enum status status =
        store_prepare(journal->store,
                      "update runs set steps = ?2, tokens = ?3, final_loss = ?4, best_val_loss = ?5,"
                      " best_step = ?6, tokens_per_sec = ?7, heartbeat = ?8, status = ?9, nan = ?10"
                      " where id = ?1",
                      &update, err);
    if (status) return status;
    store_bind_text(update, 1, journal->run_id);
    sqlite3_bind_int64(update, 2, journal->steps);
    sqlite3_bind_int64(update, 3, journal->tokens);
    if (journal->has_loss) bind_flagged(update, 4, journal->final_loss, NAN_RUN_FINAL_LOSS, &nan);
    if (journal->has_best) {
        bind_flagged(update, 5, journal->best_val_loss, NAN_RUN_BEST_VAL_LOSS, &nan);
        sqlite3_bind_int64(update, 6, journal->best_step);
    }
    store_bind_double(update, 7, journal->tokens_per_sec);
    store_bind_double(update, 8, journal->heartbeat);
    store_bind_text(update, 9, run_status_name(journal->status));
    sqlite3_bind_int(update, 10, nan);
    status = store_run(journal->store, update, err);
    if (!status) journal->dirty = false;
    return status;
}

/* ---- beginning and ending a segment ---- */

static enum status answer_old_orders(struct journal *journal, const char *result, struct err *err)
{
    sqlite3_stmt *update;
    enum status status = store_prepare(
        journal->store,
        "update orders set result = ?2 where run_id = ?1 and result is null and applied_step is null",
        &update, err);
    if (status) return status;
    store_bind_text(update, 1, journal->run_id);
    store_bind_text(update, 2, result);
    return store_run(journal->store, update, err);
}

static enum status insert_segment(struct journal *journal, int64_t pid, struct err *err)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    sqlite3_stmt *insert;
    enum status status = store_prepare(journal->store,
                                       "insert into segments(run_id, segment, started_at, status, pid, host) "
                                       "values(?1, ?2, ?3, 'running', ?4, ?5)",
                                       &insert, err);
    if (status) return status;
    store_bind_text(insert, 1, journal->run_id);
    sqlite3_bind_int(insert, 2, journal->segment);
    sqlite3_bind_double(insert, 3, clock_wall());
    sqlite3_bind_int64(insert, 4, pid);
    store_bind_text(insert, 5, host);
    return store_run(journal->store, insert, err);
}

static enum status mark_running(struct journal *journal, int64_t pid, struct err *err)
{
    sqlite3_stmt *update;
    enum status status =
        store_prepare(journal->store,
                      "update runs set status = 'running', segment = ?2, pid = ?3, heartbeat = ?4,"
                      " ended_at = null, message = '' where id = ?1",
                      &update, err);
    if (status) return status;
    store_bind_text(update, 1, journal->run_id);
    sqlite3_bind_int(update, 2, journal->segment);
    sqlite3_bind_int64(update, 3, pid);
    sqlite3_bind_double(update, 4, journal->heartbeat);
    return store_run(journal->store, update, err);
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
        status = insert_segment(journal, getpid(), err);
    }
    if (!status) status = mark_running(journal, getpid(), err);
    if (!status) status = answer_old_orders(journal, "not obeyed: the trainer had already ended", err);
    if (!status) status = store_commit(store, err);
    store_rollback(store);
    return status;
}

static enum status end_segment(struct journal *journal, enum run_status final, double now, struct err *err)
{
    sqlite3_stmt *update;
    enum status status = store_prepare(
        journal->store, "update segments set ended_at = ?3, status = ?4 where run_id = ?1 and segment = ?2",
        &update, err);
    if (status) return status;
    store_bind_text(update, 1, journal->run_id);
    sqlite3_bind_int(update, 2, journal->segment);
    sqlite3_bind_double(update, 3, now);
    store_bind_text(update, 4, run_status_name(final));
    return store_run(journal->store, update, err);
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
    journal->dirty = true;
    status = insert_segment(journal, getpid(), err);
    return status ? status : mark_running(journal, getpid(), err);
}

enum status journal_device(struct journal *journal, const char *device, const char *precision,
                           struct err *err)
{
    sqlite3_stmt *update;
    enum status status = store_prepare(
        journal->store, "update runs set device = ?2, precision = ?3 where id = ?1", &update, err);
    if (status) return status;
    store_bind_text(update, 1, journal->run_id);
    store_bind_text(update, 2, device);
    store_bind_text(update, 3, precision);
    return store_run(journal->store, update, err);
}

enum status journal_end(struct journal *journal, enum run_status final, const char *message, struct err *err)
{
    struct store *store = journal->store;
    double now = clock_wall();
    sqlite3_stmt *update;
    enum status status = store_begin(store, err);
    if (status) return status;
    journal->status = final;
    journal->heartbeat = now;
    status = journal_row(journal, err);
    if (!status)
        status =
            store_prepare(store, "update runs set ended_at = ?2, message = ?3 where id = ?1", &update, err);
    if (!status) {
        store_bind_text(update, 1, journal->run_id);
        sqlite3_bind_double(update, 2, now);
        store_bind_text(update, 3, message ? message : "");
        status = store_run(store, update, err);
    }
    if (!status) status = end_segment(journal, final, now, err);
    if (!status) status = answer_old_orders(journal, "not obeyed: the trainer ended first", err);
    if (!status) status = store_commit(store, err);
    store_rollback(store);
    return status;
}
