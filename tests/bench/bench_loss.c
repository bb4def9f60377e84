/* The fused linear cross-entropy compared with the plain one, which keeps all logits in memory: at preset
 * tiny's width and 2,048 tokens (C 256, 8 sequences of 256) with vocabularies of 32,000 and 128,000. Of each
 * the rows of logits that it works on, the bytes of logits, the bytes of the whole plan, and the median
 * milliseconds of losses and gradients, taken in turns. `bench_loss VOCABULARY` runs only that one. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/network/network.h"
#include "core/network/plan.h"
#include "kernels/device/cpu.h"
#include "kernels/linear_cross_entropy.h"

enum { B = 8, T = 256, N = B * T, C = 256, ROUNDS = 3 };

struct bench {
    const struct backend *k;
    struct device *device;
    struct stream *stream;
    float *x, *dx, *weight, *dweight, *losses, *logits; /* (N,C), (N,C), (V,C), (V,C), (N), (rows,V) */
    int32_t *targets;                                   /* (N) */
};

static void stop(const struct err *err)
{
    fprintf(stderr, "bench_loss: %s\n", err->text);
    exit(1);
}

static void *memory(struct bench *b, size_t bytes)
{
    struct err err;
    void *out;
    if (b->k->mem_alloc(b->device, bytes, &out, &err)) stop(&err);
    return out;
}

static float *numbers(struct bench *b, size_t n, float scale)
{
    float *out = memory(b, n * sizeof *out);
    uint32_t seed = 1;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        out[i] = scale * (float)(int32_t)seed / 2147483648.0f;
    }
    return out;
}

static struct plan plan_of(const struct model *model, enum plan_loss loss)
{
    struct err err;
    struct plan plan;
    struct plan_input input = {
        .model = model, .B = B, .T = T, .moments = 2, .loss = loss, .host_counts = true};
    if (plan_init(&plan, &input, &err)) stop(&err);
    return plan;
}

static double seconds(struct bench *b, int rows, int V)
{
    double start = clock_monotonic();
    linear_cross_entropy(b->k, b->losses, b->dx, b->dweight, b->x, matrix_view(b->weight, ELEMENT_FP32, C),
                         b->targets, NULL, &(struct step_control){.loss_scale = 1.0f / N}, rows, true,
                         matrix_view(b->logits, ELEMENT_FP32, V), N, C, V, b->stream);
    return clock_monotonic() - start;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct bench *b, int V)
{
    static const char *const names[] = {"fused", "plain"};
    struct model model;
    struct model_config config = model_preset(PRESET_TINY);
    struct err err;
    struct plan plans[2];
    double times[2][ROUNDS];
    config.vocab_size = V;
    if (model_init(&model, &config, &err)) stop(&err);
    plans[0] = plan_of(&model, PLAN_LOSS_FUSED);
    plans[1] = plan_of(&model, PLAN_LOSS_PLAIN);
    b->weight = numbers(b, (size_t)V * C, 0.05f);
    b->dweight = numbers(b, (size_t)V * C, 0);
    b->logits = memory(b, (size_t)N * (size_t)V * sizeof(float));
    for (int i = 0; i < N; i++) b->targets[i] = (int32_t)((int64_t)i * 7919 % V);
    for (int round = -1; round < ROUNDS; round++) /* the first one warms up */
        for (int i = 0; i < 2; i++) {
            double took = seconds(b, plans[i].loss_chunk, V);
            if (round >= 0) times[i][round] = took;
        }
    for (int i = 0; i < 2; i++) {
        qsort(times[i], ROUNDS, sizeof times[i][0], by_size);
        double rows = plans[i].loss_chunk;
        printf("V %6d  %s  %4.0f rows at a time  logits %7.1f MiB  plan %7.1f MiB  %8.1f ms  %6.1f GFLOP/s\n",
               V, names[i], rows, rows * V * 4 / 1048576, (double)plans[i].total_bytes / 1048576,
               times[i][ROUNDS / 2] * 1e3, 6.0 * N * V * C / times[i][ROUNDS / 2] / 1e9);
        plan_release(&plans[i]);
    }
    b->k->mem_free(b->device, b->weight);
    b->k->mem_free(b->device, b->dweight);
    b->k->mem_free(b->device, b->logits);
    model_release(&model);
}

int main(int argc, char **argv)
{
    struct bench b = {.k = cpu_backend()};
    struct err err;
    int only = argc > 1 ? atoi(argv[1]) : 0;
    if (b.k->device_open(DEVICE_FIRST, 0, &b.device, &err)) stop(&err);
    if (b.k->stream_open(b.device, PRECISION_FP32, &b.stream, &err)) stop(&err);
    b.x = numbers(&b, (size_t)N * C, 1);
    b.dx = memory(&b, (size_t)N * C * sizeof *b.dx);
    b.losses = memory(&b, N * sizeof *b.losses);
    b.targets = memory(&b, N * sizeof *b.targets);
    if (!only || only == 32000) measure(&b, 32000);
    if (!only || only == 128000) measure(&b, 128000);
    void *const all[] = {b.x, b.dx, b.losses, b.targets};
    for (int i = 0; i < 4; i++) b.k->mem_free(b.device, all[i]);
    b.k->stream_close(b.stream);
    b.k->device_close(b.device);
    return 0;
}
