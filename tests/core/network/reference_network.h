/* A second, simple implementation of the network: double precision, one sequence, one position and one head
 * at a time, no tiles, no packing tricks, no backward pass. It shares only the parameter table with core/, so
 * that an error in core/network/network.c or a kernel shows as a difference. */
#ifndef ANNEAL_TESTS_CORE_NETWORK_REFERENCE_NETWORK_H
#define ANNEAL_TESTS_CORE_NETWORK_REFERENCE_NETWORK_H

#include <stdint.h>

#include "core/model/model.h"
#include "tests/core/network/rig.h"

/* The sum of the losses of inputs (B,T) at targets (B,T), −100 ignored. weights mirrors the arena of `model`.
 * logits (B,T,V) may be NULL. */
double reference_loss(const struct model *model, const double *weights, const int32_t *inputs,
                      const int32_t *targets, int B, int T, struct rig_dropout dropout, double *logits);

#endif
