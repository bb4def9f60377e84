/* Reads and writes Hugging Face's tokenizer.json, as far as it describes byte-level or SentencePiece-like
 * BPE:
 *
 *     normalizer      none, NFC, NFD, NFKC, NFKD, Prepend, Replace (of a String), or a Sequence of them
 *     pre_tokenizer   byte-level: ByteLevel (with or without use_regex and add_prefix_space), or a
 *                     Sequence of Split (Regex or String, behavior Isolated) and Digits that ends with
 *                     ByteLevel; SentencePiece-like: none, or Metaspace, and Split and Digits after it
 *     model           type BPE; merges as "a b" or ["a","b"]; ignore_merges; byte_fallback, unk_token,
 *                     fuse_unk; no dropout, prefix or suffix
 *     added_tokens    searched first, with lstrip, rstrip, single_word and normalized
 *     decoder         byte-level: ignored; else Replace, ByteFallback, Fuse, Strip at the beginning,
 *                     Metaspace
 *     post_processor  ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing, or a Sequence
 *                     of them
 *
 * Any other component that would change ids is an error that names it. truncation and padding concern model
 * input, not text, and are ignored. Reading is safe for any content of the file. */
#ifndef ANNEAL_DATASETS_TOKENIZER_JSON_H
#define ANNEAL_DATASETS_TOKENIZER_JSON_H

#include "datasets/bpe.h"

/* STATUS_CORRUPT: not a tokenizer.json; STATUS_FAILED: unsupported components. Then call bpe_finish. */
enum status tokenizer_json_read(const char *json, size_t n, const char *name, struct bpe *out,
                                struct err *err);

/* The text of a tokenizer.json, which the caller frees. The definition must be one of bpe_train: its pattern
 * PRETOKENIZER_GPT2 or none, and its added tokens at the end of the vocabulary. */
enum status tokenizer_json_write(const struct bpe *bpe, char **out, struct err *err);

#endif
