/* See optimizer.h. */
#include "core/train/optimizer.h"

#include <stdlib.h>

#include "kernels/optimizers.h"

enum status optimizer_lay_ranges(struct optimizer *o, struct network *net, const struct param_groups *groups,
                                 double weight_decay, struct err *err)
{
    static const struct param_groups none = {.count = 0};
    struct update_range *ranges = malloc(net->model->param_count * sizeof *ranges);
    if (!ranges) return err_no_memory(err, "the table of update ranges");
    o->range_count = param_groups_ranges(groups ? groups : &none, net->model, weight_decay, ranges);
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
    size_t all = net->model->elements;
    float *m = network_at(net, BUFFER_MOMENT1, 0), *v = network_at(net, BUFFER_MOMENT2, 0);
    double *squares = network_gradient_squares(net);
    o->world->sum(o->world, squares, 1, net->stream);
    struct clip_state *clip = network_clip(net, (float)o->max_grad_norm);
    struct optimizer_params params = {o->beta1, o->beta2, (float)o->eps};
    switch (o->kind) {
#define STEP(KIND, name, moments, beta2, flops)                                                              \
    case OPTIMIZER_##KIND:                                                                                   \
        net->table->name##_step(net->weights, net->compute_weights, m, moments > 1 ? v : NULL,               \
                                net->gradients, all, ranges, o->range_count, params, control, clip,          \
                                net->calls);                                                                 \
        break;
        OPTIMIZER_LIST(STEP)
    case OPTIMIZERS:
        break;
    }
}

void optimizer_resume(struct network *net, int64_t updates)
{
    struct step_result *result = network_at(net, BUFFER_RESULT, 0);
    struct clip_state clip = {.updates = updates};
    net->backend->mem_upload(&result->clip, &clip, sizeof clip, net->stream);
}
