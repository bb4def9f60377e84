/* A confusion matrix: how often a classifier gave texts of one class the label of another, and the scores of
 * each class that follow from it. */
#ifndef ANNEAL_CORE_BASE_CONFUSION_H
#define ANNEAL_CORE_BASE_CONFUSION_H

#include <stddef.h>
#include <stdint.h>

/* `counts` (classes, classes): row: the true class, column: the one predicted. */
struct confusion {
    int classes;
    int64_t *counts;
    const char *const *names; /* (classes) */
};

struct class_scores {
    double precision; /* of the texts given this label, the share that has it; 0 if there are none */
    double recall;    /* of the texts with this label, the share that was given it; 0 if there are none */
    double f1;        /* 2 · precision · recall / (precision + recall), 0 if both are 0 */
    int64_t support;  /* texts with this label */
    int64_t given;    /* texts that were given this label */
};

struct class_scores confusion_scores(const struct confusion *confusion, int label);

/* The share of texts that were given their label; NaN without texts. */
double confusion_accuracy(const struct confusion *confusion);

/* The means over all classes with the same weight, and the sums of support and given (as scikit-learn's
 * "macro"): a class without texts counts only if some text was given its label. */
struct class_scores confusion_macro(const struct confusion *confusion);

enum class_score { SCORE_NONE, SCORE_F1, SCORE_PRECISION, SCORE_RECALL };

/* Which score of one class eval.metric names, as recall.spam does, and in *label (may be NULL) where the
 * label begins in it. SCORE_NONE: it names another measure. */
enum class_score class_score_read(const char *metric, const char **label);

/* Writes the name of the measure that eval.metric means, cut to `size`: the same text, but a label in it has
 * its plain name (text_plain_name). Returns buf. */
char *class_score_measure(const char *metric, char *buf, size_t size);

#endif
