/* The frequencies of rotary positions, and how they are stretched for texts longer than a model was made for.
 *
 *     default   f(i) = base^(−2i/HS), i from 0 to HS/2 − 1
 *     linear    f(i) / factor: positions are pressed together
 *     llama3    waves shorter than original/high_freq_factor as they are, those longer than
 *               original/low_freq_factor divided by factor, between them both in proportion (Meta, "The Llama
 * 3 Herd of Models", 2024; as transformers computes it)
 *
 * All in fp64. The table of angles is the network's. */
#ifndef ANNEAL_CORE_MODEL_ROTARY_H
#define ANNEAL_CORE_MODEL_ROTARY_H

#include "core/model/model.h"

/* Radians by which pair i of a head turns from one position to the next. */
double rotary_frequency(const struct model_config *config, int i);

#endif
