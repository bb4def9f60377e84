/* See writer_thread.h. The thread that drains the ring: it sleeps until its next look or until somebody waits
 * for it, moves what came into a batch, commits the batch in one transaction, and looks for orders. A batch
 * that cannot be stored is kept, with the journal as it was before, and tried again; meanwhile records wait
 * in the ring. */
#include "runs/writer_thread.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/thread.h"
#include "runs/order.h"

static const double commit_every = 0.25;   /* seconds */
static const double look_every = 0.1;      /* for orders */
static const double heartbeat_every = 5.0; /* when there is nothing else to write */
static const double retry_after = 0.25, retry_at_most = 5.0;
static const double close_patience = 10.0; /* for storage that fails while we are leaving */

/* ---- one batch ---- */

/* Lets the record's texts point at their copies. */
static void place_texts(enum store_table table, struct writer_slot *slot)
{
    int column = store_tables[table].first;
    const char *at = slot->texts, **text;
    while (at && (text = table_next_text(table, &column, &slot->step))) {
        *text = at;
        at += strlen(at) + 1;
    }
}

static enum status apply(struct journal *journal, struct writer_slot *slot, struct err *err)
{
    switch (slot->kind) {
    case TABLE_STEPS:
        return journal_step(journal, &slot->step, err);
    case TABLE_EVALS:
        return journal_eval(journal, &slot->eval, err);
    case SLOT_STATUS:
        journal->status = slot->status;
        return STATUS_OK;
    case SLOT_ORDER_DONE:
        return journal_order_done(journal, slot->done.id, slot->done.step, slot->texts, err);
    case SLOT_SEGMENT:
        return journal_next_segment(journal, err);
    case SLOT_DEVICE:
        return journal_device(journal, slot->texts, slot->texts + strlen(slot->texts) + 1, err);
    default:
        place_texts((enum store_table)slot->kind, slot);
        return journal_add(journal, (enum store_table)slot->kind, &slot->step, err);
    }
}

static enum status own_event(struct journal *journal, const char *level, const char *text, struct err *err)
{
    struct event_record event = {journal->steps - 1, clock_wall(), level, text};
    return journal_add(journal, TABLE_EVENTS, &event, err);
}

/* What the writer itself has to say about the storage. */
static enum status apply_notes(struct writer *writer, struct err *err)
{
    char text[160], since[32];
    enum status status = STATUS_OK;
    if (writer->unreported_lost) {
        snprintf(text, sizeof text, "%llu records were lost: the store could not take them in time",
                 (unsigned long long)writer->unreported_lost);
        status = own_event(&writer->journal, "error", text, err);
    }
    if (!status && writer->failing_since > 0) {
        clock_format_duration(clock_monotonic() - writer->failing_since, since, sizeof since);
        snprintf(text, sizeof text, "storage works again after %s", since);
        status = own_event(&writer->journal, "warning", text, err);
    }
    return status;
}

static enum status commit_batch(struct writer *writer, struct err *err)
{
    struct journal before = writer->journal;
    enum status status = store_begin(writer->store, err);
    if (status) return status;
    for (size_t i = 0; !status && i < writer->batch_count; i++)
        status = apply(&writer->journal, &writer->batch[i], err);
    if (!status) status = apply_notes(writer, err);
    if (!status) status = journal_row(&writer->journal, err);
    if (!status) status = store_commit(writer->store, err);
    if (status) {
        store_rollback(writer->store);
        writer->journal = before;
    }
    return status;
}

static void settle(struct writer *writer, const struct err *failure)
{
    pthread_mutex_lock(&writer->mutex);
    writer->failure = *failure;
    if (!failure->status) {
        writer->committed += writer->batch_count;
        writer->stalled = false;
    }
    pthread_cond_broadcast(&writer->settled);
    pthread_mutex_unlock(&writer->mutex);
}

/* True when the batch is stored. */
static bool try_commit(struct writer *writer)
{
    struct err err = {0};
    writer->unreported_lost += atomic_exchange_explicit(&writer->lost, 0, memory_order_relaxed);
    enum status status = commit_batch(writer, &err);
    settle(writer, &err);
    if (status) {
        if (writer->failing_since == 0) writer->failing_since = clock_monotonic();
        if (!(writer->reported_kinds & 1u << status) && writer->on_error)
            writer->on_error(writer->context, err.text);
        writer->reported_kinds |= 1u << status;
        return false;
    }
    if (writer->batch_count)
        atomic_store_explicit(&writer->text_tail, writer->batch[writer->batch_count - 1].text_end,
                              memory_order_release);
    writer->batch_count = 0;
    writer->unreported_lost = 0;
    writer->failing_since = 0;
    writer->reported_kinds = 0;
    return true;
}

/* ---- orders ---- */

static void look_for_orders(struct writer *writer)
{
    sqlite3_stmt *select;
    bool row;
    int64_t version = store_version(writer->store);
    if (version == writer->orders_seen_version) return;
    if (store_query(writer->store, &select, NULL,
                    "select id, verb, argument from orders where run_id = ?1 and id > ?2 order by id", "si",
                    writer->journal.run_id, writer->newest_order))
        return;
    while (!store_step(writer->store, select, &row, NULL)) {
        if (!row) {
            writer->orders_seen_version = version;
            return;
        }
        struct order order = {.id = sqlite3_column_int64(select, 0),
                              .argument = store_column_double(select, 2)};
        const char *verb = (const char *)sqlite3_column_text(select, 1);
        if (verb && order_verb_parse(verb, &order.verb) && !ring_push(&writer->orders, &order))
            break; /* full: later */
        writer->newest_order = order.id;
    }
    sqlite3_reset(select);
}

static enum status skip_old_orders(struct writer *writer, struct err *err)
{
    sqlite3_stmt *select;
    bool row;
    enum status status =
        store_query(writer->store, &select, err, "select max(id) from orders where run_id = ?1", "s",
                    writer->journal.run_id);
    if (!status) status = store_step(writer->store, select, &row, err);
    if (status) return status;
    writer->newest_order = row ? store_column_int(select, 0, 0) : 0;
    sqlite3_reset(select);
    return STATUS_OK;
}

/* ---- the loop ---- */

static void sleep_until_woken(struct writer *writer, double seconds)
{
    struct timespec until = clock_deadline(seconds);
    sem_clockwait(&writer->wake, CLOCK_MONOTONIC, &until);
}

bool writer_commit_due(const struct writer_pace *pace, const struct writer_demand *demand, double now)
{
    double since = now - pace->last_commit;
    bool news = pace->failing || demand->records > 0 || demand->lost;
    bool hurry = since >= commit_every || demand->flush || demand->closing;
    bool alive = demand->looks != pace->looks && since >= heartbeat_every;
    if (!(news && hurry) && demand->records < WRITER_BATCH && !alive) return false;
    return now >= pace->next_attempt || (demand->closing && !pace->failing);
}

void writer_pace_note(struct writer_pace *pace, const struct writer_demand *demand, bool stored, double now)
{
    double wait = demand->closing ? retry_after : pace->pause;
    pace->looks = demand->looks;
    pace->failing = !stored;
    pace->last_commit = now;
    pace->next_attempt = stored ? 0 : now + wait;
    pace->pause = stored ? retry_after : fmin(2 * pace->pause, retry_at_most);
}

static void fill_batch(struct writer *writer)
{
    while (writer->batch_count < WRITER_BATCH &&
           ring_pop(&writer->records, &writer->batch[writer->batch_count]))
        writer->batch_count++;
}

static struct writer_demand demand_of(struct writer *writer)
{
    struct writer_demand demand = {
        .records = writer->batch_count,
        .lost = atomic_load_explicit(&writer->lost, memory_order_relaxed) > 0,
        .looks = atomic_load_explicit(&writer->looks, memory_order_relaxed),
    };
    pthread_mutex_lock(&writer->mutex);
    demand.closing = writer->closing;
    demand.flush = writer->flush_wanted > writer->committed;
    pthread_mutex_unlock(&writer->mutex);
    return demand;
}

/* While the run ends: whether all is stored, or storage has failed for too long. */
static bool may_leave(struct writer *writer, struct writer_pace *pace, double *leaving_since)
{
    double now = clock_monotonic();
    if (*leaving_since == 0) {
        *leaving_since = now;
        pace->next_attempt = fmin(pace->next_attempt, now + retry_after);
        if (pace->failing && writer->on_error)
            writer->on_error(writer->context, "trying for up to 10 s to store the last records");
    }
    if (pace->failing) return now - *leaving_since > close_patience;
    return writer->batch_count == 0 && ring_count(&writer->records) == 0 &&
           atomic_load_explicit(&writer->lost, memory_order_relaxed) == 0;
}

static void *run(void *argument)
{
    struct writer *writer = argument;
    struct writer_pace pace = {.last_commit = clock_monotonic(), .pause = retry_after};
    double leaving_since = 0;
    for (;;) {
        fill_batch(writer);
        struct writer_demand demand = demand_of(writer);
        if (writer_commit_due(&pace, &demand, clock_monotonic())) {
            bool stored = try_commit(writer);
            writer_pace_note(&pace, &demand, stored, clock_monotonic());
        }
        if (demand.closing && may_leave(writer, &pace, &leaving_since)) break;
        look_for_orders(writer);
        bool more = writer->batch_count < WRITER_BATCH && ring_count(&writer->records) > 0;
        if (!more || pace.failing) sleep_until_woken(writer, look_every);
    }
    return NULL;
}

enum status writer_thread_start(struct writer *writer, const char *run_id, struct err *err)
{
    enum status status = journal_begin(&writer->journal, writer->store, run_id, err);
    if (!status) status = skip_old_orders(writer, err);
    if (status) return status;
    writer->orders_seen_version = -1;
    int code = thread_start(&writer->thread, run, writer);
    return code ? err_set(err, STATUS_FAILED, "recording run %s: cannot start a thread: %s", run_id,
                          strerror(code))
                : STATUS_OK;
}
