/* See optimizer.h. */
#include "core/train/optimizer.h"

#include <stdlib.h>

int optimizer_moments(enum optimizer_kind kind)
{
    return kind == OPTIMIZER_ADAMW ? 2 : 1;
}

enum status optimizer_lay_ranges(struct optimizer *o, struct network *net, const struct param_groups *groups,
                                 double weight_decay, struct err *err)
{
    static const struct param_groups none = {.count = 0};
    struct update_range *ranges = malloc(net->model->param_count * sizeof *ranges);
    if (!ranges) return err_set(err, STATUS_NO_MEMORY, "no memory for the table of update ranges");
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
    struct clip_state *clip = network_gradient_norm(net, (float)o->max_grad_norm);
    if (o->kind == OPTIMIZER_LION) {
        struct lion_params p = {(float)o->beta1, (float)o->beta2};
        net->table->lion_step(net->weights, net->compute_weights, m, net->gradients, all, ranges,
                              o->range_count, p, control, clip, net->calls);
    } else {
        struct adamw_params p = {o->beta1, o->beta2, (float)o->eps};
        net->table->adamw_step(net->weights, net->compute_weights, m, v, net->gradients, all, ranges,
                               o->range_count, p, control, clip, net->calls);
    }
}

void optimizer_resume(struct network *net, int64_t updates)
{
    struct step_result *result = network_at(net, BUFFER_RESULT, 0);
    struct clip_state clip = {.updates = updates};
    net->backend->mem_upload(&result->clip, &clip, sizeof clip, net->stream);
}
