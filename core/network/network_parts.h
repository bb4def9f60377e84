/* Where parameters lie: shared by the files that compute with them. Private to core/network. */
#ifndef ANNEAL_CORE_NETWORK_NETWORK_PARTS_H
#define ANNEAL_CORE_NETWORK_NETWORK_PARTS_H

#include "core/network/network.h"

/* What the network computes with of a parameter. */
static inline const void *parameter(const struct network *net, const struct param *p)
{
    return (const unsigned char *)net->compute_weights +
           p->offset * precision_bytes(net->plan->input.precision);
}

static inline float *gradient(const struct network *net, const struct param *p)
{
    return net->gradients + p->offset;
}

#endif
