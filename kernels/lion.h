/* Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023) over one flat range. With
 * ĝ = g · clip.scale:
 *
 *     c = β₁ m + (1 − β₁) ĝ,    w ← w − lr · (sign(c) + weight_decay · w),    m ← β₂ m + (1 − β₂) ĝ
 *
 * sign(0) = 0; lr is control->lr. w (n) are fp32 master weights, of which the first `decayed` decay; m, g (n)
 * fp32. weights (n) = w, rounded to the stream's precision; where that is fp32 it is w itself. Nothing else
 * aliases. A clip scale of 0 leaves everything untouched. */
#ifndef ANNEAL_KERNELS_LION_H
#define ANNEAL_KERNELS_LION_H

#include "kernels/backend.h"

void lion_step(float *w, void *weights, float *m, const float *g, size_t n, size_t decayed,
               struct lion_params params, const struct step_control *control, const struct clip_state *clip,
               struct stream *stream);

#endif
