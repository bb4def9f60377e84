/* The trainer's pen: takes records from the training thread without ever blocking it and commits them from a
 * background thread every 250 ms, or sooner when it finds 1,000 of them (it looks ten times a second). Owns
 * its own connection. A storage error is reported through `on_error`, once until storage works again,
 * retried, and never kills training; records wait in the ring meanwhile, and if the ring overflows the number
 * of lost records becomes an event.
 *
 * writer_* record calls come from one thread, copy what they are given, and neither allocate nor make a
 * system call. It also keeps the row in `runs` (status, steps, tokens, losses, tokens_per_sec, heartbeat) and
 * the rollups. */
#ifndef ANNEAL_RUNS_WRITER_H
#define ANNEAL_RUNS_WRITER_H

#include "core/base/record.h"
#include "runs/columns.h"
#include "runs/run.h"

struct writer;

struct writer_options {
    const char *home;
    const char *run_id;
    void (*on_error)(void *context, const char *sentence); /* from the writer's thread; also that it waits */
    void *context;
};

/* Begins segment max+1, marks the run `running` with our pid. */
enum status writer_open(const struct writer_options *options, struct writer **out, struct err *err);

/* Takes a record of a table that has a run and a segment. */
void writer_record(struct writer *writer, enum store_table table, const void *record);

#define WRITER_RECORD(name, table, type)                                                                     \
    static inline void writer_##name(struct writer *writer, const struct type *record)                       \
    {                                                                                                        \
        writer_record(writer, table, record);                                                                \
    }
WRITER_RECORD(step, TABLE_STEPS, step_record)
WRITER_RECORD(eval, TABLE_EVALS, eval_record)
WRITER_RECORD(stopping, TABLE_STOPPING, stopping_record)
WRITER_RECORD(sample, TABLE_SAMPLES, sample_record)
WRITER_RECORD(checkpoint, TABLE_CHECKPOINTS, checkpoint_record)
WRITER_RECORD(memory, TABLE_MEMORY, memory_record)
WRITER_RECORD(profile, TABLE_PROFILE, profile_record)
WRITER_RECORD(event, TABLE_EVENTS, event_record)
#undef WRITER_RECORD

void writer_status(struct writer *writer, enum run_status status); /* running <-> paused */

/* The same trainer goes on in a new segment: what it recorded until now is of one that has failed. Orders
 * that wait are still to be obeyed. */
void writer_next_segment(struct writer *writer);
/* Where and how the run is trained from here on, as in struct run_new. */
void writer_device(struct writer *writer, const char *device, const char *precision);

/* --- orders: the control channel, see order.h for the asking side --- */
/* The next order not yet handed out, false if there is none. The writer's thread looks at PRAGMA data_version
 * and reads; this only pops a ring. Orders given before the segment began are not delivered. */
bool writer_next_order(struct writer *writer, struct order *out);
/* `result` is one sentence ("checkpoint written to step-120"). */
void writer_order_done(struct writer *writer, int64_t order_id, int64_t applied_step, const char *result);

/* Waiting until everything handed over so far is committed, in two halves, so that another thread can wait:
 * the mark that writer_flush_begin, one of the record calls, returns is that of all handed over before;
 * writer_flush_wait is for any thread. It waits for so many seconds at most, not for storage that fails, nor
 * a second time for one that stalls (locked, a hung disk): STATUS_BUSY at once, and `on_error` has or will
 * have the reason. */
uint64_t writer_flush_begin(struct writer *writer);
enum status writer_flush_wait(struct writer *writer, uint64_t mark, double seconds, struct err *err);

/* Commits what is left, stores the final status and message, joins the thread, closes. Frees in any case. */
enum status writer_close(struct writer *writer, enum run_status status, const char *message, struct err *err);

#endif
