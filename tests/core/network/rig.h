/* A small network on one thread of the CPU, opened and closed in one call; most tests of core/ use it. Every
 * failure fails the running test. */
#ifndef ANNEAL_TESTS_CORE_NETWORK_RIG_H
#define ANNEAL_TESTS_CORE_NETWORK_RIG_H

#include <stdint.h>

#include "core/model/model.h"
#include "core/network/network.h"
#include "core/network/plan.h"
#include "kernels/device/backend.h"

struct rig {
    const struct backend *backend;
    struct device *device;
    struct model model;
    struct plan plan;
    struct network network;
};

/* Sizes that no tile divides: V 13, C 10, L 2, 4 query and 2 key/value heads of width 4, F 7. */
struct model_config rig_config(void);

/* `backend` NULL: the CPU table. Weights are those of rig_weights with seed 1. */
void rig_open(struct rig *rig, const struct backend *backend, const struct model_config *config, int B, int T,
              int moments);
/* One layer in each interval recomputes its activations. */
void rig_open_interval(struct rig *rig, const struct backend *backend, const struct model_config *config,
                       int B, int T, int moments, int activation_interval);
/* The parameters that any of the patterns (as of a shell, separated by blanks) matches are frozen. */
void rig_open_frozen(struct rig *rig, const struct backend *backend, const struct model_config *config, int B,
                     int T, int moments, int activation_interval, const char *frozen);
/* Any plan; the model and what depends on the device are filled in. The other functions give the network a
 * cache for one sequence of T tokens. */
void rig_open_input(struct rig *rig, const struct backend *backend, const struct model_config *config,
                    struct plan_input input, const char *frozen);
/* The same with frozen parameters stored in this type. */
void rig_open_stored(struct rig *rig, const struct backend *backend, const struct model_config *config,
                     struct plan_input input, const char *frozen, enum element element);
void rig_close(struct rig *rig);

/* Freezes the parameters that any of the patterns matches, stored in this type. */
void rig_freeze(struct model *model, const char *patterns, enum element element);

/* Fills the arena with weights far from their initial ones, so that every non-linearity matters: matrices and
 * biases normal(0, 0.4), norms 1 + normal(0, 0.2). Gaps are zero. */
void rig_weights(const struct model *model, uint64_t seed, float *weights);

/* Where dropout draws its masks. */
struct rig_dropout {
    float probability;
    uint64_t seed;
    uint32_t step, micro_batch;
};

/* network_train with these masks. */
void rig_train(struct network *network, const int32_t *inputs, const int32_t *targets, int B, int T,
               float loss_scale, struct rig_dropout dropout);

/* A number in [0, 1), a pure function of its arguments. */
double rig_uniform(uint64_t seed, uint64_t index);

/* Fills (count) tokens below `below`. */
void rig_tokens(uint64_t seed, int below, int32_t *tokens, int count);

/* The path of `name` below the scratch folder of this test program; yours to free. */
char *rig_path(const char *name);

/* Writes a file of the scratch folder whole. */
void rig_write(const char *path, const void *data, size_t size);

#endif
