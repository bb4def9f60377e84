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
    const struct corpus *corpus;
    struct token_loss loss; /* of an evaluation */
};

enum status task_check_tokenizer(const struct config *c, const struct corpus *corpus, struct err *err)
{
    int V = c->model.sizes.vocab_size;
    int needed = corpus->tokenizer ? tokenizer_vocab_size(corpus->tokenizer) : 0;
    if (needed <= V) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "model.vocab_size = %d is smaller than the tokenizer's %d (set it to at least %d)", V,
                   needed, needed);
}

enum status task_check_vocabulary(const struct config *c, const struct corpus *corpus, struct err *err)
{
    int V = c->model.sizes.vocab_size;
    enum status status = task_check_tokenizer(c, corpus, err);
    if (status) return status;
    if (c->model.sizes.num_labels)
        return err_set(err, STATUS_USAGE,
                       "model.from = %.200s: is a classifier, which cannot predict tokens (set data.format = "
                       "labels, or start from the language model that it was made from)",
                       c->model.from);
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

static enum status lm_open(struct config *c, const struct corpus *corpus, const struct progress *progress,
                           void **out, struct err *err)
{
    struct language_model *m = calloc(1, sizeof *m);
    (void)progress; /* the corpus is prepared */
    if (!m) return err_no_memory(err, "the batches");
    m->config = c;
    m->corpus = corpus;
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

static double lm_labels(const void *data, enum task_part part, uint64_t cursor, uint64_t examples)
{
    return (double)split_labels(&((const struct language_model *)data)->splits[part], cursor, examples);
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

void token_loss_judge(struct token_loss *loss, struct network *network, struct batch_view batch)
{
    network_forward(network, batch);
    loss->sum += network_loss(network, batch);
    for (int n = 0; n < batch.B * batch.T; n++) loss->labels += batch.labels[n] >= 0;
}

struct measures token_loss_measures(const struct token_loss *loss)
{
    double mean = loss->sum / fmax(1, loss->labels);
    return (struct measures){.count = 2, .of = {{"val_loss", mean}, {"val_perplexity", exp(mean)}}};
}

enum status task_of_tokens_describe(const void *data, struct model *model, struct err *err)
{
    (void)data, (void)model, (void)err;
    return STATUS_OK;
}

enum status task_of_tokens_start(void *data, struct network *network, struct err *err)
{
    (void)data, (void)network, (void)err;
    return STATUS_OK;
}

static void lm_begin(void *data)
{
    ((struct language_model *)data)->loss = (struct token_loss){0};
}

static void lm_judge(void *data, struct network *network, struct batch_view batch)
{
    token_loss_judge(&((struct language_model *)data)->loss, network, batch);
}

static struct measures lm_measure(const void *data)
{
    return token_loss_measures(&((const struct language_model *)data)->loss);
}

static struct corpus_mark lm_mark(const void *data)
{
    return corpus_mark_of(((const struct language_model *)data)->corpus);
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
                                     .writes_text = true,
                                     .open = lm_open,
                                     .close = lm_close,
                                     .describe = task_of_tokens_describe,
                                     .start = task_of_tokens_start,
                                     .mark = lm_mark,
                                     .examples = lm_examples,
                                     .labels = lm_labels,
                                     .batch = lm_batch,
                                     .waited = lm_waited,
                                     .begin = lm_begin,
                                     .judge = lm_judge,
                                     .measure = lm_measure,
                                     .guess = lm_guess,
                                     .note = lm_note};
    return &task;
}
