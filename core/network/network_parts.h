/* Where the network's memory has what: shared by network.c, which owns it, and network_pass.c, which computes
 * in it. Private to them. */
#ifndef ANNEAL_CORE_NETWORK_NETWORK_PARTS_H
#define ANNEAL_CORE_NETWORK_NETWORK_PARTS_H

#include "core/network/network.h"

/* The residual stream and the last norm's rstd. */
static inline void *stream_at(const struct network *net, size_t offset)
{
    return net->memory[net->plan->stream] + offset;
}

/* What a layer computes from the stream. */
static inline void *inner(const struct network *net, const struct layer_plan *layer, size_t offset)
{
    return net->memory[layer->inner] + offset;
}

static inline void *workspace(const struct network *net, size_t offset)
{
    return net->memory[PLAN_WORKSPACE] + offset;
}

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
