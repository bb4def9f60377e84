/* Where parameters lie: shared by the files that compute with them. Private to core/network. */
#ifndef ANNEAL_CORE_NETWORK_NETWORK_PARTS_H
#define ANNEAL_CORE_NETWORK_NETWORK_PARTS_H

#include "core/network/network.h"

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

#endif
