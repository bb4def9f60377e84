/* Hugging Face's tokenizer.json, in and out, as far as it describes byte-level BPE:
 *
 *   model          type BPE; merges as "a b" or ["a","b"]; ignore_merges; no dropout, prefix or suffix
 *   pre_tokenizer  ByteLevel (with or without use_regex), or a Sequence of Split (Regex or String, behavior
 *                  Isolated) and Digits ending with ByteLevel; never add_prefix_space
 *   normalizer     none, NFC, NFD, NFKC, NFKD
 *   added_tokens   found first; without lstrip, rstrip, single_word
 *
 * Anything else that would change ids is an error naming the component; post_processor, truncation and
 * padding are about model input, not text, and are ignored. Whatever the file says, reading it is safe. */
#ifndef ANNEAL_DATASETS_TOKENIZER_JSON_H
#define ANNEAL_DATASETS_TOKENIZER_JSON_H

#include "datasets/bpe.h"

/* STATUS_CORRUPT: not a tokenizer.json; STATUS_FAILED: one with unsupported components. *out is yours to
 * finish. */
enum status tokenizer_json_read(const char *json, size_t n, const char *name, struct bpe *out,
                                struct err *err);

/* The text of a tokenizer.json, yours to free. The definition's pattern is PRETOKENIZER_GPT2 or there is
 * none, and it has no added tokens: what bpe_train makes. */
enum status tokenizer_json_write(const struct bpe *bpe, char **out, struct err *err);

#endif
