/* The trainer: the loop that turns a configuration and a corpus into a trained model. Knows no SQL, no screen
 * and no signals: what happens is reported to a struct train_observer, and what is wanted is asked of it.
 *
 * A step is queued before the one before it is reported (see trainer_step.c); what is reported has happened,
 * in order, and whatever needs the state (an evaluation, a sample, a checkpoint, an order, leaving) comes
 * after all steps that are queued. After the first step the step loop allocates nothing, but for a step that
 * is traced. A trainer killed at any moment loses at most what came after its last checkpoint; one that
 * leaves by itself writes a checkpoint first, but where the newest gradient is not finite and no evaluation
 * of the same weights says that they are good: of weights that an update may have ruined only an ordered one
 * is written. */
#ifndef ANNEAL_CORE_TRAIN_TRAINER_H
#define ANNEAL_CORE_TRAIN_TRAINER_H

#include "core/base/record.h"
#include "core/checkpoint/checkpoint.h"
#include "core/model/config.h"
#include "core/train/task.h"
#include "datasets/corpus.h"
#include "datasets/progress.h"

enum { LR_FACTOR_MAX = 1000 }; /* an ORDER_LR_FACTOR above is refused */

/* All functions are mandatory; they are called from the training thread and should return at once. Strings in
 * records are borrowed for the call. */
struct train_observer {
    void *context;
    /* Before that much is allocated on the device; a failure is trainer_open's. */
    enum status (*reserve)(void *context, int64_t bytes, struct err *err);
    void (*step)(void *context, const struct step_record *record);
    void (*eval)(void *context, const struct eval_record *record, const struct measures *measures);
    void (*stopping)(void *context, const struct stopping_record *record);
    void (*sample)(void *context, const struct sample_record *record);
    /* A checkpoint of this moment is going to be written. What was reported so far should be safe before it
     * is there, because a run resumed from it does not report that again: `safe` returns when it is. That one
     * is called after `saving`, by the thread that writes, which may not be the training thread. */
    void (*saving)(void *context);
    void (*safe)(void *context);
    /* A checkpoint is there. Reported between two later steps where it was written while training went on. */
    void (*checkpoint)(void *context, const struct checkpoint_record *record);
    void (*memory)(void *context, const struct memory_record *record); /* of each category, then `used` */
    /* what the device has given to training, in bytes: unused parts of it, too; first while it opens */
    void (*used)(void *context, int64_t bytes);
    void (*profile)(void *context, const struct profile_record *record); /* of a step reported before */
    void (*event)(void *context, const struct event_record *record);
    void (*paused)(void *context, bool paused);
    /* one that is to be carried out when `step` steps are done, which are those queued so far */
    bool (*next_order)(void *context, int64_t step, struct order *out);
    void (*order_done)(void *context, int64_t order_id, int64_t applied_step, const char *result);
    bool (*leave)(void *context); /* whether to checkpoint and leave after this step */
};

enum train_outcome {
    TRAIN_FINISHED, /* all steps are done */
    TRAIN_EARLY_STOPPED,
    TRAIN_STOPPED,    /* asked to leave, by an order or by request() */
    TRAIN_DIVERGED,   /* 100 updates in a row were skipped because of a non-finite gradient norm */
    TRAIN_NOT_FINITE, /* the first non-finite loss or gradient norm, where health.on_nan = stop */
    TRAIN_FALLS_BACK, /* failed with a device that another may take over from */
    TRAIN_FAILED,     /* likewise, and there is none */
};

struct train_setup {
    const struct config *config;   /* finished; borrowed */
    const struct backend *backend; /* borrowed */
    struct device *device;         /* borrowed */
    const struct corpus *corpus;   /* borrowed */
    const char *checkpoints;       /* folder; made when needed; borrowed */
    const char *weights;           /* a model's folder to start with; NULL: fresh ones; borrowed */
    const char *traces;            /* folder; made when needed; borrowed */
    const char *warm_folder;       /* where a GPU's choices are kept between runs; NULL: nowhere; borrowed */
    const struct progress *progress; /* of opening; NULL: nobody looks; borrowed until trainer_open returns */
    struct allocator_listener full;  /* receives who holds which memory when the device has no more, a line at
                                        a  time: while it opens, or when a step fails for that */
    bool another_device;             /* may train on where this one fails */
    bool check_allocations; /* a step after the first that allocates memory ends the run with a sentence: see
                               trainer_step.c */
    struct train_observer observer;
};

struct trainer;

/* Plans, allocates and initialises. Checks what concerns configuration and corpus together (vocabulary,
 * lengths). */
enum status trainer_open(const struct train_setup *setup, struct trainer **out, struct err *err);
void trainer_close(struct trainer *trainer); /* NULL is harmless */

/* Continues from a checkpoint folder: weights, moments, position; early stopping keeps its history and takes
 * its patience from the configuration. */
enum status trainer_resume(struct trainer *trainer, const char *folder, struct err *err);

/* The same from any checkpoint, for a new run. One without moments begins with fresh ones: *fresh. */
enum status trainer_fork(struct trainer *trainer, const char *folder, bool *fresh, struct err *err);

/* Early stopping forgets what it judged: for a fork whose losses do not compare with the other run's. */
void trainer_begin_stopping(struct trainer *trainer);

/* Trains until done. No checkpoint is being written any more when it returns. On an error a checkpoint of the
 * last good state may be missing; the sentence says why. STATUS_DEVICE: the device is lost, and what came
 * after the last checkpoint with it; no step, evaluation, sample or checkpoint was reported that did not
 * happen, and an order that was taken up but not answered has not been carried out. STATUS_NO_MEMORY: the
 * device had no memory for a launch; the state is that of the last step reported, and a checkpoint of it was
 * written where that was possible. Then this trainer can only be closed. */
enum status trainer_run(struct trainer *trainer, enum train_outcome *outcome, struct err *err);

const struct plan *trainer_plan(const struct trainer *trainer); /* its input has the model */
const struct train_state *trainer_state(const struct trainer *trainer);
/* In the split: of training those of an epoch; of validation 0 where nothing is held out. */
uint64_t trainer_sequences(const struct trainer *trainer, enum task_part part);

#endif
