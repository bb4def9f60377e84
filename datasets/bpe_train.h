/* Learning a byte-level BPE: count the pieces of the text, then merge the most frequent pair of neighbours
 * again and again. Ties go to the smaller pair of ids, and the 256 single bytes come first in the order of
 * their characters in the byte alphabet, so that the merges are those that Hugging Face's BpeTrainer finds on
 * the same text with `initial_alphabet = ByteLevel.alphabet()`.
 *
 * Each distinct piece is kept once, with its count; a merge touches only the pieces that hold its pair. */
#ifndef ANNEAL_DATASETS_BPE_TRAIN_H
#define ANNEAL_DATASETS_BPE_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/progress.h"
#include "datasets/tokenizer.h"

enum { BPE_TRAIN_VOCAB_MIN = 256, BPE_TRAIN_VOCAB_MAX = 1000000 };

struct bpe_trainer;

/* STATUS_USAGE when vocab_size is out of the range above. `progress` is borrowed. */
enum status bpe_trainer_new(int vocab_size, const struct progress *progress, struct bpe_trainer **out,
                            struct err *err);
void bpe_trainer_free(struct bpe_trainer *trainer); /* harmless on NULL */

/* Counts the pieces of a text: a text_visitor of inputs.h, whose context is the trainer. Reports the phase
 * "counting words" in bytes. STATUS_INTERRUPTED leaves a trainer that is only good for being freed. */
enum status bpe_trainer_count(void *trainer, const char *path, const char *text, size_t n, uint64_t before,
                              uint64_t total, struct err *err);

/* Learns until the vocabulary has vocab_size tokens or no pair is left; a short text gives fewer. Reports the
 * phase "learning merges". To be called once. */
enum status bpe_trainer_learn(struct bpe_trainer *trainer, struct tokenizer **out, struct err *err);

#endif
