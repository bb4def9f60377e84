/* Softmax cross-entropy in nats: losses[n] = lse(logits[n]) − logits[n][targets[n]].
 *
 * logits (N,V), targets (N) int32 in [0,V), or −100 (any negative value) for a row that does not count: its
 * loss is 0. The log-sum-exp is in fp32 after subtracting a maximum, so logits of any finite size are fine;
 * −inf logits are probability 0; a NaN or +inf logit makes the loss NaN. The mean over valid tokens is the
 * caller's: it alone knows their number over a whole optimizer step. */
#ifndef ANNEAL_KERNELS_CROSS_ENTROPY_H
#define ANNEAL_KERNELS_CROSS_ENTROPY_H

#include <stdint.h>

struct step_control;
struct stream;

/* losses (N) =. */
void cross_entropy_forward(float *losses, const void *logits, const int32_t *targets, int N, int V,
                           struct stream *stream);

/* losses (N) =, and logits (N,V) is overwritten with its gradient, loss_scale · (softmax − onehot(target)),
 * the scale that of `control` in device memory; rows that do not count become 0. */
void cross_entropy_fused(float *losses, void *logits_dlogits, const int32_t *targets,
                         const struct step_control *control, int N, int V, struct stream *stream);

#endif
