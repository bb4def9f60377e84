/* See fit.h. */
#include "core/memory/fit.h"

enum status plan_bytes(const struct plan_input *input, size_t *out, struct err *err)
{
    struct plan plan;
    struct plan_input rough = *input;
    rough.rough = true;
    enum status status = plan_init(&plan, &rough, err);
    if (status) return status;
    status = plan_reserved(&plan, out, err);
    plan_release(&plan);
    return status;
}

/* A value of *field, a member of *input, up to `most`, whose plan is within `bytes` while that of one more is
 * not: doubles until a plan is too large, then halves the distance. 0: none fits. */
static enum status largest(struct plan_input *input, int *field, int most, size_t bytes, int *out,
                           struct err *err)
{
    int fits = 0, above = most + 1;
    while (above - fits > 1) {
        int half = (above - fits) / 2;
        size_t needed = 0;
        *field = fits + (half < fits + 1 ? half : fits + 1);
        enum status status = plan_bytes(input, &needed, err);
        if (status) return status;
        if (needed <= bytes)
            fits = *field;
        else
            above = *field;
    }
    *out = fits;
    return STATUS_OK;
}

enum status fit_batch(struct plan_input input, size_t bytes, int most, int *out, struct err *err)
{
    return largest(&input, &input.B, most, bytes, out, err);
}

enum status fit_length(struct plan_input input, size_t bytes, int most, int *out, struct err *err)
{
    return largest(&input, &input.T, most, bytes, out, err);
}

enum status fit_trade(struct plan_input input, int interval, struct activation_trade *out, struct err *err)
{
    struct plan plan;
    input.activation_interval = interval;
    enum status status = plan_init(&plan, &input, err);
    if (status) return status;
    double tokens = (double)input.B * input.T;
    *out = (struct activation_trade){interval, plan.total_bytes,
                                     plan.recomputed_flops / tokens /
                                         model_flops_per_token(input.model, input.T)};
    plan_release(&plan);
    return STATUS_OK;
}
