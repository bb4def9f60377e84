/* Projections: every product of the network with a layer's weight goes through here. One may be packed of
 * several matrices: those that lie behind one another count as one; where some of them are frozen, products
 * read and write ranges of columns. A frozen weight's gradient is not computed. */
#ifndef ANNEAL_CORE_NETWORK_LINEAR_H
#define ANNEAL_CORE_NETWORK_LINEAR_H

#include "core/network/network.h"

/* out (N, rows) = x (N, cols) Wᵀ */
void linear_forward(struct network *network, void *out, const void *x, int N, const struct linear *w);

/* The gradient of W += doutᵀ x, and dx (N, cols) = dout W; dx may be where x is, or NULL: nobody needs it. */
void linear_backward(struct network *network, void *dx, const void *dout, const void *x, int N,
                     const struct linear *w);

/* out (N, rows) += bias, of as many parts as W; and the gradient of bias += the column sums of dout. */
void linear_add_bias(struct network *network, void *out, int N, const struct linear *w,
                     const struct param *bias);
void linear_bias_backward(struct network *network, const void *dout, int N, const struct linear *w,
                          const struct param *bias, void *scratch);

/* The copy of a parameter that the network computes with. */
static inline const void *parameter(const struct network *net, const struct param *p)
{
    const unsigned char *arena = p->frozen ? net->frozen : net->compute_weights;
    return arena + p->offset * precision_bytes(net->plan->input.precision);
}

/* NULL: it is frozen. */
static inline float *gradient(const struct network *net, const struct param *p)
{
    return p->frozen ? NULL : net->gradients + p->offset;
}

/* Whether anything trainable is used in this place of the layer, or before it: then the gradient that comes
 * there from above is needed. */
static inline bool needed(const struct network *net, int layer, int place)
{
    return net->model->lowest <= param_place(layer, place);
}

/* All of its parts. */
bool linear_is_frozen(const struct linear *w);

/* A W of one part as an operand, (rows, cols). */
struct matrix linear_view(const struct network *network, const struct linear *w);

#endif
