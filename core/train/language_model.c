/* Language modelling, the task of task.h: sequences of text, or examples of conversations. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/train/task.h"
#include "datasets/documents.h"
#include "datasets/examples.h"
#include "datasets/mixture.h"

/* The sources of one part of the data: of a mixture several. */
struct part {
    struct split splits[MIXTURE_SOURCES_MAX];
    struct document_rows documents[MIXTURE_SOURCES_MAX]; /* in place of the splits, if they are packed */
    struct batch_source batches[MIXTURE_SOURCES_MAX];    /* of these */
    const struct corpus_source *of; /* (count) their names and weights; NULL: the only one has none */
    int count;
    struct mixture mixture; /* of several */
};

struct language_model {
    struct task_data base;
    struct part parts[2];            /* of text */
    struct example_rows examples[2]; /* by part, of conversations */
    struct judged {                  /* of an evaluation */
        double sum, labels;
    } judged[MIXTURE_SOURCES_MAX];
    int32_t *masked;                     /* (B,T) labels of one source alone */
    char names[MIXTURE_SOURCES_MAX][64]; /* of their losses */
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
static enum status check_labels(const struct language_model *m, enum task_part number, int source,
                                struct err *err)
{
    const struct config *c = m->base.config;
    const struct batch_source *batches = &m->parts[number].batches[source];
    uint64_t sequences = batches->rows, most = (uint64_t)(c->eval.batches * c->train.batch_size);
    const char *where = *c->data.val ? "data.val" : "the validation split (data.val_fraction)";
    if (number == TASK_TRAINING)
        where = "the training split";
    else if (most && most < sequences)
        sequences = most;
    if (!sequences || batch_source_counts(batches, sequences)) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "data.padding = %" PRId64 ": all labels of the first %" PRIu64
        " sequence%s of %s are padding, so there is no loss to compute (set data.padding to the id "
        "that pads sequences, or look at the data)",
        c->data.padding, sequences, text_plural((int64_t)sequences), where);
}

/* Opens source `i`, which is `corpus`, of a part and of the one that holds out `fraction` of it. */
static enum status open_source(const struct config *c, const struct corpus *corpus, int i, double fraction,
                               enum shuffle shuffle, struct part *part, struct part *held, struct err *err)
{
    const struct split_rule rule = {c->data.val_split, fraction, (int)c->train.seq_len,
                                    (uint64_t)c->train.seed, shuffle};
    uint32_t end;
    enum status status;
    if (c->data.documents == DOCUMENTS_PACKED) {
        struct document_rows *a = &part->documents[i], *b = &held->documents[i];
        status = documents_end(corpus, c->data.end_token, &end, err);
        if (!status) status = document_rows_open(corpus, end, &rule, a, b, err);
        if (status) return status;
        a->padding = b->padding = c->data.padding;
        part->batches[i] = document_rows_source(a);
        held->batches[i] = document_rows_source(b);
        return STATUS_OK;
    }
    struct split *a = &part->splits[i], *b = &held->splits[i];
    status = split_corpus(corpus, &rule, a, b, err);
    if (status) return status;
    a->padding = b->padding = c->data.padding;
    part->batches[i] = split_source(a);
    held->batches[i] = split_source(b);
    return STATUS_OK;
}

static void close_part(struct part *part)
{
    for (int i = 0; i < MIXTURE_SOURCES_MAX; i++) {
        split_release(&part->splits[i]);
        document_rows_close(&part->documents[i]);
    }
    mixture_close(&part->mixture);
}

/* Opens all sources of a corpus, which `key` = `value` names. */
static enum status open_sources(const struct config *c, const char *key, const char *value,
                                const struct corpus *corpus, double fraction, enum shuffle shuffle,
                                struct part *part, struct part *held, struct err *err)
{
    enum status status = STATUS_OK;
    part->count = corpus->source_count ? (int)corpus->source_count : 1;
    part->of = corpus->sources;
    for (int i = 0; !status && i < part->count; i++) {
        struct corpus source = corpus_of_source(corpus, (size_t)i);
        status = open_source(c, &source, i, fraction, shuffle, part, held, err);
        if (status && part->of) err_prefix(err, "%s, a source of the mixture", part->of[i].name);
    }
    return status ? err_prefix(err, "%s = %.120s", key, CLEAN_LINE(value)) : STATUS_OK;
}

/* Without separate validation data, each source holds out a part of itself. Separate data is read in the
 * order of its files; documents of it in random order, since the first of them in packed rows are the
 * longest. */
static enum status open_parts(struct language_model *m, struct err *err)
{
    const struct config *c = m->base.config;
    const struct corpus *corpus = m->base.corpus, *own = corpus->validation;
    struct part *train = &m->parts[TASK_TRAINING], *held = &m->parts[TASK_VALIDATION];
    enum shuffle order = c->data.documents == DOCUMENTS_PACKED ? SHUFFLE_RANDOM : SHUFFLE_NONE;
    if (own) {
        struct part none = {0};
        enum status status =
            open_sources(c, "data.train", c->data.train, corpus, 0, c->data.shuffle, train, &none, err);
        if (status) return status;
        return open_sources(c, "data.val", c->data.val, own, 0, order, held, &none, err);
    }
    enum status status = open_sources(c, "data.train", c->data.train, corpus, c->data.val_fraction,
                                      c->data.shuffle, train, held, err);
    held->count = train->count;
    held->of = train->of;
    return status;
}

/* The batches of a part: of its only source, or mixed. */
static enum status mix(struct language_model *m, enum task_part number, struct err *err)
{
    const struct config *c = m->base.config;
    struct part *part = &m->parts[number];
    const struct batch_source *sources = part->batches;
    double weights[MIXTURE_SOURCES_MAX];
    uint64_t most = (uint64_t)(c->eval.batches * c->train.batch_size); /* of an evaluation; 0: all */
    enum status status = STATUS_OK;
    for (int i = 0; i < part->count; i++) weights[i] = part->of ? part->of[i].weight : 1;
    m->base.sources[number] = sources[0];
    if (!part->of || !sources[0].rows) return STATUS_OK; /* nothing is held out */
    if (number == TASK_VALIDATION && most && most < (uint64_t)part->count)
        return err_set(err, STATUS_USAGE,
                       "eval.batches = %" PRId64 ": with train.batch_size = %" PRId64
                       " an evaluation has %" PRIu64 " row%s, fewer than the %d sources of validation data "
                       "(raise eval.batches)",
                       c->eval.batches, c->train.batch_size, most, text_plural((int64_t)most), part->count);
    if (number == TASK_TRAINING)
        status = mixture_open_training(sources, weights, part->count, &part->mixture, err);
    else
        mixture_open_validation(sources, weights, part->count, most, &part->mixture);
    if (!status) m->base.sources[number] = mixture_batches(&part->mixture);
    return status ? err_prefix(err, "data.train") : STATUS_OK;
}

static enum status open_text(struct language_model *m, struct err *err)
{
    enum status status = open_parts(m, err);
    for (int number = 0; !status && number < 2; number++) {
        struct part *part = &m->parts[number];
        for (int i = 0; !status && m->base.config->data.padding >= 0 && i < part->count; i++)
            status = check_labels(m, (enum task_part)number, i, err);
        for (int i = 0; part->of && i < part->count; i++)
            snprintf(m->names[i], sizeof m->names[i], "val_loss_%s", part->of[i].name);
        if (!status) status = mix(m, (enum task_part)number, err);
    }
    return status;
}

static enum status open_examples(struct language_model *m, struct err *err)
{
    const struct config *c = m->base.config;
    const struct split_rule rule = {c->data.val_split, c->data.val_fraction, (int)c->train.seq_len,
                                    (uint64_t)c->train.seed, c->data.shuffle};
    enum status status = example_rows_open(m->base.corpus, &rule, c->data.too_long == TOO_LONG_REFUSE,
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
        close_part(&m->parts[part]);
        example_rows_close(&m->examples[part]);
    }
    free(m->masked);
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

static enum status lm_start(struct task_data *data, struct network *network, struct err *err)
{
    struct language_model *m = (struct language_model *)data;
    const struct plan_input *in = &network->plan->input;
    if (m->parts[TASK_VALIDATION].of) {
        m->masked = malloc((size_t)in->B * (size_t)in->T * sizeof *m->masked);
        if (!m->masked) return err_no_memory(err, "an evaluation");
    }
    return task_start_batches(data, network, err);
}

static void lm_begin(struct task_data *data)
{
    struct language_model *m = (struct language_model *)data;
    memset(m->judged, 0, sizeof m->judged);
}

/* Adds the losses of the labels to what is judged of a source. */
static void judge_source(struct language_model *m, int source, struct network *network,
                         struct batch_view batch)
{
    struct judged *judged = &m->judged[source];
    double labels = 0;
    for (int n = 0; n < batch.B * batch.T; n++) labels += batch.labels[n] >= 0;
    if (!labels) return;
    judged->sum += network_loss(network, batch);
    judged->labels += labels;
}

/* A batch seldom has rows of more than one source. */
static void lm_judge(struct task_data *data, struct network *network, uint64_t cursor,
                     struct batch_view batch)
{
    struct language_model *m = (struct language_model *)data;
    const struct part *part = &m->parts[TASK_VALIDATION];
    const int32_t *labels = batch.labels;
    size_t T = (size_t)batch.T;
    network_forward(network, batch);
    if (!part->of) {
        judge_source(m, 0, network, batch);
        return;
    }
    batch.labels = m->masked;
    for (int s = 0; s < part->count; s++) {
        for (size_t b = 0; b < (size_t)batch.B; b++) {
            uint64_t index;
            bool own = mixture_source_of(&part->mixture, cursor + b, &index) == s;
            for (size_t n = b * T; n < (b + 1) * T; n++) m->masked[n] = own ? labels[n] : LABEL_IGNORED;
        }
        judge_source(m, s, network, batch);
    }
}

static void lm_join(struct task_data *data, const struct world *world)
{
    struct language_model *m = (struct language_model *)data;
    int count = m->parts[TASK_VALIDATION].count;
    for (int s = 0; s < (count ? count : 1); s++) {
        world_sum(world, &m->judged[s].sum, 1);
        world_sum(world, &m->judged[s].labels, 1);
    }
}

static struct measures lm_measure(const struct task_data *data)
{
    const struct language_model *m = (const struct language_model *)data;
    const struct part *part = &m->parts[TASK_VALIDATION];
    struct measures measures = {.count = 2};
    double sum = 0, weights = 0;
    for (int s = 0; s < (part->count ? part->count : 1); s++) {
        const struct judged *judged = &m->judged[s];
        double weight = part->of ? part->of[s].weight : 1, mean = judged->sum / fmax(1, judged->labels);
        if (part->of && !judged->labels) mean = NAN; /* all that it was judged on is padding */
        if (part->of) measures.of[measures.count++] = (struct measure){m->names[s], mean};
        if (part->of && !judged->labels) continue;
        sum += weight * mean;
        weights += weight;
    }
    double mean = part->of ? sum / weights : sum;
    measures.of[0] = (struct measure){"val_loss", mean};
    measures.of[1] = (struct measure){"val_perplexity", exp(mean)};
    return measures;
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
    uint64_t count = train->count, rows = train->packing.rows;
    snprintf(buf, size, "%" PRIu64 " conversation%s in %" PRIu64 " row%s, %" PRIu64 " to validate on", count,
             text_plural((int64_t)count), rows, text_plural((int64_t)rows), held->count);
    if (cut)
        text_add(buf, size, "; ", "%" PRIu64 " longer than train.seq_len = %d %s cut", cut, train->T,
                 cut == 1 ? "is" : "are");
    if (empty)
        text_add(buf, size, "; ", "%" PRIu64 " %s left out, as no answer begins within that", empty,
                 empty == 1 ? "is" : "are");
}

static void note_documents(const struct part parts[2], char *buf, size_t size)
{
    uint64_t documents[2] = {0}, rows = 0;
    for (int part = 0; part < 2; part++)
        for (int i = 0; i < parts[part].count; i++) documents[part] += parts[part].documents[i].documents;
    for (int i = 0; i < parts->count; i++) rows += parts->batches[i].rows;
    snprintf(buf, size, "%" PRIu64 " document%s in %" PRIu64 " row%s, %" PRIu64 " to validate on",
             documents[0], text_plural((int64_t)documents[0]), rows, text_plural((int64_t)rows),
             documents[1]);
}

/* "a mixture: 70 % books (1200 sequences, 0.5 times), 30 % code (80 sequences, 3.2 times)" */
static void note_mixture(const struct part *train, const struct config *c, char *buf, size_t size)
{
    double rows = (double)c->train.batch_size * config_micro_batches_sum(c, c->train.total_steps);
    text_add(buf, size, "; ", "a mixture:");
    for (int i = 0; i < train->count; i++) {
        double share = (double)train->mixture.quotas[i] / MIXTURE_PERIOD;
        uint64_t own = train->mixture.sources[i].rows;
        text_add(buf, size, i ? "," : "", " %.4g %% %s (%" PRIu64 " sequence%s, %.3g times)", 100 * share,
                 train->of[i].name, own, text_plural((int64_t)own), share * rows / (double)own);
    }
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
    const struct part *parts = ((const struct language_model *)data)->parts;
    if (data->config->data.documents == DOCUMENTS_PACKED) note_documents(parts, buf, size);
    if (parts->of) note_mixture(parts, data->config, buf, size);
    if (*buf) return;
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
                                     .start = lm_start,
                                     .mark = lm_mark,
                                     .begin = lm_begin,
                                     .judge = lm_judge,
                                     .join = lm_join,
                                     .measure = lm_measure,
                                     .guess = lm_guess,
                                     .note = lm_note};
    return &task;
}
