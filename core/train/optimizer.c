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
    enum status status =
        param_groups_ranges(groups ? groups : &none, net->model, weight_decay, ranges, &o->range_count, err);
    if (!status) {
        net->backend->mem_upload(net->memory[PLAN_WORKSPACE] + net->plan->ranges, ranges,
                                 (size_t)o->range_count * sizeof *ranges, net->stream);
        status = net->backend->stream_wait(net->stream, err);
    }
    free(ranges);
    return status;
}

static struct clip_state *clip_of(struct network *net)
{
    return &((struct step_result *)(net->memory[PLAN_WORKSPACE] + net->plan->result))->clip;
}

void optimizer_step(const struct optimizer *o, struct network *net)
{
    unsigned char *work = net->memory[PLAN_WORKSPACE], *moments = net->memory[PLAN_MOMENTS];
    struct clip_state *clip = clip_of(net);
    struct step_control *control = (struct step_control *)(work + net->plan->control);
    const struct update_range *ranges = (const struct update_range *)(work + net->plan->ranges);
    size_t all = net->model->elements;
    float *m = (float *)(moments + net->plan->moment1), *v = (float *)(moments + net->plan->moment2);
    network_mark(net, PHASE_OPTIMIZER, -1, OP_GRADIENT_NORM);
    net->backend->grad_norm(clip, net->gradients, all, (float)o->max_grad_norm, work + net->plan->scratch,
                            net->stream);
    network_mark(net, PHASE_OPTIMIZER, -1, o->kind == OPTIMIZER_LION ? OP_LION : OP_ADAMW);
    if (o->kind == OPTIMIZER_LION) {
        struct lion_params p = {(float)o->beta1, (float)o->beta2};
        net->backend->lion_step(net->weights, net->compute_weights, m, net->gradients, all, ranges,
                                o->range_count, p, control, clip, net->stream);
    } else {
        struct adamw_params p = {o->beta1, o->beta2, (float)o->eps};
        net->backend->adamw_step(net->weights, net->compute_weights, m, v, net->gradients, all, ranges,
                                 o->range_count, p, control, clip, net->stream);
    }
}

void optimizer_resume(struct network *net, int64_t updates)
{
    struct clip_state clip = {.updates = updates};
    net->backend->mem_upload(clip_of(net), &clip, sizeof clip, net->stream);
}
