/* Multiple choice by likelihood: a model answers a question with the choice that it finds likeliest after the
 * context. So measured, a model need not be able to follow instructions.
 *
 * Tokens are those of EleutherAI's lm-evaluation-harness, so that scores can be compared: context and choice
 * are encoded together, as the tokens at a boundary depend on both sides; the choice's tokens are those after
 * as many as the context has alone. White space at the context's end counts as the choice's. A tokenizer that
 * puts BOS before a prompt does so here. */
#ifndef ANNEAL_CORE_GENERATE_CHOICES_H
#define ANNEAL_CORE_GENERATE_CHOICES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/network/network.h"
#include "datasets/question_file.h"
#include "datasets/tokenizer.h"

/* The scratch memory of scoring. The context's keys and values stay in slot 0 of the network's cache, so they
 * are computed once for all choices of a question. */
struct choice_scorer {
    struct network *network;           /* borrowed; its plan has a cache */
    const struct tokenizer *tokenizer; /* borrowed */
    int32_t *held, *targets;           /* (cache_length) tokens in the slot, (B·T) of the plan; owned */
};

struct choice_answer {
    int likeliest; /* by Σ ln p of its tokens */
    /* by that sum per byte of the choice, without blanks at its beginning: long choices are at no
     * disadvantage */
    int likeliest_per_byte;
    bool cut;       /* the context's beginning was left out, as it is longer than the cache */
    int64_t tokens; /* scored */
};

/* The most tokens that context and one of the choices have together. STATUS_USAGE names the choice that
 * cannot be scored by a model with this vocabulary and room for `most` tokens. */
enum status question_measure(const struct question *question, const struct tokenizer *tokenizer,
                             int vocab_size, int most, int *tokens, struct err *err);

enum status choice_scorer_open(struct choice_scorer *scorer, struct network *network,
                               const struct tokenizer *tokenizer, struct err *err);
void choice_scorer_close(struct choice_scorer *scorer); /* harmless on a zeroed struct */

/* Call before the next question if the weights have changed or another text has been in slot 0. */
void choice_scorer_forget(struct choice_scorer *scorer);

/* Answers a question that question_measure accepted. Equal choices: the first. log_likelihoods (count of the
 * question), Σ ln p(token | tokens before it) in nats for each choice, may be NULL. Waits for the device.
 * STATUS_DEVICE if it fails; STATUS_FAILED if a likelihood is not a number. */
enum status choice_scorer_answer(struct choice_scorer *scorer, const struct question *question,
                                 struct choice_answer *out, double *log_likelihoods, struct err *err);

#endif
