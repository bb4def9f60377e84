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
#include "datasets/progress.h"

enum task_part { TASK_TRAINING, TASK_VALIDATION };

struct task {
    const char *name;
    /* Splits the data as the configuration says, for a model of its sizes, and sets the sizes of the model's
     * head there. Configuration and corpus are borrowed. STATUS_USAGE if they do not match. `progress` (NULL:
     * none) is for this call. *out is set last. */
    enum status (*open)(struct config *config, const struct corpus *corpus, const struct progress *progress,
                        void **out, struct err *err);
    void (*close)(void *data); /* NULL is harmless */
    /* Names what the model's outputs stand for, where they are not tokens. */
    enum status (*describe)(const void *data, struct model *model, struct err *err);
    /* Called once, when the network is open; batches come after it. */
    enum status (*start)(void *data, struct network *network, struct err *err);
    struct corpus_mark (*mark)(const void *data); /* of all data */

    uint64_t (*examples)(const void *data, enum task_part part); /* per epoch; 0: no validation data */
    /* How many labels count in `examples` examples from `cursor`, which counts on through all epochs; or the
     * sum of their weights. */
    double (*labels)(const void *data, enum task_part part, uint64_t cursor, uint64_t examples);
    /* `count` examples, at most those of the plan's micro-batch, of train.seq_len tokens, valid until the
     * next call for the same part; with positions if the plan is packed, else without. Expected in order; any
     * other cursor has to wait. */
    struct batch_view (*batch)(void *data, enum task_part part, uint64_t cursor, int count);
    /* The length of the sequences of training: their mean over all tokens of an epoch. */
    double (*span)(const void *data);
    double (*waited)(const void *data); /* seconds that training has waited for batches so far */

    /* An evaluation: begin, judge for each of its batches, join what the ranks have judged, and then the
     * measures, which are the same on all. "Best" and early stopping
     * follow the measure that eval.metric names, or the first one. Of names that begin with val_, the lowest
     * value is the best, of others the highest. */
    void (*begin)(void *data);
    void (*judge)(void *data, struct network *network, struct batch_view batch);
    void (*join)(void *data, const struct world *world);
    struct measures (*measure)(const void *data);
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

/* STATUS_USAGE if the corpus has a token that a model of the configuration has no row for. */
enum status task_check_vocabulary(const struct config *config, const struct corpus *corpus, struct err *err);

/* Giving a text one of several labels; data.train names CSV or JSONL files (datasets/labelled.h), of the
 * corpus only the tokenizer is used. Without data.train, all texts of data.val are for validation, and the
 * classifier in model.from has their labels. An example is a row of train.seq_len tokens, packed with whole
 * texts; the label of each text is that of its last token. Measures val_loss, the mean cross-entropy of
 * validation texts by the weights of their classes, accuracy, macro_f1, macro_precision, macro_recall, the
 * score of one class that eval.metric may name, and the confusion matrix. */
const struct task *classification(void);

/* STATUS_USAGE: the tokenizer has more tokens than a model of the configuration. */
enum status task_check_tokenizer(const struct config *config, const struct corpus *corpus, struct err *err);

#endif
