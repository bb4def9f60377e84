/* Examples of different length, of whose tokens only some are labels: batches of rows that are packed with
 * them (packing.h).
 *
 * A corpus of examples has, beside its tokens, a file of runs: for each example their number and then their
 * lengths in tokens, by turns of what is not an answer and of an answer. The same format as a token file.
 *
 * Input t of an example is its token t, its target token t + 1, if that is part of an answer. So an example
 * of n tokens takes n − 1 places of a row. Places that stay empty have the token 0 and no target. */
#ifndef ANNEAL_DATASETS_EXAMPLES_H
#define ANNEAL_DATASETS_EXAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/corpus.h"
#include "datasets/packing.h"

struct example {
    uint64_t token; /* its first one, in the only file of the corpus */
    uint64_t runs;  /* its first length, in the file of runs */
    uint32_t count; /* tokens */
    uint32_t run_count;
};

/* The token that ends the first answer of the corpus; there is one. */
uint32_t examples_end(const struct corpus *corpus);

/* One part of a corpus. */
struct example_rows {
    const struct corpus *corpus; /* borrowed */
    struct example *examples;    /* count of them, owned */
    uint32_t *lengths;           /* (count) places of each, at most T; owned */
    uint64_t count;
    struct packing packing;
    int T;
    uint64_t cut;   /* examples of which only the first T places are used, the left out ones included */
    uint64_t empty; /* examples that are left out: no answer begins within their first T places */
    uint64_t lost;  /* tokens of answers that are not used, because of either */
};

/* Checks the runs of a corpus against its tokens. STATUS_CORRUPT: they do not match. */
enum status examples_check(const struct corpus *corpus, struct err *err);

/* Divides the examples into training and validation as split_corpus does sequences. `refuse`: STATUS_USAGE
 * for an example that is longer than T places, else it is cut. validation->count is 0 without validation
 * data; its rows are in random order, so that the first ones are a sample of all. */
enum status example_rows_open(const struct corpus *corpus, const struct split_rule *rule, bool refuse,
                              struct example_rows *train, struct example_rows *validation, struct err *err);
void example_rows_close(struct example_rows *rows); /* harmless on a zeroed struct */

struct batch_source example_rows_source(struct example_rows *rows);

/* Fills a row (T) with example `number`, below count, alone. */
void example_rows_single(const struct example_rows *rows, uint64_t number, int32_t *inputs, int32_t *targets,
                         int32_t *positions);

#endif
