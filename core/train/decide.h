/* Every decision that changes the course of training, made in one place: a pure function of facts. The
 * trainer gathers the facts between two steps, makes those of rank 0 everybody's, and carries out what is
 * decided, one action at a time, until that is the next step or the end. So all ranks do the same.
 *
 * Two decisions are made elsewhere, from numbers that all ranks have alike: the update of a step whose
 * gradient norm is not finite is skipped on the device (clip_norm), and which validation loss is the
 * best is early stopping's (early_stopping.h). */
#ifndef ANNEAL_CORE_TRAIN_DECIDE_H
#define ANNEAL_CORE_TRAIN_DECIDE_H

#include <stdbool.h>

#include "core/base/record.h"
#include "core/model/config.h"
#include "core/train/trainer.h"

enum { SKIPS_IN_A_ROW_MAX = 100 };

/* Actions that are due after a step and not done yet. */
enum { DUE_EVALUATION = 1, DUE_BEST = 2, DUE_SAMPLE = 4, DUE_CHECKPOINT = 8 };

/* By the configuration, after `step` steps, the last of which ends an epoch or does not. */
unsigned decide_due(const struct config *config, int64_t step, bool ends_epoch);

/* Plain data: it is shared between ranks. */
struct facts {
    int64_t step, total; /* steps queued, and to do */
    int in_flight;       /* steps queued and not known to have happened */
    unsigned due;
    int64_t skipped_in_a_row;
    bool not_finite;       /* a number was not, and health.on_nan = stop */
    bool doubtful;         /* the weights, see trainer_save.c */
    bool saved;            /* a checkpoint of this step is there or on its way */
    bool evaluated;        /* the weights, or nothing is held out */
    bool cleared;          /* they have been, and the loss is finite */
    bool patience_used_up; /* of early stopping */
    bool asked;            /* the observer, since the last action */
    bool leave, pause;     /* what it wants, by order or request */
    bool ordered;          /* an order waits to be obeyed */
    struct order order;
    enum status failure; /* why training cannot go on, of the device or host; STATUS_OK: it can */
    bool another_device; /* may take over */
};

enum action {
    ACTION_SETTLE,   /* wait for the steps under way */
    ACTION_EVALUATE, /* because it is due */
    ACTION_KEEP,     /* save the weights as the best */
    ACTION_SAMPLE,
    ACTION_SAVE, /* because it is due */
    ACTION_ASK,  /* the observer, for an order or a request */
    ACTION_OBEY, /* the order */
    ACTION_REST, /* a moment: the run is paused */
    ACTION_STEP,
    ACTION_END,
};

struct decision {
    enum action action;
    enum train_outcome outcome; /* of the end */
    bool save;                  /* at the end: the weights are worth a checkpoint */
};

struct decision decide(const struct facts *facts);

#endif
