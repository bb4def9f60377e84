/* Language modelling, the task of task.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/text.h"
#include "core/train/token_task.h"
#include "datasets/batch.h"

struct language_model {
    struct token_task task;
    struct split splits[2]; /* by part */
};

/* Without labels that count there is no mean loss, and 0 would look like a perfect one. */
static enum status check_labels(const struct language_model *m, struct err *err)
{
    const struct config *c = m->task.config;
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
        prefetch_close(m->task.prefetch[part]);
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
    m->task.config = c;
    m->task.corpus = corpus;
    enum status status = task_check_vocabulary(c, corpus, err);
    if (!status)
        status = split_corpus(corpus, c->data.val_split, c->data.val_fraction, (int)c->train.seq_len,
                              (uint64_t)c->train.seed, c->data.shuffle, &m->splits[TASK_TRAINING],
                              &m->splits[TASK_VALIDATION], err);
    for (int part = 0; part < 2; part++) m->splits[part].padding = c->data.padding;
    if (!status && c->data.padding >= 0) status = check_labels(m, err);
    for (int part = 0; !status && part < 2; part++)
        if (m->splits[part].sequences) m->task.sources[part] = split_source(&m->splits[part]);
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

static double lm_span(const void *data)
{
    return ((const struct language_model *)data)->splits[TASK_TRAINING].seq_len;
}

static void lm_note(const void *data, char *buf, size_t size)
{
    static const char *const endings[] = {".jsonl", ".csv", ".tsv"};
    const char *train = ((const struct language_model *)data)->task.config->data.train;
    *buf = '\0';
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (text_ends_with(train, endings[i]))
            snprintf(
                buf, size,
                "a %s file is learned as it stands, with its marks and names (data.format = instructions "
                "or labels reads what it holds)",
                endings[i]);
}

const struct task *language_modelling(void)
{
    static const struct task task = {TOKEN_TASK,
                                     .name = "language modelling",
                                     .open = lm_open,
                                     .close = lm_close,
                                     .examples = lm_examples,
                                     .labels = lm_labels,
                                     .span = lm_span,
                                     .note = lm_note};
    return &task;
}
