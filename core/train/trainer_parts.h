/* What the files of the trainer share: its state, and what each part offers the others. Private to
 * trainer*.c. */
#ifndef ANNEAL_CORE_TRAIN_TRAINER_PARTS_H
#define ANNEAL_CORE_TRAIN_TRAINER_PARTS_H

#include "core/checkpoint/saver.h"
#include "core/generate/generate.h"
#include "core/train/feed.h"
#include "core/train/health.h"
#include "core/train/optimizer.h"
#include "core/train/profiler.h"
#include "core/train/replay.h"
#include "core/train/schedule.h"
#include "core/train/trace.h"
#include "core/train/trainer.h"
#include "datasets/batch.h"
#include "datasets/prefetch.h"

enum { SKIPS_IN_A_ROW_MAX = 100, SAMPLE_BYTES_MAX = 16384 };

/* A step that is queued and not yet told. */
struct flight {
    int64_t step;
    uint64_t cursor; /* after it */
    double lr, start;
    double labels; /* of its loss, at least 1 */
};

/* Checkpoints in a row that could not be written. */
struct save_trouble {
    int64_t count, first; /* count 0: none; the step of the first */
    int64_t untold;       /* of count: of the same cause as the one told before */
    struct err told;
};

/* The step that is to be traced, or is. */
struct tracing {
    bool ordered; /* by order_id, which waits for its answer */
    bool running; /* `step` is being traced */
    int64_t order_id, step;
    struct trace *trace; /* NULL: there was no memory for it */
    struct err problem;  /* why something is missing in it; status ok: nothing is */
};

struct trainer {
    struct train_setup setup;
    struct model model;
    struct plan plan;
    struct network network;
    struct generator generator; /* opened when the corpus has a tokenizer */
    struct split train, validation;
    struct schedule schedule;
    struct optimizer optimizer;
    struct profiler *profiler;  /* NULL: off */
    struct profiler *profiling; /* the same while a step is queued that is profiled; else NULL */
    struct train_state state;   /* after the last step that was told */
    struct device_info device;
    struct prefetch *train_batches, *validation_batches; /* the latter NULL without a validation split */
    struct feed feed;
    struct replay replay;
    struct flight flights[PLAN_FLIGHTS]; /* by step modulo PLAN_FLIGHTS, as the next two */
    struct event *landed[PLAN_FLIGHTS];  /* its result is on the host */
    struct step_result *results;         /* (PLAN_FLIGHTS) page-locked, of the plan */
    int in_flight;
    double told_at;                               /* of clock_monotonic */
    int64_t heap_allocations, device_allocations; /* before the step, where they are checked */
    char *sample_bytes, *sample_text;
    int64_t last_eval_step, last_checkpoint_step;
    int64_t last_memory_step; /* when what is held was told last */
    double last_val_loss;
    bool sampling;
    struct saver *saver; /* NULL: checkpoints are written by the training thread */
    struct save_job job; /* the newest */
    struct save_trouble trouble;
    bool held; /* it is not given to the saver before a finite gradient speaks for its weights */
    struct tracing tracing;
    struct health health;
    double waited; /* seconds for batches, by the last step told */
    bool halted;   /* a number was not finite, and health.on_nan = stop */
};

/* A line of the run's history, at the current step. */
void trainer_event(struct trainer *trainer, const char *level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Once the device has failed nothing that comes from it means anything; each answer repeats the first fault.
 */
enum status trainer_device_status(struct trainer *trainer, struct err *err);

/* What went wrong beside training; a failed device ends it, and has its own sentence there. */
void trainer_tolerate(struct trainer *trainer, const char *level, const struct err *problem);

/* trainer_step.c */
enum status trainer_open_steps(struct trainer *trainer, struct err *err);
void trainer_close_steps(struct trainer *trainer); /* harmless on a zeroed struct */
/* Queues one optimizer step, and tells the observer of all that are known to have happened. On a failure of
 * the device nothing is told of what did not. */
enum status trainer_step(struct trainer *trainer, struct err *err);
/* Waits for the steps that are queued and tells them: then the state is that of the device. */
enum status trainer_settle(struct trainer *trainer, struct err *err);
int64_t trainer_queued(const struct trainer *trainer); /* steps done when all that are queued are */

/* trainer_health.c: judges a step or an evaluation that has just been told, and tells what is wrong. */
void trainer_health_init(struct trainer *trainer);
void trainer_judge_health(struct trainer *trainer, const struct step_record *record);
void trainer_judge_evaluation(struct trainer *trainer, const struct eval_record *record);
/* trainer_allocations.c: nothing where the setup does not ask for it */
enum status trainer_allocations_open(struct trainer *trainer, struct err *err);
/* A step begins: what is there is counted, and from here on this thread's heap is watched. */
void trainer_allocations_begin(struct trainer *trainer);
bool trainer_allocations_watch(struct trainer *trainer, bool on); /* returns what was before */
/* After a step is queued and others are told: whether any of that allocated. */
enum status trainer_allocations_check(struct trainer *trainer, struct err *err);

/* trainer_evaluate.c */
void trainer_evaluate(struct trainer *trainer);
enum status trainer_sample(struct trainer *trainer, struct err *err); /* none without a tokenizer */

/* trainer_memory.c: the memory of every tag, and what the device has given in all. Allocates nothing. */
void trainer_report_memory(struct trainer *trainer);
void trainer_tell_used(struct trainer *trainer);         /* only how much the device has given */
void trainer_report_memory_due(struct trainer *trainer); /* where it was told long ago */
/* trainer_trace.c: whether and how the step is traced. An order is taken up, false: another is; before a
 * step's first operation and after its last, and once its record is told, with its spans, count of them; and
 * when no step will follow. */
bool trainer_trace_order(struct trainer *trainer, const struct order *order);
bool trainer_trace_wants(const struct trainer *trainer); /* the next step, or the one under way */
/* Whether the device's own tools look on: they work inside the calls of the step. */
bool trainer_trace_listens(const struct trainer *trainer);
void trainer_trace_begin(struct trainer *trainer, int64_t step);
void trainer_trace_end(struct trainer *trainer);
void trainer_trace_tell(struct trainer *trainer, const struct step_record *step, const struct span *spans,
                        int count);
void trainer_trace_give_up(struct trainer *trainer);
void trainer_trace_close(struct trainer *trainer);

/* trainer_profile.c: before the first operation of a step and after the last, and once its record is told,
 * which may be later. */
enum status trainer_profile_open(struct trainer *trainer, struct err *err);
void trainer_profile_begin(struct trainer *trainer, int64_t step);
void trainer_profile_end(struct trainer *trainer);
void trainer_profile_tell(struct trainer *trainer, const struct step_record *step);

/* trainer_save.c */
/* Whether the newest step told had a gradient or loss that is not finite. The update before may have ruined
 * the weights, though they are finite: until a finite gradient shows that it has not, only what is ordered is
 * saved, and nothing older goes for it. */
bool trainer_weights_are_in_doubt(const struct trainer *trainer);
bool trainer_weights_are_finite(struct trainer *trainer);
/* Whether checkpoints hold moments. */
bool trainer_saves_full(const struct config *config);
/* Takes a snapshot and goes on, or in the foreground writes it; one that is being written is waited for.
 * `kind` is static text. What is written in the background begins when trainer_confirm_save is called, or
 * when somebody waits for it; a failure is told when it is collected. */
enum status trainer_save_checkpoint(struct trainer *trainer, const char *kind, struct err *err);
/* The same, and returns when it is on disk, or why it is not. */
enum status trainer_save_now(struct trainer *trainer, const char *kind, struct err *err);
/* Whether one that is whole is there, of this life of the run or an earlier. Reads it. */
bool trainer_has_checkpoint(const struct trainer *trainer);
/* The checkpoint of `step` could not be written, which is no reason to end the run: told when it is the
 * first, or has another cause than the one before. The next that is written tells how many were not. */
void trainer_tolerate_save(struct trainer *trainer, int64_t step, const struct err *problem);
/* When no other will be written: how many were not, of those that were not told. */
void trainer_tell_unsaved(struct trainer *trainer);
/* A step's gradient was finite: the weights it was taken from, those of the snapshot that is held, may be
 * written. */
void trainer_confirm_save(struct trainer *trainer);
/* No step will follow soon: the snapshot that is held is written, or given up where the weights are in doubt,
 * which an event tells. */
void trainer_decide_save(struct trainer *trainer);
/* Until nothing is being written, and what was is told; its failure is returned instead. A snapshot that is
 * held is decided on first. */
enum status trainer_wait_for_save(struct trainer *trainer, struct err *err);
/* Tells how a save in the background ended, where it has. */
void trainer_collect_save(struct trainer *trainer);

/* trainer_orders.c: takes all waiting orders; while paused, waits for more. True: leave. */
bool trainer_obey_orders(struct trainer *trainer);

#endif
