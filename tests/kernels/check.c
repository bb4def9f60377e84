/* See check.h. */
#include "tests/kernels/check.h"

#include <math.h>

#include "core/base/philox.h"
#include "kernels/device/cpu.h"
#include "tests/cmocka.h"
#include "tests/kernels/each_isa.h"

void check_open(struct check_target *target, const char *isa, int threads)
{
    struct err err;
    target->isa = isa;
    target->backend = isa_backend(isa);
    assert_non_null(target->backend);
    assert_int_equal(target->backend->device_open(DEVICE_FIRST, threads, &target->device, &err), STATUS_OK);
    assert_int_equal(target->backend->stream_open(target->device, PRECISION_FP32, &target->stream, &err),
                     STATUS_OK);
    isa_apply(target->stream, isa);
}

void check_close(struct check_target *target)
{
    struct err err;
    assert_int_equal(target->backend->stream_wait(target->stream, &err), STATUS_OK);
    target->backend->stream_close(target->stream);
    target->backend->device_close(target->device);
}

void check_each_isa(int threads, void (*body)(const struct check_target *target))
{
    const char *const isas[] = {"baseline", "v3", "v4", cpu_backend_for("v4-amx") ? "v4-amx" : EMULATED};
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        if (isa_backend(isas[i]) == NULL) continue;
        struct check_target target;
        check_open(&target, isas[i], threads);
        body(&target);
        check_close(&target);
    }
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(memory);
    return memory;
}

uint32_t check_word(uint32_t seed, uint32_t index)
{
    return philox4x32_10(index, 0, 0, 0, seed, 0x746573u).word[0];
}

float *check_random(size_t n, uint32_t seed, float scale)
{
    float *x = allocate(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (2.0f * philox_uniform(check_word(seed, (uint32_t)i)) - 1.0f) * scale;
    return x;
}

float *check_poisoned(size_t n)
{
    float *x = allocate(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = NAN;
    return x;
}

void *check_workspace(size_t bytes)
{
    void *memory = allocate(bytes);
    memset(memory, 0xff, bytes);
    return memory;
}

float *check_copy(const float *x, size_t n)
{
    float *copy = allocate(n * sizeof *copy);
    memcpy(copy, x, n * sizeof *copy);
    return copy;
}

double *check_doubles(const float *x, size_t n)
{
    double *copy = allocate(n * sizeof *copy);
    for (size_t i = 0; i < n; i++) copy[i] = x != NULL ? (double)x[i] : 0.0;
    return copy;
}

int32_t *check_tokens(size_t n, int V, uint32_t seed)
{
    int32_t *tokens = allocate(n * sizeof *tokens);
    for (size_t i = 0; i < n; i++) tokens[i] = (int32_t)(check_word(seed, (uint32_t)i) % (uint32_t)V);
    return tokens;
}

void check_near(const char *what, const float *out, const double *ref, size_t n, double tolerance)
{
    double error = 0, size = 0;
    size_t worst = 0;
    double worst_error = -1;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)out[i] - ref[i]);
        if (!(d <= worst_error)) {
            worst_error = d;
            worst = i;
        }
        error += d * d;
        size += ref[i] * ref[i];
    }
    if (!(sqrt(error) <= tolerance * sqrt(size)))
        fail_msg("%s: relative error %.3g over %.3g; worst at %zu of %zu: %.9g instead of %.9g", what,
                 sqrt(error / size), tolerance, worst, n, n > 0 ? (double)out[worst] : 0,
                 n > 0 ? ref[worst] : 0);
}

void check_same_bits(const char *what, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s: bits differ at %zu of %zu: %.9g and %.9g", what, i, n, (double)a[i], (double)b[i]);
}

void check_differences(double *grad, double *x, size_t n, double (*loss)(const void *context),
                       const void *context)
{
    const double h = 1e-5;
    for (size_t i = 0; i < n; i++) {
        double keep = x[i];
        x[i] = keep + h;
        double above = loss(context);
        x[i] = keep - h;
        double below = loss(context);
        x[i] = keep;
        grad[i] = (above - below) / (2 * h);
    }
}
