/* Sampling: from logits to the next token. */
#ifndef ANNEAL_CORE_GENERATE_SAMPLING_H
#define ANNEAL_CORE_GENERATE_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

/* Applied in this order, as in transformers. */
struct sampling {
    /* Divides the positive logits, and multiplies the negative ones, of all tokens in prompt and text (Keskar
     * et al., "CTRL", 2019); 0 or 1: none */
    double repetition_penalty;
    double presence_penalty; /* subtracted from the logits of all tokens in the text so far; 0: none */
    double temperature;      /* divides the logits; 0: always the likeliest token */
    int top_k;               /* draw among the likeliest k; 0: all */
    double top_p; /* in (0, 1]: among the fewest likeliest that together reach this probability; 1: all
                     (Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020) */
    double min_p; /* in [0, 1]: among those at least this times as likely as the likeliest; 0: all */
    uint64_t seed;
};

/* The scratch memory of draws, and which tokens a text has. */
struct sampler {
    int V;
    struct candidate *candidates; /* (V), owned */
    unsigned char *seen;          /* (V), owned: enum seen */
    bool lost;                    /* the last draw had no finite logit */
};

enum seen { SEEN_NEVER, SEEN_IN_PROMPT, SEEN_IN_TEXT };

enum status sampler_open(struct sampler *sampler, int V, struct err *err);
void sampler_close(struct sampler *sampler); /* harmless on a zeroed struct */

/* A new text begins. */
void sampler_begin(struct sampler *sampler);
/* The text has this token, in [0,V). */
void sampler_note(struct sampler *sampler, uint32_t token, enum seen where);

/* Draws the `index`-th token of a text (from 0): a pure function of (sampling, index, logits (V), the tokens
 * noted). Logits that are not finite are never drawn, but if none is finite the result is token 0; of equal
 * ones the lowest token counts as the likeliest. */
uint32_t sampler_draw(struct sampler *sampler, const struct sampling *sampling, const float *logits,
                      int64_t index);
/* STATUS_CORRUPT if no logit of the last draw was finite: its token says nothing of the model. */
enum status sampler_check(const struct sampler *sampler, struct err *err);

#endif
