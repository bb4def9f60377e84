/* See speeds.h. The bound of a call is the estimate of kernels/device/roofline.h with the measured rates in
 * the place of the published ones: its bytes at the copy's rate or its FLOPs at the product's, whichever
 * takes longer, and never less than starting it. A case of op_speed_cases.c says which share of that bound is
 * the least. Judged are bf16, in which GPUs train, and products in tf32; fp32 is only timed. */
#include "tests/gpu/speeds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/device/roofline.h"

/* cuBLASLt reaches 0.65 to 0.85 of the published peak at 8,192 x 8,192 x 8,192, by the limit of power. */
static const double GEMM_OF_PEAK = 0.55;

static bool is_attention(const struct op_speed_case *op)
{
    return strncmp(op->name, "attention_forward", 17) == 0 ||
           strncmp(op->name, "attention_backward", 18) == 0;
}

/* Only these differ in tf32 from fp32. */
static bool is_product(const struct op_speed_case *op)
{
    return strstr(op->name, "gemm") != NULL;
}

static double bound_ms(const struct op_speed_case *op, const struct op_work *work,
                       const struct speed_rates *rates)
{
    double computes = rates->gemm * (is_attention(op) ? ROOFLINE_ATTENTION / ROOFLINE_PRODUCTS : 1);
    return 1e3 * fmax(ROOFLINE_STARTING, fmax(work->bytes / rates->copy, work->flops / computes));
}

void speeds_judge_gemm(struct check *check, enum precision precision, const struct speed_rates *rates)
{
    char name[64];
    snprintf(name, sizeof name, "speed %s reference", precision_name(precision));
    printf("     measured in %s: a copy %.0f GB/s (read and written), a large gemm %.1f TFLOP/s\n",
           precision_name(precision), rates->copy * 1e-9, rates->gemm * 1e-12);
    if (!(rates->peak > 0))
        check_skips(check, name, "the published peak of this GPU is not known");
    else
        check_ends(check, name, rates->gemm >= GEMM_OF_PEAK * rates->peak,
                   "a large gemm reaches %.0f %% of the published %.1f TFLOP/s (at least %.0f %%)",
                   100 * rates->gemm / rates->peak, rates->peak * 1e-12, 100 * GEMM_OF_PEAK);
}

void speeds_judge(struct check *check, const struct op_speed_case *op, enum precision precision, double ms,
                  const struct op_work *work, const struct speed_rates *rates)
{
    char name[64], rate[40];
    double share = bound_ms(op, work, rates) / ms;
    bool judged =
        op->least > 0 && (precision == PRECISION_BF16 || (precision == PRECISION_TF32 && is_product(op)));
    snprintf(name, sizeof name, "speed %s %s", precision_name(precision), op->name);
    if (work->flops > 0)
        snprintf(rate, sizeof rate, "%8.1f TFLOP/s", work->flops / ms * 1e-9);
    else
        snprintf(rate, sizeof rate, "%8.0f GB/s   ", work->bytes / ms * 1e-6);
    if (judged)
        check_ends(check, name, share >= op->least,
                   "%9.4f ms %s %4.0f %% of what copy and gemm allow (at least %.0f %%)", ms, rate,
                   100 * share, 100 * op->least);
    else
        printf("     %-40s %9.4f ms %s %4.0f %%, not judged\n", name, ms, rate, 100 * share);
}

/* Times the two references. */
static enum status measure_rates(struct op_bench *bench, struct speed_rates *rates, struct err *err)
{
    double ms;
    struct op_work work;
    enum status status = op_bench_time(bench, &op_speed_cases[OP_SPEED_COPY], &ms, &work, err);
    if (status) return status;
    rates->copy = work.bytes / ms * 1e3;
    status = op_bench_time(bench, &op_speed_cases[OP_SPEED_GEMM], &ms, &work, err);
    rates->gemm = work.flops / ms * 1e3;
    return status;
}

static enum status peak_of(const struct backend *backend, enum precision precision, double *out,
                           struct err *err)
{
    struct device *device;
    struct device_info info;
    enum status status = backend->device_open(DEVICE_FIRST, 0, &device, err);
    if (status) return status;
    backend->device_describe(device, &info);
    backend->device_close(device);
    *out = info.peak_flops[precision];
    return STATUS_OK;
}

/* The attention that cuDNN computes beside our own: which is faster is what kernels.attention = auto chooses.
 */
static enum status compare_cudnn(struct check *check, struct op_bench *bench, struct err *err)
{
    double own[4];
    struct op_work work;
    enum status status = STATUS_OK;
    int count = 0;
    for (const struct op_speed_case *op = op_speed_cases; op->name && !status; op++)
        if (is_attention(op)) status = op_bench_time(bench, op, &own[count++], &work, err);
    count = 0;
    for (const struct op_speed_case *op = op_speed_cases; op->name && !status; op++) {
        double ms;
        if (!is_attention(op)) continue;
        status = op_bench_use_cudnn(bench, strstr(op->name, "window") != NULL, err);
        if (!status) status = op_bench_time(bench, op, &ms, &work, err);
        if (!status)
            printf("     %s by cuDNN where it can: %9.4f ms, %8.1f TFLOP/s; ours take %.2f times as long\n",
                   op->name, ms, work.flops / ms * 1e-9, own[count++] / ms);
    }
    if (status != STATUS_NOT_FOUND) return status;
    check_skips(check, "speed of attention by cuDNN", "%s", err->text);
    return STATUS_OK;
}

void speeds_check(struct check *check, enum precision precision)
{
    struct op_bench *bench = NULL;
    struct speed_rates rates = {0};
    struct err err = {0};
    char name[64];
    snprintf(name, sizeof name, "speed %s", precision_name(precision));
    bool all = check_wanted(check, name), some = all;
    for (const struct op_speed_case *op = op_speed_cases; op->name; op++)
        some |= check_wanted(check, op->name);
    if (!some) return;
    if (!check->cuda || check_is_late(check)) {
        check_skips(check, name, check->cuda ? "--seconds are over" : "no GPU");
        return;
    }
    enum status status = peak_of(check->cuda, precision, &rates.peak, &err);
    if (!status) status = op_bench_open(check->cuda, precision, &op_speed_large, &bench, &err);
    if (!status) status = measure_rates(bench, &rates, &err);
    if (!status) speeds_judge_gemm(check, precision, &rates);
    for (const struct op_speed_case *op = op_speed_cases + OP_SPEED_GEMM + 1; op->name && !status; op++) {
        double ms;
        struct op_work work;
        if (!all && !check_wanted(check, op->name)) continue;
        if (precision == PRECISION_TF32 && !is_product(op)) continue;
        status = op_bench_time(bench, op, &ms, &work, &err);
        if (!status) speeds_judge(check, op, precision, ms, &work, &rates);
    }
    if (!status && precision == PRECISION_BF16 && (all || check_wanted(check, "attention")))
        status = compare_cudnn(check, bench, &err);
    if (status) check_ends(check, name, false, "%s", err.text);
    op_bench_close(bench);
}
