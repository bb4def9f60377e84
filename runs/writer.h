/* The trainer's writer: takes records from the training thread without ever blocking it. A background thread
 * with its own connection commits them every 250 ms, or sooner when it finds 1,000 of them (it polls ten
 * times a second). A storage error never stops training: it is reported once through `on_error` and retried
 * until storage works again. The records go to the run's file of records meanwhile (spill.h), and from there
 * to the database: as soon as it can be written, else when the run is resumed or repaired. Only if that file
 * cannot be written, either, do they wait in the ring; if that overflows, an event reports the number of lost
 * records, and so does writer_close.
 *
 * A database that is removed or replaced while the run trains counts as one that fails, and so does one whose
 * log is.
 *
 * Call the writer_* functions that record from one thread; they copy their arguments and neither allocate nor
 * make a system call. The writer also updates the row in `runs` (status, steps, tokens, losses,
 * tokens_per_sec, heartbeat) and the rollups. */
#ifndef ANNEAL_RUNS_WRITER_H
#define ANNEAL_RUNS_WRITER_H

#include "core/base/record.h"
#include "runs/columns.h"
#include "runs/run.h"

struct writer;

struct writer_options {
    const char *home;
    const char *run_id;
    void (*on_error)(
        void *context,
        const char *sentence); /* called from the writer's thread; also while it retries at the end */
    void *context;
};

/* Stores what an earlier trainer of the run has left in its file of records, begins segment max+1, and marks
 * the run `running` with our pid. The caller holds the run's lock. */
enum status writer_open(const struct writer_options *options, struct writer **out, struct err *err);
/* How many records came from that file. */
int64_t writer_recovered(const struct writer *writer);

/* Records a row of a table that has a run and a segment. */
void writer_record(struct writer *writer, enum store_table table, const void *record);

#define WRITER_RECORD(name, table, type)                                                                     \
    static inline void writer_##name(struct writer *writer, const struct type *record)                       \
    {                                                                                                        \
        writer_record(writer, table, record);                                                                \
    }
WRITER_RECORD(step, TABLE_STEPS, step_record)
WRITER_RECORD(eval, TABLE_EVALS, eval_record)
WRITER_RECORD(measure, TABLE_MEASURES, measure_record)
WRITER_RECORD(class, TABLE_CLASSES, class_record)
WRITER_RECORD(confusion, TABLE_CONFUSION, confusion_record)
WRITER_RECORD(stopping, TABLE_STOPPING, stopping_record)
WRITER_RECORD(sample, TABLE_SAMPLES, sample_record)
WRITER_RECORD(checkpoint, TABLE_CHECKPOINTS, checkpoint_record)
WRITER_RECORD(memory, TABLE_MEMORY, memory_record)
WRITER_RECORD(rank, TABLE_RANKS, rank_record)
WRITER_RECORD(profile, TABLE_PROFILE, profile_record)
WRITER_RECORD(event, TABLE_EVENTS, event_record)
#undef WRITER_RECORD

void writer_status(struct writer *writer, enum run_status status); /* running <-> paused */

/* The same trainer continues in a new segment, as the previous one has failed, whose steps from `step` on no
 * longer count. Waiting orders stay in the queue. */
void writer_next_segment(struct writer *writer, int64_t step);
/* Records the device and precision from here on, as in struct run_new. */
void writer_device(struct writer *writer, const char *device, const char *precision);

/* --- orders: the control channel; order.h gives orders --- */
/* Returns the next order, or false if there is none. The writer's thread polls PRAGMA data_version and reads
 * the orders; this call only takes one from a ring. Orders given before the segment began are not
 * delivered. */
bool writer_next_order(struct writer *writer, struct order *out);
/* The trainer works, though it neither records anything nor asks for orders now: a heartbeat may be sent. */
void writer_lives(struct writer *writer);
/* Records that an order is done; `result` is one sentence ("checkpoint written to step-120"). */
void writer_order_done(struct writer *writer, int64_t order_id, int64_t applied_step, const char *result);

/* Wait until the disk has all records so far, in two calls, so that another thread can wait.
 * writer_flush_begin is a record call and returns the mark of all earlier records. writer_flush_wait may be
 * called from any thread and waits at most `seconds`. If storage fails, or has stalled (a lock, a hung disk)
 * in an earlier wait, it returns STATUS_BUSY at once, and `on_error` gets the reason. */
uint64_t writer_flush_begin(struct writer *writer);
enum status writer_flush_wait(struct writer *writer, uint64_t mark, double seconds, struct err *err);

/* Commits the remaining records, stores the final status and message, joins the thread and closes the store.
 * An error says that the database does not have all of them: because they are in the file, or because some
 * were lost; the run's message then says that, too. Frees the writer even on failure. */
enum status writer_close(struct writer *writer, enum run_status status, const char *message, struct err *err);

#endif
