/* See writer.h. Records and their texts go through a ring of messages to the writer's thread. The thread
 * sleeps until its next poll or until a caller waits for it, stores the new records in one transaction, and
 * polls for orders. If the transaction fails, the records stay in the ring, the journal is restored, and the
 * thread retries. */
#include "runs/writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/ring.h"
#include "core/base/text.h"
#include "core/base/thread.h"
#include "runs/journal.h"
#include "runs/order.h"
#include "runs/writer_pace.h"

enum {
    RING_BYTES = 1 << 22,
    ORDERS_BYTES = 1 << 11,
    TEXT_MAX = 1 << 18, /* bytes of one text; the rest is cut off */
    TEXTS_MAX = 2,      /* per record */
};

static const double look_every = 0.1;      /* seconds between two polls for orders */
static const double close_patience = 10.0; /* seconds to retry failing storage at the end */

/* The kinds of messages other than a record of a table. */
enum { NOTE_STATUS = TABLE_COUNT, NOTE_ORDER_DONE, NOTE_SEGMENT, NOTE_DEVICE };

/* A record, padded to whole words, then its texts with their NULs. */
struct message {
    int64_t kind; /* NOTE_…, or the table */
    int64_t record[];
};

struct order_done {
    int64_t id, step;
};

struct writer {
    /* shared by the two threads */
    struct ring records, orders;
    atomic_uint_fast64_t pushed, lost, looks; /* records; looks: how often the trainer polled for orders */
    pthread_mutex_t mutex;                    /* guards the members below; record calls never take it */
    pthread_cond_t changed;                   /* after each commit, and when the thread is waited for */
    bool closing, stalled;            /* stalled: a wait for a commit timed out, and none has come since */
    uint64_t committed, flush_wanted; /* counted like pushed */
    struct err failure;               /* error of the newest attempt; status 0: none */

    /* used by the writer's thread, and by the opener before it starts and after it ends */
    pthread_t thread;
    struct store *store;
    struct journal journal;
    uint64_t unreported_lost;
    int64_t newest_order, orders_seen_version;
    double failing_since; /* monotonic; 0: it works */
    struct writer_options options;
};

/* ---- the training thread's side ---- */

static size_t words_of(size_t bytes)
{
    return (bytes + sizeof(int64_t) - 1) / sizeof(int64_t);
}

static void put(struct writer *writer, int64_t kind, const void *record, size_t size,
                const char *const *texts, int count)
{
    static const int64_t padding;
    struct iovec parts[3 + 2 * TEXTS_MAX] = {
        {&kind, sizeof kind}, {(void *)record, size}, {(void *)&padding, words_of(size) * 8 - size}};
    int n = 3;
    for (int i = 0; i < count; i++) {
        size_t length = texts[i] ? strnlen(texts[i], TEXT_MAX + 1) : 0;
        if (length > TEXT_MAX) length = utf8_cut(texts[i], TEXT_MAX);
        parts[n++] = (struct iovec){(void *)texts[i], length};
        parts[n++] = (struct iovec){"", 1};
    }
    /* the thread polls: waking it would be a system call */
    atomic_fetch_add_explicit(ring_push(&writer->records, parts, n) ? &writer->pushed : &writer->lost, 1,
                              memory_order_relaxed);
}

void writer_record(struct writer *writer, enum store_table table, const void *record)
{
    const char *texts[TEXTS_MAX], **text;
    int count = 0, column = store_tables[table].first;
    while (count < TEXTS_MAX && (text = table_next_text(table, &column, (void *)record)))
        texts[count++] = *text;
    put(writer, (int64_t)table, record, store_tables[table].record, texts, count);
}

void writer_status(struct writer *writer, enum run_status status)
{
    put(writer, NOTE_STATUS, &status, sizeof status, NULL, 0);
}

void writer_next_segment(struct writer *writer)
{
    put(writer, NOTE_SEGMENT, NULL, 0, NULL, 0);
}

void writer_device(struct writer *writer, const char *device, const char *precision)
{
    put(writer, NOTE_DEVICE, NULL, 0, (const char *[]){device, precision}, 2);
}

bool writer_next_order(struct writer *writer, struct order *out)
{
    size_t position = writer->orders.tail;
    atomic_fetch_add_explicit(&writer->looks, 1, memory_order_relaxed);
    const struct order *order = ring_next(&writer->orders, &position);
    if (!order) return false;
    *out = *order;
    ring_free(&writer->orders, position);
    return true;
}

void writer_order_done(struct writer *writer, int64_t order_id, int64_t applied_step, const char *result)
{
    put(writer, NOTE_ORDER_DONE, &(struct order_done){order_id, applied_step}, sizeof(struct order_done),
        &result, 1);
}

uint64_t writer_looks(struct writer *writer)
{
    return atomic_load_explicit(&writer->looks, memory_order_relaxed);
}

/* ---- one commit ---- */

static enum status apply(struct journal *journal, struct message *message, struct err *err)
{
    void *record = message->record;
    const enum run_status *status = record;
    const struct order_done *done = record;
    const char *text = record, **place;
    switch (message->kind) {
    case NOTE_STATUS:
        journal->status = *status;
        return STATUS_OK;
    case NOTE_ORDER_DONE:
        return store_do(journal->store, err,
                        "update orders set applied_step = ?3, result = ?4 where run_id = ?1 and id = ?2",
                        "siis", journal->run_id, done->id, done->step, (const char *)(done + 1));
    case NOTE_SEGMENT:
        return journal_next_segment(journal, err);
    case NOTE_DEVICE:
        return store_do(journal->store, err, "update runs set device = ?2, precision = ?3 where id = ?1",
                        "sss", journal->run_id, text, text + strlen(text) + 1);
    }
    enum store_table table = (enum store_table)message->kind;
    int column = store_tables[table].first;
    text = (const char *)(message->record + words_of(store_tables[table].record));
    while ((place = table_next_text(table, &column, record))) {
        *place = text;
        text += strlen(text) + 1;
    }
    return journal_add(journal, table, record, err);
}

/* Adds events about lost records and failed storage. */
static enum status add_notes(struct writer *writer, struct err *err)
{
    char text[160], since[32];
    struct event_record event = {writer->journal.steps - 1, clock_wall(), "error", text, false};
    enum status status = STATUS_OK;
    if (writer->unreported_lost) {
        snprintf(text, sizeof text, "%llu records were lost: they could not be stored in time",
                 (unsigned long long)writer->unreported_lost);
        status = journal_add(&writer->journal, TABLE_EVENTS, &event, err);
    }
    if (status || writer->failing_since == 0) return status;
    clock_format_duration(clock_monotonic() - writer->failing_since, since, sizeof since);
    snprintf(text, sizeof text, "storage works again after %s", since);
    event.level = "warning";
    return journal_add(&writer->journal, TABLE_EVENTS, &event, err);
}

/* Stores the waiting records, at most one batch. */
static enum status commit(struct writer *writer, struct err *err)
{
    struct journal before = writer->journal;
    struct message *message;
    size_t position = writer->records.tail;
    uint64_t count = 0;
    writer->unreported_lost += atomic_exchange_explicit(&writer->lost, 0, memory_order_relaxed);
    enum status status = store_begin(writer->store, err);
    if (status) return status;
    while (!status && count < WRITER_BATCH && (message = ring_next(&writer->records, &position))) {
        status = apply(&writer->journal, message, err);
        count++;
    }
    if (!status) status = add_notes(writer, err);
    if (!status) status = journal_row(&writer->journal, err);
    status = store_end(writer->store, status, err);
    if (status) {
        writer->journal = before;
        return status;
    }
    ring_free(&writer->records, position);
    writer->unreported_lost = 0;
    pthread_mutex_lock(&writer->mutex);
    writer->committed += count;
    writer->stalled = false;
    pthread_mutex_unlock(&writer->mutex);
    return STATUS_OK;
}

static void report(struct writer *writer, const char *sentence)
{
    if (writer->options.on_error) writer->options.on_error(writer->options.context, sentence);
}

static bool try_commit(struct writer *writer)
{
    struct err err = {0};
    if (commit(writer, &err) == STATUS_OK) {
        writer->failing_since = 0;
    } else if (writer->failing_since == 0) {
        writer->failing_since = clock_monotonic();
        report(writer, err.text);
    }
    pthread_mutex_lock(&writer->mutex);
    writer->failure = err;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    return err.status == STATUS_OK;
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
        const char *word = (const char *)sqlite3_column_text(select, 1);
        int verb = 0;
        bool known = word && word_parse(verb_words, word, &verb);
        order.verb = (enum order_verb)verb;
        if (known && !ring_push(&writer->orders, &(struct iovec){&order, sizeof order}, 1))
            break; /* the ring is full: retry later */
        writer->newest_order = order.id;
    }
    sqlite3_reset(select);
}

/* ---- the thread ---- */

static struct writer_demand demand_of(struct writer *writer)
{
    struct writer_demand demand = {.looks = writer_looks(writer)};
    pthread_mutex_lock(&writer->mutex);
    uint64_t pushed = atomic_load(&writer->pushed);
    demand.closing = writer->closing; /* no more records come after this */
    demand.flush = writer->flush_wanted > writer->committed;
    demand.lost = atomic_load(&writer->lost) > 0;
    if (pushed > writer->committed) demand.records = pushed - writer->committed;
    pthread_mutex_unlock(&writer->mutex);
    return demand;
}

/* Sleeps until the next poll, or until a caller waits for the thread. */
static void pause_until_asked(struct writer *writer, bool failing)
{
    struct timespec until = clock_deadline(look_every);
    pthread_mutex_lock(&writer->mutex);
    if (failing || !(writer->closing || writer->flush_wanted > writer->committed))
        pthread_cond_timedwait(&writer->changed, &writer->mutex, &until);
    pthread_mutex_unlock(&writer->mutex);
}

static void *run(void *argument)
{
    struct writer *writer = argument;
    struct writer_pace pace = {.last = clock_monotonic()};
    double leaving_since = 0;
    for (;;) {
        struct writer_demand demand = demand_of(writer);
        if (demand.closing && leaving_since == 0) {
            leaving_since = clock_monotonic();
            if (pace.failed) report(writer, "trying for up to 10 s to store the last records");
        }
        if (writer_commit_due(&pace, &demand, clock_monotonic())) {
            pace.failed = !try_commit(writer);
            pace.last = clock_monotonic();
            pace.looks = demand.looks;
        } else if (demand.closing && !pace.failed) {
            return NULL;
        }
        if (demand.closing && pace.failed && clock_monotonic() - leaving_since > close_patience) return NULL;
        look_for_orders(writer);
        if (demand.records <= WRITER_BATCH || pace.failed) pause_until_asked(writer, pace.failed);
    }
}

/* ---- life ---- */

static void release(struct writer *writer)
{
    store_close(writer->store);
    ring_release(&writer->records);
    ring_release(&writer->orders);
    thread_lock_release(&writer->mutex, &writer->changed);
    free(writer);
}

static enum status start(struct writer *writer, struct err *err)
{
    const char *run_id = writer->options.run_id;
    if (!ring_init(&writer->records, RING_BYTES) || !ring_init(&writer->orders, ORDERS_BYTES))
        return err_no_memory(err, "recording run %s", run_id);
    enum status status = store_open(writer->options.home, false, &writer->store, err);
    if (!status) status = journal_begin(&writer->journal, writer->store, run_id, err);
    if (!status)
        status = store_number(writer->store, &writer->newest_order, 0, err,
                              "select max(id) from orders where run_id = ?1", "s", run_id);
    if (status) return status;
    int code = thread_start(&writer->thread, run, writer);
    return code ? err_set(err, STATUS_FAILED, "recording run %s: cannot start a thread: %s", run_id,
                          strerror(code))
                : STATUS_OK;
}

enum status writer_open(const struct writer_options *options, struct writer **out, struct err *err)
{
    struct writer *writer = aligned_alloc(_Alignof(struct writer), sizeof *writer);
    if (!writer) return err_no_memory(err, "recording run %s", options->run_id);
    *writer = (struct writer){.options = *options, .orders_seen_version = -1};
    thread_lock_init(&writer->mutex, &writer->changed);
    enum status status = start(writer, err);
    if (status)
        release(writer);
    else
        *out = writer;
    return status;
}

static void ask(struct writer *writer, bool close)
{
    pthread_mutex_lock(&writer->mutex);
    writer->flush_wanted = atomic_load(&writer->pushed);
    writer->closing |= close;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
}

uint64_t writer_flush_begin(struct writer *writer)
{
    ask(writer, false);
    return atomic_load(&writer->pushed);
}

enum status writer_flush_wait(struct writer *writer, uint64_t mark, double seconds, struct err *err)
{
    struct timespec until = clock_deadline(seconds);
    int late = 0;
    pthread_mutex_lock(&writer->mutex);
    while (writer->committed < mark && late != ETIMEDOUT && !writer->failure.status && !writer->stalled)
        late = pthread_cond_timedwait(&writer->changed, &writer->mutex, &until);
    uint64_t missing = writer->committed < mark ? mark - writer->committed : 0;
    struct err why = writer->failure;
    if (missing) writer->stalled = true;
    pthread_mutex_unlock(&writer->mutex);
    if (missing == 0) return STATUS_OK;
    return err_set(err, STATUS_BUSY, "run %s: %llu records are not stored yet%s%s", writer->journal.run_id,
                   (unsigned long long)missing, why.status ? ": " : "", why.status ? why.text : "");
}

enum status writer_close(struct writer *writer, enum run_status final, const char *message, struct err *err)
{
    if (!writer) return STATUS_OK;
    ask(writer, true);
    pthread_join(writer->thread, NULL);
    enum status status = STATUS_OK;
    uint64_t missing = writer->pushed - writer->committed;
    if (missing)
        status = err_set(err, writer->failure.status ? writer->failure.status : STATUS_FAILED,
                         "run %s: its last %llu records could not be stored: %s", writer->journal.run_id,
                         (unsigned long long)missing, writer->failure.text);
    struct err end;
    if (journal_end(&writer->journal, final, message, &end) && !status) {
        status = end.status;
        if (err) *err = end;
        err_prefix(err, "run %s: its final status could not be stored", writer->journal.run_id);
    }
    store_settle(writer->store);
    release(writer);
    return status;
}
