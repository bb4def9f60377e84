/* Adds special tokens to a model: to its tokenizer, and as rows to its embedding and head. Each new row
 * begins as the mean of all rows that were there, so that a new token is at first as likely as the others on
 * average (Hewitt, "Initializing New Word Embeddings for Pretrained Language Models", 2021). */
#ifndef ANNEAL_CORE_CHECKPOINT_ADD_TOKENS_H
#define ANNEAL_CORE_CHECKPOINT_ADD_TOKENS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/progress.h"

struct token_addition {
    const char *const *tokens; /* count of them */
    size_t count;
    const char *chat_template; /* a file that becomes the model's; NULL: it keeps its own */
};

struct tokens_added {
    int tokens, rows; /* new ones: a token that is there already needs none, and spare rows are used first */
    int vocab_size;   /* of the model */
    int64_t bytes;
};

/* Writes the model in `folder` with these tokens to the new folder `to`. STATUS_USAGE: it has no
 * tokenizer.json, or a token is empty. On failure there is no new folder. */
enum status checkpoint_add_tokens(const char *folder, const struct token_addition *addition, const char *to,
                                  const struct progress *progress, struct tokens_added *out, struct err *err);

#endif
