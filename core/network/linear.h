/* Products with weights: every one of the network goes through here. A projection may be packed of several
 * matrices, which are neighbours in memory and count as one. */
#ifndef ANNEAL_CORE_NETWORK_LINEAR_H
#define ANNEAL_CORE_NETWORK_LINEAR_H

#include "core/network/network.h"

/* out (N, rows) = x (N, cols) Wᵀ */
void linear_forward(struct network *network, void *out, const void *x, int N, const struct linear *w);

/* The gradient of W += doutᵀ x, and dx (N, cols) = dout W; dx may be where x is. */
void linear_backward(struct network *network, void *dx, const void *dout, const void *x, int N,
                     const struct linear *w);

/* W as an operand, (rows, cols). */
struct matrix linear_view(const struct network *network, const struct linear *w);

#endif
