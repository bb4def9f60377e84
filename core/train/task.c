/* See task.h. The common part of all tasks. */
#include "core/train/task.h"

#include <inttypes.h>

enum status task_check_tokenizer(const struct config *c, const struct corpus *corpus, struct err *err)
{
    int V = c->model.sizes.vocab_size;
    int needed = corpus->tokenizer ? tokenizer_vocab_size(corpus->tokenizer) : 0;
    if (needed <= V) return STATUS_OK;
    if (*c->model.from)
        return err_set(
            err, STATUS_USAGE,
            "the tokenizer has %d tokens, but the model of model.from has rows for %d (take the "
            "model's own tokenizer; tokens that were added to it without rows must be removed from "
            "added_tokens of tokenizer.json)",
            needed, V);
    return err_set(err, STATUS_USAGE,
                   "model.vocab_size = %d is smaller than the tokenizer's %d (set it to at least %d)", V,
                   needed, needed);
}

enum status task_start_batches(struct task_data *data, struct network *network, struct err *err)
{
    bool async = data->config->train.async;
    const struct plan_input *in = &network->plan->input;
    int V = in->model->config.vocab_size, classes = in->model->config.num_labels;
    for (int part = 0; part < 2; part++) {
        if (!data->sources[part].rows) continue;
        enum status status = prefetch_open(data->sources[part], in->B, async, &data->prefetch[part], err);
        if (status) return status;
        prefetch_expect_ids(data->prefetch[part], V, classes ? classes : V);
    }
    return STATUS_OK;
}

enum status task_check_batches(const struct task_data *data, struct err *err)
{
    for (int part = 0; part < 2; part++) {
        int64_t id = data->prefetch[part] ? prefetch_strange_id(data->prefetch[part]) : -1;
        bool apart = part == TASK_VALIDATION && *data->config->data.val;
        if (id >= 0)
            return err_set(err, STATUS_CORRUPT,
                           "%s: has the token %" PRId64
                           " now, which the model does not know: a file was changed while it was trained on "
                           "(restore it, then resume the run)",
                           apart ? "data.val" : "data.train", id);
    }
    return STATUS_OK;
}

void task_close_batches(struct task_data *data)
{
    for (int part = 0; part < 2; part++) prefetch_close(data->prefetch[part]);
}

double task_labels(const struct task_data *data, enum task_part part, uint64_t cursor, uint64_t examples)
{
    const struct batch_source *source = &data->sources[part];
    return source->labels(source->context, cursor, examples);
}

struct batch_view task_batch(struct task_data *data, enum task_part part, uint64_t cursor, int count)
{
    struct prefetched taken = prefetch_take(data->prefetch[part], cursor, count);
    return (struct batch_view){taken.inputs, taken.targets, taken.positions, count, data->sources[part].T};
}
