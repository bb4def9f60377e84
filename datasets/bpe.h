/* Byte-level byte-pair encoding (Sennrich, Haddow, Birch 2016; on bytes as in GPT-2): the pretokenizer splits
 * text into pieces; in a piece, neighbours are merged in the order of the merges' ranks, leftmost first.
 *
 * A bpe is the content of a tokenizer.json, in bytes instead of the file's alphabet. For JSON see
 * tokenizer_json.h; for training see bpe_train.h. */
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

enum { BPE_VOCAB_MAX = 1 << 21 }; /* ids are below */

struct bpe_token {
    const char *bytes; /* n bytes; n = 0: the id is unused */
    uint32_t n;
    bool literal; /* only for decoding; encoding uses it only as an added token */
};

/* The neighbours left and right become result. The rank of a merge is its index in the list. */
struct bpe_merge {
    uint32_t left, right, result;
};

/* A whole string, such as "<|endoftext|>", that becomes one id before the text is processed further. If
 * several match, the leftmost wins, then the longest, as in Hugging Face's tokenizers. */
struct added_token {
    const char *content; /* n > 0 bytes */
    size_t n;
    uint32_t id;
    bool normalized; /* searched in the normalized text, after all others */
};

/* GPT-2's byte-level alphabet: a visible Unicode character for each byte, so that a tokenizer.json can write
 * any bytes as text; it also gives the order of the bytes in a vocabulary. Printable Latin-1 bytes stand for
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

/* The definition: fill it in, then call bpe_finish; it does not change afterwards. */
struct bpe {
    struct arena arena;       /* owns everything that the definition points to */
    struct bpe_token *tokens; /* by id, with added tokens; the non-literal ones include all 256 bytes */
    size_t vocab_size;        /* largest id + 1 */
    struct bpe_merge *merges; /* best first; of two merges of the same pair the later one counts */
    size_t merge_count;
    const char *patterns[PRETOKENIZER_STAGES]; /* see pretokenizer.h */
    size_t pattern_count;
    struct added_token *added;
    size_t added_count;
    enum normal_form normal_form;
    bool ignore_merges; /* a piece that is a token as a whole becomes that token without merges */
    /* private, set by bpe_finish */
    struct hash_index merge_index; /* by their pair */
    struct hash_index id_index;    /* by their bytes; only with ignore_merges */
    uint32_t byte_id[256];
    struct added_set *raw, *normalized;
    struct pretokenizer *pretokenizer;
};

/* Checks the definition and prepares it for use. `name` is for messages. Afterwards a bpe may be moved, and
 * threads may share it. */
enum status bpe_finish(struct bpe *bpe, const char *name, struct err *err);
void bpe_release(struct bpe *bpe); /* harmless on a zeroed struct, and on one that is not finished */

uint64_t bpe_checksum(const struct bpe *bpe); /* XXH64 of the definition */

/* See tokenizer_encode_stream. */
enum status bpe_encode(const struct bpe *bpe, const char *text, size_t n, const struct token_sink *sink,
                       struct err *err);

#endif
