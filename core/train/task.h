/* A task: what a model is trained to do. A table of functions that gives batches with their labels, the loss
 * of an evaluation, and what it measures, by name. The trainer knows examples, which an epoch has each of
 * once, and labels, of which those that count weigh in a loss; what they are is the task's.
 *
 * `data` is what open gave. All but batch may be called at any time by the training thread; which examples
 * batch gives is a pure function of part, cursor and count. */
#ifndef ANNEAL_CORE_TRAIN_TASK_H
#define ANNEAL_CORE_TRAIN_TASK_H

#include "core/base/record.h"
#include "core/model/config.h"
#include "core/network/network.h"
#include "datasets/corpus.h"

enum task_part { TASK_TRAINING, TASK_VALIDATION };

struct task {
    const char *name;
    /* Cuts the corpus as the configuration says, both borrowed, for a model of its sizes. STATUS_USAGE where
     * they do not fit each other. *out is set last. */
    enum status (*open)(const struct config *config, const struct corpus *corpus, void **out,
                        struct err *err);
    void (*close)(void *data); /* NULL is harmless */

    uint64_t (*examples)(const void *data, enum task_part part); /* of an epoch; 0: none is held out */
    /* How many labels count of `examples` from `cursor` on, which is counted through all epochs. */
    uint64_t (*labels)(const void *data, enum task_part part, uint64_t cursor, uint64_t examples);
    /* `count` examples, at most train.batch_size: inputs and labels (count, T), valid until the next call for
     * the same part. Expected in order; another cursor costs a wait. */
    void (*batch)(void *data, enum task_part part, uint64_t cursor, int count, const int32_t **inputs,
                  const int32_t **labels);
    double (*waited)(const void *data); /* seconds that training has waited for batches so far */

    /* Of an evaluation's batch, after network_forward of its inputs (b, T): the losses of the labels that
     * count, added up. */
    double (*loss)(struct network *network, const int32_t *labels, int b, int T);
    /* The metrics that an evaluation reports, of losses that add up to `sum` over `labels`; the first is what
     * "best" and early stopping follow: the lowest. */
    struct measures (*measure)(double sum, double labels);
    double (*guess)(const void *data); /* the loss of who knows nothing */
};

/* Predicting the next token. Labels are the tokens one place on, but those of data.padding; measures
 * val_loss, the mean cross-entropy in nats, and val_perplexity. */
const struct task *language_modelling(void);

#endif
