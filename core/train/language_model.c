/* Language modelling, the task of task.h: sequences of text, or examples of conversations. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/text.h"
#include "core/train/task.h"
#include "datasets/examples.h"

struct language_model {
    struct task_data base;
    struct split splits[2];          /* by part, of text */
    struct example_rows examples[2]; /* by part, of conversations */
    double sum, labels;              /* of an evaluation */
};

/* ---- opening ---- */

/* STATUS_USAGE if the corpus has a token that a model of the configuration has no row for. */
static enum status check_vocabulary(const struct config *c, const struct corpus *corpus, struct err *err)
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
    const struct config *c = m->base.config;
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

static enum status open_text(struct language_model *m, struct err *err)
{
    const struct config *c = m->base.config;
    enum status status = split_corpus(m->base.corpus, c->data.val_split, c->data.val_fraction,
                                      (int)c->train.seq_len, (uint64_t)c->train.seed, c->data.shuffle,
                                      &m->splits[TASK_TRAINING], &m->splits[TASK_VALIDATION], err);
    for (int part = 0; !status && part < 2; part++) {
        m->splits[part].padding = c->data.padding;
        m->base.sources[part] = split_source(&m->splits[part]);
    }
    return status || c->data.padding < 0 ? status : check_labels(m, err);
}

static enum status open_examples(struct language_model *m, struct err *err)
{
    const struct config *c = m->base.config;
    enum status status =
        example_rows_open(m->base.corpus, c->data.val_split, c->data.val_fraction, (int)c->train.seq_len,
                          (uint64_t)c->train.seed, c->data.shuffle, c->data.too_long == TOO_LONG_REFUSE,
                          &m->examples[TASK_TRAINING], &m->examples[TASK_VALIDATION], err);
    for (int part = 0; !status && part < 2; part++)
        m->base.sources[part] = example_rows_source(&m->examples[part]);
    return status;
}

static void lm_close(struct task_data *data)
{
    struct language_model *m = (struct language_model *)data;
    if (!m) return;
    task_close_batches(data);
    for (int part = 0; part < 2; part++) {
        split_release(&m->splits[part]);
        example_rows_close(&m->examples[part]);
    }
    free(m);
}

static enum status lm_open(struct config *c, const struct corpus *corpus, const struct progress *progress,
                           struct task_data **out, struct err *err)
{
    struct language_model *m = calloc(1, sizeof *m);
    (void)progress; /* the corpus is prepared */
    if (!m) return err_no_memory(err, "the batches");
    m->base.config = c;
    m->base.corpus = corpus;
    enum status status = check_vocabulary(c, corpus, err);
    if (!status) status = corpus->runs ? open_examples(m, err) : open_text(m, err);
    if (status)
        lm_close(&m->base);
    else
        *out = &m->base;
    return status;
}

static enum status lm_describe(const struct task_data *data, struct model *model, struct err *err)
{
    (void)data, (void)model, (void)err;
    return STATUS_OK;
}

static struct corpus_mark lm_mark(const struct task_data *data)
{
    return corpus_mark_of(data->corpus);
}

/* ---- evaluations ---- */

static void lm_begin(struct task_data *data)
{
    struct language_model *m = (struct language_model *)data;
    m->sum = m->labels = 0;
}

static void lm_judge(struct task_data *data, struct network *network, struct batch_view batch)
{
    struct language_model *m = (struct language_model *)data;
    network_forward(network, batch);
    m->sum += network_loss(network, batch);
    for (int n = 0; n < batch.B * batch.T; n++) m->labels += batch.labels[n] >= 0;
}

static void lm_join(struct task_data *data, const struct world *world)
{
    struct language_model *m = (struct language_model *)data;
    world_sum(world, &m->sum, 1);
    world_sum(world, &m->labels, 1);
}

static struct measures lm_measure(const struct task_data *data)
{
    const struct language_model *m = (const struct language_model *)data;
    double mean = m->sum / fmax(1, m->labels);
    return (struct measures){.count = 2, .of = {{"val_loss", mean}, {"val_perplexity", exp(mean)}}};
}

static double lm_guess(const struct task_data *data)
{
    return log(data->config->model.sizes.vocab_size);
}

/* ---- notes ---- */

static void note_examples(const struct language_model *m, char *buf, size_t size)
{
    const struct example_rows *train = &m->examples[TASK_TRAINING], *held = &m->examples[TASK_VALIDATION];
    uint64_t cut = train->cut + held->cut, empty = train->empty + held->empty;
    int used =
        snprintf(buf, size, "%" PRIu64 " conversations in %" PRIu64 " rows, %" PRIu64 " to validate on",
                 train->count, train->packing.rows, held->count);
    if (cut && used > 0 && (size_t)used < size)
        used +=
            snprintf(buf + used, size - (size_t)used, "; %" PRIu64 " longer than train.seq_len = %d %s cut",
                     cut, train->T, cut == 1 ? "is" : "are");
    if (empty && used > 0 && (size_t)used < size)
        snprintf(buf + used, size - (size_t)used,
                 "; %" PRIu64 " %s left out, as no answer begins within that", empty,
                 empty == 1 ? "is" : "are");
}

static void lm_note(const struct task_data *data, char *buf, size_t size)
{
    static const char *const endings[] = {".csv", ".tsv"};
    const char *train = data->config->data.train;
    *buf = '\0';
    if (data->corpus->runs) {
        note_examples((const struct language_model *)data, buf, size);
        return;
    }
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (text_ends_with(train, endings[i]))
            snprintf(
                buf, size,
                "a %s file is learned as it stands, with its marks and names (data.format = labels reads "
                "what it holds)",
                endings[i]);
}

const struct task *language_modelling(void)
{
    static const struct task task = {.open = lm_open,
                                     .close = lm_close,
                                     .describe = lm_describe,
                                     .start = task_start_batches,
                                     .mark = lm_mark,
                                     .begin = lm_begin,
                                     .judge = lm_judge,
                                     .join = lm_join,
                                     .measure = lm_measure,
                                     .guess = lm_guess,
                                     .note = lm_note};
    return &task;
}
