/* Private to runs/: what the two threads of a writer share.
 *
 * The training thread owns `pushed` and `text_head`; the writer's thread owns the store, the journal and the
 * batch; the two rings and the atomics are between them; the rest is under the mutex, which no record call
 * takes. */
#ifndef ANNEAL_RUNS_WRITER_THREAD_H
#define ANNEAL_RUNS_WRITER_THREAD_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "core/base/ring.h"
#include "runs/journal.h"
#include "runs/writer.h"

enum {
    WRITER_RECORDS = 32768,      /* slots of the ring */
    WRITER_BATCH = 1000,         /* most records of one commit */
    WRITER_TEXT_BYTES = 1 << 20, /* texts under way */
    WRITER_TEXT_MAX = 1 << 18,   /* of one text; the rest is cut */
    WRITER_TEXTS = 2,            /* most texts of a record */
    WRITER_ORDERS = 64,
};

/* The kind of a slot, beside a record of a table. */
enum { SLOT_STATUS = TABLE_COUNT, SLOT_ORDER_DONE, SLOT_SEGMENT, SLOT_DEVICE };

/* One record under way. Texts borrowed by it lie in the ring of bytes, one after the other. */
struct writer_slot {
    int kind;          /* SLOT_…, or the table */
    uint64_t text_end; /* how far the ring of bytes is free once this record is committed */
    const char *texts; /* NULL: none */
    union {
        struct step_record step;
        struct eval_record eval;
        struct stopping_record stopping;
        struct sample_record sample;
        struct checkpoint_record checkpoint;
        struct memory_record memory;
        struct profile_record profile;
        struct event_record event;
        enum run_status status;
        struct {
            int64_t id, step;
        } done;
    };
};

/* When the writer's thread commits. Times are monotonic seconds. */
struct writer_pace {
    double last_commit, next_attempt, pause; /* pause: before the attempt after the next failure */
    bool failing;                            /* the newest attempt failed */
    uint64_t looks;                          /* `looks` at the last commit */
};

/* Records that wait for a commit. */
struct writer_demand {
    size_t records;
    bool lost, flush, closing; /* records were lost; somebody waits; the run ends */
    uint64_t looks;
};

/* Records are committed every 250 ms, a full batch or one that somebody waits for at once. Without any, a
 * heartbeat is due every 5 s, but only when the trainer has looked for orders since the last commit: one that
 * hangs falls silent. */
bool writer_commit_due(const struct writer_pace *pace, const struct writer_demand *demand, double now);

/* Notes an attempt: after a failure the next one waits, longer each time, up to 5 s. */
void writer_pace_note(struct writer_pace *pace, const struct writer_demand *demand, bool stored, double now);

struct writer {
    /* the training thread's */
    uint64_t pushed, text_head;
    char *text;

    /* between the two */
    struct ring records, orders;
    atomic_uint_fast64_t text_tail, lost, looks; /* looks: how often the trainer asked for orders */
    sem_t wake;
    pthread_mutex_t mutex;
    pthread_cond_t settled; /* signalled after each commit */
    bool closing, stalled;  /* stalled: somebody waited in vain for a commit, and none has come since */
    uint64_t committed, flush_wanted; /* counted like pushed */
    struct err failure;               /* of the newest attempt; status 0: it worked */

    /* the writer's thread's, and before and after its life the opener's */
    pthread_t thread;
    struct store *store;
    struct journal journal;
    struct writer_slot *batch;
    size_t batch_count;
    uint64_t unreported_lost;
    int64_t newest_order, orders_seen_version;
    unsigned reported_kinds; /* bits by enum status, until storage works again */
    double failing_since;    /* monotonic; 0: it works */
    void (*on_error)(void *context, const char *sentence);
    void *context;
};

/* Begins the segment and starts the thread. */
enum status writer_thread_start(struct writer *writer, const char *run_id, struct err *err);

#endif
