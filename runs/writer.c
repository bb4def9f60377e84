/* See writer.h. The training thread's side: fixed-size slots go through a ring, their texts through a ring of
 * bytes, both preallocated. The writer's thread is in writer_thread.c. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/utf8.h"
#include "runs/writer_thread.h"

/* ---- texts ---- */

/* The length of `text` up to `most` bytes, not cutting a character in two. */
static size_t text_length(const char *text, size_t most)
{
    size_t n = strnlen(text, most + 1);
    return n <= most ? n : utf8_cut(text, most);
}

/* Copies texts with their NULs into one piece of the ring of bytes; false when there is no room now. */
static bool put_texts(struct writer *writer, struct writer_slot *slot, const char *const *texts, int count)
{
    size_t lengths[WRITER_TEXTS], need = 0;
    for (int i = 0; i < count; i++) {
        lengths[i] = texts[i] ? text_length(texts[i], WRITER_TEXT_MAX) : 0;
        need += lengths[i] + 1;
    }
    uint64_t start = writer->text_head, offset = start % WRITER_TEXT_BYTES;
    if (offset + need > WRITER_TEXT_BYTES) start += WRITER_TEXT_BYTES - offset; /* a piece is never wrapped */
    uint64_t tail = atomic_load_explicit(&writer->text_tail, memory_order_acquire);
    if (start + need - tail > WRITER_TEXT_BYTES) return false;
    char *to = writer->text + start % WRITER_TEXT_BYTES;
    slot->texts = to;
    slot->text_end = start + need;
    for (int i = 0; i < count; i++) {
        if (lengths[i]) memcpy(to, texts[i], lengths[i]);
        to += lengths[i];
        *to++ = '\0';
    }
    return true;
}

/* ---- records ---- */

static void put(struct writer *writer, struct writer_slot *slot, const char *const *texts, int count)
{
    slot->text_end = writer->text_head;
    if ((count && !put_texts(writer, slot, texts, count)) || !ring_push(&writer->records, slot)) {
        atomic_fetch_add_explicit(&writer->lost, 1, memory_order_relaxed);
        return;
    }
    writer->text_head = slot->text_end;
    writer->pushed++; /* nobody is woken, that would be a system call: its thread looks by itself */
}

void writer_record(struct writer *writer, enum store_table table, const void *record)
{
    struct writer_slot slot = {.kind = (int)table};
    const char *texts[WRITER_TEXTS], **text;
    int count = 0, column = store_tables[table].first;
    assert(store_tables[table].record <= sizeof slot - offsetof(struct writer_slot, step));
    memcpy(&slot.step, record, store_tables[table].record);
    while (count < store_tables[table].texts && (text = table_next_text(table, &column, &slot.step)))
        texts[count++] = *text;
    put(writer, &slot, texts, count);
}

void writer_status(struct writer *writer, enum run_status status)
{
    struct writer_slot slot = {.kind = SLOT_STATUS, .status = status};
    put(writer, &slot, NULL, 0);
}

void writer_next_segment(struct writer *writer)
{
    struct writer_slot slot = {.kind = SLOT_SEGMENT};
    put(writer, &slot, NULL, 0);
}

void writer_device(struct writer *writer, const char *device, const char *precision)
{
    struct writer_slot slot = {.kind = SLOT_DEVICE};
    put(writer, &slot, (const char *[]){device, precision}, 2);
}

bool writer_next_order(struct writer *writer, struct order *out)
{
    atomic_fetch_add_explicit(&writer->looks, 1, memory_order_relaxed);
    return ring_pop(&writer->orders, out);
}

void writer_order_done(struct writer *writer, int64_t order_id, int64_t applied_step, const char *result)
{
    struct writer_slot slot = {.kind = SLOT_ORDER_DONE, .done = {order_id, applied_step}};
    put(writer, &slot, &result, 1);
}

/* ---- life ---- */

static void release(struct writer *writer)
{
    store_close(writer->store);
    ring_release(&writer->records);
    ring_release(&writer->orders);
    free(writer->text);
    free(writer->batch);
    sem_destroy(&writer->wake);
    pthread_mutex_destroy(&writer->mutex);
    pthread_cond_destroy(&writer->settled);
    free(writer);
}

enum status writer_open(const struct writer_options *options, struct writer **out, struct err *err)
{
    struct writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return err_set(err, STATUS_NO_MEMORY, "recording run %s: not enough memory", options->run_id);
    enum status status = STATUS_OK;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&writer->settled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&writer->mutex, NULL);
    sem_init(&writer->wake, 0, 0);
    writer->on_error = options->on_error;
    writer->context = options->context;
    writer->text = malloc(WRITER_TEXT_BYTES);
    writer->batch = malloc(WRITER_BATCH * sizeof *writer->batch);
    if (!writer->text || !writer->batch ||
        !ring_init(&writer->records, sizeof(struct writer_slot), WRITER_RECORDS) ||
        !ring_init(&writer->orders, sizeof(struct order), WRITER_ORDERS))
        status = err_set(err, STATUS_NO_MEMORY, "recording run %s: not enough memory", options->run_id);
    if (!status) status = store_open(options->home, &writer->store, err);
    if (!status) status = writer_thread_start(writer, options->run_id, err);
    if (status)
        release(writer);
    else
        *out = writer;
    return status;
}

uint64_t writer_flush_begin(struct writer *writer)
{
    pthread_mutex_lock(&writer->mutex);
    uint64_t mark = writer->flush_wanted = writer->pushed;
    pthread_mutex_unlock(&writer->mutex);
    sem_post(&writer->wake);
    return mark;
}

/* `patient`: also while the store cannot be written, or takes long. */
static enum status wait_for_commit(struct writer *writer, uint64_t mark, double seconds, bool patient,
                                   struct err *err)
{
    struct timespec until = clock_deadline(seconds);
    int late = 0;
    pthread_mutex_lock(&writer->mutex);
    while (writer->committed < mark && late != ETIMEDOUT &&
           (patient || !(writer->failure.status || writer->stalled)))
        late = pthread_cond_timedwait(&writer->settled, &writer->mutex, &until);
    uint64_t missing = writer->committed < mark ? mark - writer->committed : 0;
    struct err why = writer->failure;
    if (missing) writer->stalled = true;
    pthread_mutex_unlock(&writer->mutex);
    if (missing == 0) return STATUS_OK;
    return err_set(err, STATUS_BUSY, "run %s: %llu records are not stored yet%s%s", writer->journal.run_id,
                   (unsigned long long)missing, why.status ? ": " : "", why.status ? why.text : "");
}

enum status writer_flush_wait(struct writer *writer, uint64_t mark, double seconds, struct err *err)
{
    return wait_for_commit(writer, mark, seconds, false, err);
}

enum status writer_flush(struct writer *writer, double seconds, struct err *err)
{
    return wait_for_commit(writer, writer_flush_begin(writer), seconds, true, err);
}

enum status writer_close(struct writer *writer, enum run_status final, const char *message, struct err *err)
{
    if (!writer) return STATUS_OK;
    pthread_mutex_lock(&writer->mutex);
    writer->closing = true;
    pthread_mutex_unlock(&writer->mutex);
    sem_post(&writer->wake);
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
        err_prefix(err, "run %s: its end could not be stored", writer->journal.run_id);
    }
    store_settle(writer->store);
    release(writer);
    return status;
}
