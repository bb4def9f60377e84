/* Writing text without a session: a prompt in pieces and then token by token through the KV cache, on any
 * device, for gpu-check. Stands on libc alone. */
#ifndef ANNEAL_TESTS_GPU_DECODING_H
#define ANNEAL_TESTS_GPU_DECODING_H

#include "core/model/model.h"
#include "kernels/device/backend.h"

/* Tokens of the prompt, of each of its pieces, of the text; of the text, those that are not timed. */
enum { DECODING_PROMPT = 240, DECODING_PIECE = 80, DECODING_TEXT = 40, DECODING_UNTIMED = 20 };

struct decoding {
    float *logits; /* (DECODING_TEXT, V): after each token of the text; owned */
    size_t count;  /* of them */
    double ms;     /* a token, with its logits on the host: the mean of those that are timed */
};

/* With weights of a fixed seed, and fixed tokens. replay: next tokens are replayed as a graph, if the device
 * queues its work. */
enum status decoding_run(const struct backend *backend, enum precision precision,
                         const struct model_config *config, bool replay, struct decoding *out,
                         struct err *err);
void decoding_release(struct decoding *decoding); /* harmless on a zeroed struct */

/* ‖a − b‖ / ‖b‖ of the logits; NaN where one is. */
double decoding_difference(const struct decoding *a, const struct decoding *b);

/* How far logits may be from the CPU's in fp32. */
double decoding_tolerance(enum precision precision);

/* A model of two layers with grouped heads and a window in one of them. */
struct model_config decoding_model(void);

#endif
