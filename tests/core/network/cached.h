/* Comparisons of logits through the KV cache with those of full forward passes, on any table. Each opens
 * small networks of its own, and fails the running test where the logits differ by more than numerics allow:
 * 1e-5 in fp32; in bf16 twice the error of the full pass, judged by a full pass in fp32 with the same
 * weights. */
#ifndef ANNEAL_TESTS_CORE_NETWORK_CACHED_H
#define ANNEAL_TESTS_CORE_NETWORK_CACHED_H

#include "kernels/device/backend.h"

/* Kinds of models, by number: Llama, tied, with biases (Qwen2), with QK-norm (Qwen3), heads whose width
 * is not C/NH, and a window in one layer. */
enum { CACHED_KINDS = 6 };

/* `backend` NULL: the CPU table. */

/* One sequence in pieces of 1, 2, 3, … tokens, in one whole, and one token at a time. */
void cached_pieces_agree(const struct backend *backend, enum precision precision, int kind);
/* Three sequences, each as long as it likes, and passes with rows of all of them in any order. */
void cached_mixture_agrees(const struct backend *backend, enum precision precision, int kind);
/* Slots that are emptied, and cut in the middle, and go on with something else. */
void cached_reuse_agrees(const struct backend *backend, enum precision precision);
/* Token by token from 250 to 260, and a second sequence beside it for four tokens, replayed where the device
 * queues its work. */
void cached_decoding_agrees(const struct backend *backend, enum precision precision);
/* A sequence of several hundred tokens, through passes of at most 40. */
void cached_long_sequence_agrees(const struct backend *backend, enum precision precision);

#endif
