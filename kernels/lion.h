/* Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023) over the flat arena. With
 * ĝ = g · clip.scale:
 *
 *     c = β₁ m + (1 − β₁) ĝ,    w ← w − s · lr · (sign(c) + weight_decay · w),    m ← β₂ m + (1 − β₂) ĝ
 *
 * sign(0) = 0; lr is control->lr, s and weight_decay are those of the range (range_count of them) that an
 * element lies in. w (n) are fp32 master weights; m, g (n) fp32, v NULL. weights (n) = w, rounded to the
 * stream's precision; where that is fp32 it is w itself. Nothing else aliases. A clip scale of 0 leaves
 * everything untouched. */
#ifndef ANNEAL_KERNELS_LION_H
#define ANNEAL_KERNELS_LION_H

#include "kernels/device/backend.h"

void lion_step(float *w, void *weights, float *m, float *v, const float *g, size_t n,
               const struct update_range *ranges, int range_count, struct optimizer_params params,
               struct step_control *control, const struct clip_state *clip, struct stream *stream);

#endif
