/* Operations that treat every element alike. */
#ifndef ANNEAL_KERNELS_ELEMENTWISE_H
#define ANNEAL_KERNELS_ELEMENTWISE_H

#include <stddef.h>

struct stream;

/* out (n) = x (n), rounded to the stream's precision, ties to even. out may be x where that is fp32. */
void cast(void *out, const float *x, size_t n, struct stream *stream);

/* x (n) += delta (n). delta may be x itself. */
void add(void *x, const void *delta, size_t n, struct stream *stream);

#endif
