/* anneal evaluate --tasks: the accuracy of a model in multiple choice, by likelihood. */
#include <stdio.h>

#include "core/generate/examination.h"
#include "datasets/tokenizer.h"
#include "tui/command/evaluation.h"

struct answers {
    struct tokenizer *tokenizer;
    struct examination examination;
    struct choice_scorer scorer;
};

static enum status open_answers(struct evaluation *e, void *state, struct err *err)
{
    struct answers *a = state;
    const struct model_config *c = &e->loaded.model.config;
    enum status status = loaded_model_tokenizer(e->loaded.words, &a->tokenizer, err);
    if (!status)
        status = examination_open(&a->examination, e->options->tasks, a->tokenizer, c->vocab_size,
                                  c->max_seq_len, e->progress, err);
    if (status) return status;
    e->total = a->examination.questions;
    e->wish = loaded_wish_cached(1, a->examination.longest, e->wish.allocator);
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
    const struct examination_score *score = &a->examination.score;
    enum status status = examination_answer(&a->examination, &a->scorer, err);
    e->done = score->done;
    if (!status) snprintf(suffix, 48, "accuracy %.3f", (double)score->right / (double)score->done);
    return status;
}

static void print_answers(const struct evaluation *e, const void *state, struct output *out)
{
    const struct examination_score *score = &((const struct answers *)state)->examination.score;
    double done = (double)score->done;
    OUTPUT_MEMBERS(out, "tasks", e->options->tasks, "accuracy", (double)score->right / done,
                   "accuracy_per_byte", (double)score->right_per_byte / done, "accuracy_of_guessing",
                   score->expected / done);
    OUTPUT_MEMBERS(out, "questions", (int64_t)e->done, "of_questions", (int64_t)e->total,
                   "shortened_contexts", (int64_t)score->cut, "scored_tokens", score->tokens,
                   "questions_per_sec", done / e->seconds);
}

static void close_answers(void *state)
{
    struct answers *a = state;
    choice_scorer_close(&a->scorer);
    examination_close(&a->examination);
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
