/* Byte-pair encoding (Sennrich, Haddow, Birch 2016): the pretokenizer splits text into pieces; in a piece,
 * neighbours are merged in the order of the merges' ranks, leftmost first. Merging begins either with bytes
 * (as in GPT-2, Llama 3 and Qwen) or with characters (as in SentencePiece, of Llama 2 and Mistral), where a
 * character without a token becomes the tokens of its bytes, or the unknown token.
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
#include "datasets/added_tokens.h"
#include "datasets/hash_index.h"
#include "datasets/normalizer.h"
#include "datasets/pretokenizer.h"
#include "datasets/tokenizer.h"

enum { BPE_VOCAB_MAX = 1 << 21 /* ids are below */, BPE_AROUND_MAX = 64 };

#define BPE_NO_ID UINT32_MAX

struct bpe_token {
    const char *bytes; /* n bytes that it decodes to; n = 0: the id is unused, or decodes to nothing */
    uint32_t n;
    bool literal; /* only for decoding; encoding uses it only as an added token */
    const char
        *piece; /* piece_n bytes of normalized text that it stands for; NULL: bpe_finish sets `bytes` */
    uint32_t piece_n;
};

/* The neighbours left and right become result. The rank of a merge is its index in the list. */
struct bpe_merge {
    uint32_t left, right, result;
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
    struct normalizer normalizer;
    struct space_rule spaces;  /* applied between the added tokens of the normalized text */
    bool ignore_merges;        /* a piece that is a token as a whole becomes that token without merges */
    bool characters;           /* merging begins with characters; the next four are for such a bpe */
    bool fuse_unknown;         /* neighbouring unknown characters become one unknown token */
    uint32_t unknown_id;       /* the unknown token, BPE_NO_ID: none */
    uint32_t fallback_id[256]; /* the token of a byte ("<0x0A>"), BPE_NO_ID: none */
    struct stripped {
        const char *text; /* decoding removes it from the beginning; NULL: nothing */
        size_t most;      /* as often as it is there, but not oftener than this … */
        bool one_token;   /* … and only from the first token */
    } stripped;
    struct bpe_around {
        uint32_t ids[BPE_AROUND_MAX];
        size_t count;
    } before, after; /* the tokens that a prompt gets before and behind it */
    /* private, set by bpe_finish */
    struct hash_index merge_index; /* by their pair */
    struct hash_index id_index;    /* by their pieces; only with ignore_merges or characters */
    struct hash_index joint_index; /* of `joints`, by their characters; empty unless `cuts` */
    struct bpe_joint *joints;      /* the neighbouring characters that a merge can join */
    size_t joint_count;
    bool cuts;    /* a piece may be cut between characters that are no joint */
    bool divides; /* see bpe_divides */
    uint32_t byte_id[256];
    struct added_set *raw, *normalized;
    struct pretokenizer *pretokenizer;
};

/* Checks the definition and prepares it for use. `name` is for messages. Afterwards a bpe may be moved, and
 * threads may share it. */
enum status bpe_finish(struct bpe *bpe, const char *name, struct err *err);
void bpe_release(struct bpe *bpe); /* harmless on a zeroed struct, and on one that is not finished */

uint64_t bpe_checksum(const struct bpe *bpe); /* XXH64 of the definition */

/* Whether the ids of a text are those of its parts one after the other, where it is cut as crew.h says. False
 * for patterns that are not known to have this property. */
static inline bool bpe_divides(const struct bpe *bpe)
{
    return bpe->divides;
}

/* The buffers of encoding, kept from one text to the next. Each thread needs its own. */
struct bpe_encoder;

/* For texts of n bytes together. The bpe is borrowed. */
enum status bpe_encoder_new(const struct bpe *bpe, size_t n, struct bpe_encoder **out, struct err *err);
void bpe_encoder_free(struct bpe_encoder *encoder); /* harmless on NULL */

/* See tokenizer_encode_stream. */
enum status bpe_encoder_run(struct bpe_encoder *encoder, const char *text, size_t n,
                            const struct token_sink *sink, struct err *err);

/* The same for one text. */
enum status bpe_encode(const struct bpe *bpe, const char *text, size_t n, const struct token_sink *sink,
                       struct err *err);

#endif
