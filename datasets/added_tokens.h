/* Added tokens: whole strings, such as "<|endoftext|>", that become one id before the text is processed
 * further. The rules are those of Hugging Face's tokenizers: of several matches the leftmost counts, then the
 * longest; a token may take the white space next to it, or match only as a word of its own. */
#ifndef ANNEAL_DATASETS_ADDED_TOKENS_H
#define ANNEAL_DATASETS_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"

struct added_token {
    const char *content; /* n > 0 bytes */
    size_t n;
    uint32_t id;
    bool normalized;  /* searched in the normalized text, after all others */
    bool special;     /* a control token, such as one that ends a text */
    bool lstrip;      /* takes the white space before it */
    bool rstrip;      /* takes the white space after it */
    bool single_word; /* only where no letter, digit or "_" is next to it */
};

struct added_set;

/* The tokens of `tokens` whose `normalized` is as given, ready for searching. In `arena`, with the tokens'
 * texts borrowed; NULL: no memory. */
struct added_set *added_set_new(struct arena *arena, const struct added_token *tokens, size_t count,
                                bool normalized);

/* A match in a text: what it covers, white space included, is text[from..to). to < from: the match before
 * took white space beyond the end of this one, which begins inside it; the text goes on at `to` all the same.
 */
struct added_match {
    const struct added_token *token; /* NULL: none is left */
    size_t from, to;
    size_t next; /* where to search on: 0 at first */
};

/* Moves *match, a zeroed struct at first, to the next one in text[0..n); without one its `token` is NULL and
 * from and to are n. */
void added_set_next(const struct added_set *set, const char *text, size_t n, struct added_match *match);

#endif
