/* See journal.h. In a table with a key, a record replaces the earlier record with the same key, so that two
 * evaluations at one step leave one row; samples and events are all kept. */
#include "runs/journal.h"

#include <stdio.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/confusion.h"
#include "runs/message.h"
#include "runs/table.h"

static enum status set_first_step(struct journal *journal, int64_t step, struct err *err)
{
    enum status status = journal->late
                             ? STATUS_OK
                             : rollup_begin(&journal->rollup, journal->store, journal->run_id, step, err);
    if (!status)
        status = store_do(journal->store, err,
                          "update segments set first_step = min(ifnull(first_step, ?3), ?3)"
                          " where run_id = ?1 and segment = ?2",
                          "sni", journal->run_id, journal->segment, step);
    if (status) return status;
    journal->has_steps = true;
    journal->counted_evals = false; /* the record may replace one that was counted */
    return STATUS_OK;
}

/* Counts a step that has been added to its table. */
static enum status count_step(struct journal *journal, const struct step_record *r, struct err *err)
{
    enum status status = journal->has_steps ? STATUS_OK : set_first_step(journal, r->step, err);
    if (!status && !journal->late)
        status = rollup_add(&journal->rollup, journal->store, journal->run_id, r, err);
    journal->steps = r->step + 1;
    journal->counted_steps = false;
    return status;
}

enum status journal_add(struct journal *journal, enum store_table table, const void *record, struct err *err)
{
    enum status status = STATUS_OK;
    bool has = false;
    if (journal->late && !store_tables[table].keyed) /* a file may repeat what the database has */
        status = table_has(journal->store, table, journal->run_id, journal->segment, record, &has, err);
    if (!status && !has)
        status = table_add(journal->store, table, journal->run_id, journal->segment, record, err);
    if (table == TABLE_EVALS || table == TABLE_MEASURES) journal->counted_evals = false;
    return status || table != TABLE_STEPS ? status : count_step(journal, record, err);
}

enum status journal_count_steps(struct store *store, const char *run_id, struct err *err)
{
    /* Of the newest segment that still has steps which count: an import may lack a value in its newest ones;
     * columns.def explains the bits. The speed is that of the steps together: a mean of their speeds would be
     * that of the shortest. */
    return store_do(
        store, err,
        "with newest_segment(s) as (select ifnull("
        "  (select t.segment " COUNTED_STEPS " order by t.segment desc, t.step desc limit 1), 0)),"
        " replaced(step) as (select ifnull(min(first_step), 1 << 62) from segments, newest_segment"
        "  where run_id = ?1 and segment > s),"
        " s as not materialized (select * from steps where run_id = ?1 and segment ="
        "  (select s from newest_segment) and step < (select step from replaced)),"
        " newest as (select loss from s where loss is not null or nan & 8 order by step desc limit 1),"
        " recent as (select tokens_per_sec as rate, step_ms as time from s where abs(tokens_per_sec) < 9e999"
        "  order by step desc limit 20)"
        " update runs set steps = min((select step from replaced),"
        "  ifnull((select step + 1 from s order by step desc limit 1), steps)),"
        " tokens = ifnull((select tokens from s where tokens is not null order by step desc limit 1), "
        "tokens),"
        " final_loss = (select loss from newest),"
        " nan = nan & ~1 | ifnull((select loss is null from newest), 0),"
        " tokens_per_sec = (select ifnull(sum(rate * time) / sum(time), avg(rate)) from recent)"
        " where id = ?1",
        "s", run_id);
}

/* The name of the measure that the run's eval.metric stands for (a label in it may have signs that the name
 * has not), and the factor that makes its lowest value the best. */
static enum status read_metric(struct store *store, const char *run_id, char *name, size_t size,
                               int64_t *factor, struct err *err)
{
    sqlite3_stmt *metric;
    *name = '\0';
    *factor = 1;
    enum status status =
        store_query(store, &metric, err,
                    "select value from params where run_id = ?1 and name = 'eval.metric'", "s", run_id);
    if (!store_next(store, metric, &status, err)) return status;
    const char *value = (const char *)sqlite3_column_text(metric, 0);
    if (value) class_score_measure(value, name, size);
    if (!measure_falls(name)) *factor = -1;
    sqlite3_reset(metric);
    return STATUS_OK;
}

enum status journal_count_evals(struct store *store, const char *run_id, struct err *err)
{
    int64_t factor;
    char name[1024]; /* CONFIG_TEXT_MAX: a value is shorter */
    enum status status = read_metric(store, run_id, name, sizeof name, &factor, err);
    if (status) return status;
    /* any number is better than NaN; the first of two equal ones counts */
    return store_do(
        store, err,
        "with counted_evals as (select t.* " COUNTED_EVALS "),"
        " counted_measures as (select t.* " COUNTED_MEASURES "),"
        " lowest as (select val_loss, step from counted_evals where val_loss is not null or nan & 2"
        "  order by val_loss is null, val_loss, step limit 1),"
        " metric as (select ?3 as name where ?3 not in ('', 'val_loss')),"
        " followed as (select t.step, t.value from counted_measures t join metric m on m.name = t.name"
        "  union all select t.step, t.val_perplexity from counted_evals t"
        "  join metric m on m.name = 'val_perplexity'),"
        " best as (select step, value from followed where value is not null"
        "  order by value * ?2, step limit 1)"
        " update runs set best_val_loss = (select val_loss from lowest),"
        " best_step = (select step from lowest where not exists (select 1 from metric)"
        "  union all select step from best),"
        " best_metric = ifnull((select name from metric), ''), best_value = (select value from best),"
        " nan = nan & ~2 | ifnull((select val_loss is null from lowest), 0) * 2 where id = ?1",
        "sis", run_id, factor, name);
}

enum status journal_row(struct journal *journal, struct err *err)
{
    enum status status = STATUS_OK;
    if (!journal->counted_steps) status = journal_count_steps(journal->store, journal->run_id, err);
    if (!status && !journal->counted_evals)
        status = journal_count_evals(journal->store, journal->run_id, err);
    if (status) return status;
    journal->counted_steps = journal->counted_evals = true;
    return store_do(journal->store, err, "update runs set heartbeat = ?2, status = ?3 where id = ?1", "sds",
                    journal->run_id, clock_wall(), status_words[journal->status]);
}

/* ---- beginning and ending a segment ---- */

static enum status answer_old_orders(struct journal *journal, const char *result, struct err *err)
{
    return store_do(
        journal->store, err,
        "update orders set result = ?2 where run_id = ?1 and result is null and applied_step is null", "ss",
        journal->run_id, result);
}

enum status journal_add_segment(struct journal *journal, double started_at, struct err *err)
{
    return store_do(journal->store, err,
                    "insert or ignore into segments(run_id, segment, started_at, status)"
                    " values(?1, ?2, ?3, 'running')",
                    "snd", journal->run_id, journal->segment, started_at);
}

/* Adds the new segment and marks the run as running. */
static enum status begin_segment(struct journal *journal, double started_at, struct err *err)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    enum status status =
        store_do(journal->store, err,
                 "insert into segments(run_id, segment, started_at, status, pid, host)"
                 " values(?1, ?2, ?3, 'running', ?4, ?5)",
                 "sndis", journal->run_id, journal->segment, started_at, run_process(), host);
    if (status) return status;
    return store_do(
        journal->store, err,
        "update runs set status = 'running', segment = ?2, pid = ?3, heartbeat = ?4, ended_at = null,"
        " message = '' where id = ?1",
        "snid", journal->run_id, journal->segment, run_process(), clock_wall());
}

enum status journal_begin(struct journal *journal, struct store *store, const char *run_id, struct err *err)
{
    struct run_info info;
    enum status status = store_begin(store, err);
    if (status) return status;
    status = run_get(store, run_id, &info, err);
    if (!status) {
        *journal = (struct journal){.store = store,
                                    .segment = info.segment + 1,
                                    .steps = info.steps > 0 ? info.steps : 0,
                                    .status = RUN_RUNNING,
                                    .counted_steps = true,
                                    .counted_evals = true};
        snprintf(journal->run_id, sizeof journal->run_id, "%s", run_id);
        status = store_do(store, err, /* of a trainer that was killed */
                          "update segments set status = 'crashed' where run_id = ?1 and status = 'running'",
                          "s", run_id);
        if (!status) status = begin_segment(journal, clock_wall(), err);
    }
    if (!status) status = answer_old_orders(journal, "not done: the trainer had already ended", err);
    return store_end(store, status, err);
}

static enum status end_segment(struct journal *journal, enum run_status final, double now, struct err *err)
{
    return store_do(journal->store, err,
                    "update segments set ended_at = ?3, status = ?4 where run_id = ?1 and segment = ?2",
                    "snds", journal->run_id, journal->segment, now, status_words[final]);
}

static enum status next_segment(struct journal *journal, const struct segment_note *note, struct err *err)
{
    enum status status = end_segment(journal, RUN_FAILED, note->at, err);
    if (status) return status;
    journal->segment++;
    journal->has_steps = false;
    journal->status = RUN_RUNNING;
    status =
        journal->late ? journal_add_segment(journal, note->at, err) : begin_segment(journal, note->at, err);
    if (status || note->step < 0) return status;
    journal->counted_steps = false; /* steps from this one on no longer count */
    return set_first_step(journal, note->step, err);
}

/* Of a run that finished without another step: it was killed after its last checkpoint, and resumed to end
 * there. The steps that the killed trainer took beyond that checkpoint no longer count. */
static enum status end_at_last_step(struct journal *journal, struct err *err)
{
    int64_t total;
    enum status status = store_number(journal->store, &total, 0, err,
                                      "select total_steps from runs where id = ?1", "s", journal->run_id);
    if (status || total <= 0 || total >= journal->steps) return status;
    journal->counted_steps = false;
    return set_first_step(journal, total, err);
}

static enum status set_end(struct journal *journal, const struct end_note *note, struct err *err)
{
    journal->status = (enum run_status)note->status;
    enum status status = STATUS_OK;
    if (journal->status == RUN_FINISHED && !journal->has_steps) status = end_at_last_step(journal, err);
    if (status) return status;
    status = store_do(
        journal->store, err, "update runs set status = ?4, ended_at = ?2, message = ?3 where id = ?1", "sdss",
        journal->run_id, note->at, note->message ? note->message : "", status_words[note->status]);
    return status ? status : end_segment(journal, journal->status, note->at, err);
}

enum status journal_take(struct journal *journal, int kind, const void *message, struct err *err)
{
    const struct order_note *order = message;
    const struct device_note *device = message;
    switch (kind) {
    case MESSAGE_STATUS:
        journal->status = (enum run_status)((const struct status_note *)message)->status;
        return STATUS_OK;
    case MESSAGE_ORDER:
        return store_do(journal->store, err,
                        "update orders set applied_step = ?3, result = ?4 where run_id = ?1 and id = ?2",
                        "siis", journal->run_id, order->id, order->step, order->result);
    case MESSAGE_SEGMENT:
        return next_segment(journal, message, err);
    case MESSAGE_DEVICE:
        return store_do(journal->store, err, "update runs set device = ?2, precision = ?3 where id = ?1",
                        "sss", journal->run_id, device->device, device->precision);
    case MESSAGE_END:
        return set_end(journal, message, err);
    case MESSAGE_RUN:
        return STATUS_OK; /* the run exists */
    default:
        return journal_add(journal, (enum store_table)kind, message, err);
    }
}

enum status journal_end(struct journal *journal, enum run_status final, const char *message, struct err *err)
{
    struct store *store = journal->store;
    double now = clock_wall();
    enum status status = store_begin(store, err);
    if (status) return status;
    journal->status = final;
    status = set_end(journal, &(struct end_note){final, now, message}, err);
    if (!status) status = journal_row(journal, err);
    if (!status) status = answer_old_orders(journal, "not done: the trainer ended first", err);
    return store_end(store, status, err);
}
