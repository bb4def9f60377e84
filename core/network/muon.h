/* Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024): the update of a
 * matrix is its momentum with all singular values brought near to 1. For each orthogonal parameter W (rows,
 * cols), with ĝ = g · clip.scale and the momentum μ:
 *
 *     m ← μ m + (1 − μ) ĝ,    x = nesterov ? μ m + (1 − μ) ĝ : m,    x ← x / max(‖x‖, 1e-7)
 *     `iterations` times:  A = x xᵀ,  x ← (a I + b A + c A²) x        (Newton–Schulz; rows <= cols)
 *     W ← (1 − s · lr · weight_decay) W − s · lr · scale · x
 *
 * with A = xᵀ x and products from the right where rows > cols. q, k and v, or gate and up, are one matrix for
 * the passes, but each is orthogonalised by itself. x and A are in the precision of the stream, sums in fp32.
 * Gradients of these parameters are overwritten. An iteration is three products of together
 * 2 · side · (2 · rows · cols + side²) FLOPs, side = min(rows, cols), and one operation in memory. */
#ifndef ANNEAL_CORE_NETWORK_MUON_H
#define ANNEAL_CORE_NETWORK_MUON_H

#include "core/network/network.h"

enum { MUON_ITERATIONS_MAX = 8 };

struct muon {
    double momentum;
    bool nesterov;
    int iterations; /* at most MUON_ITERATIONS_MAX */
    enum muon_coefficients coefficients;
    enum muon_scaling scaling;
};

/* Queues the update of the orthogonal parameters that this rank owns, at the learning rate of the network's
 * control, by the ranges of the table in device memory. The order of parameters is that of the model. */
void muon_step(struct network *network, const struct muon *muon, const struct update_range *ranges,
               int range_count, const struct clip_state *clip);

/* For the planner: the longest update, of all orthogonal parameters, so that ranks plan the same memory
 * whatever they own. */
void muon_walk(struct network *network, const struct clip_state *clip);

#endif
