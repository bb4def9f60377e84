/* See sampling.h. The vocabulary is not sorted: a heap yields the likeliest candidates one by one, and a draw
 * needs few of them. */
#include "core/generate/sampling.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"

struct candidate {
    float logit;
    uint32_t token;
};

enum status sampler_open(struct sampler *s, int V, struct err *err)
{
    *s = (struct sampler){.V = V};
    s->candidates = malloc((size_t)V * sizeof *s->candidates);
    s->seen = calloc((size_t)V, 1);
    if (s->candidates && s->seen) return STATUS_OK;
    sampler_close(s);
    return err_no_memory(err, "text over %d tokens", V);
}

void sampler_close(struct sampler *s)
{
    free(s->candidates);
    free(s->seen);
    *s = (struct sampler){0};
}

void sampler_begin(struct sampler *s)
{
    memset(s->seen, SEEN_NEVER, (size_t)s->V);
}

void sampler_note(struct sampler *s, uint32_t token, enum seen where)
{
    if (s->seen[token] < where) s->seen[token] = (unsigned char)where;
}

/* ---- candidates ---- */

static float penalised(const struct sampling *p, float logit, enum seen seen)
{
    double penalty = p->repetition_penalty;
    if (seen != SEEN_NEVER && penalty > 0) logit = (float)(logit > 0 ? logit / penalty : logit * penalty);
    return seen == SEEN_IN_TEXT ? (float)(logit - p->presence_penalty) : logit;
}

/* The tokens with a finite logit; returns how many. */
static int gather(struct sampler *s, const struct sampling *p, const float *logits)
{
    int count = 0;
    for (int i = 0; i < s->V; i++) {
        float logit = penalised(p, logits[i], (enum seen)s->seen[i]);
        if (isfinite(logit)) s->candidates[count++] = (struct candidate){logit, (uint32_t)i};
    }
    return count;
}

static bool likelier(const struct candidate *a, const struct candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->token < b->token);
}

static uint32_t likeliest(const struct candidate *c, int count)
{
    const struct candidate *best = c;
    for (int i = 1; i < count; i++)
        if (likelier(&c[i], best)) best = &c[i];
    return best->token;
}

/* ---- a heap, the likeliest on top ---- */

static void sift_down(struct candidate *heap, int count, int at)
{
    struct candidate moved = heap[at];
    for (int child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && likelier(&heap[child + 1], &heap[child])) child++;
        if (!likelier(&heap[child], &moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Candidates in two parts: a heap, and behind it those taken from it, so that the likeliest is the last. */
struct ranking {
    struct candidate *all;
    int count, left; /* left: still in the heap */
};

static struct ranking rank(struct candidate *all, int count)
{
    for (int i = count / 2; i-- > 0;) sift_down(all, count, i);
    return (struct ranking){all, count, count};
}

/* The candidate of this rank, from 0. */
static const struct candidate *ranked(struct ranking *r, int at)
{
    while (r->count - r->left <= at) {
        struct candidate top = r->all[0];
        r->all[0] = r->all[--r->left];
        if (r->left) sift_down(r->all, r->left, 0);
        r->all[r->left] = top;
    }
    return &r->all[r->count - 1 - at];
}

/* ---- drawing ---- */

/* Draws with `uniform` in (0, 1). Weights are relative to the likeliest candidate's, which is 1. */
static uint32_t draw(struct candidate *c, int count, const struct sampling *p, double uniform)
{
    struct ranking r = rank(c, count);
    double scale = fmin(1 / p->temperature, DBL_MAX), total = 0, kept = 0, weight = 1;
    float top = c[0].logit;
#define WEIGHT(candidate) exp(((double)(candidate)->logit - top) * scale)
    bool some = p->top_k > 0 && p->top_k < count;
    int most = some ? p->top_k : count, at;
    for (int i = 0; i < most; i++) {
        weight = WEIGHT(some ? ranked(&r, i) : &c[i]);
        total += weight;
        if (weight >= p->min_p) kept += weight;
    }
    if (p->top_p < 1) {
        kept = 0;
        for (at = 0; at < most && kept < p->top_p * total; at++) {
            weight = WEIGHT(ranked(&r, at));
            if (weight < p->min_p) break;
            kept += weight;
        }
        most = at;
    }
    double left = uniform * kept;
    for (at = 0; at < most; at++) {
        weight = WEIGHT(ranked(&r, at));
        if (weight < p->min_p) break; /* rounding: the one before it */
        if ((left -= weight) < 0) return ranked(&r, at)->token;
    }
#undef WEIGHT
    return ranked(&r, at > 0 ? at - 1 : 0)->token;
}

uint32_t sampler_draw(struct sampler *s, const struct sampling *p, const float *logits, int64_t index)
{
    uint64_t step = (uint64_t)index;
    struct philox_block r = philox4x32_10((uint32_t)step, (uint32_t)(step >> 32), 0, 0x73616D70u,
                                          (uint32_t)p->seed, (uint32_t)(p->seed >> 32));
    int count = gather(s, p, logits);
    s->lost = !count;
    if (!count) return 0;
    return p->temperature > 0 ? draw(s->candidates, count, p, (r.word[0] + 0.5) / 4294967296.0)
                              : likeliest(s->candidates, count);
}

enum status sampler_check(const struct sampler *s, struct err *err)
{
    if (!s->lost) return STATUS_OK;
    return err_set(
        err, STATUS_CORRUPT,
        "the model computes no finite number for any next token (its weights are damaged: they hold "
        "NaN or infinity, or are far too large)");
}
