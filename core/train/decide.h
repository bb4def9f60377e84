/* Every decision that changes the course of training, in one place: a pure function of facts. The trainer
 * gathers the facts between two steps, shares rank 0's with all ranks, and carries out the decided actions
 * one at a time, until the next step or the end. So all ranks do the same.
 *
 * Two decisions are made elsewhere, from numbers that are equal on all ranks: the device skips the update of
 * a step whose gradient norm is not finite or whose loss is above its limit (clip_norm), and early_stopping.h
 * chooses the best loss. */
#ifndef ANNEAL_CORE_TRAIN_DECIDE_H
#define ANNEAL_CORE_TRAIN_DECIDE_H

#include <stdbool.h>

#include "core/base/record.h"
#include "core/model/config.h"
#include "core/train/trainer.h"

enum { SKIPS_IN_A_ROW_MAX = 100 };

/* Actions that are due after a step and not done yet. */
enum {
    DUE_EVALUATION = 1,
    DUE_BEST = 2,
    DUE_SAMPLE = 4,
    DUE_CHECKPOINT = 8,
    DUE_EARLY = 16, /* the evaluation is an early one (eval.early), which uses up no patience */
};

/* The actions due by the configuration after `step` steps (0: before the first one); ends_epoch: the last one
 * ends an epoch. */
unsigned decide_due(const struct config *config, int64_t step, bool ends_epoch);

/* Plain data: ranks share it. */
struct facts {
    int64_t step, total; /* steps queued; steps of the run */
    int in_flight;       /* steps queued and not yet reported */
    unsigned due;
    int64_t skipped_in_a_row;
    bool not_finite;       /* a number was not finite, and health.on_nan = stop */
    bool trouble;          /* training has to go back to a good checkpoint */
    bool doubtful;         /* trainer_weights_are_in_doubt */
    bool saved;            /* a checkpoint of this step exists or is being written */
    bool evaluated;        /* the weights are evaluated, or need not be: there is no validation data, or
                              nobody gets them */
    bool cleared;          /* they are evaluated, and the loss is finite */
    bool patience_used_up; /* of early stopping */
    bool asked;            /* the observer was asked since the last action */
    bool leave, pause;     /* requested by the observer, or ordered */
    bool far_enough;       /* to stop, but in no hurry: setup.until */
    bool ordered;          /* an order is waiting */
    struct order order;
    enum status failure; /* why training cannot continue (device or host); STATUS_OK: it can */
    bool another_device; /* another device may take over */
};

enum action {
    ACTION_ROLL_BACK, /* give up the queued steps, and go back to a good checkpoint */
    ACTION_SETTLE,    /* wait for the queued steps */
    ACTION_EVALUATE,  /* an evaluation is due */
    ACTION_KEEP,      /* save the weights as the best */
    ACTION_SAMPLE,
    ACTION_SAVE, /* a checkpoint is due */
    ACTION_ASK,  /* ask the observer for an order or a request */
    ACTION_OBEY, /* carry out the order */
    ACTION_REST, /* sleep briefly: the run is paused */
    ACTION_STEP,
    ACTION_END,
};

struct decision {
    enum action action;
    enum train_outcome outcome; /* for ACTION_END */
    bool save;                  /* for ACTION_END: the weights are worth a checkpoint */
};

struct decision decide(const struct facts *facts);

#endif
