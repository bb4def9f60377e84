/* anneal evaluate --data for a classifier: loss, accuracy, macro F1, the scores of each class and the
 * confusion matrix on labelled texts, by the task that training evaluates with. All texts are packed into
 * rows and read once; the loss has no class weights. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/train/task.h"
#include "tui/command/class_scores.h"
#include "tui/command/evaluation.h"

enum { BATCH_TOKENS = 2048, LENGTH_MAX = 1024 };

struct judging {
    struct config config; /* of a run that only validates */
    struct corpus corpus; /* the tokenizer */
    struct task_data *data;
    uint64_t rows, row; /* all that are read, and how many of them have been */
    struct measures measures;
};

static enum status take(char out[CONFIG_TEXT_MAX], const char *text, struct err *err)
{
    if (snprintf(out, CONFIG_TEXT_MAX, "%s", text) < CONFIG_TEXT_MAX) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%.80s…: is longer than %d bytes", text, CONFIG_TEXT_MAX - 1);
}

static enum status configure(const struct evaluation *e, struct judging *j, struct err *err)
{
    const struct evaluate_options *o = e->options;
    const struct model_config *sizes = &e->loaded.model.config;
    struct config *c = &j->config;
    int most = sizes->max_seq_len;
    if (o->length > most)
        return err_set(err, STATUS_USAGE, "--seq-len %" PRId64 ": the model takes at most %d tokens",
                       o->length, most);
    config_init(c);
    c->model.sizes = *sizes;
    c->data.format = FORMAT_LABELS;
    c->data.too_long = TOO_LONG_CUT;
    c->classifier.pooling = sizes->pooling;
    c->train.seq_len = o->length ? o->length : most < LENGTH_MAX ? most : LENGTH_MAX;
    c->train.batch_size = c->train.seq_len < BATCH_TOKENS ? BATCH_TOKENS / c->train.seq_len : 1;
    enum status status = take(c->data.train, "", err);
    if (!status) status = take(c->data.val, o->data, err);
    if (!status) status = take(c->data.text_column, o->column ? o->column : "text", err);
    if (!status) status = take(c->data.label_column, o->label_column ? o->label_column : "label", err);
    return status ? status : take(c->model.from, e->loaded.labels, err);
}

static enum status open_judging(struct evaluation *e, void *state, struct err *err)
{
    struct judging *j = state;
    const struct config *c = &j->config;
    enum status status = configure(e, j, err);
    if (!status) status = loaded_model_tokenizer(e->loaded.words, &j->corpus.tokenizer, err);
    if (!status) status = classification()->open(&j->config, &j->corpus, e->progress, &j->data, err);
    if (status) return status;
    uint64_t most = (uint64_t)e->options->batches * (uint64_t)c->train.batch_size;
    j->rows = task_examples(j->data, TASK_VALIDATION);
    if (most && most < j->rows) j->rows = most;
    e->total = (uint64_t)task_labels(j->data, TASK_VALIDATION, 0, j->rows);
    e->wish.B = (int)c->train.batch_size;
    e->wish.T = (int)c->train.seq_len;
    e->wish.packed = true;
    return STATUS_OK;
}

static enum status start_judging(struct evaluation *e, void *state, struct err *err)
{
    struct judging *j = state;
    enum status status = classification()->start(j->data, &e->loaded.network, err);
    if (!status) classification()->begin(j->data);
    return status;
}

static const struct measure *find(const struct judging *j, const char *name)
{
    const struct measure *m = j->measures.of;
    while (strcmp(m->name, name) != 0) m++;
    return m;
}

/* A batch. */
static enum status judge_next(struct evaluation *e, void *state, char *suffix, struct err *err)
{
    struct judging *j = state;
    struct network *net = &e->loaded.network;
    uint64_t left = j->rows - j->row, most = (uint64_t)e->wish.B, count = left < most ? left : most;
    struct batch_view batch = task_batch(j->data, TASK_VALIDATION, j->row, (int)count);
    classification()->judge(j->data, net, j->row, batch);
    enum status status = net->backend->stream_wait(net->stream, err);
    if (status) return status;
    j->measures = classification()->measure(j->data);
    if (!isfinite(find(j, "val_loss")->value))
        return err_set(err, STATUS_CORRUPT,
                       "%s: the loss of its data is not a finite number (are the model's weights finite?)",
                       e->folder);
    e->done += (uint64_t)task_labels(j->data, TASK_VALIDATION, j->row, count);
    j->row += count;
    snprintf(suffix, 48, "accuracy %.3f", find(j, "accuracy")->value);
    return STATUS_OK;
}

static void print_judging(const struct evaluation *e, const void *state, struct output *out)
{
    const struct judging *j = state;
    char note[400];
    classification()->note(j->data, note, sizeof note);
    OUTPUT_MEMBERS(out, "data", e->options->data, "about_data", (const char *)note);
    for (int i = 0; i < j->measures.count; i++) {
        const struct measure *m = &j->measures.of[i];
        output_real(out, strcmp(m->name, "val_loss") == 0 ? "loss" : m->name, m->value);
    }
    OUTPUT_MEMBERS(out, "texts", (int64_t)e->done, "of_texts", (int64_t)e->total, "seq_len", e->wish.T,
                   "texts_per_sec", (double)e->done / e->seconds);
    class_scores_print(out, &j->measures.confusion, -1);
}

static void close_judging(void *state)
{
    struct judging *j = state;
    classification()->close(j->data);
    corpus_close(&j->corpus);
}

const struct evaluation_kind evaluation_of_labels = {.unit = "text",
                                                     .doing = "judging",
                                                     .state = sizeof(struct judging),
                                                     .open = open_judging,
                                                     .ready = start_judging,
                                                     .next = judge_next,
                                                     .print = print_judging,
                                                     .close = close_judging};
