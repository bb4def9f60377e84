/* Many texts at once. Each has a slot of the cache while it is written, and a step is one pass over the
 * newest tokens of all of them, so that the weights are read once for all. A slot that becomes free takes the
 * next prompt at once; texts and prompts may have any lengths. */
#ifndef ANNEAL_CORE_GENERATE_BATCH_H
#define ANNEAL_CORE_GENERATE_BATCH_H

#include <stdbool.h>

#include "core/generate/ending.h"
#include "core/generate/sampling.h"
#include "core/network/network.h"

/* A prompt, and the text that continues it. */
struct batch_text {
    struct token_list prompt; /* 1 to cache_length - 1 tokens in [0,V); owned by the caller */
    struct growing_text text; /* zero at first; released by the caller */
};

struct batch {
    struct network *network;           /* borrowed; its plan has a cache */
    const struct tokenizer *tokenizer; /* borrowed */
    struct sampling sampling;          /* of every text */
    struct ending ending;
    struct batch_text *texts; /* (count), borrowed */
    size_t count;
    void *context;
    bool (*stop)(void *context);               /* whether to leave after this step */
    void (*ended)(void *context, size_t text); /* a text has ended, in any order */
};

/* Writes all texts. Every text is what it would be alone, up to rounding, which depends on the number of rows
 * in a pass, and up to the end of its slot: one that fills it ends there (END_CONTEXT), where a text alone
 * goes on without its oldest tokens. STATUS_NO_MEMORY, or the device's failure. */
enum status batch_write(const struct batch *batch, struct err *err);

#endif
