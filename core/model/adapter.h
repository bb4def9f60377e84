/* Adapters: low-rank matrices beside the weights of projections (Hu et al., "LoRA", 2021).
 *
 *     y = x Wᵀ + scale · (x Aᵀ) Bᵀ,    scale = alpha / rank; with rslora alpha / sqrt(rank)
 *
 * A is (rank, columns of W), B (rows of W, rank). They are further parameters of the model, in fp32, under
 * the names that peft gives them without its prefix "base_model.model.". The parameters of the base are
 * frozen, except for norms, head and embedding where the configuration says so. Only core/network/linear.c
 * computes with them. rsLoRA: Kalajdzievski, "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA",
 * 2023. */
#ifndef ANNEAL_CORE_MODEL_ADAPTER_H
#define ANNEAL_CORE_MODEL_ADAPTER_H

#include <stdbool.h>

#include "core/base/err.h"
#include "core/model/model.h"

/* The matrices of a layer that may have an adapter. Those of one projection are neighbours, in the order of
 * its parts. */
#define ADAPTER_TARGETS(TARGET)                                                                              \
    TARGET(Q, "q", "q_proj", "self_attn")                                                                    \
    TARGET(K, "k", "k_proj", "self_attn")                                                                    \
    TARGET(V, "v", "v_proj", "self_attn")                                                                    \
    TARGET(O, "o", "o_proj", "self_attn")                                                                    \
    TARGET(GATE, "gate", "gate_proj", "mlp")                                                                 \
    TARGET(UP, "up", "up_proj", "mlp")                                                                       \
    TARGET(DOWN, "down", "down_proj", "mlp")
enum adapter_target {
#define ADAPTER_CONSTANT(name, word, module, block) ADAPTER_##name,
    ADAPTER_TARGETS(ADAPTER_CONSTANT)
#undef ADAPTER_CONSTANT
};

extern const struct adapter_names {
    const char *word; /* of lora.targets */
    const char *module, *block;
} adapter_targets[MODEL_TARGETS];

/* The targets that a list such as "q,v" or "q_proj,v_proj" names, as a bit for each; "all" names all seven.
 * STATUS_USAGE names a word that is none, and those that are. */
enum status adapter_targets_read(const char *list, unsigned *out, struct err *err);

/* After model_init: checks the configuration against the sizes, adds the matrices, and freezes all other
 * parameters but those that train_norms, train_head and train_embedding name, in fp32 (adapter_trains says
 * which are left, for another storage type). `targets` of the configuration are of layers 0 to num_layers
 * − 1. STATUS_USAGE: no layer has a target, or train_head is set and the head is the embedding. */
enum status adapter_attach(struct model *model, const struct adapter_config *config, struct err *err);

/* Whether a parameter of a model with adapters is trained. */
bool adapter_trains(const struct model *model, const struct param *param);

/* The factor of the adapters' products. */
double adapter_scale(const struct adapter_config *config);

#endif
