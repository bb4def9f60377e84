/* Measures of inference: how fast a prompt was read and a text was written. */
#ifndef ANNEAL_CORE_GENERATE_INFERENCE_H
#define ANNEAL_CORE_GENERATE_INFERENCE_H

#include <stddef.h>

#include "core/base/err.h"
#include "core/base/record.h"

struct inference {
    int64_t prompt_tokens;
    double started, newest; /* clock_monotonic at the start and at the newest token */
    double *latencies;      /* (count) seconds between tokens, the first one since the start; owned */
    size_t count, capacity;
};

/* A prompt of this many tokens begins to be read. */
void inference_begin(struct inference *inference, int64_t prompt_tokens);
/* A token of the text is there. Fails only with STATUS_NO_MEMORY. */
enum status inference_token(struct inference *inference, struct err *err);
/* The measures so far, without checkpoint and time of day. Latencies are sorted: end with it. */
struct inference_record inference_measure(struct inference *inference);
void inference_release(struct inference *inference); /* harmless on a zeroed struct */

#endif
