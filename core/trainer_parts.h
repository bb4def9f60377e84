/* What the files of the trainer share: its state, and what each part offers the others. Private to
 * trainer*.c. */
#ifndef ANNEAL_CORE_TRAINER_PARTS_H
#define ANNEAL_CORE_TRAINER_PARTS_H

#include "core/generate.h"
#include "core/health.h"
#include "core/optimizer.h"
#include "core/schedule.h"
#include "core/trace.h"
#include "core/trainer.h"
#include "datasets/batch.h"
#include "datasets/prefetch.h"

enum { SKIPS_IN_A_ROW_MAX = 100, LR_FACTOR_MAX = 1000, SAMPLE_BYTES_MAX = 16384 };

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
    struct profiler *profiler; /* NULL: off */
    struct train_state state;
    struct device_info device;
    struct prefetch *train_batches, *validation_batches; /* the latter NULL without a validation split */
    char *sample_bytes, *sample_text;
    int64_t last_eval_step, last_checkpoint_step;
    double last_val_loss;
    bool sampling;
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

/* trainer_step.c: one optimizer step, told to the observer. On a failure of the device nothing is told. */
enum status trainer_step(struct trainer *trainer, struct err *err);

/* trainer_health.c: judges a step that has just been told, and tells what is wrong. */
void trainer_health_init(struct trainer *trainer);
void trainer_judge_health(struct trainer *trainer, const struct step_record *record);

/* trainer_evaluate.c */
void trainer_evaluate(struct trainer *trainer);
enum status trainer_sample(struct trainer *trainer, struct err *err); /* none without a tokenizer */

/* trainer_trace.c: whether and how the step is traced. An order is taken up, false: another is; before a
 * step's first operation and after its last, and once its record is told, with its spans, count of them; and
 * when no step will follow. */
bool trainer_trace_order(struct trainer *trainer, const struct order *order);
void trainer_trace_begin(struct trainer *trainer, int64_t step);
void trainer_trace_end(struct trainer *trainer);
void trainer_trace_tell(struct trainer *trainer, const struct step_record *step, const struct span *spans,
                        int count);
void trainer_trace_give_up(struct trainer *trainer);
void trainer_trace_close(struct trainer *trainer);

/* trainer_profile.c: before the first operation of a step and after the last, and once its record is told,
 * which may be later. */
enum status trainer_profile_open(struct trainer *trainer, struct err *err);
void trainer_profile_begin(struct trainer *trainer);
void trainer_profile_end(struct trainer *trainer);
void trainer_profile_tell(struct trainer *trainer, const struct step_record *step);

/* trainer_save.c */
bool trainer_weights_are_finite(struct trainer *trainer);
enum status trainer_save_checkpoint(struct trainer *trainer, const char *kind, struct err *err);

/* trainer_orders.c: takes all waiting orders; while paused, waits for more. True: leave. */
bool trainer_obey_orders(struct trainer *trainer);

#endif
