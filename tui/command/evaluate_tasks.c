/* anneal evaluate --tasks: the accuracy of a model in multiple choice, by likelihood: of each file, and the
 * mean of the files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/generate/examination.h"
#include "datasets/inputs.h"
#include "datasets/tokenizer.h"
#include "tui/command/evaluation.h"

struct answers {
    struct tokenizer *tokenizer;
    struct inputs files;
    struct examination *examinations; /* one of each file */
    size_t at;                        /* the one that is answered */
    struct choice_scorer scorer;
};

static enum status open_files(struct answers *a, const struct evaluation *e, struct err *err)
{
    const struct model_config *c = &e->loaded.model.config;
    enum status status = inputs_open(e->options->tasks, NULL, NULL, &a->files, err);
    if (!status) status = inputs_refuse_weights(&a->files, "--tasks", err);
    if (!status && !(a->examinations = calloc(a->files.count, sizeof *a->examinations)))
        status = err_no_memory(err, "%zu files of questions", a->files.count);
    for (size_t i = 0; !status && i < a->files.count; i++)
        status = examination_open(&a->examinations[i], a->files.paths[i], a->tokenizer, c->vocab_size,
                                  c->max_seq_len, e->progress, err);
    return status;
}

static enum status open_answers(struct evaluation *e, void *state, struct err *err)
{
    struct answers *a = state;
    int longest = 0;
    enum status status = loaded_model_tokenizer(e->loaded.words, &a->tokenizer, err);
    if (!status) status = open_files(a, e, err);
    if (status) return status;
    for (size_t i = 0; i < a->files.count; i++) {
        e->total += a->examinations[i].questions;
        if (a->examinations[i].longest > longest) longest = a->examinations[i].longest;
    }
    e->wish = loaded_wish_cached(1, longest, e->wish.allocator);
    return STATUS_OK;
}

static enum status begin_answers(struct evaluation *e, void *state, struct err *err)
{
    struct answers *a = state;
    return choice_scorer_open(&a->scorer, &e->loaded.network, a->tokenizer, err);
}

static enum status answer_next(struct evaluation *e, void *state, char *suffix, struct err *err)
{
    struct answers *a = state;
    if (a->examinations[a->at].score.done == a->examinations[a->at].questions) a->at++;
    struct examination *examination = &a->examinations[a->at];
    const struct examination_score *score = &examination->score;
    enum status status = examination_answer(examination, &a->scorer, err);
    e->done += !status;
    if (!status) snprintf(suffix, 48, "accuracy %.3f", (double)score->right / (double)score->done);
    return status;
}

/* Shares of right answers. */
struct shares {
    double right, right_per_byte, expected;
};

static struct shares shares_of(const struct examination *examination)
{
    const struct examination_score *score = &examination->score;
    double done = score->done ? (double)score->done : NAN; /* an interrupt came before */
    return (struct shares){(double)score->right / done, (double)score->right_per_byte / done,
                           score->expected / done};
}

/* Of the files of which questions were answered. */
static struct shares mean_of(const struct answers *a)
{
    struct shares sum = {0};
    double count = 0;
    for (size_t i = 0; i < a->files.count; i++) {
        struct shares shares = shares_of(&a->examinations[i]);
        if (isnan(shares.right)) continue;
        sum.right += shares.right;
        sum.right_per_byte += shares.right_per_byte;
        sum.expected += shares.expected;
        count++;
    }
    return (struct shares){sum.right / count, sum.right_per_byte / count, sum.expected / count};
}

static void print_shares(struct output *out, struct shares shares)
{
    OUTPUT_MEMBERS(out, "accuracy", shares.right, "accuracy_per_byte", shares.right_per_byte,
                   "accuracy_of_guessing", shares.expected);
}

/* A page has the mean as the last row. */
static void print_files(const struct answers *a, struct shares mean, struct output *out)
{
    output_list(out, "files", "Files");
    for (size_t i = 0; i < a->files.count; i++) {
        const struct examination_score *score = &a->examinations[i].score;
        output_item(out);
        output_text(out, "file", a->files.paths[i]);
        print_shares(out, shares_of(&a->examinations[i]));
        OUTPUT_MEMBERS(out, "questions", (int64_t)score->done, "of_questions",
                       (int64_t)a->examinations[i].questions, "shortened_contexts", (int64_t)score->cut,
                       "scored_tokens", score->tokens);
    }
    if (!out->json) {
        output_item(out);
        output_text(out, "", "mean");
        print_shares(out, mean);
        for (int column = 0; column < 4; column++) output_whole(out, "", -1);
    }
    output_list_end(out);
}

/* A page needs no table for one file. */
static void print_answers(const struct evaluation *e, const void *state, struct output *out)
{
    const struct answers *a = state;
    const struct shares mean = mean_of(a);
    bool table = a->files.count > 1 && !out->json;
    int64_t cut = 0, tokens = 0;
    for (size_t i = 0; i < a->files.count; i++) {
        cut += (int64_t)a->examinations[i].score.cut;
        tokens += a->examinations[i].score.tokens;
    }
    output_text(out, "tasks", e->options->tasks);
    if (!table) print_shares(out, mean);
    OUTPUT_MEMBERS(out, "questions", (int64_t)e->done, "of_questions", (int64_t)e->total,
                   "shortened_contexts", cut, "scored_tokens", tokens, "questions_per_sec",
                   (double)e->done / e->seconds);
    if (table || out->json) print_files(a, mean, out);
}

static void close_answers(void *state)
{
    struct answers *a = state;
    choice_scorer_close(&a->scorer);
    for (size_t i = 0; a->examinations && i < a->files.count; i++) examination_close(&a->examinations[i]);
    free(a->examinations);
    inputs_close(&a->files);
    tokenizer_close(a->tokenizer);
}

const struct evaluation_kind evaluation_of_tasks = {.unit = "question",
                                                    .doing = "answering",
                                                    .state = sizeof(struct answers),
                                                    .open = open_answers,
                                                    .ready = begin_answers,
                                                    .next = answer_next,
                                                    .print = print_answers,
                                                    .close = close_answers};
