/* The common part of tasks whose labels are tokens. */
#ifndef ANNEAL_CORE_TRAIN_TOKEN_TASK_H
#define ANNEAL_CORE_TRAIN_TOKEN_TASK_H

#include "core/train/task.h"
#include "datasets/prefetch.h"

/* The first member of their data. */
struct token_task {
    const struct config *config;
    const struct corpus *corpus;
    struct batch_source sources[2]; /* by part; T is 0 without validation data */
    struct prefetch *prefetch[2];   /* of the sources, once the task is started; owned */
    double sum, labels;             /* of an evaluation */
};

/* Their entries in struct task that are alike: the measures are val_loss and val_perplexity, and there is
 * nothing to describe. */
#define TOKEN_TASK                                                                                           \
    .describe = token_task_describe, .start = token_task_start, .mark = token_task_mark,                     \
    .batch = token_task_batch, .waited = token_task_waited, .begin = token_task_begin,                       \
    .judge = token_task_judge, .join = token_task_join, .measure = token_task_measure,                       \
    .guess = token_task_guess

enum status token_task_describe(const void *data, struct model *model, struct err *err);
enum status token_task_start(void *data, struct network *network, struct err *err);
struct batch_view token_task_batch(void *data, enum task_part part, uint64_t cursor, int count);
struct corpus_mark token_task_mark(const void *data);
double token_task_waited(const void *data);
void token_task_begin(void *data);
void token_task_judge(void *data, struct network *network, struct batch_view batch);
void token_task_join(void *data, const struct world *world);
struct measures token_task_measure(const void *data);
double token_task_guess(const void *data);

#endif
