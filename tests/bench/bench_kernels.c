/* Every operation at the shapes of preset tiny (vocabulary 32,000, C 256, 4 heads of 64, F 512, 16 sequences
 * of 256 tokens), timed alone: median milliseconds, and achieved GB/s compared with a copy, or GFLOP/s
 * compared with a 2048³ product, measured in the same run. One line per operation. `bench_kernels WORD` runs
 * only operations that contain WORD; `bench_kernels bf16 [WORD]` measures in bf16 where the CPU can. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "kernels/device/cpu.h"
#include "kernels/linear_cross_entropy.h"
#include "tests/kernels/packed.h"

enum { B = 16, T = 256, N = B * T, C = 256, NH = 4, HS = 64, F = 512, V = 32000, QKV = 3 * C, CHUNK = 512 };
enum { PARAMETERS = 10815744 };
/* tokens of a cached sequence; query heads that share a key head; keys that a query sees through a window;
 * tokens of a packed sequence, on average */
enum { CACHED = 4000, GROUP = 4, WINDOW = 256, PACKED = 128 };

struct bench {
    const struct backend *k;
    struct device *device;
    struct stream *stream;
    enum element element;
    const char *only;
    double copy_rate, gemm_rate;                     /* bytes/s, FLOP/s */
    float *x, *y, *z, *w, *big, *big2, *big3, *big4; /* (N,3C) thrice, (V,C), and four of the largest */
    float *rstd, *losses;
    int32_t *tokens;
    int32_t *positions; /* (B/4,4*T) of packed sequences */
    void *workspace;
    struct clip_state clip;
};

/* Each half of a float is a number in bf16 in [-1, 1), so that either element type finds numbers. */
static float *floats(struct bench *b, size_t n, uint32_t seed)
{
    struct err err;
    void *memory;
    if (b->k->mem_alloc(b->device, n * sizeof(float), &memory, &err) != STATUS_OK) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        exit(1);
    }
    float *x = memory;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * (1.0f / 2147483648.0f);
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits = (bits & 0xffff0000u) | bits >> 16;
        memcpy(&x[i], &bits, sizeof bits);
    }
    return x;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median seconds of a call: warmed up, then repeated for about 0.3 s. */
static double measure(struct bench *b, void (*body)(struct bench *))
{
    enum { MOST = 200 };
    double times[MOST], start = clock_monotonic();
    int runs = 0;
    body(b);
    while (runs < MOST && (runs < 5 || clock_monotonic() - start < 0.3)) {
        double begin = clock_monotonic();
        body(b);
        times[runs++] = clock_monotonic() - begin;
    }
    qsort(times, (size_t)runs, sizeof *times, by_size);
    return times[runs / 2];
}

static void copy_body(struct bench *b)
{
    size_t n = (size_t)PARAMETERS;
    float *restrict to = b->big;
    const float *restrict from = b->big2;
#pragma omp parallel for simd num_threads(omp_get_num_procs()) schedule(static)
    for (size_t i = 0; i < n; i++) to[i] = from[i];
}

/* Sums of weights' gradients (accumulate) are fp32. */
static void product(struct bench *b, float *out, const float *x, const float *y, int m, int n, int k,
                    bool transpose_x, bool transpose_y, bool accumulate)
{
    b->k->gemm(matrix_view(out, accumulate ? ELEMENT_FP32 : b->element, n),
               matrix_view(x, b->element, transpose_x ? m : k),
               matrix_view(y, b->element, transpose_y ? k : n), m, n, k, transpose_x, transpose_y, accumulate,
               1, b->stream);
}

static void large_product_body(struct bench *b)
{
    product(b, b->big3, b->big, b->big2, 2048, 2048, 2048, false, false, false);
}

static void embedding_forward_body(struct bench *b)
{
    b->k->embedding_forward(b->y, b->tokens, matrix_view(b->w, b->element, C), N, V, C, b->stream);
}
static void embedding_backward_body(struct bench *b)
{
    b->k->embedding_backward(b->w, b->y, b->tokens, N, V, C, b->stream);
}
static void rmsnorm_forward_body(struct bench *b)
{
    b->k->rmsnorm_forward(b->y, b->rstd, b->x, b->w, N, C, 1e-5f, b->stream);
}
static void rmsnorm_residual_body(struct bench *b)
{
    b->k->rmsnorm_residual_forward(b->z, b->y, b->rstd, b->x, b->big, b->w, N, C, 1e-5f, b->stream);
}
static void rmsnorm_backward_body(struct bench *b)
{
    b->k->rmsnorm_backward(b->z, b->losses, b->y, b->x, b->w, b->rstd, b->workspace, N, C, b->stream);
}
static void rope_body(struct bench *b)
{
    b->k->rope(b->z, b->big2, NULL, B, T, NH, NH, HS, false, b->stream);
}
static void qk_norm_forward_body(struct bench *b)
{
    b->k->qk_norm_rope_forward(b->y, b->big3, b->x, b->w, b->w, b->big2, NULL, B, T, NH, NH, HS, 1e-5f,
                               b->stream);
}
static void qk_norm_backward_body(struct bench *b)
{
    b->k->qk_norm_rope_backward(b->z, b->losses, b->losses + HS, b->x, b->big3, b->w, b->w, b->big2, NULL,
                                b->workspace, B, T, NH, NH, HS, b->stream);
}
static void attention_forward_body(struct bench *b)
{
    b->k->attention_forward(b->y, b->rstd, b->x, NULL, b->workspace, B, T, NH, NH, HS, 0, b->stream);
}
static void attention_backward_body(struct bench *b)
{
    b->k->attention_backward(b->z, b->big, b->y, b->rstd, b->x, NULL, b->workspace, B, T, NH, NH, HS, 0,
                             b->stream);
}
static void attention_forward_long_body(struct bench *b)
{
    b->k->attention_forward(b->y, b->rstd, b->x, NULL, b->workspace, B / 4, T * 4, NH, NH, HS, 0, b->stream);
}
static void attention_backward_long_body(struct bench *b)
{
    b->k->attention_backward(b->z, b->big, b->y, b->rstd, b->x, NULL, b->workspace, B / 4, T * 4, NH, NH, HS,
                             0, b->stream);
}
static void attention_forward_packed_body(struct bench *b)
{
    b->k->attention_forward(b->y, b->rstd, b->x, b->positions, b->workspace, B / 4, T * 4, NH, NH, HS, 0,
                            b->stream);
}
static void attention_backward_packed_body(struct bench *b)
{
    b->k->attention_backward(b->z, b->big, b->y, b->rstd, b->x, b->positions, b->workspace, B / 4, T * 4, NH,
                             NH, HS, 0, b->stream);
}
static void attention_forward_window_body(struct bench *b)
{
    b->k->attention_forward(b->y, b->rstd, b->x, NULL, b->workspace, B / 4, T * 4, NH, NH, HS, WINDOW,
                            b->stream);
}
static void attention_backward_window_body(struct bench *b)
{
    b->k->attention_backward(b->z, b->big, b->y, b->rstd, b->x, NULL, b->workspace, B / 4, T * 4, NH, NH, HS,
                             WINDOW, b->stream);
}
/* The last token of `rows` cached sequences. */
static void decode(struct bench *b, int rows, int heads, int window)
{
    int32_t slots[B], positions[B];
    for (int i = 0; i < rows; i++) slots[i] = i, positions[i] = CACHED - 1;
    b->k->attention_cached(b->y, b->x, b->big, b->big2, slots, positions, b->workspace, rows, CACHED, CACHED,
                           heads, NH, HS, window, b->stream);
}
static void decode_one_body(struct bench *b)
{
    decode(b, 1, NH, 0);
}
static void decode_all_body(struct bench *b)
{
    decode(b, B, NH, 0);
}
static void decode_group_body(struct bench *b)
{
    decode(b, B, GROUP * NH, 0);
}
static void decode_window_body(struct bench *b)
{
    decode(b, B, NH, WINDOW);
}
/* The second CHUNK tokens of a prompt. */
static void prompt_body(struct bench *b)
{
    int32_t slots[CHUNK] = {0}, positions[CHUNK];
    for (int i = 0; i < CHUNK; i++) positions[i] = CHUNK + i;
    b->k->attention_cached(b->y, b->x, b->big, b->big2, slots, positions, b->workspace, CHUNK, 2 * CHUNK,
                           CACHED, NH, NH, HS, 0, b->stream);
}
static void swiglu_forward_body(struct bench *b)
{
    b->k->swiglu_forward(b->y, b->big, N, F, b->stream);
}
static void swiglu_backward_body(struct bench *b)
{
    b->k->swiglu_backward(b->big2, b->y, b->big, N, F, b->stream);
}
static void gemm_qkv_body(struct bench *b)
{
    product(b, b->z, b->x, b->w, N, QKV, C, false, true, false);
}
static void gemm_gate_up_body(struct bench *b)
{
    product(b, b->big, b->x, b->w, N, 2 * F, C, false, true, false);
}
static void gemm_dx_body(struct bench *b)
{
    product(b, b->z, b->big, b->w, N, C, 2 * F, false, false, false);
}
static void gemm_dweight_body(struct bench *b)
{
    product(b, b->w, b->big, b->x, 2 * F, C, N, true, false, true);
}
static void gemm_logits_body(struct bench *b)
{
    product(b, b->big, b->x, b->w, CHUNK, V, C, false, true, false);
}
static void gemm_dlogits_dx_body(struct bench *b)
{
    product(b, b->z, b->big, b->w, CHUNK, C, V, false, false, false);
}
static void gemm_dlogits_dw_body(struct bench *b)
{
    product(b, b->big2, b->big, b->x, V, C, CHUNK, true, false, true);
}
static void bias_forward_body(struct bench *b)
{
    b->k->bias_forward(b->z, b->w, N, QKV, QKV, b->stream);
}
static void bias_backward_body(struct bench *b)
{
    b->k->bias_backward(b->losses, b->z, b->workspace, N, QKV, QKV, b->stream);
}
static void add_body(struct bench *b)
{
    b->k->add(b->y, b->z, (size_t)N * C, b->stream);
}
static void dropout_body(struct bench *b)
{
    const struct step_control control = {.seed = 1, .step = 2, .micro_batch = 3};
    struct dropout_site site = {&control, 4, 1, 0};
    b->k->dropout(b->y, (size_t)N * C, 0.1f, site, b->stream);
}
static void cross_entropy_forward_body(struct bench *b)
{
    b->k->cross_entropy_forward(b->losses, b->big, b->tokens, CHUNK, V, b->stream);
}
static void cross_entropy_fused_body(struct bench *b)
{
    b->k->cross_entropy_fused(b->losses, b->big, b->tokens, &(struct step_control){.loss_scale = 1.0f / N},
                              CHUNK, V, b->stream);
}
static void linear_cross_entropy_body(struct bench *b)
{
    linear_cross_entropy(b->k, b->losses, b->z, b->big2, b->x, matrix_view(b->w, b->element, C), b->tokens,
                         NULL, &(struct step_control){.loss_scale = 1.0f / N}, CHUNK, b->big, N, C, V,
                         PRECISION_FP32, b->stream);
}
static void grad_norm_body(struct bench *b)
{
    double squares;
    b->k->sum_of_squares(&squares, b->big, PARAMETERS, b->workspace, b->stream);
    b->k->clip_norm(&b->clip, &squares, 1.0f, b->stream);
}
static void adamw_body(struct bench *b)
{
    struct optimizer_params params = {0.9, 0.95, 1e-8f};
    struct update_range all = {PARAMETERS, 1, 0.1f};
    struct clip_state clip = {1.0f, 1.0f, 1};
    struct step_control control = {.lr = 1e-9f};
    b->k->adamw_step(b->big, b->big, b->big2, b->big3, b->big4, PARAMETERS, &all, 1, params, &control, &clip,
                     b->stream);
}
static void lion_body(struct bench *b)
{
    struct optimizer_params params = {0.9f, 0.99f, 0};
    struct update_range all = {PARAMETERS, 1, 0.1f};
    struct clip_state clip = {1.0f, 1.0f, 1};
    struct step_control control = {.lr = 1e-9f};
    b->k->lion_step(b->big, b->big, b->big2, NULL, b->big4, PARAMETERS, &all, 1, params, &control, &clip,
                    b->stream);
}

/* Prints a line; flops and bytes of one call, whichever is its limit (the other 0). */
static void report(struct bench *b, const char *name, void (*body)(struct bench *), double flops,
                   double bytes)
{
    if (b->only != NULL && strstr(name, b->only) == NULL) return;
    double seconds = measure(b, body);
    if (flops > 0)
        printf("%-28s %9.3f ms %8.1f GFLOP/s %5.0f %% of product\n", name, 1e3 * seconds,
               flops / seconds / 1e9, 100 * flops / seconds / b->gemm_rate);
    else
        printf("%-28s %9.3f ms %8.1f GB/s    %5.0f %% of copy\n", name, 1e3 * seconds, bytes / seconds / 1e9,
               100 * bytes / seconds / b->copy_rate);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    bool narrow = argc > 1 && strcmp(argv[1], "bf16") == 0;
    enum precision precision = narrow ? PRECISION_BF16 : PRECISION_FP32;
    struct bench b = {
        .k = cpu_backend(), .element = precision_element(precision), .only = argv[argc > 1 ? 1 + narrow : 1]};
    struct err err;
    struct device_info info;
    const char *threads = getenv("OMP_NUM_THREADS");
    if (b.k->device_open(DEVICE_FIRST, threads != NULL ? atoi(threads) : 0, &b.device, &err) != STATUS_OK ||
        b.k->stream_open(b.device, precision, &b.stream, &err) != STATUS_OK) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        return 1;
    }
    b.k->device_describe(b.device, &info);
    size_t largest = (size_t)CHUNK * V;
    b.x = floats(&b, (size_t)N * QKV, 1), b.y = floats(&b, (size_t)N * QKV, 2),
    b.z = floats(&b, (size_t)N * QKV, 3);
    b.w = floats(&b, (size_t)V * C, 4);
    b.big = floats(&b, largest, 5), b.big2 = floats(&b, largest, 6), b.big3 = floats(&b, largest, 7);
    b.big4 = floats(&b, largest, 8);
    b.rstd = floats(&b, (size_t)N * NH, 9), b.losses = floats(&b, N, 10);
    b.workspace = floats(&b, (size_t)16 << 20, 11);
    b.tokens = malloc(N * sizeof *b.tokens);
    b.positions = malloc(N * sizeof *b.positions);
    packed_positions(b.positions, B / 4, 4 * T, PACKED);
    for (int i = 0; i < N; i++) b.tokens[i] = (int32_t)((uint32_t)i * 2654435761u % V);

    b.gemm_rate = 2.0 * 2048 * 2048 * 2048 / measure(&b, large_product_body);
    b.copy_rate = 8.0 * PARAMETERS / measure(&b, copy_body);
    printf("%s; %s; %s\n", info.name, info.computes, precision_name(precision));
    printf("%-28s              %8.1f GFLOP/s\n%-28s              %8.1f GB/s\n", "product 2048^3",
           b.gemm_rate / 1e9, "copy of 43 MB", b.copy_rate / 1e9);

    double E = (double)element_bytes(b.element);
    double row = E * N * C; /* bytes of (N,C) */
    double attention = 4.0 * HS * NH * N * (T + 1) / 2, attention_long = 4.0 * HS * NH * N * (4 * T + 1) / 2;
    report(&b, "embedding_forward", embedding_forward_body, 0, 2 * row);
    report(&b, "embedding_backward", embedding_backward_body, 0, 3 * row);
    report(&b, "rmsnorm_forward", rmsnorm_forward_body, 0, 2 * row);
    report(&b, "rmsnorm_residual_forward", rmsnorm_residual_body, 0, 4 * row);
    report(&b, "rmsnorm_backward", rmsnorm_backward_body, 0, 4 * row);
    report(&b, "rope", rope_body, 0, 4 * row);
    report(&b, "qk_norm_rope_forward", qk_norm_forward_body, 0, 6 * row);
    report(&b, "qk_norm_rope_backward", qk_norm_backward_body, 0, 6 * row);
    report(&b, "attention_forward", attention_forward_body, attention, 0);
    report(&b, "attention_backward", attention_backward_body, 2.5 * attention, 0);
    report(&b, "attention_forward_T1024", attention_forward_long_body, attention_long, 0);
    report(&b, "attention_backward_T1024", attention_backward_long_body, 2.5 * attention_long, 0);
    double attention_window = 4.0 * HS * NH * (B / 4) * (double)attention_pairs(4 * T, WINDOW);
    report(&b, "attention_forward_T1024_window", attention_forward_window_body, attention_window, 0);
    report(&b, "attention_backward_T1024_window", attention_backward_window_body, 2.5 * attention_window, 0);
    double pairs = 0; /* that the packed sequences see */
    for (int i = 0; i < N; i++) pairs += b.positions[i] + 1;
    report(&b, "attention_forward_T1024_packed", attention_forward_packed_body, 4.0 * HS * NH * pairs, 0);
    report(&b, "attention_backward_T1024_packed", attention_backward_packed_body, 10.0 * HS * NH * pairs, 0);
    double cache = 2.0 * E * CACHED * NH * HS; /* bytes of a sequence's keys and values */
    report(&b, "attention_cached", decode_one_body, 0, cache);
    report(&b, "attention_cached_16", decode_all_body, 0, B * cache);
    report(&b, "attention_cached_16_group_4", decode_group_body, 0, B * cache);
    report(&b, "attention_cached_16_window", decode_window_body, 0, B * cache * WINDOW / CACHED);
    report(&b, "attention_cached_prompt", prompt_body, 4.0 * HS * NH * (1.5 * CHUNK * CHUNK), 0);
    report(&b, "swiglu_forward", swiglu_forward_body, 0, 3.0 * E * N * F);
    report(&b, "swiglu_backward", swiglu_backward_body, 0, 5.0 * E * N * F);
    report(&b, "gemm_qkv", gemm_qkv_body, 2.0 * N * QKV * C, 0);
    report(&b, "gemm_gate_up", gemm_gate_up_body, 2.0 * N * 2 * F * C, 0);
    report(&b, "gemm_dx", gemm_dx_body, 2.0 * N * 2 * F * C, 0);
    report(&b, "gemm_dweight", gemm_dweight_body, 2.0 * N * 2 * F * C, 0);
    report(&b, "gemm_logits", gemm_logits_body, 2.0 * CHUNK * V * C, 0);
    report(&b, "gemm_dlogits_dx", gemm_dlogits_dx_body, 2.0 * CHUNK * V * C, 0);
    report(&b, "gemm_dlogits_dweight", gemm_dlogits_dw_body, 2.0 * CHUNK * V * C, 0);
    report(&b, "bias_forward", bias_forward_body, 0, 2 * 3 * row);
    report(&b, "bias_backward", bias_backward_body, 0, 3 * row);
    report(&b, "add", add_body, 0, 3 * row);
    report(&b, "dropout", dropout_body, 0, 2 * row);
    report(&b, "cross_entropy_forward", cross_entropy_forward_body, 0, E * CHUNK * V);
    report(&b, "cross_entropy_fused", cross_entropy_fused_body, 0, 2 * E * CHUNK * V);
    report(&b, "linear_cross_entropy", linear_cross_entropy_body, 6.0 * N * V * C, 0);
    report(&b, "grad_norm", grad_norm_body, 0, 4.0 * PARAMETERS);
    report(&b, "adamw_step", adamw_body, 0, 28.0 * PARAMETERS);
    report(&b, "lion_step", lion_body, 0, 20.0 * PARAMETERS);
    return 0;
}
