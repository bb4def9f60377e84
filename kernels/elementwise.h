/* Operations that treat every element alike. */
#ifndef ANNEAL_KERNELS_ELEMENTWISE_H
#define ANNEAL_KERNELS_ELEMENTWISE_H

#include <stddef.h>

struct stream;

/* x (n) += delta (n). delta may be x itself. */
void add(float *x, const float *delta, size_t n, struct stream *stream);

#endif
