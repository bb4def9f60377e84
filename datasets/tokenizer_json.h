/* Reads and writes Hugging Face's tokenizer.json, as far as it describes byte-level BPE:
 *
 *   model          type BPE; merges as "a b" or ["a","b"]; ignore_merges; no dropout, prefix or suffix
 *   pre_tokenizer  ByteLevel (with or without use_regex), or a Sequence of Split (Regex or String, behavior
 *                  Isolated) and Digits ending with ByteLevel; never add_prefix_space
 *   normalizer     none, NFC, NFD, NFKC, NFKD
 *   added_tokens   searched first; without lstrip, rstrip, single_word
 *
 * Any other component that would change ids is an error that names it. post_processor, truncation and padding
 * concern model input, not text, and are ignored. Reading is safe for any content of the file. */
#ifndef ANNEAL_DATASETS_TOKENIZER_JSON_H
#define ANNEAL_DATASETS_TOKENIZER_JSON_H

#include "datasets/bpe.h"

/* STATUS_CORRUPT: not a tokenizer.json; STATUS_FAILED: unsupported components. Then call bpe_finish. */
enum status tokenizer_json_read(const char *json, size_t n, const char *name, struct bpe *out,
                                struct err *err);

/* The text of a tokenizer.json, which the caller frees. The definition must be one of bpe_train: its pattern
 * PRETOKENIZER_GPT2 or none, and no added tokens. */
enum status tokenizer_json_write(const struct bpe *bpe, char **out, struct err *err);

#endif
