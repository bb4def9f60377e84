/* See rotary.h. */
#include "core/model/rotary.h"

#include <math.h>

double rotary_frequency(const struct model_config *c, int i)
{
    double frequency = pow(c->rope_base, -2.0 * i / c->head_dim);
    if (c->rope_scaling == ROPE_LINEAR) return frequency / c->rope_factor;
    if (c->rope_scaling != ROPE_LLAMA3) return frequency;
    double turns = c->rope_original_len * frequency / (2 * M_PI); /* of a wave over the original length */
    double low = c->rope_low_freq_factor, high = c->rope_high_freq_factor;
    if (turns > high) return frequency;
    if (turns < low) return frequency / c->rope_factor;
    double share = (turns - low) / (high - low);
    return (1 - share) * frequency / c->rope_factor + share * frequency;
}
