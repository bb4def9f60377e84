/* Projections: every matrix product with a layer's weight goes through here. A weight may be packed from
 * several matrices. Adjacent ones are computed as one product; if some are frozen, products read and write
 * ranges of columns. No gradient is computed for a frozen weight. Adapters (core/model/adapter.h) belong to
 * their projection: with u = x Aᵀ of all of them in one product,
 *
 *     out += scale · u Bᵀ        dB = scale · doutᵀ u, du = scale · dout B, dA = duᵀ x, dx += du A
 *
 * where B and u are of one part and `out` is its columns. With dropout x is replaced by a masked copy, which
 * is one for all parts of a projection. */
#ifndef ANNEAL_CORE_NETWORK_LINEAR_H
#define ANNEAL_CORE_NETWORK_LINEAR_H

#include "core/network/network.h"

/* out (N, rows) = x (N, cols) Wᵀ, adapters and bias */
void linear_forward(struct network *network, void *out, const void *x, int N, const struct linear *w);

/* dx (N, cols) = dout W and adapters; NULL if it is not needed. Always called before linear_backward_weights,
 * for which it prepares the adapters. */
void linear_backward_input(struct network *network, void *dx, const void *dout, int N,
                           const struct linear *w);

/* The gradients of W and its adapters, W's = doutᵀ x, or += if the network adds. */
void linear_backward_weights(struct network *network, const void *dout, const void *x, int N,
                             const struct linear *w);

/* The gradient of the bias, if there is one, += the column sums of dout. */
void linear_backward_bias(struct network *network, const void *dout, int N, const struct linear *w);

/* A parameter for computing: a frozen one as it is stored, any other one in the plan's precision. */
static inline const void *parameter(const struct network *net, const struct param *p)
{
    if (p->frozen) return (const unsigned char *)net->frozen + p->offset;
    return (const unsigned char *)net->compute_weights +
           p->offset * precision_bytes(net->plan->input.precision);
}

/* A matrix as an operand, (rows, cols). */
static inline struct matrix parameter_view(const struct network *net, const struct param *p)
{
    enum element element = p->frozen ? p->element : precision_element(net->plan->input.precision);
    return matrix_view(parameter(net, p), element, p->cols);
}

/* The gradient of a parameter; NULL if it is frozen. */
static inline float *gradient(const struct network *net, const struct param *p)
{
    return p->frozen ? NULL : net->gradients + p->offset;
}

/* Whether this place of the layer, or an earlier one, uses a trainable parameter, so that the backward pass
 * must compute the gradient here. */
static inline bool needed(const struct network *net, int layer, int place)
{
    return net->model->lowest <= param_place(layer, place);
}

/* Whether all parts and adapters are frozen. */
bool linear_is_frozen(const struct linear *w);

/* A weight of one part as an operand, (rows, cols). */
struct matrix linear_view(const struct network *network, const struct linear *w);

#endif
