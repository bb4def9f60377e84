/* See token_task.h. */
#include "core/train/token_task.h"

#include <inttypes.h>
#include <math.h>

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

enum status token_task_describe(const void *data, struct model *model, struct err *err)
{
    (void)data, (void)model, (void)err;
    return STATUS_OK;
}

enum status token_task_start(void *data, struct network *network, struct err *err)
{
    struct token_task *task = data;
    const struct config_train *c = &task->config->train;
    const struct plan_input *in = &network->plan->input;
    enum status status = STATUS_OK;
    for (int part = 0; !status && part < 2; part++)
        if (task->sources[part].T)
            status = prefetch_open(task->sources[part], in->B, c->async, &task->prefetch[part], err);
    if (!status)
        prefetch_expect_steps(task->prefetch[TASK_TRAINING], in->micro_batches,
                              (uint64_t)(c->batch_size * c->accumulation_steps));
    return status;
}

struct batch_view token_task_batch(void *data, enum task_part part, uint64_t cursor, int count)
{
    const struct token_task *task = data;
    struct prefetched taken = prefetch_take(task->prefetch[part], cursor, count);
    return (struct batch_view){taken.inputs, taken.targets, taken.positions, count,
                               (int)task->config->train.seq_len};
}

struct corpus_mark token_task_mark(const void *data)
{
    return corpus_mark_of(((const struct token_task *)data)->corpus);
}

double token_task_waited(const void *data)
{
    return prefetch_waited(((const struct token_task *)data)->prefetch[TASK_TRAINING]);
}

void token_task_begin(void *data)
{
    struct token_task *task = data;
    task->sum = task->labels = 0;
}

void token_task_judge(void *data, struct network *network, struct batch_view batch)
{
    struct token_task *task = data;
    network_forward(network, batch);
    task->sum += network_loss(network, batch);
    for (int n = 0; n < batch.B * batch.T; n++) task->labels += batch.labels[n] >= 0;
}

void token_task_join(void *data, const struct world *world)
{
    struct token_task *task = data;
    world_sum(world, &task->sum, 1);
    world_sum(world, &task->labels, 1);
}

struct measures token_task_measure(const void *data)
{
    const struct token_task *task = data;
    double mean = task->sum / fmax(1, task->labels);
    return (struct measures){.count = 2, .of = {{"val_loss", mean}, {"val_perplexity", exp(mean)}}};
}

double token_task_guess(const void *data)
{
    return log(((const struct token_task *)data)->config->model.sizes.vocab_size);
}
