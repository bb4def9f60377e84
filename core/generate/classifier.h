/* The answers of a classifier: the logits of the sequences in a batch. */
#ifndef ANNEAL_CORE_GENERATE_CLASSIFIER_H
#define ANNEAL_CORE_GENERATE_CLASSIFIER_H

#include "core/network/network.h"

struct classifier {
    struct network *network; /* borrowed; its model is a classifier */
    int rows;                /* whose logits are read at a time */
    float *logits;           /* (rows, num_labels), owned */
};

enum status classifier_open(struct classifier *classifier, struct network *network, struct err *err);
void classifier_close(struct classifier *classifier); /* harmless on a zeroed struct */

/* The place in a text, ids (count, at least 1), of the token that it is judged by. POOLING_LAST: as in
 * transformers the last one that is not `pad` (-1: none), which some tokenizers put behind every text; the
 * first if all are. POOLING_MEAN: the last one, up to which the mean goes. */
int classifier_place(enum pooling pooling, int pad, const uint32_t *ids, int count);

/* Computes the batch, and calls take for each sequence, in the order of the rows: those with a label of at
 * least 0 are those that their sequences are judged by. `logits` (num_labels) is valid during the call.
 * Waits. A failed device gives numbers without meaning: ask stream_wait before using them. */
void classifier_run(struct classifier *classifier, struct batch_view batch,
                    void (*take)(void *context, int row, const float *logits), void *context);

/* out (count) = softmax(logits); returns the index of the largest, the first of several, or -1 if one of the
 * logits is not finite. */
int classifier_probabilities(const float *logits, int count, double *out);

#endif
