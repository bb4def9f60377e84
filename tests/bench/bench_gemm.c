/* The reference of `make bench`: the speed of single-precision matrix products on this machine with this
 * OpenBLAS, called directly, without code of ours. Training steps are compared with a large square product;
 * the products of one training step of preset tiny show how much of that their shapes allow.
 *
 * Prints one line a shape: the median and the best of several runs, in GFLOP/s (2·M·N·K over the time), and
 * as the last line of each kind "gemm_gflops MEDIAN" for run.sh. `--json` prints one object instead. */
#include <cblas.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "kernels/device/cpu.h"

enum { MAX_RUNS = 25 };

struct shape {
    const char *name;
    int M, N, K;
    CBLAS_TRANSPOSE transpose_a, transpose_b;
    int calls; /* in one training step of preset tiny, 4096 rows */
};

/* forward: out (N,OUT) = x (N,IN) W^T; backward: dx = dout W, dW = dout^T x */
static const struct shape shapes[] = {
    {"square 2048", 2048, 2048, 2048, CblasNoTrans, CblasNoTrans, 0},
    {"qkv forward", 4096, 768, 256, CblasNoTrans, CblasTrans, 4},
    {"qkv dx", 4096, 256, 768, CblasNoTrans, CblasNoTrans, 4},
    {"qkv dW", 768, 256, 4096, CblasTrans, CblasNoTrans, 4},
    {"o forward", 4096, 256, 256, CblasNoTrans, CblasTrans, 4},
    {"o dx", 4096, 256, 256, CblasNoTrans, CblasNoTrans, 4},
    {"o dW", 256, 256, 4096, CblasTrans, CblasNoTrans, 4},
    {"gate+up forward", 4096, 1024, 256, CblasNoTrans, CblasTrans, 4},
    {"gate+up dx", 4096, 256, 1024, CblasNoTrans, CblasNoTrans, 4},
    {"gate+up dW", 1024, 256, 4096, CblasTrans, CblasNoTrans, 4},
    {"down forward", 4096, 256, 512, CblasNoTrans, CblasTrans, 4},
    {"down dx", 4096, 512, 256, CblasNoTrans, CblasNoTrans, 4},
    {"down dW", 256, 512, 4096, CblasTrans, CblasNoTrans, 4},
    {"logits forward", 1024, 32000, 256, CblasNoTrans, CblasTrans, 4},
    {"logits dx", 1024, 256, 32000, CblasNoTrans, CblasNoTrans, 4},
    {"logits dW", 32000, 256, 1024, CblasTrans, CblasNoTrans, 4},
};

struct timing {
    double median, best; /* seconds of one product */
};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Warms up once, then repeats for half a second, at least five times. */
static struct timing time_shape(const struct shape *s, const float *a, const float *b, float *out)
{
    int lda = s->transpose_a == CblasTrans ? s->M : s->K, ldb = s->transpose_b == CblasTrans ? s->K : s->N;
    double seconds[MAX_RUNS], total = 0;
    int runs = 0;
    for (int i = -1; i < MAX_RUNS && (i < 5 || total < 0.5); i++) {
        double start = clock_monotonic();
        cblas_sgemm(CblasRowMajor, s->transpose_a, s->transpose_b, s->M, s->N, s->K, 1.0f, a, lda, b, ldb,
                    0.0f, out, s->N);
        if (i < 0) continue;
        seconds[runs] = clock_monotonic() - start;
        total += seconds[runs++];
    }
    qsort(seconds, (size_t)runs, sizeof *seconds, compare_doubles);
    return (struct timing){.median = seconds[runs / 2], .best = seconds[0]};
}

static float *alloc_operand(size_t count)
{
    float *x = malloc(count * sizeof *x);
    if (!x) return NULL;
    for (size_t i = 0; i < count; i++) x[i] = (float)(int)(i * 2654435761u % 2001) * 1e-3f - 1.0f;
    return x;
}

int main(int argc, char **argv)
{
    bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    size_t count = 4096ul * 8192; /* the largest operand: logits (1024, 32000) */
    float *a = alloc_operand(count), *b = alloc_operand(count), *out = alloc_operand(count);
    int code = 1;
    if (!a || !b || !out) {
        fprintf(stderr, "bench_gemm: no memory for three operands of %zu MiB\n", count * sizeof *a >> 20);
        goto out;
    }
    double step_flops = 0, step_seconds = 0, large = 0, large_best = 0;
    if (!json)
        printf("sgemm, OpenBLAS core %s, %d threads\n", openblas_get_corename(), openblas_get_num_threads());
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct shape *s = &shapes[i];
        struct timing t = time_shape(s, a, b, out);
        double flops = 2.0 * s->M * s->N * s->K;
        if (s->calls == 0) {
            large = flops / t.median * 1e-9;
            large_best = flops / t.best * 1e-9;
        }
        step_flops += s->calls * flops;
        step_seconds += s->calls * t.median;
        if (!json)
            printf("  %-16s %5d x %5d x %5d %9.1f GFLOP/s median %9.1f best\n", s->name, s->M, s->N, s->K,
                   flops / t.median * 1e-9, flops / t.best * 1e-9);
    }
    double step = step_flops / step_seconds * 1e-9;
    if (json)
        printf("{\"core\": \"%s\", \"threads\": %d, \"gemm_gflops\": %.1f, \"gemm_gflops_best\": %.1f, "
               "\"step_gemm_gflops\": %.1f, \"step_gemm_ms\": %.1f}\n",
               openblas_get_corename(), openblas_get_num_threads(), large, large_best, step,
               step_seconds * 1e3);
    else
        printf("gemm_gflops %.1f\nstep_gemm_gflops %.1f (the products of one step of preset tiny alone: %.1f "
               "ms)\n",
               large, step, step_seconds * 1e3);
    code = 0;
out:
    free(a);
    free(b);
    free(out);
    return code;
}
