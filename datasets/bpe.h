/* Byte-level byte-pair encoding (Sennrich, Haddow, Birch 2016; on bytes as in GPT-2): text is cut into pieces
 * by the pretokenizer; inside a piece neighbours are merged in the order of the merges' ranks, the leftmost
 * first.
 *
 * A bpe is what a tokenizer.json describes, in bytes rather than in the file's alphabet. It knows no JSON:
 * see tokenizer_json.h; and learns nothing: see bpe_train.h. */
#ifndef ANNEAL_DATASETS_BPE_H
#define ANNEAL_DATASETS_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "datasets/hash_index.h"
#include "datasets/pretokenizer.h"
#include "datasets/tokenizer.h"

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

/* A whole string, such as "<|endoftext|>", that becomes one id before anything else looks at the text. Where
 * several match, the leftmost and then the longest wins, as in Hugging Face's tokenizers. */
struct added_token {
    const char *content; /* n > 0 bytes */
    size_t n;
    uint32_t id;
    bool normalized; /* looked for in the normalized text, after those that are not */
};

/* GPT-2's byte-level alphabet: a visible Unicode character for each byte, so that a tokenizer.json can spell
 * any bytes as text, and the order of the bytes in a vocabulary. Bytes that Latin-1 prints stand for
 * themselves, the other 68 for U+0100, U+0101, … in order. */
enum { BYTE_ALPHABET_END = 256 + 68 }; /* code points in use are below */

struct byte_alphabet {
    uint16_t character[256];         /* of a byte */
    int16_t byte[BYTE_ALPHABET_END]; /* of a character; -1: not in the alphabet */
};

static inline void byte_alphabet_init(struct byte_alphabet *alphabet)
{
    uint16_t next = 256;
    for (int c = 0; c < BYTE_ALPHABET_END; c++) alphabet->byte[c] = -1;
    for (int b = 0; b < 256; b++) {
        int printed = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        alphabet->character[b] = printed ? (uint16_t)b : next++;
        alphabet->byte[alphabet->character[b]] = (int16_t)b;
    }
}

struct added_set;

/* The definition, to be filled in by who makes it; then bpe_finish, and it stays as it is. */
struct bpe {
    struct arena arena;       /* what the definition points to */
    struct bpe_token *tokens; /* by id, added tokens included; among those not literal all 256 bytes */
    size_t vocab_size;        /* largest id + 1 */
    struct bpe_merge *merges; /* best first; of two of the same pair the later one counts */
    size_t merge_count;
    const char *patterns[PRETOKENIZER_STAGES]; /* see pretokenizer.h */
    size_t pattern_count;
    struct added_token *added;
    size_t added_count;
    enum normal_form normal_form;
    bool ignore_merges; /* a piece that is a token as a whole is that token, whatever the merges say */
    /* private, by bpe_finish */
    struct hash_index merge_index; /* by their pair */
    struct hash_index id_index;    /* by their bytes; only with ignore_merges */
    uint32_t byte_id[256];
    struct added_set *raw, *normalized;
    struct pretokenizer *pretokenizer;
};

/* Checks the definition and makes it ready. `name` stands for the tokenizer in messages. Afterwards a bpe may
 * be moved, and threads may share it. */
enum status bpe_finish(struct bpe *bpe, const char *name, struct err *err);
void bpe_release(struct bpe *bpe); /* harmless on a zeroed struct, and on one that is not finished */

uint64_t bpe_checksum(const struct bpe *bpe); /* XXH64 of the definition */

/* See tokenizer_encode_stream. */
enum status bpe_encode(const struct bpe *bpe, const char *text, size_t n, const struct token_sink *sink,
                       struct err *err);

#endif
