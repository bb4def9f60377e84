/* See plan_input.h. */
#include "core/train/plan_input.h"

#include "core/train/optimizer.h"

/* A snapshot holds what a checkpoint does. */
static int snapshot_arenas(const struct config *c, int moments)
{
    if (!c->checkpoint.background) return 0;
    return c->checkpoint.contents == CONTENTS_FULL ? 1 + moments : 1;
}

struct plan_input plan_input_of(const struct config *c, const struct model *model,
                                const struct backend *backend, struct device *device)
{
    struct device_info info;
    int moments = optimizer_moments(c->train.optimizer);
    backend->device_describe(device, &info);
    struct plan_input input = {.model = model,
                               .B = (int)c->train.batch_size,
                               .T = (int)c->train.seq_len,
                               .micro_batches = (int)c->train.accumulation_steps,
                               .moments = moments,
                               .precision = plan_precision(c->train.precision, info.best),
                               .activation_interval = (int)c->checkpoint.activation_interval,
                               .loss = c->train.loss,
                               .allocator = c->memory.allocator,
                               .snapshot = snapshot_arenas(c, moments)};
    plan_input_for(&input, backend, device);
    return input;
}
