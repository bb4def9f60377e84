/* Batches: which tokens go into which micro-batch. A pure function of (seed, epoch, index): nothing to save
 * but the number of sequences consumed, the same order on every machine, no table.
 *
 * A corpus is one run of tokens or several, a file each. Sequence i of a run is tokens[i·T … i·T+T] of it;
 * inputs are its first T, targets its last T. No sequence crosses from one run to the next; what is left at
 * the end of each, at most T tokens, is not seen. The sequences of a split are numbered through all its runs
 * in order, and that is what is shuffled: an epoch has each of them exactly once.
 *
 * What is validated on is either data of its own, the tail of all tokens, or blocks: whole sequences that are
 * evenly spread over the corpus. No token of a training sequence, input or label, is in a validation
 * sequence, and the other way round. */
#ifndef ANNEAL_DATASETS_BATCH_H
#define ANNEAL_DATASETS_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/corpus.h"

enum shuffle {
    SHUFFLE_STRIDE, /* stride coprime to n nearest n/φ, offset from (seed, epoch): a bijection */
    SHUFFLE_RANDOM, /* a Feistel network with cycle walking, keyed by (seed, epoch): a bijection */
    SHUFFLE_NONE,   /* in file order */
};

/* Which part of a corpus is held out for validation. */
enum val_split {
    VAL_BLOCKS, /* sequences evenly spread over the corpus */
    VAL_TAIL,   /* the last tokens */
};

/* A run of tokens, or what a split has of it: one of the two pointers is set, both are borrowed.
 *
 * With VAL_BLOCKS two splits share the sequences of a run. Those of the smaller split are its islands: island
 * k of n is sequence (2k+1)·count/(2n), rounded down, and the other split has the stretches between them. Two
 * neighbours of different splits share no token, so each change from one split to the other takes one token
 * more. Otherwise a run has no islands, and one split has all of it. */
struct split_run {
    const uint32_t *wide;
    const uint16_t *narrow;
    uint64_t first;   /* the number of its first sequence; runs without a whole sequence are left out */
    uint64_t count;   /* sequences of the run, in both splits */
    uint64_t islands; /* at most half of count */
    bool has_islands; /* whether this split has the islands, or the stretches between them */
};

/* Tokens cut into sequences. */
struct split {
    struct split_run *runs; /* run_count of them, owned */
    size_t run_count;
    uint64_t token_count; /* of all runs */
    int seq_len;          /* T */
    uint64_t sequences;   /* in all runs */
    uint64_t seed;
    enum shuffle shuffle;
    int64_t padding; /* a target with this id is LABEL_IGNORED and does not count; -1, as at first: none */
};
enum { LABEL_IGNORED = -100 };

/* Cuts a corpus into train and validation. val_fraction in [0, 1); 0 leaves validation->sequences 0.
 *
 * VAL_TAIL   the last val_fraction of all tokens, in file order; it may begin in the midst of a file and
 * reach over several. VAL_BLOCKS val_fraction of all sequences, rounded. They are read in an order of which
 * every beginning is evenly spread too, the same whatever the seed: an evaluation of a few batches is one of
 * the whole corpus.
 *
 * Where the corpus has validation data of its own, val_split and val_fraction say nothing: all of the corpus
 * is trained on, and that data is read in file order. STATUS_USAGE with the numbers when a split that must
 * have sequences has none. */
enum status split_corpus(const struct corpus *corpus, enum val_split val_split, double val_fraction,
                         int seq_len, uint64_t seed, enum shuffle shuffle, struct split *train,
                         struct split *validation, struct err *err);

void split_release(struct split *split); /* harmless on a zeroed struct */

/* The position of the `index`-th sequence of `epoch` in file order: a permutation of [0, sequences). */
uint64_t split_permute(const struct split *split, uint64_t epoch, uint64_t index);

/* Fills inputs and targets (B,T) int32 with sequences cursor, cursor+1, … cursor+B-1, counted over all
 * epochs: sequence number c belongs to epoch c / sequences. */
void split_batch(const struct split *split, uint64_t cursor, int B, int32_t *inputs, int32_t *targets);

/* How many targets of that many sequences count. Reads them only where there is padding. */
uint64_t split_labels(const struct split *split, uint64_t cursor, uint64_t sequences);

/* Whether at least one target of the first `sequences` of an epoch counts; looks no further than that. */
bool split_counts(const struct split *split, uint64_t sequences);

/* Tells the system that these sequences are going to be read, so that it fetches what is not in memory, all
 * of them at once; returns without waiting. Only a hint: it changes nothing and cannot fail. */
void split_announce(const struct split *split, uint64_t cursor, int B);

#endif
