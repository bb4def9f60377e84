/* Labelled texts as tokens, for training a classifier: read from files (labelled_file.h), in memory as a
 * whole, split into training and validation.
 *
 * Labels are numbered in sorted order: as numbers where all of them are whole numbers, else by their bytes.
 * So the order of the rows does not matter, and a resumed run finds the same numbers. */
#ifndef ANNEAL_DATASETS_LABELLED_H
#define ANNEAL_DATASETS_LABELLED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "datasets/corpus.h"
#include "datasets/hash_index.h"
#include "datasets/progress.h"
#include "datasets/tokenizer.h"

struct labelled_example {
    size_t first; /* of its tokens in ids */
    int count;    /* of them, at least 1 */
    int label;
    uint64_t hash; /* of its text */
};

/* Counts of unusual rows, to be reported once. */
struct labelled_report {
    uint64_t rows, truncated, longest; /* the most tokens of a text, before it was cut */
    uint64_t empty, empty_line;     /* texts without a token, which are left out, and the line of the first */
    uint64_t foreign, foreign_line; /* texts that are not UTF-8, and the line of the first */
    uint64_t conflicts;             /* texts that are there with different labels */
};

struct labelled {
    char **names; /* (label_count), in `arena` */
    int label_count;
    struct labelled_example *examples; /* example_count of them, owned */
    size_t example_count, example_capacity;
    size_t training; /* the first so many examples are for training, the others for validation */
    struct token_list ids;
    struct labelled_report report;
    uint64_t checksum; /* of all tokens and labels, in the order of the files */
    struct arena arena;
    struct hash_index index; /* private: labels by hash */
};

struct labelled_wish {
    const char *text_column, *label_column;
    const struct tokenizer *tokenizer;
    int longest;   /* tokens of a text */
    bool truncate; /* texts that are longer lose their end; else they are an error */
    int least_labels;
    const struct progress *progress;
};

/* Reads the files that `value` names, as data.train does. STATUS_USAGE and STATUS_CORRUPT name file and line;
 * or there are fewer than `least_labels` labels. Release it even after a failure. */
enum status labelled_open(struct labelled *data, const char *value, const struct labelled_wish *wish,
                          struct err *err);
void labelled_release(struct labelled *data); /* harmless on a zeroed struct */

/* Then sets validation examples apart: those of the files that `value` names, whose labels must all be known;
 * or if it is "", of each label the share `fraction` of its examples, at least one where there are two and
 * never all, chosen by `seed`. */
enum status labelled_split(struct labelled *data, const char *value, double fraction, uint64_t seed,
                           const struct labelled_wish *wish, struct err *err);

/* Opens the tokenizer of such files as a corpus without tokens: "bytes", the path of a tokenizer.json, or
 * "bpe:N", which is learned from the texts. */
enum status labelled_tokenizer(const char *value, const char *text_column, const char *word,
                               const struct progress *progress, struct corpus *out, struct err *err);

#endif
