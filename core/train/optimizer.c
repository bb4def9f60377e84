/* See optimizer.h. */
#include "core/train/optimizer.h"

#include <math.h>
#include <stdlib.h>

#include "core/network/exchange.h"
#include "kernels/optimizers.h"

/* Keeps what lies in the slice, and counts from its begin. Returns the number of ranges left. */
static int cut(struct update_range *ranges, int count, struct slice slice)
{
    int kept = 0;
    for (int i = 0; i < count && (kept == 0 || ranges[kept - 1].end < slice_count(slice)); i++) {
        struct slice part = slice_common(slice, (struct slice){slice.begin, ranges[i].end});
        if (slice_count(part) == 0) continue;
        ranges[kept] = ranges[i];
        ranges[kept++].end = slice_count(part);
    }
    return kept;
}

/* The owned elements before Muon's matrices. */
static size_t elementwise(const struct network *net)
{
    return slice_count(slice_common(net->owned, (struct slice){0, net->model->elementwise}));
}

/* train.adam_eps = 0 must not divide 0 by 0 where a gradient was always 0, as of tokens that never occur. */
#define EPS_LEAST 1e-20

struct optimizer optimizer_of(const struct config *c)
{
    return (struct optimizer){.kind = c->train.optimizer,
                              .beta1 = c->train.beta1,
                              .beta2 = c->train.beta2,
                              .eps = fmax(c->train.adam_eps, EPS_LEAST),
                              .max_grad_norm = c->train.max_grad_norm,
                              .ema_decay = c->train.ema_decay,
                              .muon = {c->muon.momentum, c->muon.nesterov, (int)c->muon.iterations,
                                       c->muon.coefficients, c->muon.scaling},
                              .defaults = {c->train.weight_decay, c->muon.lr_scale}};
}

enum status optimizer_lay_ranges(struct optimizer *o, struct network *net, const struct param_groups *groups,
                                 struct err *err)
{
    static const struct param_groups none = {.count = 0};
    struct update_range *ranges = malloc(net->model->param_count * sizeof *ranges);
    if (!ranges) return err_no_memory(err, "the table of update ranges");
    int all = param_groups_ranges(groups ? groups : &none, net->model, o->defaults, ranges);
    o->range_count = o->elementwise_count = cut(ranges, all, net->owned);
    while (o->elementwise_count > 0 && ranges[o->elementwise_count - 1].end > elementwise(net))
        o->elementwise_count--;
    net->backend->mem_upload(network_at(net, BUFFER_RANGES, 0), ranges,
                             (size_t)o->range_count * sizeof *ranges, net->stream);
    enum status status = net->backend->stream_wait(net->stream, err);
    free(ranges);
    return status;
}

void optimizer_step(const struct optimizer *o, struct network *net)
{
    struct step_control *control = network_at(net, BUFFER_CONTROL, 0);
    const struct update_range *ranges = network_at(net, BUFFER_RANGES, 0);
    const float *gradients = net->gradients + net->owned.begin;
    void *weights = network_compute_weights(net, net->owned.begin);
    size_t count = elementwise(net);
    void *m = network_moment(net, MOMENT_FIRST), *v = network_moment(net, MOMENT_SECOND);
    bool coded = net->plan->input.moments_8bit;
    network_gradient_squares(net);
    struct clip_state *clip = network_clip(net, (float)o->max_grad_norm);
    struct optimizer_params params = {o->beta1, o->beta2, (float)o->eps};
    switch (o->kind) {
#define STEP(KIND, name, moments, beta2, flops)                                                              \
    case OPTIMIZER_##KIND:                                                                                   \
        if (coded)                                                                                           \
            net->table->name##8_step(net->weights, weights, m, moments > 1 ? v : NULL, gradients, count,     \
                                     ranges, o->elementwise_count, params, control, clip, net->calls);       \
        else                                                                                                 \
            net->table->name##_step(net->weights, weights, m, moments > 1 ? v : NULL, gradients, count,      \
                                    ranges, o->elementwise_count, params, control, clip, net->calls);        \
        break;
        OPTIMIZER_RULES(STEP)
    case OPTIMIZER_MUON:
        if (count)
            net->table->adamw_step(net->weights, weights, m, v, gradients, count, ranges,
                                   o->elementwise_count, params, control, clip, net->calls);
        muon_step(net, &o->muon, ranges, o->range_count, clip);
        break;
    case OPTIMIZERS:
        break;
    }
    exchange_weights(net);
    if (o->ema_decay > 0)
        net->table->average_weights(network_moment(net, MOMENT_AVERAGE), net->weights,
                                    slice_count(net->owned), o->ema_decay, clip, net->calls);
}

void optimizer_resume(struct network *net, int64_t updates)
{
    struct step_result *result = network_at(net, BUFFER_RESULT, 0);
    struct clip_state clip = {.updates = updates};
    net->backend->mem_upload(&result->clip, &clip, sizeof clip, net->stream);
}
