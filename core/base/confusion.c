/* See confusion.h. */
#include "core/base/confusion.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

static double share(int64_t part, int64_t of)
{
    return of ? (double)part / (double)of : 0;
}

struct class_scores confusion_scores(const struct confusion *c, int label)
{
    size_t K = (size_t)c->classes, k = (size_t)label;
    struct class_scores s = {0};
    for (size_t i = 0; i < K; i++) {
        s.support += c->counts[k * K + i];
        s.given += c->counts[i * K + k];
    }
    s.precision = share(c->counts[k * K + k], s.given);
    s.recall = share(c->counts[k * K + k], s.support);
    s.f1 = share(2 * c->counts[k * K + k], s.given + s.support);
    return s;
}

double confusion_accuracy(const struct confusion *c)
{
    size_t K = (size_t)c->classes;
    int64_t right = 0, all = 0;
    for (size_t i = 0; i < K * K; i++) {
        all += c->counts[i];
        if (i % (K + 1) == 0) right += c->counts[i];
    }
    return all ? (double)right / (double)all : NAN;
}

struct class_scores confusion_macro(const struct confusion *c)
{
    struct class_scores sum = {0};
    int present = 0;
    for (int k = 0; k < c->classes; k++) {
        struct class_scores s = confusion_scores(c, k);
        if (!s.support && !s.given) continue;
        present++;
        sum.precision += s.precision;
        sum.recall += s.recall;
        sum.f1 += s.f1;
        sum.support += s.support;
        sum.given += s.given;
    }
    double n = present ? present : NAN;
    return (struct class_scores){sum.precision / n, sum.recall / n, sum.f1 / n, sum.support, sum.given};
}

enum class_score class_score_read(const char *metric, const char **label)
{
    static const char *const scores[] = {
        [SCORE_F1] = "f1.", [SCORE_PRECISION] = "precision.", [SCORE_RECALL] = "recall."};
    for (int i = SCORE_F1; i <= SCORE_RECALL; i++) {
        size_t n = strlen(scores[i]);
        if (strncmp(metric, scores[i], n) != 0) continue;
        if (label) *label = metric + n;
        return (enum class_score)i;
    }
    return SCORE_NONE;
}

char *class_score_measure(const char *metric, char *buf, size_t size)
{
    if (class_score_read(metric, NULL)) return text_plain_name(metric, strlen(metric), buf, size);
    snprintf(buf, size, "%s", metric);
    return buf;
}
