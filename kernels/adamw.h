/* AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019) over the flat arena. With
 * ĝ = g · clip.scale:
 *
 *     m ← β₁ m + (1 − β₁) ĝ,    v ← β₂ v + (1 − β₂) ĝ²
 *     w ← w − s · lr · ( (m / (1 − β₁ᵗ)) / (sqrt(v / (1 − β₂ᵗ)) + eps) + weight_decay · w )
 *
 * lr is control->lr, t is clip->updates, at least 1; control->rate and root are overwritten with what follows
 * from them: lr / (1 − β₁ᵗ), 1 / sqrt(1 − β₂ᵗ). s and weight_decay are those of the range (range_count of
 * them) that an element lies in.
 *
 * w (n) are fp32 master weights; m, v, g (n) fp32. weights (n) = w, rounded to the stream's precision; where
 * that is fp32 it is w itself. Nothing else aliases. A clip scale of 0 leaves everything untouched. */
#ifndef ANNEAL_KERNELS_ADAMW_H
#define ANNEAL_KERNELS_ADAMW_H

#include "kernels/device/backend.h"

void adamw_step(float *w, void *weights, float *m, float *v, const float *g, size_t n,
                const struct update_range *ranges, int range_count, struct optimizer_params params,
                struct step_control *control, const struct clip_state *clip, struct stream *stream);

#endif
