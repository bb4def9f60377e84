/* See fit.h. A plan grows with its batch and its length, but not at every step: buffers may find places
 * beside each other that a size less left them no room for. So bisection finds an edge, and a scan from there
 * what else fits; a plan costs microseconds. */
#include "core/memory/fit.h"

#include <limits.h>

/* The scan ends at a plan that takes a sixteenth more than there is, or after so many sizes. */
enum { SCAN_SHARE = 16, SCAN_MAX = 4096 };

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

/* A larger value than *fits up to `most`, where one is found within the scan's reach. */
static enum status scan(struct plan_input *input, int *field, int most, size_t bytes, int *fits,
                        struct err *err)
{
    size_t needed = 0, far = bytes + bytes / SCAN_SHARE;
    int first = *fits;
    enum status status = STATUS_OK;
    while (!status && needed <= far && *field < most && *field - first < SCAN_MAX) {
        ++*field;
        status = plan_bytes(input, &needed, err);
        if (!status && needed <= bytes) *fits = *field;
    }
    return status;
}

/* The largest value of *field, a member of *input, up to `most`, whose plan is within `bytes`; 0: none is. */
static enum status largest(struct plan_input *input, int *field, int most, size_t bytes, int *out,
                           struct err *err)
{
    int fits = 0, too_many = most;
    size_t needed = 0;
    enum status status = STATUS_OK;
    for (int size = 1; size < most; size = size <= most / 2 ? size * 2 : most) {
        *field = size;
        if ((status = plan_bytes(input, &needed, err))) return status;
        if (needed > bytes) {
            too_many = size;
            break;
        }
        fits = size;
    }
    *field = most;
    if (too_many == most && (status = plan_bytes(input, &needed, err))) return status;
    if (too_many == most && needed <= bytes) fits = most;
    while (too_many - fits > 1) {
        *field = fits + (too_many - fits) / 2;
        if ((status = plan_bytes(input, &needed, err))) return status;
        if (needed <= bytes)
            fits = *field;
        else
            too_many = *field;
    }
    *field = fits;
    status = scan(input, field, most, bytes, &fits, err);
    *out = fits;
    return status;
}

/* Rows are counted in an int: B · T stays below it. */
static int lesser(int most, int other)
{
    return most < INT_MAX / other ? most : INT_MAX / other;
}

enum status fit_batch(struct plan_input input, size_t bytes, int most, int *out, struct err *err)
{
    return largest(&input, &input.B, lesser(most, input.T), bytes, out, err);
}

enum status fit_length(struct plan_input input, size_t bytes, int most, int *out, struct err *err)
{
    return largest(&input, &input.T, lesser(most, input.B), bytes, out, err);
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
