/* A task: what a model is trained to do. A table of functions that open the data, give the loss of an
 * evaluation, and its metrics by name; and the source of batches with labels. The trainer counts examples (an
 * epoch has each once) and labels (those that count have weight in a loss); their meaning is up to the task.
 *
 * The training thread may call everything at any time; the examples of a batch are a pure function of part,
 * cursor and count. */
#ifndef ANNEAL_CORE_TRAIN_TASK_H
#define ANNEAL_CORE_TRAIN_TASK_H

#include "core/base/record.h"
#include "core/model/config.h"
#include "core/network/network.h"
#include "datasets/corpus.h"
#include "datasets/prefetch.h"
#include "datasets/progress.h"

enum task_part { TASK_TRAINING, TASK_VALIDATION };

/* The beginning of every task's data. */
struct task_data {
    const struct config *config; /* borrowed, like the corpus */
    const struct corpus *corpus;
    struct batch_source sources[2]; /* by part: its examples are rows of train.seq_len tokens */
    struct prefetch *prefetch[2];   /* of the sources, once the task is started; owned */
};

struct task {
    /* Splits the data as the configuration says, for a model of its sizes, and sets the sizes of the model's
     * head there. Configuration and corpus are borrowed. STATUS_USAGE if they do not match. `progress` (NULL:
     * none) is for this call. *out is set last. */
    enum status (*open)(struct config *config, const struct corpus *corpus, const struct progress *progress,
                        struct task_data **out, struct err *err);
    void (*close)(struct task_data *data); /* NULL is harmless */
    /* Names what the model's outputs stand for, where they are not tokens. */
    enum status (*describe)(const struct task_data *data, struct model *model, struct err *err);
    /* Called once, when the network is open; batches come after it. */
    enum status (*start)(struct task_data *data, struct network *network, struct err *err);
    struct corpus_mark (*mark)(const struct task_data *data); /* of all data */

    /* An evaluation: begin, judge for each of its batches, join what the ranks have judged, and then the
     * measures, which are the same on all. "Best" and early stopping follow the measure that eval.metric
     * names, or val_loss; measure_falls says which value is the best. */
    void (*begin)(struct task_data *data);
    void (*judge)(struct task_data *data, struct network *network, uint64_t cursor, struct batch_view batch);
    void (*join)(struct task_data *data, const struct world *world);
    struct measures (*measure)(const struct task_data *data);
    double (*guess)(const struct task_data *data); /* the loss of guessing */
    /* Write what the run's history should say about the data, and what it should warn of (NULL: of nothing);
     * "": nothing. */
    void (*note)(const struct task_data *data, char *buf, size_t size);
    void (*warn)(const struct task_data *data, char *buf, size_t size);
};

/* Examples per epoch; 0: no validation data. */
static inline uint64_t task_examples(const struct task_data *data, enum task_part part)
{
    return data->sources[part].rows;
}

/* How many labels count in `examples` examples from `cursor`, which counts on through all epochs; or the sum
 * of their weights. */
double task_labels(const struct task_data *data, enum task_part part, uint64_t cursor, uint64_t examples);

/* `count` examples, at most those of the plan's micro-batch, valid until the next call for the same part;
 * with positions if the plan is packed, else without. Expected in order; any other cursor has to wait. */
struct batch_view task_batch(struct task_data *data, enum task_part part, uint64_t cursor, int count);

/* STATUS_CORRUPT: a batch that was taken had ids that the model does not know, so what was computed of it
 * must not be kept. */
enum status task_check_batches(const struct task_data *data, struct err *err);

/* For tasks: begins and ends the reading of batches. */
enum status task_start_batches(struct task_data *data, struct network *network, struct err *err);
void task_close_batches(struct task_data *data);

/* STATUS_USAGE: the tokenizer has more tokens than a model of the configuration. */
enum status task_check_tokenizer(const struct config *config, const struct corpus *corpus, struct err *err);

/* Predicting the next token. Labels are the inputs shifted by one, except data.padding; of conversations, a
 * corpus of examples (datasets/examples.h) that are packed into rows, the answers alone. Measures val_loss,
 * the mean cross-entropy in nats, and val_perplexity. Of a mixture (datasets/mixture.h) val_loss is the mean
 * over the sources by their weights, and val_loss_NAME that of each source. */
const struct task *language_modelling(void);

/* Giving a text one of several labels; data.train names CSV or JSONL files (datasets/labelled.h), of the
 * corpus only the tokenizer is used. Without data.train, all texts of data.val are for validation, and the
 * classifier in model.from has their labels. An example is a row of train.seq_len tokens, packed with whole
 * texts; the label of each text is that of its last token. Measures val_loss, the mean cross-entropy of
 * validation texts by the weights of their classes, accuracy, macro_f1, macro_precision, macro_recall, the
 * score of one class that eval.metric may name, and the confusion matrix. */
const struct task *classification(void);

#endif
