/* The question files of eval.tasks, which every evaluation scores: each gives two measures, NAME_acc and
 * NAME_acc_per_byte, where NAME is the file's name without its ending. They equal the accuracies of `anneal
 * evaluate --tasks` on a checkpoint of the same weights.
 *
 * Questions pass through the network's KV cache (core/generate/choices.h), so that a context is computed once
 * for all its choices and nothing is padded. So the cache must have room for the longest question, which is
 * known before the memory is planned. */
#ifndef ANNEAL_CORE_TRAIN_EVAL_TASKS_H
#define ANNEAL_CORE_TRAIN_EVAL_TASKS_H

#include <stdbool.h>

#include "core/base/record.h"
#include "core/generate/examination.h"
#include "core/model/config.h"
#include "datasets/inputs.h"

enum { EVAL_TASKS_MAX = 16 };

struct eval_tasks {
    int count;
    int longest; /* tokens of the cache for the longest question: at least eval_tasks_cache_length */
    struct eval_task {
        struct examination examination;
        char accuracy[64], accuracy_per_byte[64]; /* names of its measures */
    } of[EVAL_TASKS_MAX];
    struct inputs files;
    struct choice_scorer scorer;
    bool told; /* the run's history says which contexts are too long */
};

/* Raises *length, tokens of the KV cache, to what eval.tasks needs: as many as the longest question has
 * bytes, as hardly any tokenizer makes more of it, but not more than the model takes. Reads the files and
 * needs no tokenizer, so that `anneal estimate` knows the plan. Errors name key, file and line. */
enum status eval_tasks_cache_length(const struct config *config, int *length, struct err *err);

/* Opens and checks the files and keeps a copy of them, so that they may change while the run trains.
 * `tokenizer` NULL: the corpus has none, which is an error where eval.tasks is set. On failure nothing is
 * open. */
enum status eval_tasks_open(struct eval_tasks *tasks, const struct config *config,
                            const struct tokenizer *tokenizer, const struct progress *progress,
                            struct err *err);
void eval_tasks_close(struct eval_tasks *tasks); /* harmless on a zeroed struct */

/* Of all files; 0: there are none. */
int64_t eval_tasks_checksum(const struct eval_tasks *tasks);

/* Once the network is open. */
enum status eval_tasks_ready(struct eval_tasks *tasks, struct network *network,
                             const struct tokenizer *tokenizer, struct err *err);

/* Adds the measures of every file to `out`: NaN if a likelihood is not a number. Uses slot 0 of the cache.
 * `leave` is asked before each question: if true, files without all answers give no measure, and the status
 * is STATUS_INTERRUPTED. */
enum status eval_tasks_measure(struct eval_tasks *tasks, bool (*leave)(void *context), void *context,
                               struct measures *out, struct err *err);

#endif
