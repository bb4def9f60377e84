/* Byte-level byte-pair encoding (Sennrich, Haddow, Birch 2016; on bytes as in GPT-2): text is cut into pieces
 * by the pretokenizer; inside a piece neighbours are merged in the order of the merges' ranks, the leftmost
 * first.
 *
 * A bpe is what a tokenizer.json describes, in bytes rather than in the file's alphabet. Immutable once made.
 * It knows no JSON: see tokenizer_json.h; and learns nothing: see bpe_train.h. */
#ifndef ANNEAL_DATASETS_BPE_H
#define ANNEAL_DATASETS_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/added_tokens.h"
#include "datasets/normalizer.h"
#include "datasets/token_list.h"

enum { BPE_VOCAB_MAX = 1 << 21 }; /* ids stay below */

struct bpe_token {
    const char *bytes; /* n of them; n = 0: nobody has this id */
    uint32_t n;
    bool literal; /* only for decoding: encoding reaches it as an added token or not at all */
};

/* left and right side by side become result. Its rank is its place in the list. */
struct bpe_merge {
    uint32_t left, right, result;
};

/* What defines a bpe; everything is borrowed for the call that takes it. */
struct bpe_spec {
    const struct bpe_token *tokens; /* by id, added tokens included; among those not literal all 256 bytes */
    size_t vocab_size;              /* largest id + 1 */
    const struct bpe_merge *merges; /* best first; of two of the same pair the later one counts */
    size_t merge_count;
    const char *const *patterns; /* see pretokenizer.h */
    size_t pattern_count;
    const struct added_token *added;
    size_t added_count;
    enum normal_form normal_form;
    bool ignore_merges; /* a piece that is a token as a whole is that token, whatever the merges say */
};

struct bpe;

/* `name` stands for the tokenizer in messages. */
enum status bpe_new(const struct bpe_spec *spec, const char *name, struct bpe **out, struct err *err);
void bpe_free(struct bpe *bpe);

/* Its definition; what it points to lives as long as the bpe. */
const struct bpe_spec *bpe_definition(const struct bpe *bpe);
uint64_t bpe_checksum(const struct bpe *bpe); /* XXH64 of the definition */

/* See tokenizer_encode_stream. */
enum status bpe_encode(const struct bpe *bpe, const char *text, size_t n, const struct token_sink *sink,
                       struct err *err);

#endif
