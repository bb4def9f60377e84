/* See network.h. Here: a step's gradients before its first pass and after its last: cleared, added up over
 * the ranks, measured and clipped. */
#include "core/network/exchange.h"

void network_clear(struct network *net)
{
    struct step_result *result = network_at(net, BUFFER_RESULT, 0);
    exchange_begin(net);
    network_enter(net, PHASE_OPTIMIZER, -1);
    net->table->mem_zero(net->gradients, net->model->elements * sizeof *net->gradients, net->calls);
    net->table->mem_zero(&result->loss_sum, sizeof result->loss_sum, net->calls);
}

void network_gradient_squares(struct network *net)
{
    struct step_result *result = network_at(net, BUFFER_RESULT, 0);
    int ranks = net->plan->input.ranks;
    network_enter(net, PHASE_OPTIMIZER, -1);
    exchange_sums_begin(net);
    if (net->plan->input.shard)
        exchange_finish(net);
    else if (ranks > 1)
        net->table->all_reduce(net->gradients, network_at(net, BUFFER_SCRATCH, 0), net->model->elements,
                               ranks, net->world, net->calls);
    if (ranks > 1) net->table->all_reduce_value(&result->loss_sum, net->world, net->calls);
    exchange_sums_end(net);
    net->table->sum_of_squares(&result->squares, net->gradients + net->slice.begin, slice_count(net->slice),
                               network_at(net, BUFFER_SCRATCH, 0), net->calls);
    if (ranks > 1) net->table->all_reduce_value(&result->squares, net->world, net->calls);
}

struct clip_state *network_clip(struct network *net, float max_norm)
{
    struct step_result *result = network_at(net, BUFFER_RESULT, 0);
    network_enter(net, PHASE_OPTIMIZER, -1);
    net->table->clip_norm(&result->clip, &result->squares, max_norm, net->calls);
    return &result->clip;
}
