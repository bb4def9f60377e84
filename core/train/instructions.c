/* Instruction tuning, a task of task.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/text.h"
#include "core/train/token_task.h"
#include "datasets/examples.h"

struct instructions {
    struct token_task task;
    struct example_rows rows[2]; /* by part */
};

static void it_close(void *data)
{
    struct instructions *m = data;
    if (!m) return;
    for (int part = 0; part < 2; part++) {
        prefetch_close(m->task.prefetch[part]);
        example_rows_close(&m->rows[part]);
    }
    free(m);
}

static enum status it_open(struct config *c, const struct corpus *corpus, const struct progress *progress,
                           void **out, struct err *err)
{
    struct instructions *m = calloc(1, sizeof *m);
    (void)progress; /* the corpus is prepared */
    if (!m) return err_no_memory(err, "the batches");
    m->task.config = c;
    m->task.corpus = corpus;
    enum status status = task_check_vocabulary(c, corpus, err);
    if (!status)
        status =
            example_rows_open(corpus, c->data.val_split, c->data.val_fraction, (int)c->train.seq_len,
                              (uint64_t)c->train.seed, c->data.shuffle, c->data.too_long == TOO_LONG_REFUSE,
                              &m->rows[TASK_TRAINING], &m->rows[TASK_VALIDATION], err);
    for (int part = 0; !status && part < 2; part++)
        if (m->rows[part].count) m->task.sources[part] = example_rows_source(&m->rows[part]);
    if (status)
        it_close(m);
    else
        *out = m;
    return status;
}

static const struct example_rows *rows_of(const void *data, enum task_part part)
{
    return &((const struct instructions *)data)->rows[part];
}

static uint64_t it_examples(const void *data, enum task_part part)
{
    return rows_of(data, part)->packing.rows;
}

static double it_labels(const void *data, enum task_part part, uint64_t cursor, uint64_t examples)
{
    return (double)example_rows_labels(rows_of(data, part), cursor, examples);
}

static double it_span(const void *data)
{
    return rows_of(data, TASK_TRAINING)->packing.span;
}

static void it_note(const void *data, char *buf, size_t size)
{
    const struct example_rows *train = rows_of(data, TASK_TRAINING), *held = rows_of(data, TASK_VALIDATION);
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

const struct task *instruction_tuning(void)
{
    static const struct task task = {TOKEN_TASK,
                                     .name = "instruction tuning",
                                     .open = it_open,
                                     .close = it_close,
                                     .examples = it_examples,
                                     .labels = it_labels,
                                     .span = it_span,
                                     .note = it_note};
    return &task;
}
