/* See network.h. Here: what the passes need of a network, with memory or, for the planner, without. */
#include "core/network/network_parts.h"

#include "kernels/gemm.h"

void network_point(struct network *net)
{
    net->weights = network_at(net, BUFFER_WEIGHTS, 0);
    net->gradients = network_at(net, BUFFER_GRADIENTS, 0);
    net->compute_weights = network_at(net, BUFFER_COMPUTE_WEIGHTS, 0);
    net->frozen = network_at(net, BUFFER_FROZEN, 0);
}

void network_observe(struct network *net, struct observer *observer)
{
    net->table = observer ? observed_backend() : net->backend;
    net->calls = observer ? observed_stream(observer) : net->stream;
    if (!observer) return;
    observer->backend = net->backend;
    observer->stream = net->stream;
    observer->precision = net->plan->input.precision;
}

const char *network_label(const struct network *net, const struct operation_call *call)
{
    static const char *const products[WEIGHTS][3] = {
        [WEIGHT_HEAD] = {"gemm head", "gemm head dx", "gemm head dW"},
        [WEIGHT_QKV] = {"gemm qkv", "gemm qkv dx", "gemm qkv dW"},
        [WEIGHT_O] = {"gemm o", "gemm o dx", "gemm o dW"},
        [WEIGHT_GATE_UP] = {"gemm gate_up", "gemm gate_up dx", "gemm gate_up dW"},
        [WEIGHT_DOWN] = {"gemm down", "gemm down dx", "gemm down dW"},
    };
    bool backward = net->where.phase == PHASE_BACKWARD;
    if (call->operation == OPERATION_gemm) {
        struct gemm_shape shape = operation_product(call);
        return products[net->where.weight][shape.transpose_a ? 2 : shape.transpose_b ? 0 : 1];
    }
    if (call->operation == OPERATION_swiglu_forward && backward) return "swiglu again";
    if (call->operation == OPERATION_mem_zero) return backward ? "zero dx" : "zero gradients";
    return call->label;
}

int32_t *network_batch(struct network *net, int slot)
{
    return network_at(net, slot ? BUFFER_NEXT_BATCH : BUFFER_BATCH, 0);
}

void network_control(struct network *net, struct step_control control)
{
    net->backend->control_set(network_at(net, BUFFER_CONTROL, 0), control, net->stream);
}
