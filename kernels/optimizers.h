/* Every optimizer, listed once: its word in train.optimizer, its number of moments per parameter, the default
 * of train.beta2, and its FLOPs per parameter. The slot of a rule for single elements is NAME_step;
 * operations.def has the common part of the contract; the slot NAME8_step is the same rule with moments in 8
 * bits (moments.h), which it decodes, updates in fp32 and encodes again. Muon updates whole matrices
 * (core/network/muon.h), and all other parameters by AdamW's rule. With ĝ = g · clip.scale, s and
 * weight_decay those of the element's range:
 *
 * AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019):
 *
 *     m ← β₁ m + (1 − β₁) ĝ,    v ← β₂ v + (1 − β₂) ĝ²
 *     w ← w − s · lr · ( (m / (1 − β₁ᵗ)) / (sqrt(v / (1 − β₂ᵗ)) + eps) + weight_decay · w )
 *
 * t is clip->updates, at least 1; control->rate and root are overwritten with lr / (1 − β₁ᵗ) and 1 / sqrt(1 −
 * β₂ᵗ), computed in double.
 *
 * Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023), sign(0) = 0:
 *
 *     c = β₁ m + (1 − β₁) ĝ,    w ← w − s · lr · (sign(c) + weight_decay · w),    m ← β₂ m + (1 − β₂) ĝ */
#ifndef ANNEAL_KERNELS_OPTIMIZERS_H
#define ANNEAL_KERNELS_OPTIMIZERS_H

#define OPTIMIZER_RULES(OPTIMIZER)                                                                           \
    OPTIMIZER(ADAMW, adamw, 2, 0.95, 17)                                                                     \
    OPTIMIZER(LION, lion, 1, 0.99, 11)
#define OPTIMIZER_LIST(OPTIMIZER) OPTIMIZER_RULES(OPTIMIZER) OPTIMIZER(MUON, muon, 2, 0.95, 17)

#endif
