/* See optimizer.h. */
#include "core/optimizer.h"

#include <math.h>

int optimizer_moments(enum optimizer_kind kind)
{
    return kind == OPTIMIZER_ADAMW ? 2 : 1;
}

void optimizer_step(const struct optimizer *o, struct network *net, double lr, int64_t updates,
                    struct clip_state *clip)
{
    unsigned char *work = net->memory[PLAN_WORKSPACE];
    struct clip_state *device_clip = (struct clip_state *)(work + net->plan->clip);
    size_t matrices = net->model->matrix_elements, all = net->model->elements;
    unsigned char *moments = net->memory[PLAN_MOMENTS];
    float *m = (float *)(moments + net->plan->moment1), *v = (float *)(moments + net->plan->moment2);
    network_mark(net, PHASE_OPTIMIZER, -1, OP_GRADIENT_NORM);
    net->backend->grad_norm(device_clip, net->gradients, all, (float)o->max_grad_norm,
                            work + net->plan->scratch, net->stream);
    network_mark(net, PHASE_OPTIMIZER, -1, o->kind == OPTIMIZER_LION ? OP_LION : OP_ADAMW);
    if (o->kind == OPTIMIZER_LION) {
        struct lion_params p = {(float)lr, (float)o->beta1, (float)o->beta2, (float)o->weight_decay};
        net->backend->lion_step(net->weights, net->compute_weights, m, net->gradients, all, matrices, p,
                                device_clip, net->stream);
    } else {
        double t = (double)updates + 1;
        struct adamw_params p = {.lr = (float)lr,
                                 .beta1 = (float)o->beta1,
                                 .beta2 = (float)o->beta2,
                                 .eps = (float)o->eps,
                                 .weight_decay = (float)o->weight_decay,
                                 .bias_correction1 = (float)(1 - pow(o->beta1, t)),
                                 .bias_correction2 = (float)(1 - pow(o->beta2, t))};
        net->backend->adamw_step(net->weights, net->compute_weights, m, v, net->gradients, all, matrices, p,
                                 device_clip, net->stream);
    }
    network_mark(net, PHASE_OPTIMIZER, -1, OP_READ_NORM);
    net->backend->mem_download(clip, device_clip, sizeof clip[0], net->stream);
}
