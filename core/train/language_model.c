/* Language modelling, the task of task.h. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/train/task.h"
#include "datasets/batch.h"
#include "datasets/prefetch.h"

struct language_model {
    const struct config *config;
    struct split splits[2];       /* by part */
    struct prefetch *prefetch[2]; /* the second NULL without validation data */
};

enum status task_check_vocabulary(const struct config *c, const struct corpus *corpus, struct err *err)
{
    int V = c->model.sizes.vocab_size;
    int needed = corpus->tokenizer ? tokenizer_vocab_size(corpus->tokenizer) : 0;
    if (needed > V)
        return err_set(err, STATUS_USAGE,
                       "model.vocab_size = %d is smaller than the tokenizer's %d (set it to at least %d)", V,
                       needed, needed);
    /* a larger token would read outside the embedding, so the header alone is not trusted */
    struct corpus_place place;
    if (!corpus_find_id(corpus, (uint32_t)V, &place)) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%s: token %" PRIu64 " is %u, but model.vocab_size = %d (set it to at least %u)",
                   place.path, place.index, place.id, V, corpus->vocab_size);
}

/* Without labels that count there is no mean loss, and 0 would look like a perfect one. */
static enum status check_labels(const struct language_model *m, struct err *err)
{
    const struct config *c = m->config;
    const struct split *train = &m->splits[TASK_TRAINING], *validation = &m->splits[TASK_VALIDATION];
    uint64_t sequences = validation->sequences, most = (uint64_t)(c->eval.batches * c->train.batch_size);
    if (most && most < sequences) sequences = most;
    const char *where = *c->data.val ? "data.val" : "the validation split (data.val_fraction)";
    if (!split_counts(train, train->sequences)) {
        where = "the training split";
        sequences = train->sequences;
    } else if (!sequences || split_counts(validation, sequences)) {
        return STATUS_OK;
    }
    return err_set(
        err, STATUS_USAGE,
        "data.padding = %" PRId64 ": all labels of the first %" PRIu64
        " sequence%s of %s are padding, so there is no loss to compute (set data.padding to the id "
        "that pads sequences, or look at the data)",
        c->data.padding, sequences, sequences == 1 ? "" : "s", where);
}

static void lm_close(void *data)
{
    struct language_model *m = data;
    if (!m) return;
    for (int part = 0; part < 2; part++) {
        prefetch_close(m->prefetch[part]);
        split_release(&m->splits[part]);
    }
    free(m);
}

static enum status lm_open(const struct config *c, const struct corpus *corpus, void **out, struct err *err)
{
    struct language_model *m = calloc(1, sizeof *m);
    if (!m) return err_no_memory(err, "the batches");
    m->config = c;
    enum status status = task_check_vocabulary(c, corpus, err);
    if (!status)
        status = split_corpus(corpus, c->data.val_split, c->data.val_fraction, (int)c->train.seq_len,
                              (uint64_t)c->train.seed, c->data.shuffle, &m->splits[TASK_TRAINING],
                              &m->splits[TASK_VALIDATION], err);
    for (int part = 0; part < 2; part++) m->splits[part].padding = c->data.padding;
    if (!status && c->data.padding >= 0) status = check_labels(m, err);
    for (int part = 0; !status && part < 2; part++)
        if (m->splits[part].sequences)
            status = prefetch_open(split_source(&m->splits[part]), (int)c->train.batch_size, c->train.async,
                                   &m->prefetch[part], err);
    if (status)
        lm_close(m);
    else
        *out = m;
    return status;
}

static uint64_t lm_examples(const void *data, enum task_part part)
{
    return ((const struct language_model *)data)->splits[part].sequences;
}

static uint64_t lm_labels(const void *data, enum task_part part, uint64_t cursor, uint64_t examples)
{
    return split_labels(&((const struct language_model *)data)->splits[part], cursor, examples);
}

static struct batch_view lm_batch(void *data, enum task_part part, uint64_t cursor, int count)
{
    struct language_model *m = data;
    struct prefetched taken = prefetch_take(m->prefetch[part], cursor, count);
    return (struct batch_view){taken.inputs, taken.targets, NULL, count, m->splits[part].seq_len};
}

static double lm_waited(const void *data)
{
    return prefetch_waited(((const struct language_model *)data)->prefetch[TASK_TRAINING]);
}

struct measures measures_of_loss(double sum, double labels)
{
    double loss = sum / fmax(1, labels);
    return (struct measures){2, {{"val_loss", loss}, {"val_perplexity", exp(loss)}}};
}

static double lm_guess(const void *data)
{
    return log(((const struct language_model *)data)->config->model.sizes.vocab_size);
}

static void lm_note(const void *data, char *buf, size_t size)
{
    (void)data, (void)size;
    *buf = '\0';
}

const struct task *language_modelling(void)
{
    static const struct task task = {.name = "language modelling",
                                     .open = lm_open,
                                     .close = lm_close,
                                     .examples = lm_examples,
                                     .labels = lm_labels,
                                     .batch = lm_batch,
                                     .waited = lm_waited,
                                     .loss = network_loss,
                                     .measure = measures_of_loss,
                                     .guess = lm_guess,
                                     .note = lm_note};
    return &task;
}
