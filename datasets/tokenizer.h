/* Tokenizers: from bytes of text to token ids and back. There are three kinds: `bytes` (256 ids, one per
 * byte: a BPE without merges); byte-level BPE as in a Hugging Face tokenizer.json, from anneal or elsewhere;
 * and such a file with BPE as SentencePiece does it (Llama 2, Mistral). All accept any bytes, valid UTF-8 or
 * not. Immutable once opened, so threads may share a tokenizer. */
#ifndef ANNEAL_DATASETS_TOKENIZER_H
#define ANNEAL_DATASETS_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct bpe;
struct tokenizer;

/* A growing list of ids. Owned by the caller; zero it before first use. */
struct token_list {
    uint32_t *ids;
    size_t count, capacity;
};
enum status token_list_append(struct token_list *list, const uint32_t *ids, size_t count, struct err *err);
void token_list_release(struct token_list *list);

/* Receives ids while a text is encoded, for texts with too many ids to store. */
struct token_sink {
    /* Takes the next `count` ids (borrowed); `done` bytes of the text are encoded so far. Called every few
     * thousand ids and at the end. Any other status than STATUS_OK stops the encoding and is its result. */
    enum status (*take)(void *context, const uint32_t *ids, size_t count, uint64_t done, struct err *err);
    void *context;
};

/* A sink's `take` that appends to a token_list, its context. */
enum status token_list_take(void *list, const uint32_t *ids, size_t count, uint64_t done, struct err *err);

/* Opens the tokenizer of a user's word: "bytes" or the path of a tokenizer.json. "bpe:N" is for one to be
 * learned (see corpus.h) and is an error here, like anything else. */
enum status tokenizer_open(const char *word, struct tokenizer **out, struct err *err);
/* "bpe:N" gives N, anything else 0; -1 if N is not a number. */
int64_t tokenizer_learned_size(const char *word);
enum status tokenizer_open_bytes(struct tokenizer **out, struct err *err);
enum status tokenizer_open_json(const char *path, struct tokenizer **out, struct err *err);
/* `json` (n bytes) is the text of a tokenizer.json; `name` is for messages. */
enum status tokenizer_parse_json(const char *json, size_t n, const char *name, struct tokenizer **out,
                                 struct err *err);
/* Finishes a bpe and takes ownership of it, also on failure. `json` (malloc'd, NUL-terminated) is the file it
 * was read from, also taken; NULL: it has been learned. */
enum status tokenizer_new(struct bpe *bpe, char *json, const char *name, struct tokenizer **out,
                          struct err *err);
void tokenizer_close(struct tokenizer *tokenizer);

int tokenizer_vocab_size(const struct tokenizer *tokenizer);
const char *tokenizer_kind(const struct tokenizer *tokenizer);      /* "bytes", "bpe" or "sentencepiece" */
const struct bpe *tokenizer_bpe(const struct tokenizer *tokenizer); /* its definition */
uint64_t tokenizer_checksum(const struct tokenizer *tokenizer);     /* XXH64 of its definition */

/* Encodes `text` and passes its ids to `sink` in pieces. Errors: the sink's; STATUS_NO_MEMORY; STATUS_FAILED
 * if the split pattern of a foreign tokenizer.json fails on the text. */
enum status tokenizer_encode_stream(const struct tokenizer *tokenizer, const void *text, size_t n,
                                    const struct token_sink *sink, struct err *err);

/* Appends the ids of `text` to `list`; the same errors. On failure the list is unchanged. */
enum status tokenizer_encode(const struct tokenizer *tokenizer, const void *text, size_t n,
                             struct token_list *list, struct err *err);

/* The same for a prompt: with the tokens around it that the file's post_processor has, such as BOS at its
 * beginning. Token files for training are encoded without them. */
enum status tokenizer_encode_prompt(const struct tokenizer *tokenizer, const void *text, size_t n,
                                    struct token_list *list, struct err *err);

/* Cuts the ids of a prompt (count) to at most `most`: the tokens behind it stay, as in transformers. Returns
 * how many are left. */
size_t tokenizer_cut_prompt(const struct tokenizer *tokenizer, uint32_t *ids, size_t count, size_t most);

/* The bytes of one id, borrowed; *n is their count. An id out of range gives 0 bytes. The bytes of the ids of
 * a text one after the other are the text, except for what tokenizer_added_start says; a character may be
 * spread over several ids. */
const char *tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id, size_t *n);

/* The token that ends a document: one of the names that models have for it, "<|endoftext|>" (GPT-2, Qwen, and
 * those that anneal learns), "<|end_of_text|>" (Llama 3), "</s>" (Llama 2, Mistral) or "<eos>", as an added
 * token; -1: there is none. */
#define TOKENIZER_END "<|endoftext|>"
int64_t tokenizer_end(const struct tokenizer *tokenizer);

/* Whether the id is a control token, such as one that ends a text, and not part of the text itself. */
bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id);

/* How many bytes of text the id stands for: none if it is special. */
size_t tokenizer_text_bytes(const struct tokenizer *tokenizer, uint32_t id);

/* How many bytes at the beginning of a decoded text the tokenizer has added when it encoded it: the space
 * before the first word in Llama 2's. Text that continues another one has none. */
size_t tokenizer_added_start(const struct tokenizer *tokenizer, const char *text, size_t n);

/* The text of `count` ids as NUL-terminated bytes, without tokenizer_added_start, which the caller frees; *n
 * (may be NULL) is the length. */
char *tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t count, size_t *n);

/* Writes the tokenizer as a tokenizer.json that Hugging Face's library loads; atomic. */
enum status tokenizer_save_json(const struct tokenizer *tokenizer, const char *path, struct err *err);

#endif
