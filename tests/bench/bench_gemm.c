/* The matrix products of one training step of preset tiny, and a large square one, in fp32: anneal's beside
 * those of OpenBLAS, in turns on the same threads, which OMP_NUM_THREADS sets. Run by hand it needs
 * OPENBLAS_THREAD_TIMEOUT=4: OpenBLAS's idle threads otherwise spin on the cores of anneal's.
 *
 * Prints one line a shape: the median of each in GFLOP/s (2·M·N·K over the time), and the median of the
 * ratios of each turn; then the same for all products of a step together. */
#include <cblas.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "kernels/device/cpu.h"
#include "tui/session/process.h"

enum { MAX_TURNS = 25 };

struct shape {
    const char *name;
    int M, N, K;
    bool transpose_a, transpose_b;
    int calls; /* in one training step of preset tiny, 4096 rows */
};

/* forward: out (N,OUT) = x (N,IN) W^T; backward: dx = dout W, dW = dout^T x */
static const struct shape shapes[] = {
    {"square 2048", 2048, 2048, 2048, false, false, 0}, {"qkv forward", 4096, 768, 256, false, true, 4},
    {"qkv dx", 4096, 256, 768, false, false, 4},        {"qkv dW", 768, 256, 4096, true, false, 4},
    {"o forward", 4096, 256, 256, false, true, 4},      {"o dx", 4096, 256, 256, false, false, 4},
    {"o dW", 256, 256, 4096, true, false, 4},           {"gate+up forward", 4096, 1024, 256, false, true, 4},
    {"gate+up dx", 4096, 256, 1024, false, false, 4},   {"gate+up dW", 1024, 256, 4096, true, false, 4},
    {"down forward", 4096, 256, 512, false, true, 4},   {"down dx", 4096, 512, 256, false, false, 4},
    {"down dW", 256, 512, 4096, true, false, 4},        {"logits forward", 1024, 32000, 256, false, true, 4},
    {"logits dx", 1024, 256, 32000, false, false, 4},   {"logits dW", 32000, 256, 1024, true, false, 4},
};

struct bench {
    const struct backend *k;
    struct device *device;
    struct stream *stream;
    float *a, *b, *out;
};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return values[count / 2];
}

static double seconds(const struct bench *t, const struct shape *s, bool own)
{
    int lda = s->transpose_a ? s->M : s->K, ldb = s->transpose_b ? s->K : s->N;
    double start = clock_monotonic();
    if (own)
        t->k->gemm(matrix_view(t->out, ELEMENT_FP32, s->N), matrix_view(t->a, ELEMENT_FP32, lda),
                   matrix_view(t->b, ELEMENT_FP32, ldb), s->M, s->N, s->K, s->transpose_a, s->transpose_b,
                   false, 1, t->stream);
    else
        cblas_sgemm(CblasRowMajor, s->transpose_a ? CblasTrans : CblasNoTrans,
                    s->transpose_b ? CblasTrans : CblasNoTrans, s->M, s->N, s->K, 1, t->a, lda, t->b, ldb, 0,
                    t->out, s->N);
    return clock_monotonic() - start;
}

/* Warms up once, then takes turns for a second, at least five times. sum: seconds of a step, own and
 * OpenBLAS's. */
static void compare(const struct bench *t, const struct shape *s, double sum[2])
{
    double took[2][MAX_TURNS], ratio[MAX_TURNS], total = 0;
    int turns = 0;
    for (int i = -1; i < MAX_TURNS && (i < 5 || total < 1); i++) {
        double own = seconds(t, s, true), other = seconds(t, s, false);
        if (i < 0) continue;
        took[0][turns] = own, took[1][turns] = other, ratio[turns++] = other / own;
        total += own + other;
    }
    double flops = 2e-9 * s->M * s->N * s->K, own = median(took[0], turns), other = median(took[1], turns);
    sum[0] += s->calls * own, sum[1] += s->calls * other;
    printf("  %-16s %5d x %5d x %5d %8.1f GFLOP/s, OpenBLAS %8.1f, %.2f x its speed\n", s->name, s->M, s->N,
           s->K, flops / own, flops / other, median(ratio, turns));
}

static float *operand(const struct bench *t, size_t count)
{
    struct err err;
    void *memory;
    if (t->k->mem_alloc(t->device, count * sizeof(float), &memory, &err)) {
        fprintf(stderr, "bench_gemm: %s\n", err.text);
        exit(1);
    }
    float *x = memory;
    for (size_t i = 0; i < count; i++) x[i] = (float)(int)(i * 2654435761u % 2001) * 1e-3f - 1.0f;
    return x;
}

int main(int argc, char **argv)
{
    (void)argc;
    second_start(argv);
    struct bench t = {.k = cpu_backend()};
    struct device_info info;
    struct err err;
    double sum[2] = {0};
    size_t count = 4096ul * 8192; /* the largest operand: logits (1024, 32000) */
    if (t.k->device_open(0, omp_get_max_threads(), &t.device, &err) ||
        t.k->stream_open(t.device, PRECISION_FP32, &t.stream, &err)) {
        fprintf(stderr, "bench_gemm: %s\n", err.text);
        return 1;
    }
    t.a = operand(&t, count), t.b = operand(&t, count), t.out = operand(&t, count);
    t.k->device_describe(t.device, &info);
    printf("%s; %s, %d threads\n", info.name, openblas_get_config(), openblas_get_num_threads());
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) compare(&t, &shapes[i], sum);
    printf("products of a step: %.1f ms, OpenBLAS %.1f ms, %.2f x its speed\n", sum[0] * 1e3, sum[1] * 1e3,
           sum[1] / sum[0]);
    t.k->mem_free(t.device, t.a);
    t.k->mem_free(t.device, t.b);
    t.k->mem_free(t.device, t.out);
    t.k->stream_close(t.stream);
    t.k->device_close(t.device);
    return 0;
}
