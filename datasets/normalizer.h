/* Changes of text before it is split and merged: Unicode's normal forms, and the steps with which
 * SentencePiece-like tokenizers write spaces as characters ("▁").
 *
 * Text may have invalid bytes: they are unchanged, and so is ASCII in a normal form, at the speed of a copy.
 * Normal forms are those of the installed utf8proc. */
#ifndef ANNEAL_DATASETS_NORMALIZER_H
#define ANNEAL_DATASETS_NORMALIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"

enum normal_step_kind { NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD, NORMAL_PREPEND, NORMAL_REPLACE };

struct normal_step {
    enum normal_step_kind kind;
    const char *from; /* NORMAL_REPLACE: every occurrence of this text, not empty, … */
    const char *to;   /* … becomes this one; NORMAL_PREPEND puts it before a text that is not empty */
};

enum { NORMALIZER_STEPS = 8 }; /* at most */

#define SENTENCEPIECE_SPACE "\u2581" /* as SentencePiece writes a space */

/* The steps in their order; a zeroed struct changes nothing. The texts are borrowed. */
struct normalizer {
    struct normal_step steps[NORMALIZER_STEPS];
    size_t count;
};

/* Sets *out to the result for n bytes of text, *out_n bytes that the caller frees. *out is NULL if no step
 * changed the text. Fails only with STATUS_NO_MEMORY. */
enum status normalizer_apply(const struct normalizer *normalizer, const char *text, size_t n, char **out,
                             size_t *out_n, struct err *err);

/* How a pre-tokenizer changes the beginning and the spaces of a stretch between added tokens: Hugging Face's
 * Metaspace, and add_prefix_space of ByteLevel. A zeroed struct changes nothing. */
struct space_rule {
    const char *space;  /* written for every ' '; NULL: ' ' stays */
    const char *prefix; /* put before a stretch that does not begin with it; NULL: none */
    bool first_only;    /* only at the very beginning of the text */
};

/* The same results as normalizer_apply. `first`: the stretch begins the text. */
enum status space_rule_apply(const struct space_rule *rule, bool first, const char *text, size_t n,
                             char **out, size_t *out_n, struct err *err);

#endif
