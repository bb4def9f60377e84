/* Classification, the task of task.h. Texts are packed into rows of train.seq_len tokens; such a row is an
 * example of the task. The label of a text is the target of the token that it is judged by; no other token
 * has one. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/confusion.h"
#include "core/base/text.h"
#include "core/generate/classifier.h"
#include "core/model/data_format.h"
#include "core/model/generation_config.h"
#include "core/model/hugging_face.h"
#include "core/train/task.h"
#include "datasets/batch.h"
#include "datasets/labelled.h"
#include "datasets/packing.h"

/* The rows of a part. */
struct rows {
    const struct classification *of;
    const struct labelled_example *texts; /* of the part */
    uint32_t *lengths;                    /* of the texts, owned */
    struct packing packing;
};

struct classification {
    struct task_data base;
    struct labelled data;
    int classes;
    int *number;    /* (label_count): the class of each label of the data, owned */
    char **names;   /* (classes), in data.arena */
    float *weights; /* (classes), owned */
    int pad_token;  /* of the classifier; -1: none */
    int followed;   /* the class whose score eval.metric names; -1: it names another measure */
    enum class_score score;
    char metric[CONFIG_TEXT_MAX]; /* the measure of that score */
    struct rows rows[2];          /* by part */

    /* an evaluation */
    struct classifier classifier;
    double loss, weight;    /* sums over its texts */
    int64_t *counts;        /* (classes, classes), owned */
    const int32_t *targets; /* of the batch that is being judged */
};

/* ---- the classes: those of the data, or of the classifier that training starts from ---- */

static enum status take_names(struct classification *m, const char *const *names, int count, struct err *err)
{
    m->classes = count;
    m->names = arena_alloc_array(&m->data.arena, (size_t)count, sizeof *m->names);
    bool copied = m->names != NULL;
    for (int i = 0; copied && i < count; i++) copied = (m->names[i] = arena_strdup(&m->data.arena, names[i]));
    return copied ? STATUS_OK : err_no_memory(err, "%d labels", count);
}

static int find_name(const struct classification *m, const char *name)
{
    for (int i = 0; i < m->classes; i++)
        if (strcmp(m->names[i], name) == 0) return i;
    return -1;
}

/* The classes of the model in `folder`, if it is a classifier: then the data may have no others. */
static enum status adopt_classes(struct classification *m, const char *folder, struct err *err)
{
    struct model model = {0};
    if (hugging_face_read_config(folder, &model.config, NULL) || !model.config.num_labels) return STATUS_OK;
    enum status status = hugging_face_read_classes(folder, &model, err);
    if (!status) status = take_names(m, model.classes.names, model.config.num_labels, err);
    if (!status) m->pad_token = model.classes.pad_token;
    for (int i = 0; !status && i < m->data.label_count; i++)
        if (find_name(m, m->data.names[i]) < 0)
            status = err_set(
                err, STATUS_USAGE,
                "the data have the label \"%.60s\", which the classifier %.200s does not know (correct "
                "it, or train a classifier that has it from a language model)",
                CLEAN_LINE(m->data.names[i]), folder);
    model_release(&model);
    return status;
}

static enum status settle_classes(struct classification *m, struct config *c, struct err *err)
{
    enum status status = *c->lora.from ? adopt_classes(m, c->lora.from, err) : STATUS_OK;
    if (!status && !m->names && *c->model.from) status = adopt_classes(m, c->model.from, err);
    if (!status && !m->names)
        status = take_names(m, (const char *const *)m->data.names, m->data.label_count, err);
    m->number = calloc((size_t)m->data.label_count, sizeof *m->number);
    m->counts = calloc((size_t)m->classes * (size_t)m->classes, sizeof *m->counts);
    m->weights = calloc((size_t)m->classes, sizeof *m->weights);
    if (!status && (!m->number || !m->counts || !m->weights))
        status = err_no_memory(err, "the confusion of %d labels", m->classes);
    for (int i = 0; !status && i < m->data.label_count; i++) m->number[i] = find_name(m, m->data.names[i]);
    c->model.sizes.num_labels = m->classes;
    c->model.sizes.pooling = c->classifier.pooling;
    return status;
}

/* The class that eval.metric means by `label`: the one of that name, else the only one whose plain name that
 * is. */
static enum status find_followed(const struct classification *m, const char *label, int *out, struct err *err)
{
    const char *metric = m->base.config->eval.metric;
    char name[CONFIG_TEXT_MAX], known[160] = "";
    int plain = -1, exact = find_name(m, label);
    for (int k = 0; exact < 0 && k < m->classes; k++) {
        text_add(known, sizeof known, ", ", "%s", CLEAN_LINE(m->names[k]));
        text_plain_name(m->names[k], strlen(m->names[k]), name, sizeof name);
        if (strcmp(label, name) != 0) continue;
        if (plain >= 0)
            return err_set(
                err, STATUS_USAGE,
                "eval.metric = %.100s: \"%.60s\" may be the label \"%.60s\" or \"%.60s\" (write the "
                "label as it is in the data)",
                metric, label, CLEAN_LINE(m->names[plain]), CLEAN_LINE(m->names[k]));
        plain = k;
    }
    *out = exact >= 0 ? exact : plain;
    if (*out >= 0) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "eval.metric = %.100s: there is no label \"%.60s\", only %s", metric,
                   label, known);
}

/* eval.metric may name a score of one class, such as recall.spam: those of all classes would be too many
 * measures, and the store has them in a table of their own. */
static enum status settle_metric(struct classification *m, struct err *err)
{
    const char *metric = m->base.config->eval.metric, *label;
    m->followed = -1;
    m->score = class_score_read(metric, &label);
    class_score_measure(metric, m->metric, sizeof m->metric);
    return m->score ? find_followed(m, label, &m->followed, err) : STATUS_OK;
}

/* A token that no text has, or that ends one: of the model that training starts from, or a byte that is never
 * part of UTF-8. */
static int pad_token_of(const struct config *c, const struct tokenizer *tokenizer)
{
    struct special_tokens tokens;
    if (*c->model.from && !special_tokens_read(c->model.from, &tokens, NULL)) {
        if (tokens.pad >= 0) return (int)tokens.pad;
        if (tokens.eos_count) return (int)tokens.eos[0];
    }
    for (int id = 0; id < tokenizer_vocab_size(tokenizer); id++) {
        size_t n;
        const char *bytes = tokenizer_token_bytes(tokenizer, (uint32_t)id, &n);
        if (n == 1 && (unsigned char)*bytes == 0xFF) return id;
    }
    return -1;
}

/* ---- class weights ---- */

static void balance(struct classification *m)
{
    double *share = calloc((size_t)m->classes, sizeof *share);
    int present = 0;
    for (size_t i = 0; share && i < m->data.training; i++) share[m->number[m->data.examples[i].label]]++;
    for (int k = 0; share && k < m->classes; k++) present += share[k] > 0;
    for (int k = 0; k < m->classes; k++)
        m->weights[k] = share && share[k] > 0 ? (float)((double)m->data.training / (present * share[k])) : 1;
    free(share);
}

/* Cuts the next item off a list with commas between, as strsep does; a backslash before a comma makes it part
 * of the item. */
static char *next_item(char **rest)
{
    char *item = *rest, *to = item, *from = item;
    if (!item) return NULL;
    for (; *from && *from != ','; from++) {
        if (*from == '\\' && from[1] == ',') from++;
        *to++ = *from;
    }
    *rest = *from ? from + 1 : NULL;
    *to = '\0';
    return item;
}

/* One of "label:weight". */
static enum status read_weight(struct classification *m, char *item, bool *given, struct err *err)
{
    while (*item == ' ') item++;
    char *colon = strrchr(item, ':');
    double weight = 0;
    if (colon) *colon = '\0';
    int k = find_name(m, item);
    if (!colon || !text_parse_double(colon + 1 + strspn(colon + 1, " "), &weight) || !(weight > 0) ||
        !isfinite((float)weight))
        return err_set(
            err, STATUS_USAGE,
            "classifier.weights: \"%.60s\" must be a label and a positive weight, as in ham:1,spam:3 (a "
            "comma in a label is written \\,); or none, or balanced",
            item);
    if (k < 0) return err_set(err, STATUS_USAGE, "classifier.weights: there is no label \"%.60s\"", item);
    m->weights[k] = (float)weight;
    given[k] = true;
    return STATUS_OK;
}

static enum status settle_weights(struct classification *m, struct err *err)
{
    const char *words = m->base.config->classifier.weights;
    for (int k = 0; k < m->classes; k++) m->weights[k] = 1;
    if (!*words || strcmp(words, "none") == 0) return STATUS_OK;
    if (strcmp(words, "balanced") == 0) {
        balance(m);
        return STATUS_OK;
    }
    char *copy = strdup(words), *rest = copy;
    bool *given = calloc((size_t)m->classes, sizeof *given);
    enum status status =
        copy && given ? STATUS_OK : err_no_memory(err, "the weights of %d labels", m->classes);
    for (char *item; !status && (item = next_item(&rest));) status = read_weight(m, item, given, err);
    for (int k = 0; !status && k < m->classes; k++)
        if (!given[k])
            status = err_set(err, STATUS_USAGE, "classifier.weights: the label \"%.60s\" has no weight",
                             CLEAN_LINE(m->names[k]));
    free(copy);
    free(given);
    return status;
}

/* ---- rows ---- */

static double weigh(const void *context, uint64_t text)
{
    const struct rows *rows = context;
    return rows->of->weights[rows->of->number[rows->texts[text].label]];
}

static void fill(const void *context, uint64_t text, int32_t *inputs, int32_t *labels)
{
    const struct rows *rows = context;
    const struct classification *m = rows->of;
    const struct labelled_example *e = &rows->texts[text];
    const uint32_t *ids = m->data.ids.ids + e->first;
    enum pooling pooling = m->base.config->model.sizes.pooling;
    labels[classifier_place(pooling, m->pad_token, ids, e->count)] = m->number[e->label];
    for (int t = 0; t < e->count; t++) inputs[t] = (int32_t)ids[t];
}

static enum status open_rows(struct classification *m, enum task_part part, struct err *err)
{
    const struct config *c = m->base.config;
    struct rows *rows = &m->rows[part];
    size_t from = part == TASK_TRAINING ? 0 : m->data.training,
           count = part == TASK_TRAINING ? m->data.training : m->data.example_count - from;
    rows->of = m;
    rows->texts = m->data.examples + from;
    rows->lengths = malloc(count * sizeof *rows->lengths + 1);
    if (!rows->lengths) return err_no_memory(err, "%zu texts", count);
    for (size_t i = 0; i < count; i++) rows->lengths[i] = (uint32_t)rows->texts[i].count;
    if (!count) return STATUS_OK;
    /* validation: the first batches must be a sample of all labels and lengths, whatever the file's order */
    enum status status =
        packing_open(rows->lengths, count, (int)c->train.seq_len, (uint64_t)c->train.seed,
                     part == TASK_TRAINING ? c->data.shuffle : SHUFFLE_RANDOM, &rows->packing, err);
    if (!status) m->base.sources[part] = packing_source(&rows->packing, (struct packed){rows, fill, weigh});
    return status;
}

/* ---- opening ---- */

static void cl_close(struct task_data *data)
{
    struct classification *m = (struct classification *)data;
    if (!m) return;
    task_close_batches(data);
    for (int part = 0; part < 2; part++) {
        packing_close(&m->rows[part].packing);
        free(m->rows[part].lengths);
    }
    classifier_close(&m->classifier);
    free(m->number);
    free(m->weights);
    free(m->counts);
    labelled_release(&m->data);
    free(m);
}

static enum status cl_open(struct config *c, const struct corpus *corpus, const struct progress *progress,
                           struct task_data **out, struct err *err)
{
    struct classification *m = calloc(1, sizeof *m);
    if (!m) return err_no_memory(err, "the labelled texts");
    m->base.config = c;
    m->base.corpus = corpus;
    m->pad_token = -1;
    bool evaluates = !*c->data.train;
    struct labelled_wish wish = {.text_column = c->data.text_column,
                                 .label_column = c->data.label_column,
                                 .tokenizer = corpus->tokenizer,
                                 .longest = (int)c->train.seq_len,
                                 .truncate = c->data.too_long == TOO_LONG_CUT,
                                 .least_labels = evaluates ? 1 : format_traits(c->data.format)->least_labels,
                                 .progress = progress};
    enum status status = task_check_tokenizer(c, corpus, err);
    if (!status) status = labelled_open(&m->data, evaluates ? c->data.val : c->data.train, &wish, err);
    if (!status && evaluates)
        m->data.training = 0;
    else if (!status)
        status =
            labelled_split(&m->data, c->data.val, c->data.val_fraction, (uint64_t)c->train.seed, &wish, err);
    if (!status) status = settle_classes(m, c, err);
    if (!status) status = settle_weights(m, err);
    if (!status) status = settle_metric(m, err);
    for (int part = 0; !status && part < 2; part++) status = open_rows(m, (enum task_part)part, err);
    if (status) {
        cl_close(&m->base);
        return status;
    }
    if (m->pad_token < 0 && !evaluates) m->pad_token = pad_token_of(c, corpus->tokenizer);
    *out = &m->base;
    return STATUS_OK;
}

static enum status cl_describe(const struct task_data *data, struct model *model, struct err *err)
{
    const struct classification *m = (const struct classification *)data;
    struct classes classes = {(const char **)m->names, m->pad_token};
    return model_set_classes(model, &classes, err);
}

static enum status cl_start(struct task_data *data, struct network *network, struct err *err)
{
    struct classification *m = (struct classification *)data;
    network_weigh_classes(network, m->weights);
    enum status status = classifier_open(&m->classifier, network, err);
    return status ? status : task_start_batches(data, network, err);
}

static struct corpus_mark cl_mark(const struct task_data *data)
{
    const struct classification *m = (const struct classification *)data;
    return (struct corpus_mark){.tokens = m->data.ids.count,
                                .checksum = m->data.checksum,
                                .tokenizer = tokenizer_checksum(m->base.corpus->tokenizer),
                                .learned = m->base.corpus->learned};
}

/* ---- evaluations ---- */

static void cl_begin(struct task_data *data)
{
    struct classification *m = (struct classification *)data;
    m->loss = m->weight = 0;
    memset(m->counts, 0, (size_t)m->classes * (size_t)m->classes * sizeof *m->counts);
}

static void judge_text(void *context, int row, const float *logits)
{
    struct classification *m = context;
    int best = 0, target = m->targets[row];
    double sum = 0;
    for (int k = 1; k < m->classes; k++)
        if (logits[k] > logits[best]) best = k;
    for (int k = 0; k < m->classes; k++) sum += exp((double)logits[k] - logits[best]);
    m->loss += m->weights[target] * (log(sum) + logits[best] - logits[target]);
    m->weight += m->weights[target];
    m->counts[(size_t)target * (size_t)m->classes + (size_t)best]++;
}

static void cl_judge(struct task_data *data, struct network *network, uint64_t cursor,
                     struct batch_view batch)
{
    struct classification *m = (struct classification *)data;
    (void)network, (void)cursor; /* the classifier has the network */
    m->targets = batch.labels;
    classifier_run(&m->classifier, batch, judge_text, m);
}

static void cl_join(struct task_data *data, const struct world *world)
{
    struct classification *m = (struct classification *)data;
    size_t cells = (size_t)m->classes * (size_t)m->classes;
    world_sum(world, &m->loss, 1);
    world_sum(world, &m->weight, 1);
    for (size_t at = 0, n; world->size > 1 && at < cells; at += n) {
        double piece[64];
        n = cells - at < 64 ? cells - at : 64;
        for (size_t i = 0; i < n; i++) piece[i] = (double)m->counts[at + i];
        world_sum(world, piece, n);
        for (size_t i = 0; i < n; i++) m->counts[at + i] = (int64_t)piece[i];
    }
}

static struct measures cl_measure(const struct task_data *data)
{
    const struct classification *m = (const struct classification *)data;
    struct confusion confusion = {m->classes, m->counts, (const char *const *)m->names};
    struct class_scores macro = confusion_macro(&confusion), of = {0};
    if (m->followed >= 0) of = confusion_scores(&confusion, m->followed);
    struct measures out = {.count = m->followed < 0 ? 5 : 6,
                           .of = {{"val_loss", m->loss / (m->weight > 0 ? m->weight : 1)},
                                  {"accuracy", confusion_accuracy(&confusion)},
                                  {"macro_f1", macro.f1},
                                  {"macro_precision", macro.precision},
                                  {"macro_recall", macro.recall},
                                  {m->metric, m->score == SCORE_F1          ? of.f1
                                              : m->score == SCORE_PRECISION ? of.precision
                                                                            : of.recall}},
                           .confusion = confusion};
    if (isfinite(m->loss)) return out;
    out.confusion.classes = 0; /* logits without meaning give no answer */
    for (int i = 1; i < out.count; i++) out.of[i].value = NAN;
    return out;
}

static double cl_guess(const struct task_data *data)
{
    return log(((const struct classification *)data)->classes);
}

/* " (ham 900, spam 100)": how many of the first `texts` have each label. Writes nothing if the labels are
 * many or long. */
static void list_labels(FILE *out, const struct labelled *data, size_t texts)
{
    enum { LISTED = 8, LENGTH = 32 };
    size_t counts[LISTED] = {0};
    if (data->label_count > LISTED) return;
    for (int i = 0; i < data->label_count; i++)
        if (strlen(data->names[i]) > LENGTH) return;
    for (size_t i = 0; i < texts; i++) counts[data->examples[i].label]++;
    for (int i = 0; i < data->label_count; i++)
        fprintf(out, "%s%s %zu", i ? ", " : " (", CLEAN_LINE(data->names[i]), counts[i]);
    fputc(')', out);
}

/* How many texts an evaluation reads; *of_followed: how many of them have the label that eval.metric names.
 */
static size_t count_evaluated(const struct classification *m, size_t *of_followed)
{
    const struct labelled_example *all = m->rows[TASK_VALIDATION].texts;
    const struct packing *packing = &m->rows[TASK_VALIDATION].packing;
    uint64_t most = (uint64_t)(m->base.config->eval.batches * m->base.config->train.batch_size);
    uint64_t texts[PACKING_WINDOW];
    size_t count = 0;
    *of_followed = 0;
    for (uint64_t row = 0; row < packing->rows && (!most || row < most); row++) {
        int n = packing_row(packing, row, texts);
        count += (size_t)n;
        for (int k = 0; k < n; k++) *of_followed += m->number[all[texts[k]].label] == m->followed;
    }
    return count;
}

static void cl_note(const struct task_data *data, char *buf, size_t size)
{
    const struct classification *m = (const struct classification *)data;
    const struct labelled_report *r = &m->data.report;
    FILE *out = fmemopen(buf, size, "w");
    *buf = '\0';
    if (!out) return;
    uint64_t rows = m->rows[TASK_TRAINING].packing.rows;
    size_t all = m->data.example_count, training = m->data.training, count = training ? training : all;
    fprintf(out, "%zu text%s with %d label%s", count, text_plural((int64_t)count), m->data.label_count,
            text_plural(m->data.label_count));
    list_labels(out, &m->data, count);
    if (training)
        fprintf(out, " in %" PRIu64 " row%s, %zu text%s to validate on", rows, text_plural((int64_t)rows),
                all - training, text_plural((int64_t)(all - training)));
    size_t of_followed, evaluated = count_evaluated(m, &of_followed);
    if (evaluated < all - training) fprintf(out, " (%zu of them in an evaluation: eval.batches)", evaluated);
    if (training == all && m->base.config->data.val_fraction > 0) fprintf(out, ", as no label has two");
    if (r->truncated)
        fprintf(out, "; %" PRIu64 " longer than %" PRId64 " tokens %s cut, the longest has %" PRIu64,
                r->truncated, m->base.config->train.seq_len, r->truncated == 1 ? "is" : "are", r->longest);
    if (r->empty)
        fprintf(out, "; %" PRIu64 " empty, the first in line %" PRIu64 ", left out", r->empty, r->empty_line);
    if (r->foreign)
        fprintf(out,
                "; %" PRIu64 " not UTF-8, the first in line %" PRIu64
                ", learned byte by byte (Latin-1: iconv -f LATIN1 -t UTF-8)",
                r->foreign, r->foreign_line);
    if (r->conflicts)
        fprintf(out, "; %" PRIu64 " text%s more than once, with different labels", r->conflicts,
                r->conflicts == 1 ? " occurs" : "s occur");
    fclose(out);
}

static void cl_warn(const struct task_data *data, char *buf, size_t size)
{
    const struct classification *m = (const struct classification *)data;
    size_t of_followed;
    if (m->followed < 0 || !count_evaluated(m, &of_followed) || of_followed) return;
    snprintf(buf, size,
             "eval.metric = %.100s: no text that an evaluation reads has this label, so the measure stays 0 "
             "and the first evaluation is the best (data.val or data.val_fraction may give it texts, "
             "eval.batches = 0 reads all)",
             CLEAN_LINE(data->config->eval.metric));
}

const struct task *classification(void)
{
    static const struct task task = {.open = cl_open,
                                     .close = cl_close,
                                     .describe = cl_describe,
                                     .start = cl_start,
                                     .mark = cl_mark,
                                     .begin = cl_begin,
                                     .judge = cl_judge,
                                     .join = cl_join,
                                     .measure = cl_measure,
                                     .guess = cl_guess,
                                     .note = cl_note,
                                     .warn = cl_warn};
    return &task;
}
