/* A task: what a model is trained to do. A table of functions that give batches with labels, the loss of an
 * evaluation, and its metrics by name. The trainer counts examples (an epoch has each once) and labels (those
 * that count have weight in a loss); their meaning is up to the task.
 *
 * `data` is the result of open. The training thread may call everything but batch at any time; the examples
 * of a batch are a pure function of part, cursor and count. */
#ifndef ANNEAL_CORE_TRAIN_TASK_H
#define ANNEAL_CORE_TRAIN_TASK_H

#include "core/base/record.h"
#include "core/model/config.h"
#include "core/network/network.h"
#include "datasets/corpus.h"

enum task_part { TASK_TRAINING, TASK_VALIDATION };

struct task {
    const char *name;
    /* Splits the corpus as the configuration says, both borrowed, for a model of its sizes. STATUS_USAGE if
     * they do not match. *out is set last. */
    enum status (*open)(const struct config *config, const struct corpus *corpus, void **out,
                        struct err *err);
    void (*close)(void *data); /* NULL is harmless */

    uint64_t (*examples)(const void *data, enum task_part part); /* per epoch; 0: no validation data */
    /* How many labels count in `examples` examples from `cursor`, which counts on through all epochs. */
    uint64_t (*labels)(const void *data, enum task_part part, uint64_t cursor, uint64_t examples);
    /* `count` examples, at most train.batch_size, of train.seq_len tokens, valid until the next call for the
     * same part; with positions if the plan is packed, else without. Expected in order; any other cursor has
     * to wait. */
    struct batch_view (*batch)(void *data, enum task_part part, uint64_t cursor, int count);
    double (*waited)(const void *data); /* seconds that training has waited for batches so far */

    /* After network_forward of an evaluation batch: the sum of the losses of labels that count. */
    double (*loss)(struct network *network, struct batch_view batch);
    /* The metrics of an evaluation, from `sum`, the sum of losses over `labels` labels. "Best" and early
     * stopping follow the first one: the lowest wins. */
    struct measures (*measure)(double sum, double labels);
    double (*guess)(const void *data); /* the loss of guessing */
    /* Writes what the run's history should say about the data, "" for nothing. */
    void (*note)(const void *data, char *buf, size_t size);
};

/* Predicting the next token. Labels are the inputs shifted by one, except data.padding; measures val_loss,
 * the mean cross-entropy in nats, and val_perplexity. */
const struct task *language_modelling(void);

/* Answering in conversations: a corpus of examples (datasets/examples.h), packed into rows of train.seq_len
 * tokens, of which the answers are the labels. An example that the trainer counts is such a row. Measures as
 * in language modelling. */
const struct task *instruction_tuning(void);

/* The measures of a mean cross-entropy: val_loss and val_perplexity. */
struct measures measures_of_loss(double sum, double labels);

/* STATUS_USAGE if the corpus has a token that a model of the configuration has no row for. */
enum status task_check_vocabulary(const struct config *config, const struct corpus *corpus, struct err *err);

#endif
