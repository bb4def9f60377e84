/* Text generation: sampling a continuation of a prompt, token by token, over slot 0 of the network's cache.
 */
#ifndef ANNEAL_CORE_GENERATE_GENERATE_H
#define ANNEAL_CORE_GENERATE_GENERATE_H

#include <stdint.h>

#include "core/generate/sampling.h"
#include "core/network/network.h"
#include "datasets/tokenizer.h"

/* Everything generation needs, allocated once. */
struct generator {
    struct network *network;           /* borrowed */
    const struct tokenizer *tokenizer; /* borrowed */
    float *logits;                     /* (V), in the network's host memory */
    struct sampler sampler;            /* owned */
    int32_t *context;                  /* (most), owned */
    int length, most;                  /* tokens in context; as many as the cache has room for */
};

/* STATUS_FAILED if `text` cannot be a prompt, because it is not UTF-8 or holds a zero byte: it is not what
 * was meant, for instance another file. `name` begins the sentence, such as "the prompt". */
enum status prompt_check(const char *name, const char *text, size_t n, struct err *err);

/* The network's plan has a cache. */
enum status generator_open(struct generator *generator, struct network *network,
                           const struct tokenizer *tokenizer, struct err *err);
void generator_close(struct generator *generator); /* harmless on a zeroed struct */

/* Starts with a new `prompt`, of which the last `most` tokens count. An empty prompt starts from the tokens
 * that the tokenizer puts before any (BOS), or without such from a newline. */
enum status generator_start(struct generator *generator, const char *prompt, struct err *err);
/* The same with a prompt of tokens, which is not empty. Nothing of the cache counts in either. */
enum status generator_start_tokens(struct generator *generator, const struct token_list *tokens,
                                   struct err *err);

/* Starts with `count` tokens, from 1 to `most`, of which those stay cached that the cache has at the
 * beginning of its context. *kept is how many. STATUS_USAGE: a token that the model does not have. */
enum status generator_set(struct generator *generator, const uint32_t *tokens, size_t count, int *kept,
                          struct err *err);

/* Draws the `index`-th token (from 0) and appends it; a full context drops its older half. The draw is
 * that of sampler_draw. */
uint32_t generator_next(struct generator *generator, const struct sampling *sampling, int64_t index);

#endif
