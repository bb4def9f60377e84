/* A training step on many GPUs, estimated without any: its memory from the plan of one rank, its time from
 * the recorded operations of that rank and the GPU's data sheet (kernels/device/roofline.h), its
 * communication from the bytes that ranks exchange.
 *
 * Each rank computes its share of the step's sequences, in micro-batches. With slices (world.shard) gradients
 * are reduced to the rank that owns them, bucket by bucket, as soon as the last micro-batch's backward pass
 * has them; the rank updates its slice; then the weights are gathered, bucket by bucket, before the forward
 * pass needs them. What overlaps with a pass costs no time, what sticks out at its end does: network and GPU
 * are assumed not to slow each other. With world.overlap off nothing overlaps. Without slices gradients are
 * summed up on all ranks after the backward pass, and nothing is gathered.
 *
 * Collectives are rings: each of n ranks sends (n − 1)/n of the bytes that are reduced or gathered. Between
 * hosts each rank exchanges its part of what its host has: together (h − 1)/h of the bytes leave a host. The
 * slower one of both decides, and each hop has a delay (Thakur, Rabenseifner and Gropp, "Optimization of
 * collective communication operations in MPICH", 2005). */
#ifndef ANNEAL_CORE_TRAIN_CLUSTER_H
#define ANNEAL_CORE_TRAIN_CLUSTER_H

#include "core/model/config.h"
#include "core/network/exchange.h"
#include "core/network/network.h"
#include "core/network/plan.h"
#include "kernels/device/roofline.h"

/* The share of a link's published rate, and of the network's, that large messages reach; and how long a hop
 * takes at least. */
#define CLUSTER_LINK          0.75
#define CLUSTER_NETWORK       0.8
#define CLUSTER_LINK_DELAY    3e-6
#define CLUSTER_NETWORK_DELAY 10e-6
/* Parts of a model are exchanged together until they have so many bytes, as a small message is mostly delay.
 */
#define CLUSTER_BUCKET ((double)(EXCHANGE_PIECE_GPU * sizeof(float)))
/* Memory of a GPU that is not the plan's: context, libraries, NCCL's buffers. */
#define CLUSTER_OVERHEAD ((size_t)1536 << 20)

struct cluster {
    const struct chip_sheet *chip;
    struct roofline rates;
    int per_host;   /* GPUs */
    double link;    /* bytes per second that a GPU sends to others of its host */
    double network; /* bytes per second that a host sends to others, through all its adapters together */
};

/* `network_rate` as published, in bytes per second. */
struct cluster cluster_of(const struct chip_sheet *chip, enum precision precision, int per_host,
                          double network_rate);

/* Makes an input of the machine's own device, from plan_input_of, that of one of the cluster's GPUs. */
void cluster_plan_input(const struct cluster *cluster, struct plan_input *input);

/* The calls of one kind in one phase of a step, over all layers and micro-batches of a GPU. */
struct cluster_cost {
    enum phase phase;
    const char *op; /* static text, as in a profile: "gemm qkv" */
    double calls, bytes, flops, seconds;
};

/* More than any model and any adapter has. */
enum { CLUSTER_COSTS_MAX = 128 };

struct cluster_step {
    struct cluster_cost costs[CLUSTER_COSTS_MAX]; /* in the order of their first calls; their seconds add up
                                                   * to `computing` */
    int cost_count;
    int gpus, hosts;
    int batch_size, micro_batches; /* of a rank */
    size_t bytes;                  /* of a GPU's memory: the plan's */
    bool fits;                     /* with the overhead into the GPU's memory */
    double computing;              /* seconds of a step, of the busiest rank */
    double communication;          /* seconds that collectives take */
    double waiting;                /* of them not hidden behind computing */
    double seconds;                /* of the step: computing + waiting */
    double sent;                   /* bytes that a rank sends */
    double host_sent;              /* bytes that leave a host */
};

/* The step of this configuration on `gpus` of the cluster's GPUs. `one`: the input of a plan for one GPU. */
enum status cluster_estimate(const struct cluster *cluster, const struct config *config,
                             const struct plan_input *one, int gpus, struct cluster_step *out,
                             struct err *err);

#endif
