/* See examples.h. */
#include "datasets/examples.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- reading the runs ---- */

struct walk {
    const struct corpus *corpus;
    uint64_t at, token; /* the next number of the runs, and the next token */
};

static bool ended(const struct walk *w)
{
    return w->at >= w->corpus->runs->count;
}

/* The next example; false: the runs are damaged. */
static bool next_example(struct walk *w, struct example *out)
{
    const struct token_file *runs = w->corpus->runs;
    uint64_t tokens = w->corpus->files[0].count, number = token_file_id(runs, w->at++), sum = 0;
    if (number == 0 || number > runs->count - w->at) return false;
    for (uint64_t i = 0; i < number; i++) sum += token_file_id(runs, w->at + i);
    if (sum == 0 || sum > INT32_MAX || sum > tokens - w->token) return false;
    *out = (struct example){w->token, w->at, (uint32_t)sum, (uint32_t)number};
    w->at += number;
    w->token += sum;
    return true;
}

enum status examples_check(const struct corpus *corpus, struct err *err)
{
    struct walk w = {.corpus = corpus};
    struct example example;
    bool good = corpus->file_count == 1;
    while (good && !ended(&w)) good = next_example(&w, &example) && example.run_count >= 2;
    if (good && w.token > 0 && w.token == corpus->files[0].count) return STATUS_OK;
    return err_set(err, STATUS_CORRUPT, "%s: does not match %s (remove their folder to prepare them again)",
                   corpus->runs->path, corpus->files[0].path);
}

uint32_t examples_end(const struct corpus *corpus)
{
    uint64_t before = (uint64_t)token_file_id(corpus->runs, 1) + token_file_id(corpus->runs, 2);
    return before ? token_file_id(&corpus->files[0], before - 1) : 0;
}

/* ---- one example ---- */

/* The answers among the first `places` targets of an example: targets [from, to). */
struct answers {
    const struct token_file *runs;
    uint64_t at, end; /* the next run, and the end of the runs */
    uint64_t token;   /* the next token */
    uint64_t places, from, to;
    bool answer; /* whether the next run is one */
};

static struct answers answers_of(const struct example_rows *rows, const struct example *e, uint64_t places)
{
    return (struct answers){
        .runs = rows->corpus->runs, .at = e->runs, .end = e->runs + e->run_count, .places = places};
}

/* Target t is token t + 1. */
static bool next_answer(struct answers *a)
{
    while (a->at < a->end) {
        uint64_t first = a->token, answer = a->answer;
        a->token += token_file_id(a->runs, a->at++);
        a->answer = !answer;
        a->from = first ? first - 1 : 0;
        a->to = a->token ? a->token - 1 : 0;
        if (a->to > a->places) a->to = a->places;
        if (answer && a->from < a->to) return true;
    }
    return false;
}

static uint64_t labels_of(const struct example_rows *rows, const struct example *e, uint64_t places)
{
    struct answers a = answers_of(rows, e, places);
    uint64_t count = 0;
    while (next_answer(&a)) count += a.to - a.from;
    return count;
}

/* ---- the parts ---- */

static enum status add_example(struct example_rows *rows, const struct example *e, uint64_t number,
                               bool refuse, struct err *err)
{
    uint64_t places = e->count - 1, labels = labels_of(rows, e, places), all = labels;
    if (places > (uint64_t)rows->T) {
        if (refuse)
            return err_set(err, STATUS_USAGE,
                           "example %" PRIu64 " has %u tokens, but a row has room for %d (raise "
                           "train.seq_len, or set data.too_long = cut)",
                           number + 1, e->count, rows->T + 1);
        places = (uint64_t)rows->T;
        labels = labels_of(rows, e, places);
        rows->lost += all - labels;
        rows->cut++;
    }
    if (!labels) {
        rows->empty++;
        return STATUS_OK;
    }
    rows->examples[rows->count] = *e;
    rows->lengths[rows->count++] = (uint32_t)places;
    return STATUS_OK;
}

static enum status reserve(struct example_rows *rows, const struct corpus *corpus, uint64_t count,
                           struct err *err)
{
    rows->corpus = corpus;
    rows->examples = malloc((count + 1) * sizeof *rows->examples);
    rows->lengths = malloc((count + 1) * sizeof *rows->lengths);
    return rows->examples && rows->lengths ? STATUS_OK : err_no_memory(err, "%" PRIu64 " examples", count);
}

static uint64_t count_examples(const struct corpus *corpus)
{
    struct walk w = {.corpus = corpus};
    struct example example;
    uint64_t count = 0;
    while (!ended(&w) && next_example(&w, &example)) count++;
    return count;
}

/* Adds the corpus's examples to `train`, or those that are held out to `held`, unless that is NULL. */
static enum status divide(const struct corpus *corpus, const struct split_rule *rule, bool refuse,
                          struct example_rows *train, struct example_rows *held, struct err *err)
{
    uint64_t count = count_examples(corpus);
    struct walk w = {.corpus = corpus};
    struct example e;
    enum status status = reserve(train, corpus, count, err);
    if (!status && held) status = reserve(held, corpus, count, err);
    for (uint64_t i = 0; !status && i < count && next_example(&w, &e); i++) {
        bool out = held && split_holds_out(i, count, rule);
        status = add_example(out ? held : train, &e, i, refuse, err);
    }
    return status;
}

static enum status pack(struct example_rows *rows, uint64_t seed, enum shuffle shuffle, const char *what,
                        struct err *err)
{
    if (rows->count)
        return packing_open(rows->lengths, rows->count, rows->T, seed, shuffle, &rows->packing, err);
    return err_set(
        err, STATUS_USAGE,
        "there are too few examples: none with an answer within the first %d tokens is left for %s "
        "(give more examples%s, or raise train.seq_len)",
        rows->T, what, rows->cut ? "" : ", or set another data.val_fraction");
}

enum status example_rows_open(const struct corpus *corpus, const struct split_rule *rule, bool refuse,
                              struct example_rows *train, struct example_rows *validation, struct err *err)
{
    const struct corpus *own = corpus->validation;
    bool holds = !own && rule->val_fraction > 0;
    *train = *validation = (struct example_rows){.T = rule->seq_len};
    enum status status = divide(corpus, rule, refuse, train, holds ? validation : NULL, err);
    if (!status && own) status = divide(own, rule, refuse, validation, NULL, err);
    if (!status) status = pack(train, rule->seed, rule->shuffle, "training", err);
    if (!status && (own || holds)) /* unshuffled, the longest would come first */
        status = pack(validation, rule->seed, SHUFFLE_RANDOM, "validation", err);
    if (!status) return STATUS_OK;
    example_rows_close(train);
    example_rows_close(validation);
    return status;
}

void example_rows_close(struct example_rows *rows)
{
    packing_close(&rows->packing);
    free(rows->examples);
    free(rows->lengths);
    *rows = (struct example_rows){0};
}

/* ---- rows ---- */

static void fill(const void *context, uint64_t number, int32_t *inputs, int32_t *targets)
{
    const struct example_rows *rows = context;
    const struct token_file *tokens = &rows->corpus->files[0];
    const struct example *e = &rows->examples[number];
    uint64_t places = rows->lengths[number];
    struct answers a = answers_of(rows, e, places);
    for (uint64_t t = 0; t < places; t++) inputs[t] = (int32_t)token_file_id(tokens, e->token + t);
    while (next_answer(&a))
        for (uint64_t t = a.from; t < a.to; t++)
            targets[t] = (int32_t)token_file_id(tokens, e->token + t + 1);
}

void example_rows_single(const struct example_rows *rows, uint64_t number, int32_t *inputs, int32_t *targets,
                         int32_t *positions)
{
    int32_t places = (int32_t)rows->lengths[number];
    for (int32_t t = 0; t < rows->T; t++)
        inputs[t] = 0, targets[t] = LABEL_IGNORED, positions[t] = t < places ? t : t - places;
    fill(rows, number, inputs, targets);
}

static double labels(const void *context, uint64_t number)
{
    const struct example_rows *rows = context;
    return (double)labels_of(rows, &rows->examples[number], rows->lengths[number]);
}

struct batch_source example_rows_source(struct example_rows *rows)
{
    return packing_source(&rows->packing, (struct packed){rows, fill, labels});
}
