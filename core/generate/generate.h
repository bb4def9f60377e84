/* Text generation: sampling a continuation of a prompt, token by token. */
#ifndef ANNEAL_CORE_GENERATE_GENERATE_H
#define ANNEAL_CORE_GENERATE_GENERATE_H

#include <stdint.h>

#include "core/network/network.h"
#include "datasets/tokenizer.h"

struct sampling {
    double temperature; /* 0: always the likeliest token */
    int top_k;          /* 0: all */
    double top_p; /* in (0, 1]; 1: all. The smallest set of likeliest tokens whose probability reaches it */
    uint64_t seed;
};

/* Everything generation needs, allocated once. */
struct generator {
    struct network *network;           /* borrowed */
    const struct tokenizer *tokenizer; /* borrowed */
    float *logits;                     /* (V), of the network's host memory */
    struct candidate *candidates;      /* (V), scratch; owned */
    int32_t *context;                  /* (T), of the network's host memory */
    int length;                        /* tokens in context */
};

enum status generator_open(struct generator *generator, struct network *network,
                           const struct tokenizer *tokenizer, struct err *err);
void generator_close(struct generator *generator); /* harmless on a zeroed struct */

/* Starts anew with `prompt` (its last T tokens where it is longer). An empty prompt starts from a newline. */
enum status generator_start(struct generator *generator, const char *prompt, struct err *err);

/* Draws the `index`-th token (from 0) and appends it; a context of T tokens drops its older half. The draw is
 * a pure function of (sampling.seed, index, logits). */
uint32_t generator_next(struct generator *generator, const struct sampling *sampling, int64_t index);

/* How many of the last bytes (0 to 3) begin a UTF-8 character that is not complete yet. */
size_t generate_incomplete_tail(const char *bytes, size_t n);

/* Valid UTF-8 of any bytes, fit for a terminal: each invalid byte and each control character but newline and
 * tab becomes U+FFFD. An incomplete character at the end is left out. Writes at most size-1 bytes and a NUL
 * (nothing when size is 0); returns the length. */
size_t generate_clean_utf8(char *out, size_t size, const char *bytes, size_t n);

#endif
