/* See writer.h. Records and their texts go through a ring of messages to the writer's thread. The thread
 * sleeps until its next poll or until a caller waits for it, stores the new records in one transaction, and
 * polls for orders. If the transaction fails, the journal is restored, the records go from the ring to the
 * run's file of records, and the thread retries; what is in the file is then stored first. */
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
#include "runs/recovery.h"
#include "runs/spill.h"
#include "runs/writer_pace.h"

enum {
    RING_BYTES = 1 << 22,
    ORDERS_BYTES = 1 << 11,
    TEXT_MAX = 1 << 18, /* bytes of one text; the rest is cut off */
    WAIT_MS = 1000,     /* for another process's lock; then the records go to the file */
    RETRY_WAIT_MS = 100,
};

static const double look_every = 0.1;      /* seconds between two polls for orders */
static const double close_patience = 10.0; /* seconds to retry failing storage at the end */
static const double lock_patience = 5.0;   /* seconds that a lock may last before it is reported */

/* A message in the ring: its struct, padded to whole words, then its texts with their NULs. */
struct ring_message {
    int64_t kind; /* enum message_kind, or the table */
    int64_t message[];
};

/* Troubles with storage that have been reported; none again after the next success. */
enum trouble { TROUBLE_NONE, TROUBLE_DATABASE, TROUBLE_FILE /* records may be lost */ };

struct writer {
    /* shared by the two threads */
    struct ring records, orders;
    atomic_uint_fast64_t pushed, lost, looks; /* records; looks: calls of writer_lives */
    pthread_mutex_t mutex;                    /* guards the members below; record calls never take it */
    pthread_cond_t changed;                   /* after each commit, and when the thread is waited for */
    bool closing, stalled;               /* stalled: a wait for a commit timed out, and none has come since */
    uint64_t kept, synced, flush_wanted; /* counted like pushed; kept: in the database or in the file;
                                            synced: and on the disk */
    struct err failure;                  /* why the newest ones could not be kept; status 0: they are */

    /* used by the writer's thread, and by the opener before it starts and after it ends */
    pthread_t thread;
    struct store *store;
    struct journal journal;
    struct spill spill; /* the run's file of records */
    int file_segment;   /* of its next entry */
    bool gone;          /* the database or its log was removed or replaced */
    uint64_t unreported_lost, all_lost;
    int64_t recovered;
    int64_t newest_order, orders_seen_version;
    double failing_since; /* monotonic; 0: the database works */
    struct err database;  /* the error of its newest attempt */
    enum trouble reported;
    struct writer_options options;
};

/* ---- the training thread's side ---- */

static size_t words_of(size_t bytes)
{
    return (bytes + sizeof(int64_t) - 1) / sizeof(int64_t);
}

static void put(struct writer *writer, int64_t kind, const void *message)
{
    static const int64_t padding;
    size_t size = message_size((int)kind);
    const char **texts[MESSAGE_TEXTS_MAX];
    int count = message_texts((int)kind, (void *)message, texts), n = 3;
    struct iovec parts[3 + 2 * MESSAGE_TEXTS_MAX] = {
        {&kind, sizeof kind}, {(void *)message, size}, {(void *)&padding, words_of(size) * 8 - size}};
    for (int i = 0; i < count; i++) {
        const char *text = *texts[i];
        size_t length = text ? utf8_cut(text, strnlen(text, TEXT_MAX)) : 0;
        parts[n++] = (struct iovec){(void *)text, length};
        parts[n++] = (struct iovec){"", 1};
    }
    /* the thread polls: waking it would be a system call */
    atomic_fetch_add_explicit(ring_push(&writer->records, parts, n) ? &writer->pushed : &writer->lost, 1,
                              memory_order_relaxed);
}

/* The message with its texts; may be called again for the same one. */
static const void *taken(struct ring_message *message)
{
    const char **texts[MESSAGE_TEXTS_MAX];
    int count = message_texts((int)message->kind, message->message, texts);
    const char *text = (const char *)(message->message + words_of(message_size((int)message->kind)));
    for (int i = 0; i < count; i++, text += strlen(text) + 1) *texts[i] = text;
    return message->message;
}

void writer_record(struct writer *writer, enum store_table table, const void *record)
{
    put(writer, (int64_t)table, record);
}

void writer_status(struct writer *writer, enum run_status status)
{
    put(writer, MESSAGE_STATUS, &(struct status_note){status});
}

void writer_next_segment(struct writer *writer, int64_t step)
{
    put(writer, MESSAGE_SEGMENT, &(struct segment_note){clock_wall(), step});
}

void writer_device(struct writer *writer, const char *device, const char *precision)
{
    put(writer, MESSAGE_DEVICE, &(struct device_note){device, precision});
}

void writer_lives(struct writer *writer)
{
    atomic_fetch_add_explicit(&writer->looks, 1, memory_order_relaxed);
}

bool writer_next_order(struct writer *writer, struct order *out)
{
    size_t position = writer->orders.tail;
    writer_lives(writer);
    const struct order *order = ring_next(&writer->orders, &position);
    if (!order) return false;
    *out = *order;
    ring_free(&writer->orders, position);
    return true;
}

void writer_order_done(struct writer *writer, int64_t order_id, int64_t applied_step, const char *result)
{
    put(writer, MESSAGE_ORDER, &(struct order_note){order_id, applied_step, result});
}

uint64_t writer_looks(struct writer *writer)
{
    return atomic_load_explicit(&writer->looks, memory_order_relaxed);
}

/* ---- one commit ---- */

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
    if (status || !writer->reported) return status;
    clock_format_duration(clock_monotonic() - writer->failing_since, since, sizeof since);
    snprintf(text, sizeof text, "storage works again after %s", since);
    event.level = "warning";
    return journal_add(&writer->journal, TABLE_EVENTS, &event, err);
}

/* Takes the next records of the file, and notes how far. */
static enum status take_from_file(struct writer *writer, struct err *err)
{
    struct spill_entry entry = {0};
    enum status status = STATUS_OK;
    for (int n = 0; !status && n < WRITER_BATCH && spill_waits(&writer->spill); n++) {
        status = spill_next(&writer->spill, &entry, err);
        if (!status) status = journal_take(&writer->journal, entry.kind, &entry.message, err);
    }
    return status ? status
                  : store_do(writer->store, err, "update runs set recorded = ?2 where id = ?1", "si",
                             writer->journal.run_id, (int64_t)entry.number);
}

static enum status take_from_ring(struct writer *writer, size_t *position, uint64_t *count, struct err *err)
{
    struct ring_message *message;
    enum status status = STATUS_OK;
    while (!status && *count < WRITER_BATCH && (message = ring_next(&writer->records, position))) {
        status = journal_take(&writer->journal, (int)message->kind, taken(message), err);
        ++*count;
    }
    return status;
}

/* `count` more records are kept and, with `safe`, all so far are on the disk. */
static void count_kept(struct writer *writer, uint64_t count, bool safe)
{
    pthread_mutex_lock(&writer->mutex);
    writer->kept += count;
    if (safe) writer->synced = writer->kept;
    if (count || safe) writer->stalled = false;
    pthread_mutex_unlock(&writer->mutex);
}

/* After the database or its log was removed or replaced, its files can still be read here: what they have of
 * the run goes to the file of records, too, once. */
static enum status check_place(struct writer *writer, struct err *err)
{
    struct err unused;
    enum status status = store_check_place(writer->store, err);
    if (status && !writer->gone) {
        writer->gone = true;
        place_leave(writer->store);
        recovery_save(writer->store, writer->journal.run_id, &writer->spill, &unused);
    }
    return status;
}

/* Stores the waiting records, at most one batch: those of the file before those of the ring. `safe`: waits
 * until the disk has them. */
static enum status commit(struct writer *writer, bool safe, struct err *err)
{
    struct journal before = writer->journal;
    int64_t next = writer->spill.next;
    size_t position = writer->records.tail;
    uint64_t count = 0;
    bool from_file = spill_waits(&writer->spill);
    enum status status = check_place(writer, err);
    if (!status)
        status = store_sync_commits(writer->store, safe || from_file, err); /* then the file is cleared */
    if (!status) status = store_begin(writer->store, err);
    if (status) return status;
    status = from_file ? take_from_file(writer, err) : take_from_ring(writer, &position, &count, err);
    bool all_of_file = !spill_waits(&writer->spill);
    if (!status && all_of_file) status = add_notes(writer, err);
    if (!status) status = journal_row(&writer->journal, err);
    status = store_end(writer->store, status, err);
    if (status) {
        writer->journal = before;
        writer->spill.next = next;
        return status;
    }
    ring_free(&writer->records, position);
    if (all_of_file) {
        if (from_file) spill_clear(&writer->spill);
        writer->file_segment = writer->journal.segment;
        writer->unreported_lost = 0;
        writer->failing_since = 0;
        writer->reported = TROUBLE_NONE;
    }
    count_kept(writer, count, safe && all_of_file);
    return STATUS_OK;
}

/* Moves the waiting records to the file. */
static enum status keep_in_file(struct writer *writer, bool safe, struct err *err)
{
    size_t position = writer->records.tail;
    struct ring_message *message;
    uint64_t count = 0;
    enum status status = STATUS_OK;
    while ((message = ring_next(&writer->records, &position))) {
        status = spill_add(&writer->spill, writer->file_segment, (int)message->kind, taken(message), err);
        if (status) break;
        if (message->kind == MESSAGE_SEGMENT) writer->file_segment++;
        ring_free(&writer->records, position);
        count++;
    }
    if (!status && safe) status = spill_sync(&writer->spill, err);
    if (!status && safe) status = store_sync_now(writer->store, err); /* the records before these */
    count_kept(writer, count, safe && !status);
    return status;
}

static void report(struct writer *writer, const char *sentence)
{
    if (writer->options.on_error) writer->options.on_error(writer->options.context, sentence);
}

/* A lock that lasts a moment is not reported: nothing is lost. */
static void report_trouble(struct writer *writer, const struct err *file)
{
    const struct err *database = &writer->database;
    char text[2 * sizeof database->text];
    enum trouble trouble = file->status ? TROUBLE_FILE : TROUBLE_DATABASE;
    bool brief = database->status == STATUS_BUSY && clock_monotonic() - writer->failing_since < lock_patience;
    if (trouble <= writer->reported || (brief && !file->status)) return;
    if (!file->status)
        snprintf(text, sizeof text, "%s; records are kept in %s", database->text, writer->spill.path);
    report(writer, !file->status ? text : writer->reported ? file->text : database->text);
    writer->reported = trouble;
}

static void set_patience(struct writer *writer, int ms)
{
    writer->store->busy_ms = ms;
    sqlite3_busy_timeout(writer->store->db, ms);
}

/* Keeps the waiting records, in the database if `retry`; false: that fails. */
static bool try_commit(struct writer *writer, bool retry, bool safe)
{
    struct err file = {0};
    uint64_t lost = atomic_exchange_explicit(&writer->lost, 0, memory_order_relaxed);
    writer->unreported_lost += lost;
    writer->all_lost += lost;
    if (retry && !writer->gone) {
        set_patience(writer, writer->failing_since == 0 ? WAIT_MS : RETRY_WAIT_MS);
        writer->database = (struct err){0};
        commit(writer, safe, &writer->database);
    }
    bool works = !writer->database.status;
    if (!works) {
        if (writer->failing_since == 0) writer->failing_since = clock_monotonic();
        keep_in_file(writer, safe, &file);
        report_trouble(writer, &file);
    }
    pthread_mutex_lock(&writer->mutex);
    writer->failure = file.status ? writer->database : (struct err){0};
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    return works;
}

/* ---- orders ---- */

static void look_for_orders(struct writer *writer)
{
    sqlite3_stmt *select;
    int64_t version = store_version(writer->store);
    if (version == writer->orders_seen_version) return;
    enum status status =
        store_query(writer->store, &select, NULL,
                    "select id, verb, argument from orders where run_id = ?1 and id > ?2 order by id", "si",
                    writer->journal.run_id, writer->newest_order);
    while (store_next(writer->store, select, &status, NULL)) {
        struct order order = {.id = sqlite3_column_int64(select, 0),
                              .argument = store_column_double(select, 2)};
        const char *word = (const char *)sqlite3_column_text(select, 1);
        int verb = 0;
        bool known = word && word_parse(verb_words, word, &verb);
        order.verb = (enum order_verb)verb;
        if (known && !ring_push(&writer->orders, &(struct iovec){&order, sizeof order}, 1))
            status = STATUS_BUSY; /* the ring is full: retry later */
        else
            writer->newest_order = order.id;
    }
    if (!status) writer->orders_seen_version = version;
}

/* ---- the thread ---- */

static struct writer_demand demand_of(struct writer *writer)
{
    struct writer_demand demand = {.looks = writer_looks(writer)};
    pthread_mutex_lock(&writer->mutex);
    uint64_t pushed = atomic_load(&writer->pushed);
    demand.closing = writer->closing; /* no more records come after this */
    demand.flush = writer->flush_wanted > writer->synced;
    demand.lost = atomic_load(&writer->lost) > 0;
    if (pushed > writer->kept) demand.records = pushed - writer->kept;
    pthread_mutex_unlock(&writer->mutex);
    if (spill_waits(&writer->spill)) demand.records += WRITER_BATCH;
    return demand;
}

/* Sleeps until the next poll, or until a caller waits for the thread. */
static void pause_until_asked(struct writer *writer, bool failing)
{
    struct timespec until = clock_deadline(look_every);
    pthread_mutex_lock(&writer->mutex);
    if (failing || !(writer->closing || writer->flush_wanted > writer->synced))
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
            if (pace.failed && !writer->gone)
                report(writer, "trying for up to 10 s to store the last records");
        }
        bool due = writer_commit_due(&pace, &demand, clock_monotonic());
        if (due || pace.failed) pace.failed = !try_commit(writer, due, demand.flush);
        if (due) {
            pace.last = clock_monotonic();
            pace.looks = demand.looks;
        } else if (demand.closing && !pace.failed) {
            return NULL;
        }
        bool patient = !writer->gone && clock_monotonic() - leaving_since <= close_patience;
        if (demand.closing && pace.failed && !patient) return NULL;
        look_for_orders(writer);
        if (demand.records < WRITER_BATCH || pace.failed) pause_until_asked(writer, pace.failed);
    }
}

/* ---- life ---- */

static void release(struct writer *writer)
{
    spill_close(&writer->spill);
    store_close(writer->store);
    ring_release(&writer->records);
    ring_release(&writer->orders);
    thread_lock_release(&writer->mutex, &writer->changed);
    free(writer);
}

static enum status start(struct writer *writer, struct err *err)
{
    const char *run_id = writer->options.run_id;
    struct repair read = {.stored = 0};
    if (!ring_init(&writer->records, RING_BYTES) || !ring_init(&writer->orders, ORDERS_BYTES))
        return err_no_memory(err, "recording run %s", run_id);
    enum status status = store_open(writer->options.home, STORE_WRITE, &writer->store, err);
    if (!status) status = recovery_read(writer->store, run_id, &read, err);
    writer->recovered = read.stored;
    if (*read.aside && err) { /* entries before the damage are stored */
        report(writer, err->text);
        status = STATUS_OK;
    }
    if (!status) status = journal_begin(&writer->journal, writer->store, run_id, err);
    if (!status) status = recovery_begin(writer->store, run_id, &writer->spill, err);
    writer->file_segment = writer->journal.segment;
    if (!status)
        status = store_number(writer->store, &writer->newest_order, 0, err,
                              "select max(id) from orders where run_id = ?1 and"
                              " (result is not null or applied_step is not null)",
                              "s", run_id); /* journal_begin has answered all that there were */
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
    *writer = (struct writer){.options = *options, .orders_seen_version = -1, .spill = {.fd = -1}};
    thread_lock_init(&writer->mutex, &writer->changed);
    enum status status = start(writer, err);
    if (status)
        release(writer);
    else
        *out = writer;
    return status;
}

int64_t writer_recovered(const struct writer *writer)
{
    return writer->recovered;
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
    while (writer->synced < mark && late != ETIMEDOUT && !writer->failure.status && !writer->stalled)
        late = pthread_cond_timedwait(&writer->changed, &writer->mutex, &until);
    uint64_t missing = writer->synced < mark ? mark - writer->synced : 0;
    struct err why = writer->failure;
    if (missing) writer->stalled = true;
    pthread_mutex_unlock(&writer->mutex);
    if (missing == 0) return STATUS_OK;
    return err_set(err, STATUS_BUSY, "run %s: %llu records are not stored yet%s%s", writer->journal.run_id,
                   (unsigned long long)missing, why.status ? ": " : "", why.status ? why.text : "");
}

/* Stores the end in the database or, where that fails, in the file. */
static enum status store_end_of_run(struct writer *writer, enum run_status final, const char *message,
                                    struct err *err)
{
    struct end_note end = {final, clock_wall(), message};
    struct err why = writer->database, unused;
    if (!why.status && !check_place(writer, &why) && !store_sync_commits(writer->store, true, &why))
        journal_end(&writer->journal, final, message, &why);
    store_settle(writer->store);
    if (!writer->gone) check_place(writer, &why); /* else what was just committed could be lost */
    if (!why.status) return STATUS_OK;
    if (spill_add(&writer->spill, writer->file_segment, MESSAGE_END, &end, &unused) ||
        spill_sync(&writer->spill, &unused))
        return err_set(err, why.status, "run %s: its final status could not be stored: %s",
                       writer->journal.run_id, why.text);
    return err_set(err, why.status,
                   "run %s: its last records are not in the database yet: %.280s (they are in its folder: "
                   "`%s doctor --repair` stores them)",
                   writer->journal.run_id, why.text, TEXT_PROGRAM);
}

enum status writer_close(struct writer *writer, enum run_status final, const char *message, struct err *err)
{
    if (!writer) return STATUS_OK;
    ask(writer, true);
    pthread_join(writer->thread, NULL);
    char lost[160];
    uint64_t missing = writer->pushed - writer->kept, all_lost = writer->all_lost + missing;
    snprintf(lost, sizeof lost, "%llu of its records were lost: they could not be stored",
             (unsigned long long)all_lost);
    if (all_lost && !(message && *message)) message = lost;
    enum status status = store_end_of_run(writer, final, message, err);
    if (all_lost)
        status =
            err_set(err, writer->failure.status ? writer->failure.status : STATUS_FAILED, "run %s: %s%s%s",
                    writer->journal.run_id, lost, missing ? ": " : "", missing ? writer->failure.text : "");
    release(writer);
    return status;
}
