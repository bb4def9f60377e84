/* Batches from several sources, by weights.
 *
 * Training: among the rows of a mixture, each source has its share in every period of MIXTURE_PERIOD rows,
 * exactly, and evenly spread: a batch has about its share of every source. A source's own rows come in its
 * own order: none comes again before its epoch ends. Which source a row is of, and which of its rows, follows
 * from the number of the row alone, so there is no state to save, and ranks that divide a step's rows have
 * the same rows as one rank. An epoch of the mixture is as many rows as all sources have together; sources
 * whose weight is above their share of the data begin again before it ends.
 *
 * Validation: each source's first rows, one source after the other, as many of each as its weight says and it
 * has, at least one. */
#ifndef ANNEAL_DATASETS_MIXTURE_H
#define ANNEAL_DATASETS_MIXTURE_H

#include <stdint.h>

#include "core/base/err.h"
#include "datasets/batch.h"
#include "datasets/inputs.h"

enum { MIXTURE_PERIOD = 10000, MIXTURE_SOURCES_MAX = INPUT_SOURCES_MAX };

struct mixture {
    struct batch_source sources[MIXTURE_SOURCES_MAX]; /* count of them, all of rows of T, packed or all not */
    int count;
    uint64_t rows;                           /* in an epoch */
    uint64_t quotas[MIXTURE_SOURCES_MAX];    /* training: rows of each in a period */
    uint64_t first[MIXTURE_SOURCES_MAX + 1]; /* validation: the first row of each, and the end */
    struct mixture_place {
        uint32_t rank;   /* rows of the same source before it in the period */
        uint32_t source; /* of the row at this place of a period */
    } * period;          /* training: MIXTURE_PERIOD of them, owned; NULL: validation */
};

/* `sources` (count, at most MIXTURE_SOURCES_MAX), each with rows, and their weights (count), above 0. Copies
 * both; the contexts of the sources are borrowed. STATUS_USAGE if a weight is less than one of
 * MIXTURE_PERIOD. */
enum status mixture_open_training(const struct batch_source *sources, const double *weights, int count,
                                  struct mixture *out, struct err *err);
/* `most`: rows of all sources; 0: all that there are. */
void mixture_open_validation(const struct batch_source *sources, const double *weights, int count,
                             uint64_t most, struct mixture *out);
void mixture_close(struct mixture *mixture); /* harmless on a zeroed struct */

/* The source of a row, which is row *index of that source; both are counted through all epochs. */
int mixture_source_of(const struct mixture *mixture, uint64_t row, uint64_t *index);

struct batch_source mixture_batches(const struct mixture *mixture);

#endif
