/* How long a run is, its steps and epochs, and the batches of each step: see config.h. */
#include "core/base/accumulation.h"
#include "core/model/config.h"

enum status config_check_length(const struct config *c, struct err *err)
{
    long long trace = c->profile.trace_step, steps = c->train.total_steps, decay = c->train.decay_steps;
    if (c->train.schedule == SCHEDULE_WSD && decay > steps)
        return err_set(err, STATUS_USAGE, "train.decay_steps = %lld: the run has %lld (train.total_steps)",
                       decay, steps);
    if (trace <= 0 || trace < steps) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "profile.trace_step = %lld: no such step, as train.total_steps = %lld (the first is 0)",
                   trace, steps);
}

int64_t config_micro_batches(const struct config *c, int64_t step)
{
    const char *plan = c->train.accumulation_plan;
    return *plan ? accumulation_at(plan, step) : c->train.accumulation_steps;
}

int64_t config_micro_batches_most(const struct config *c)
{
    const char *plan = c->train.accumulation_plan;
    return *plan ? accumulation_most(plan) : c->train.accumulation_steps;
}

double config_micro_batches_sum(const struct config *c, int64_t steps)
{
    const char *plan = c->train.accumulation_plan;
    return accumulation_sum(plan, steps) * (*plan ? 1 : (double)c->train.accumulation_steps);
}

enum status config_settle_steps(struct config *config, uint64_t sequences, struct err *err)
{
    const char *plan = config->train.accumulation_plan;
    double batch = (double)config->train.batch_size * (*plan ? 1 : (double)config->train.accumulation_steps);
    if (config->train.epochs == 0) return STATUS_OK;
    double steps = accumulation_steps(plan, config->train.epochs * (double)sequences / batch);
    if (steps > 1e12)
        return err_set(err, STATUS_USAGE, "train.epochs = %g: %.3g steps are more than 1e12 (lower it)",
                       config->train.epochs, steps);
    config->train.total_steps = steps < 1 ? 1 : (int64_t)steps;
    return config_check_length(config, err);
}
