/* See network.h. Here: a step's gradients before its first pass and after its last: cleared, added up over
 * the ranks, measured and clipped. */
#include "core/network/exchange.h"

/* Whether the first gradient of a parameter in a micro-batch is a matrix product. Rows are added to that of
 * an embedding. */
static bool is_product(const struct model *model, const struct param *p)
{
    return p->cols > 0 && (p != model->embed || p == model->head.parts);
}

/* Clears the gradients that are no products, in as few pieces as they lie. */
static void clear_sums(struct network *net)
{
    const struct model *model = net->model;
    size_t begin = 0, end = 0;
    for (size_t i = 0; i <= model->param_count; i++) {
        const struct param *p = i < model->param_count ? &model->params[i] : NULL;
        if (p && p->frozen) continue;
        if (p && !is_product(model, p)) {
            if (begin == end) begin = p->offset;
            end = p->offset + p->count;
            continue;
        }
        if (begin < end)
            net->table->mem_zero(net->gradients + begin, (end - begin) * sizeof *net->gradients, net->calls);
        begin = end;
    }
}

void network_clear(struct network *net)
{
    struct step_result *result = network_at(net, BUFFER_RESULT, 0);
    exchange_begin(net);
    network_enter(net, PHASE_OPTIMIZER, -1);
    net->adds = false;
    clear_sums(net);
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
    net->table->clip_norm(&result->clip, &result->squares, &result->loss_sum,
                          network_at(net, BUFFER_CONTROL, 0), max_norm, net->calls);
    return &result->clip;
}
