/* The trainer: the loop that turns a configuration and a corpus into a trained model. It knows no SQL, no
 * screen and no signals: it reports events to a struct train_observer and asks it for orders.
 *
 * A step is queued before the previous one is reported (see trainer_step.c). Only steps that have happened
 * are reported, in order, and all work that needs the state (an evaluation, a sample, a checkpoint, an order,
 * leaving) waits for all queued steps. After the first step the step loop allocates nothing, except for a
 * traced step. A trainer that is killed loses at most the work since its last checkpoint. A trainer that ends
 * by itself writes a checkpoint first, unless the last gradient is not finite and no evaluation of the same
 * weights shows that they are good: weights that an update may have ruined are only saved by order.
 *
 * In a world of several ranks every rank has a trainer, of the same configuration and corpus. Each trains on
 * a part of a step's rows, and all make the same decisions, from facts that they share. Rank 0 alone loads a
 * checkpoint, asks its observer for orders, writes samples, traces and checkpoints; the others take its state
 * when they run, and their observers may do nothing. */
#ifndef ANNEAL_CORE_TRAIN_TRAINER_H
#define ANNEAL_CORE_TRAIN_TRAINER_H

#include "core/base/record.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/config.h"
#include "core/train/task.h"
#include "datasets/corpus.h"
#include "datasets/progress.h"

/* TRAIN_WAITS_FOR_ROOM: all steps are trained, and a full disk keeps the last weights from being written. */
enum train_pause { TRAIN_GOES_ON, TRAIN_PAUSED, TRAIN_WAITS_FOR_ROOM };

/* All functions are mandatory; they are called from the training thread and should return at once. Strings in
 * records are borrowed for the call. */
struct train_observer {
    void *context;
    /* Called before this much device memory is allocated; a failure makes trainer_open fail. */
    enum status (*reserve)(void *context, int64_t bytes, struct err *err);
    void (*step)(void *context, const struct step_record *record);
    void (*evaluating)(void *context); /* an evaluation begins, which may take long; `eval` ends it */
    /* No step ends at present, but work goes on: after each batch of an evaluation, and each second of a wait
     * for a checkpoint that is being written. */
    void (*lives)(void *context);
    void (*eval)(void *context, const struct eval_record *record, const struct measures *measures);
    void (*stopping)(void *context, const struct stopping_record *record);
    void (*sample)(void *context, const struct sample_record *record);
    /* A checkpoint of the present state will be written. Everything reported so far must be stored first,
     * because a run resumed from it does not report that again: `safe` returns when it is stored. `safe` is
     * called after `saving`, by the thread that writes, which may not be the training thread. */
    void (*saving)(void *context);
    void (*safe)(void *context);
    /* Training goes back to an earlier step: what is reported from now on replaces what was. */
    void (*rolled_back)(void *context);
    /* A checkpoint is written; with a background checkpoint this comes between two later steps. */
    void (*checkpoint)(void *context, const struct checkpoint_record *record);
    void (*memory)(void *context, const struct memory_record *record); /* for each category, then `used` */
    /* Only with several ranks, to rank 0: for each rank, about every two seconds and at the end. */
    void (*rank)(void *context, const struct rank_record *record);
    /* device memory taken by training, in bytes, with unused parts; first during trainer_open */
    void (*used)(void *context, int64_t bytes);
    void (*profile)(void *context, const struct profile_record *record); /* of an earlier step */
    void (*event)(void *context, const struct event_record *record);
    void (*paused)(void *context, enum train_pause pause);
    /* an order to carry out after `step` steps, which are all those queued so far */
    bool (*next_order)(void *context, int64_t step, struct order *out);
    void (*order_done)(void *context, int64_t order_id, int64_t applied_step, const char *result);
    bool (*leave)(void *context); /* whether to checkpoint and leave after this step */
    /* Asked between steps, at most once a second, and before a checkpoint: a failure ends the run at once,
     * and no checkpoint is written any more, because the folder is no longer this trainer's. */
    enum status (*owns)(void *context, struct err *err);
};

/* Notes nothing, reserves nothing, and lets the trainer go on. */
extern const struct train_observer train_observer_silent;

enum train_outcome {
    TRAIN_FINISHED, /* all steps are done */
    TRAIN_EARLY_STOPPED,
    TRAIN_STOPPED,    /* asked to leave, by an order or by request() */
    TRAIN_DIVERGED,   /* 100 updates in a row were skipped, see struct step_record */
    TRAIN_NOT_FINITE, /* the first non-finite loss or gradient norm, where health.on_nan = stop */
    TRAIN_FALLS_BACK, /* the device failed, and another may take over */
    TRAIN_FAILED,     /* the device failed, and no other may take over */
};

struct train_setup {
    struct config *config; /* finished; borrowed; trainer_open sets train.total_steps from train.epochs */
    const struct backend *backend; /* borrowed */
    struct device *device;         /* borrowed */
    const struct corpus *corpus;   /* borrowed */
    const struct world *world;     /* borrowed; NULL: a world of one */
    const char *checkpoints;       /* folder; made when needed; borrowed; NULL: none are saved, so
                                    * that the last weights are worth no evaluation */
    const struct needed_steps
        *needed;             /* of these checkpoints; read after observer.saving; borrowed; NULL: none */
    const char *weights;     /* a model's folder to start from; NULL: initialise; borrowed; with adapters
                              * model.from is loaded in any case */
    const char *traces;      /* folder; made when needed; borrowed */
    const char *warm_folder; /* where a GPU's tuning is kept between runs; NULL: nowhere; borrowed */
    const struct progress *progress; /* of opening; NULL: none; borrowed until trainer_open returns */
    struct allocator_listener full;  /* receives the table of allocations when the device is full, while it
                                        opens or when a step fails for that */
    bool another_device;             /* may take over if this one fails */
    bool took_over;                  /* from another device that failed, as has been reported */
    int64_t until; /* steps after which the run is stopped, to be resumed later; 0: train.total_steps */
    bool check_allocations; /* if a later step than the first allocates memory, the run ends */
    struct train_observer observer;
};

struct trainer;

/* Plans, allocates and initialises. Checks the configuration against the corpus (vocabulary, lengths). */
enum status trainer_open(const struct train_setup *setup, struct trainer **out, struct err *err);
void trainer_close(struct trainer *trainer); /* NULL is harmless */

/* Continues from a checkpoint folder: weights, moments, position; early stopping keeps its history but takes
 * the patience of the configuration. */
enum status trainer_resume(struct trainer *trainer, const char *folder, struct err *err);

/* The same for a new run, from any checkpoint. If it has no moments, *fresh is set and they start at zero. */
enum status trainer_fork(struct trainer *trainer, const char *folder, bool *fresh, struct err *err);

/* Clears the history of early stopping: for a fork whose losses do not compare with the other run's. */
void trainer_begin_stopping(struct trainer *trainer);

/* Trains until done; returns when no checkpoint is being written any more. After an error a checkpoint of the
 * last good state may be missing; `err` says why. STATUS_DEVICE: the device is lost, with everything since
 * the last checkpoint; all reported steps, evaluations, samples and checkpoints did happen, and an order that
 * was started but not answered was not carried out. STATUS_NO_MEMORY: the device had no memory for a launch;
 * the state is that of the last reported step, and a checkpoint of it was written if possible. After either,
 * the trainer can only be closed. */
enum status trainer_run(struct trainer *trainer, enum train_outcome *outcome, struct err *err);

const struct plan *trainer_plan(const struct trainer *trainer); /* its input has the model */
const struct train_state *trainer_state(const struct trainer *trainer);
/* The bytes of the weights and moments of a checkpoint, which has little else. */
int64_t trainer_checkpoint_bytes(const struct trainer *trainer);
/* Write a sentence about the data for the run's history, and a warning; "": there is nothing to say. */
enum { TASK_NOTE_SIZE = 1024 };
void trainer_note(const struct trainer *trainer, char *buf, size_t size);
void trainer_warn(const struct trainer *trainer, char *buf, size_t size);
/* Training: sequences per epoch. Validation: sequences of the split, 0 without validation data. */
uint64_t trainer_sequences(const struct trainer *trainer, enum task_part part);

#endif
