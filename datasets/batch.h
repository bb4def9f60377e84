/* Batches: which tokens go into which micro-batch. A pure function of (seed, epoch, index): nothing to save
 * but the number of sequences consumed, the same order on every machine, no table.
 *
 * Sequence i of a split is tokens[i·T … i·T+T] of that split; inputs are its first T, targets its last T. The
 * validation split is the contiguous tail of the corpus, read in file order; no training sequence reaches
 * into it. */
#ifndef ANNEAL_DATASETS_BATCH_H
#define ANNEAL_DATASETS_BATCH_H

#include <stdint.h>

#include "core/base/err.h"

enum shuffle {
    SHUFFLE_STRIDE, /* stride coprime to n nearest n/φ, offset from (seed, epoch): a bijection */
    SHUFFLE_RANDOM, /* a Feistel network with cycle walking, keyed by (seed, epoch): a bijection */
    SHUFFLE_NONE,   /* in file order */
};

/* One contiguous range of tokens cut into sequences. */
struct split {
    const uint32_t *tokens; /* borrowed */
    uint64_t token_count;
    int seq_len;        /* T */
    uint64_t sequences; /* (token_count - 1) / T */
    uint64_t seed;
    enum shuffle shuffle;
};

/* Cuts `count` tokens into train and validation. val_fraction in [0, 1); 0 leaves validation->sequences 0.
 * STATUS_USAGE with both numbers when a split that must have sequences is shorter than one (T+1 tokens). */
enum status split_make(const uint32_t *tokens, uint64_t count, double val_fraction, int seq_len,
                       uint64_t seed, enum shuffle shuffle, struct split *train, struct split *validation,
                       struct err *err);

/* The position of the `index`-th sequence of `epoch` in file order: a permutation of [0, sequences). */
uint64_t split_permute(const struct split *split, uint64_t epoch, uint64_t index);

/* Fills inputs and targets (B,T) int32 with sequences cursor, cursor+1, … cursor+B-1, counted over all
 * epochs: sequence number c belongs to epoch c / sequences. */
void split_batch(const struct split *split, uint64_t cursor, int B, int32_t *inputs, int32_t *targets);

#endif
