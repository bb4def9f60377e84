/* Learning a byte-level BPE: counts the pieces of the text, then repeatedly merges the most frequent pair of
 * neighbours. Ties go to the pair with smaller ids, and the 256 single bytes come first, in the order of
 * their characters in the byte alphabet, so that the merges are those of Hugging Face's BpeTrainer on the
 * same text with `initial_alphabet = ByteLevel.alphabet()`.
 *
 * Each distinct piece is stored once, with its count; a merge visits only the pieces with its pair. */
#ifndef ANNEAL_DATASETS_BPE_TRAIN_H
#define ANNEAL_DATASETS_BPE_TRAIN_H

#include <stdint.h>

#include "core/base/err.h"
#include "datasets/progress.h"
#include "datasets/text_pieces.h"
#include "datasets/tokenizer.h"

enum { BPE_TRAIN_VOCAB_MIN = 256, BPE_TRAIN_VOCAB_MAX = 1000000 };

struct bpe_trainer;

/* STATUS_USAGE if vocab_size is out of range. */
enum status bpe_train_check(int64_t vocab_size, struct err *err);

/* STATUS_USAGE if vocab_size is out of range. Counts in `threads` threads, at least 1: the merges are the
 * same for any number. `progress` is borrowed. */
enum status bpe_trainer_new(int vocab_size, int threads, const struct progress *progress,
                            struct bpe_trainer **out, struct err *err);
void bpe_trainer_free(struct bpe_trainer *trainer); /* harmless on NULL */

/* Counts the pieces of a text: a text_visitor, whose context is the trainer. Reports the phase "counting
 * words" in bytes. After STATUS_INTERRUPTED the trainer can only be freed. */
enum status bpe_trainer_count(void *trainer, const struct text_piece *text, struct err *err);

/* Learns until the vocabulary has vocab_size tokens or no pair is left, so that a short text gives fewer. The
 * last of them is TOKENIZER_END, an added token, if documents end with it (`ends`). Reports the phase
 * "learning merges". Call it once. */
enum status bpe_trainer_learn(struct bpe_trainer *trainer, bool ends, struct tokenizer **out,
                              struct err *err);

#endif
