/* What the files of the trainer share: its state, and what each part offers the others. Private to
 * trainer*.c. */
#ifndef ANNEAL_CORE_TRAINER_PARTS_H
#define ANNEAL_CORE_TRAINER_PARTS_H

#include "core/feed.h"
#include "core/generate.h"
#include "core/optimizer.h"
#include "core/replay.h"
#include "core/schedule.h"
#include "core/trainer.h"
#include "datasets/batch.h"
#include "datasets/prefetch.h"

enum { SKIPS_IN_A_ROW_MAX = 100, LR_FACTOR_MAX = 1000, SAMPLE_BYTES_MAX = 16384, FLIGHTS_MAX = 2 };

/* A step that is queued and not yet told. */
struct flight {
    int64_t step;
    uint64_t cursor; /* after it */
    double lr, start;
    double labels; /* of its loss, at least 1 */
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
    struct train_state state; /* after the last step that was told */
    struct device_info device;
    struct prefetch *train_batches, *validation_batches; /* the latter NULL without a validation split */
    struct feed feed;
    struct replay replay;
    struct flight flights[FLIGHTS_MAX]; /* by step modulo FLIGHTS_MAX, as the next two */
    struct event *landed[FLIGHTS_MAX];  /* its result is on the host */
    struct step_result *results;        /* (FLIGHTS_MAX) page-locked; the network's allocator has them */
    int in_flight;
    double told_at; /* of clock_monotonic */
    int64_t heap_allocations, device_allocations;
    char *sample_bytes, *sample_text;
    int64_t last_eval_step, last_checkpoint_step;
    double last_val_loss;
    bool sampling;
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

/* trainer_allocations.c: nothing where the setup does not ask for it */
enum status trainer_allocations_open(struct trainer *trainer, struct err *err);
bool trainer_allocations_watch(struct trainer *trainer, bool on); /* returns what was before */
/* After a step is queued and others are told: whether any of that allocated. */
enum status trainer_allocations_check(struct trainer *trainer, struct err *err);

/* trainer_evaluate.c */
void trainer_evaluate(struct trainer *trainer);
enum status trainer_sample(struct trainer *trainer, struct err *err); /* none without a tokenizer */

/* trainer_save.c */
bool trainer_weights_are_finite(struct trainer *trainer);
enum status trainer_save_checkpoint(struct trainer *trainer, const char *kind, struct err *err);

/* trainer_orders.c: takes all waiting orders; while paused, waits for more. True: leave. */
bool trainer_obey_orders(struct trainer *trainer);

#endif
