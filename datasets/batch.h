/* Batches: the tokens of each micro-batch, a pure function of (seed, epoch, index): the only state to save is
 * the number of sequences consumed, the order is the same on every machine, and there is no table.
 *
 * A corpus is one or more runs of tokens, one per file. Sequence i of a run is its tokens[i·T … i·T+T];
 * inputs are the first T, targets the last T. No sequence crosses from one run to the next; the rest at the
 * end of a run, at most T tokens, is unused. The sequences of a split are numbered through all its runs and
 * then shuffled: an epoch has each of them exactly once.
 *
 * Validation data is a separate corpus, the tail of all tokens, or blocks: whole sequences evenly spread over
 * the corpus. Training and validation sequences share no token, neither input nor label. */
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

/* The part of a corpus that is held out for validation. */
enum val_split {
    VAL_BLOCKS, /* sequences evenly spread over the corpus */
    VAL_TAIL,   /* the last tokens */
};

/* How a corpus is divided into training and validation, and in which order the training part comes. */
struct split_rule {
    enum val_split val_split;
    double val_fraction; /* in [0, 1); 0: nothing is held out */
    int seq_len;         /* T */
    uint64_t seed;
    enum shuffle shuffle;
};

/* A run of tokens, or a split's part of it: one of the two pointers is set, both are borrowed.
 *
 * With VAL_BLOCKS two splits share the sequences of a run. The smaller split has the islands: island k of n
 * is sequence (2k+1)·count/(2n), rounded down. The other split has the stretches between them. Neighbours in
 * different splits share no token, so each change from one split to the other uses one more token. Otherwise
 * a run has no islands, and one split has all of it. */
struct split_run {
    const uint32_t *wide;
    const uint16_t *narrow;
    uint64_t first;   /* number of its first sequence; runs without a whole sequence are skipped */
    uint64_t count;   /* sequences of the run, in both splits */
    uint64_t islands; /* at most half of count */
    bool has_islands; /* whether this split has the islands, or the stretches between them */
};

/* Tokens divided into sequences. */
struct split {
    struct split_run *runs; /* run_count of them, owned */
    size_t run_count;
    uint64_t token_count; /* of all runs */
    int seq_len;          /* T */
    uint64_t sequences;   /* in all runs */
    uint64_t seed;
    enum shuffle shuffle;
    int64_t padding; /* a target with this id is LABEL_IGNORED and does not count; -1 (initially): none */
};
enum { LABEL_IGNORED = -100 };

/* Splits a corpus into training and validation. A val_fraction of 0 leaves validation->sequences 0.
 *
 * VAL_TAIL: the last val_fraction of all tokens, in file order; it may begin within a file and span several.
 * VAL_BLOCKS: val_fraction of all sequences, rounded, in an order whose first sequences are evenly spread,
 * too, for every seed: a few batches represent the whole corpus.
 *
 * STATUS_USAGE if a split that needs sequences has none. */
enum status split_corpus(const struct corpus *corpus, const struct split_rule *rule, struct split *train,
                         struct split *validation, struct err *err);

void split_release(struct split *split); /* harmless on a zeroed struct */

/* Whether number i of `count` documents or examples is held out, of which val_fraction is, rounded. */
bool split_holds_out(uint64_t i, uint64_t count, const struct split_rule *rule);

/* The position of the `index`-th sequence of `epoch` in file order: a permutation of [0, sequences). */
uint64_t split_permute(const struct split *split, uint64_t epoch, uint64_t index);

/* Fills inputs and targets (B,T) int32 with sequences cursor, cursor+1, … cursor+B-1, counted over all
 * epochs: sequence number c belongs to epoch c / sequences. */
void split_batch(const struct split *split, uint64_t cursor, int B, int32_t *inputs, int32_t *targets);

/* Where batches come from. Rows are counted over all epochs. The functions may be called by any thread. */
struct batch_source {
    const void *context; /* borrowed */
    int T;
    bool packed;   /* fill gets positions, else NULL for them */
    uint64_t rows; /* in an epoch; 0: there is no data */
    double span;   /* the length of the sequences in rows: their mean over all tokens of an epoch */
    /* fills (B,T) with the rows cursor, cursor + 1, … */
    void (*fill)(const void *context, uint64_t cursor, int B, int32_t *inputs, int32_t *targets,
                 int32_t *positions);
    /* how many targets of so many rows count, or the sum of their weights */
    double (*labels)(const void *context, uint64_t cursor, uint64_t rows);
    /* hints that these rows will be read; returns without waiting */
    void (*announce)(const void *context, uint64_t cursor, int B);
};
struct batch_source split_source(const struct split *split);

/* Whether the first `rows` of a source have a target that counts; stops at the first one. */
bool batch_source_counts(const struct batch_source *source, uint64_t rows);

#endif
