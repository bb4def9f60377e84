/* See cluster.h. A step is cut into segments, in the order of the forward pass: the embedding, the layers,
 * and the final norm with the head. */
#include "core/train/cluster.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/network/record.h"
#include "core/train/optimizer.h"

/* Seconds of computing, and what is communicated, of a segment. */
struct segment {
    double forward, backward;
    double elements; /* trainable parameters */
};

struct walk {
    const struct cluster *cluster;
    const struct config *config;
    const struct network *network;
    struct cluster_step *step; /* its costs grow */
    struct segment *segments;  /* (count) */
    int count;
    double update; /* seconds outside of the passes */
    bool below;    /* the pass has been in the layers */
};

struct cluster cluster_of(const struct chip_sheet *chip, enum precision precision, int per_host,
                          double network_rate)
{
    return (struct cluster){.chip = chip,
                            .rates = roofline_of(chip, precision),
                            .per_host = per_host,
                            .link = CLUSTER_LINK * chip->link_gbs * 1e9,
                            .network = CLUSTER_NETWORK * network_rate};
}

void cluster_plan_input(const struct cluster *cluster, struct plan_input *input)
{
    input->host_counts = false;
    input->library_workspace = (size_t)(cluster->chip->major >= 9 ? 32 : 4) << 20; /* as kernels/gemm.cu */
    input->pool_unit = (size_t)32 << 20;
}

/* ---- computing ---- */

/* Adds the call to the row of its kind. Calls that a profile leaves out are named by their slot. */
static void add_cost(struct walk *w, const struct operation_call *call, double seconds)
{
    struct cluster_step *step = w->step;
    const char *label = network_label(w->network, call),
               *op = label ? label : operation_name(call->operation);
    enum phase phase = w->network->where.phase;
    double times = phase == PHASE_OPTIMIZER ? 1 : step->micro_batches;
    int i = 0;
    while (i < step->cost_count && (step->costs[i].phase != phase || strcmp(step->costs[i].op, op) != 0)) i++;
    assert(i < CLUSTER_COSTS_MAX);
    if (i == step->cost_count) step->costs[step->cost_count++] = (struct cluster_cost){phase, op, 0, 0, 0, 0};
    struct cluster_cost *cost = &step->costs[i];
    cost->calls += times;
    cost->bytes += times * (double)call->bytes;
    cost->flops += times * (double)call->flops;
    cost->seconds += times * seconds;
}

static void note(void *context, const struct operation_call *call)
{
    struct walk *w = context;
    const struct pass_place *where = &w->network->where;
    double seconds = roofline_seconds(&w->cluster->rates, call);
    bool backward = where->phase != PHASE_FORWARD;
    if (network_is_collective(call->operation)) return; /* see `collect` */
    add_cost(w, call, seconds);
    if (where->phase == PHASE_OPTIMIZER) {
        w->update += seconds;
        return;
    }
    if (where->layer >= 0) w->below = !backward;
    int outside = w->below ? w->count - 1 : 0; /* operations that are not part of any layer */
    struct segment *s = &w->segments[where->layer >= 0 ? where->layer + 1 : outside];
    *(backward ? &s->backward : &s->forward) += seconds;
}

/* A step of one micro-batch. */
static void walk_step(struct network *net, void *context)
{
    struct walk *w = context;
    struct optimizer optimizer = optimizer_of(w->config);
    optimizer.range_count = optimizer.elementwise_count = 1;
    w->network = net;
    network_clear(net);
    network_micro_batch(net, 0, (float)w->config->train.dropout);
    optimizer_step(&optimizer, net);
}

static void add_parameters(struct walk *w, const struct model *model)
{
    for (size_t i = 0; i < model->param_count; i++) {
        const struct param *p = &model->params[i];
        int segment = p->place < 0 ? 0 : p->place / PLACES + 1;
        if (!p->frozen) w->segments[segment].elements += (double)p->count;
    }
}

/* ---- communication ---- */

/* Seconds to reduce or to gather `bytes` over all ranks; adds up what is sent. */
static double collect(const struct cluster *cluster, double bytes, struct cluster_step *step)
{
    int hosts = step->hosts, each = step->gpus < cluster->per_host ? step->gpus : cluster->per_host;
    double ranks = step->gpus, leaving = bytes * (hosts - 1) / hosts;
    if (step->gpus < 2 || bytes <= 0) return 0;
    double inside = bytes * (each - 1) / each / cluster->link,
           between = hosts > 1 ? leaving / cluster->network : 0;
    double seconds = (inside > between ? inside : between) + (each - 1) * CLUSTER_LINK_DELAY +
                     (hosts - 1) * CLUSTER_NETWORK_DELAY;
    step->sent += bytes * (ranks - 1) / ranks;
    step->host_sent += leaving;
    step->communication += seconds;
    return seconds;
}

/* Seconds by which reducing ends after the backward pass. `width`: bytes of an element. */
static double reduce(const struct walk *w, double width, struct cluster_step *step)
{
    double computed = 0, reduced = 0, ready = 0; /* ready: bytes */
    for (int s = w->count - 1; s >= 0; s--) {
        computed += w->segments[s].backward;
        ready += width * w->segments[s].elements;
        if (ready < CLUSTER_BUCKET && s > 0) continue;
        if (reduced < computed) reduced = computed;
        reduced += collect(w->cluster, ready, step);
        ready = 0;
    }
    return reduced - computed;
}

/* Seconds by which the forward pass that waits for its weights is longer. */
static double gather(const struct walk *w, double width, struct cluster_step *step)
{
    double computed = 0, gathered = 0, alone = 0;
    for (int s = 0, next = 0; s < w->count; s++) {
        if (s == next) { /* the next bucket begins here */
            double bytes = 0;
            while (next < w->count && bytes < CLUSTER_BUCKET) bytes += width * w->segments[next++].elements;
            gathered += collect(w->cluster, bytes, step);
            if (computed < gathered) computed = gathered;
        }
        computed += w->segments[s].forward;
        alone += w->segments[s].forward;
    }
    return computed - alone;
}

/* ---- a step ---- */

static void add_up(struct walk *w, const struct plan *plan, struct cluster_step *step)
{
    const struct plan_input *in = &plan->input;
    add_parameters(w, in->model);
    for (int s = 0; s < w->count; s++)
        step->computing += (w->segments[s].forward + w->segments[s].backward) * step->micro_batches;
    step->computing += w->update;
    if (in->shard)
        step->waiting =
            reduce(w, sizeof(float), step) + gather(w, (double)precision_bytes(in->precision), step);
    else /* each gradient makes both ways */
        reduce(w, 2 * sizeof(float), step);
    if (!in->shard || w->config->world.overlap == OVERLAP_OFF)
        step->waiting = step->communication; /* one after the other */
    step->seconds = step->computing + step->waiting;
}

enum status cluster_estimate(const struct cluster *cluster, const struct config *config,
                             const struct plan_input *one, int gpus, struct cluster_step *out,
                             struct err *err)
{
    struct plan plan;
    struct plan_input input = *one;
    size_t reserved;
    struct walk w = {.cluster = cluster, .config = config, .count = one->model->config.num_layers + 2};
    struct observer observer = {.note = note, .context = &w};
    struct cluster_step step = {.gpus = gpus, .hosts = (gpus + cluster->per_host - 1) / cluster->per_host};
    /* with Muon the last rank has the most matrices, as the embedding is in the first slices */
    plan_input_share(&input, config, one->model->orthogonal ? gpus - 1 : 0, gpus);
    step.batch_size = input.B;
    step.micro_batches = input.micro_batches > 0 ? input.micro_batches : 1;
    w.step = &step;
    enum status status = plan_init(&plan, &input, err);
    if (status) return status;
    status = plan_reserved(&plan, &reserved, err);
    w.segments = calloc((size_t)w.count, sizeof *w.segments);
    if (!status && !w.segments) status = err_no_memory(err, "an estimate of %d layers", w.count - 2);
    if (!status) status = record_walk(&plan, &observer, walk_step, &w, err);
    if (!status) {
        step.bytes = plan.total_bytes;
        step.fits = (double)(reserved + CLUSTER_OVERHEAD) <= cluster->chip->memory_gib * 1024 * 1024 * 1024;
        add_up(&w, &plan, &step);
        *out = step;
    }
    free(w.segments);
    plan_release(&plan);
    return status;
}
