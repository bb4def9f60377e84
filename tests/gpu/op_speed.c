/* See op_speed.h. */
#include "tests/gpu/op_speed.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"
#include "tests/gpu/warming.h"
#include "tests/kernels/product.h"

/* The activations of preset medium at 16 sequences of 2,048 tokens: a row-wise operation moves 128 MB and
 * more in bf16, above the 50 MB of cache of the largest chips. */
const struct op_speed_sizes op_speed_large = {.B = 16,
                                              .T = 2048,
                                              .NH = 16,
                                              .NKV = 16,
                                              .HS = 64,
                                              .C = 1024,
                                              .F = 2816,
                                              .V = 32000,
                                              .rows = 4096,
                                              .square = 8192,
                                              .n = (size_t)64 << 20,
                                              .calls = 50};

enum { WARM_UP = 3, SAMPLES = 11, BUFFERS_MAX = 24 };

struct op_bench {
    const struct backend *backend;
    enum precision precision;
    struct device *device;
    struct stream *stream;
    struct event *marks[2];
    struct op_speed_sizes s;
    int N, Q;          /* B·T rows; (NH+2·NKV)·HS columns of qkv */
    size_t bytes;      /* of each of */
    void *x, *y;       /* noise in [−1, 1), never written to */
    void *a, *b, *c;   /* written to */
    float *second;     /* second moments: noise in [0, 1) */
    float *rstd, *lse; /* (N, NH+NKV), (B, NH, T) */
    float *losses, *small, *cos_sin;
    int32_t *tokens;
    void *workspace;
    struct clip_state *clip;
    struct step_control *control;
    struct update_range *ranges; /* (2) as without groups of parameters: nine tenths decay */
    void *memory[BUFFERS_MAX];
    int count;
    bool first; /* the call that prepares what the others of its case need */
};

/* ---- sizes ---- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Bytes of n elements of the bench's precision, and of fp32. */
static double elements(const struct op_bench *b, double n)
{
    return n * (double)precision_bytes(b->precision);
}

static double floats(double n)
{
    return 4 * n;
}

static double stream_size(const struct op_bench *b)
{
    return (double)b->N * b->s.C;
}

/* ---- the calls ---- */

static struct op_work copy(struct op_bench *b)
{
    b->backend->mem_copy(b->a, b->x, b->bytes, b->stream);
    return (struct op_work){.bytes = 2.0 * (double)b->bytes};
}

enum { LARGE, QKV, GATE_UP, DOWN, GATE_UP_DX, GATE_UP_DWEIGHT, HEAD, PRODUCTS };

static struct gemm_shape measured_shape(const struct op_bench *b, int product)
{
    int N = b->N, C = b->s.C, F = b->s.F, large = b->s.square;
    const struct gemm_shape shapes[PRODUCTS] = {
        [LARGE] = {.M = large, .N = large, .K = large, .transpose_b = true},
        [QKV] = {.M = N, .N = b->Q, .K = C, .transpose_b = true},
        [GATE_UP] = {.M = N, .N = 2 * F, .K = C, .transpose_b = true},
        [DOWN] = {.M = N, .N = C, .K = F, .transpose_b = true},
        [GATE_UP_DX] = {.M = N, .N = C, .K = 2 * F},
        [GATE_UP_DWEIGHT] = {.M = 2 * F, .N = C, .K = N, .transpose_a = true, .accumulate = true},
        [HEAD] = {.M = b->s.rows, .N = b->s.V, .K = C, .transpose_b = true},
    };
    return product_shape(shapes[product], b->precision, 0);
}

static struct op_work product(struct op_bench *b, int which)
{
    struct gemm_shape s = measured_shape(b, which);
    double M = s.M, N = s.N, K = s.K;
    product_run(b->backend, b->a, b->x, b->y, s, b->stream);
    return (struct op_work){.bytes = elements(b, M * K + K * N) +
                                     (s.accumulate ? floats(2 * M * N) : elements(b, M * N)),
                            .flops = 2 * M * N * K};
}

static struct op_work large_gemm(struct op_bench *b)
{
    return product(b, LARGE);
}

static struct op_work gemm_qkv(struct op_bench *b)
{
    return product(b, QKV);
}

static struct op_work gemm_gate_up(struct op_bench *b)
{
    return product(b, GATE_UP);
}

static struct op_work gemm_down(struct op_bench *b)
{
    return product(b, DOWN);
}

static struct op_work gemm_gate_up_dx(struct op_bench *b)
{
    return product(b, GATE_UP_DX);
}

static struct op_work gemm_gate_up_dweight(struct op_bench *b)
{
    return product(b, GATE_UP_DWEIGHT);
}

static struct op_work gemm_head(struct op_bench *b)
{
    return product(b, HEAD);
}

/* The head's product for the next token of `M` sequences: bound by reading the weights. */
static struct op_work few_rows(struct op_bench *b, int M)
{
    enum element e = precision_element(b->precision);
    int V = b->s.V, C = b->s.C;
    b->backend->gemm_few_rows(matrix_view(b->a, e, V), matrix_view(b->x, e, C), matrix_view(b->y, e, C), M, V,
                              C, b->stream);
    return (struct op_work){.bytes = elements(b, (double)V * C + (double)M * (V + C)),
                            .flops = 2.0 * M * V * C};
}

static struct op_work one_row_head(struct op_bench *b)
{
    return few_rows(b, 1);
}

static struct op_work few_rows_head(struct op_bench *b)
{
    return few_rows(b, FEW_ROWS_MAX);
}

static struct op_work embedding_forward(struct op_bench *b)
{
    struct matrix weight = matrix_view(b->x, precision_element(b->precision), b->s.C);
    b->backend->embedding_forward(b->a, b->tokens, weight, b->N, b->s.V, b->s.C, b->stream);
    return (struct op_work){.bytes = floats(b->N) + elements(b, 2 * stream_size(b))};
}

/* Of V rows of dweight, each is named by one of N tokens with probability 1 − (1 − 1/V)^N. */
static struct op_work embedding_backward(struct op_bench *b)
{
    b->backend->embedding_backward(b->a, b->x, b->tokens, b->N, b->s.V, b->s.C, b->stream);
    double rows = b->s.V * -expm1(b->N * log1p(-1.0 / b->s.V));
    return (struct op_work){.bytes = floats(b->N + 2 * rows * b->s.C) + elements(b, stream_size(b))};
}

static struct op_work rmsnorm_forward(struct op_bench *b)
{
    b->backend->rmsnorm_forward(b->a, b->rstd, b->x, b->y, b->N, b->s.C, 1e-5f, b->stream);
    return (struct op_work){.bytes = floats(b->N) + elements(b, 2 * stream_size(b))};
}

static struct op_work rmsnorm_residual(struct op_bench *b)
{
    b->backend->rmsnorm_residual_forward(b->a, b->b, b->rstd, b->x, b->y, b->y, b->N, b->s.C, 1e-5f,
                                         b->stream);
    return (struct op_work){.bytes = floats(b->N) + elements(b, 4 * stream_size(b))};
}

static struct op_work rmsnorm_recompute(struct op_bench *b)
{
    if (b->first) rmsnorm_forward(b);
    b->backend->rmsnorm_recompute(b->a, b->x, b->y, b->rstd, b->N, b->s.C, b->stream);
    return (struct op_work){.bytes = floats(b->N) + elements(b, 2 * stream_size(b))};
}

static struct op_work rmsnorm_backward(struct op_bench *b)
{
    if (b->first) rmsnorm_forward(b);
    b->backend->rmsnorm_backward(b->a, b->small, b->y, b->x, b->y, b->rstd, b->workspace, b->N, b->s.C,
                                 b->stream);
    return (struct op_work){.bytes = floats(b->N) + elements(b, 4 * stream_size(b))};
}

static struct op_work rope(struct op_bench *b)
{
    const struct op_speed_sizes *s = &b->s;
    b->backend->rope(b->a, b->cos_sin, NULL, s->B, s->T, s->NH, s->NKV, s->HS, false, b->stream);
    return (struct op_work){.bytes = elements(b, 2.0 * b->N * (s->NH + s->NKV) * s->HS)};
}

static struct op_work qk_norm_rope_forward(struct op_bench *b)
{
    const struct op_speed_sizes *s = &b->s;
    b->backend->qk_norm_rope_forward(b->a, b->rstd, b->x, b->y, b->y, b->cos_sin, NULL, s->B, s->T, s->NH,
                                     s->NKV, s->HS, 1e-5f, b->stream);
    return (struct op_work){.bytes =
                                floats((double)b->N * (s->NH + s->NKV)) + elements(b, 2.0 * b->N * b->Q)};
}

static struct op_work qk_norm_rope_backward(struct op_bench *b)
{
    const struct op_speed_sizes *s = &b->s;
    if (b->first) qk_norm_rope_forward(b);
    b->backend->qk_norm_rope_backward(b->a, b->small, b->small + s->HS, b->x, b->rstd, b->y, b->y, b->cos_sin,
                                      b->workspace, s->B, s->T, s->NH, s->NKV, s->HS, b->stream);
    double rotated = (double)b->N * (s->NH + s->NKV);
    return (struct op_work){.bytes = floats(rotated) + elements(b, 3 * rotated * s->HS)};
}

/* Products of (T,HS) and (T,T), of which the causal half counts: q kᵀ and p v forward, five backward. */
static double attention_flops(const struct op_bench *b, int products)
{
    const struct op_speed_sizes *s = &b->s;
    return products * 2.0 * s->B * s->NH * (s->T * (s->T + 1.0) / 2) * s->HS;
}

static struct op_work attention_forward(struct op_bench *b)
{
    const struct op_speed_sizes *s = &b->s;
    b->backend->attention_forward(b->a, b->lse, b->x, b->workspace, s->B, s->T, s->NH, s->NKV, s->HS, 0,
                                  b->stream);
    return (struct op_work){.bytes = floats((double)b->N * s->NH) +
                                     elements(b, (double)b->N * (b->Q + s->NH * s->HS)),
                            .flops = attention_flops(b, 2)};
}

static struct op_work attention_backward(struct op_bench *b)
{
    const struct op_speed_sizes *s = &b->s;
    if (b->first) attention_forward(b);
    b->backend->attention_backward(b->b, b->y, b->a, b->lse, b->x, b->workspace, s->B, s->T, s->NH, s->NKV,
                                   s->HS, 0, b->stream);
    return (struct op_work){.bytes = floats((double)b->N * s->NH) +
                                     elements(b, 2.0 * b->N * (b->Q + s->NH * s->HS)),
                            .flops = attention_flops(b, 5)};
}

static struct op_work swiglu_forward(struct op_bench *b)
{
    b->backend->swiglu_forward(b->a, b->x, b->N, b->s.F, b->stream);
    return (struct op_work){.bytes = elements(b, 3.0 * b->N * b->s.F)};
}

static struct op_work swiglu_backward(struct op_bench *b)
{
    b->backend->swiglu_backward(b->a, b->y, b->x, b->N, b->s.F, b->stream);
    return (struct op_work){.bytes = elements(b, 5.0 * b->N * b->s.F)};
}

static struct op_work bias_forward(struct op_bench *b)
{
    b->backend->bias_forward(b->a, b->y, b->N, b->Q, b->Q, b->stream);
    return (struct op_work){.bytes = elements(b, 2.0 * b->N * b->Q)};
}

static struct op_work bias_backward(struct op_bench *b)
{
    b->backend->bias_backward(b->small, b->x, b->workspace, b->N, b->Q, b->Q, b->stream);
    return (struct op_work){.bytes = elements(b, (double)b->N * b->Q)};
}

static struct op_work add(struct op_bench *b)
{
    b->backend->add(b->a, b->x, (size_t)b->N * (size_t)b->s.C, b->stream);
    return (struct op_work){.bytes = elements(b, 3 * stream_size(b))};
}

static struct op_work dropout(struct op_bench *b)
{
    struct dropout_site site = {.control = b->control};
    if (b->first) b->backend->control_set(b->control, (struct step_control){.seed = 1, .step = 2}, b->stream);
    b->backend->dropout(b->a, (size_t)b->N * (size_t)b->s.C, 0.1f, site, b->stream);
    return (struct op_work){.bytes = elements(b, 2 * stream_size(b))};
}

static struct op_work cast(struct op_bench *b)
{
    b->backend->cast(b->a, b->x, b->s.n, b->stream);
    return (struct op_work){.bytes = floats((double)b->s.n) + elements(b, (double)b->s.n)};
}

static struct op_work cross_entropy_forward(struct op_bench *b)
{
    b->backend->cross_entropy_forward(b->losses, b->x, b->tokens, b->s.rows, b->s.V, b->stream);
    return (struct op_work){.bytes = elements(b, (double)b->s.rows * b->s.V)};
}

static struct op_work cross_entropy_fused(struct op_bench *b)
{
    if (b->first) b->backend->control_set(b->control, (struct step_control){.loss_scale = 1}, b->stream);
    b->backend->cross_entropy_fused(b->losses, b->a, b->tokens, b->control, b->s.rows, b->s.V, b->stream);
    return (struct op_work){.bytes = elements(b, 2.0 * b->s.rows * b->s.V)};
}

static struct op_work sum(struct op_bench *b)
{
    b->backend->sum((double *)b->small, b->x, b->s.n, false, b->workspace, b->stream);
    return (struct op_work){.bytes = floats((double)b->s.n)};
}

static struct op_work grad_norm(struct op_bench *b)
{
    b->backend->sum_of_squares((double *)b->small, b->x, b->s.n, b->workspace, b->stream);
    b->backend->clip_norm(b->clip, (double *)b->small, 1.0f, b->stream);
    return (struct op_work){.bytes = floats((double)b->s.n)};
}

/* The weights that the network uses: the master weights in fp32, a rounded copy in bf16. */
static void *rounded(struct op_bench *b)
{
    return b->precision == PRECISION_BF16 ? b->c : b->a;
}

static double rounded_bytes(const struct op_bench *b)
{
    return b->precision == PRECISION_BF16 ? elements(b, (double)b->s.n) : 0;
}

static void prepare_update(struct op_bench *b)
{
    b->backend->mem_zero(b->clip, sizeof *b->clip, b->stream);
    b->backend->control_set(b->control, (struct step_control){.lr = 1e-4f}, b->stream);
    grad_norm(b);
}

static struct op_work adamw(struct op_bench *b)
{
    struct optimizer_params p = {0.9, 0.95, 1e-8f};
    if (b->first) prepare_update(b);
    b->backend->adamw_step(b->a, rounded(b), b->b, b->second, b->x, b->s.n, b->ranges, 2, p, b->control,
                           b->clip, b->stream);
    return (struct op_work){.bytes = floats(7.0 * (double)b->s.n) + rounded_bytes(b)};
}

static struct op_work lion(struct op_bench *b)
{
    struct optimizer_params p = {0.9f, 0.99f, 0};
    if (b->first) prepare_update(b);
    b->backend->lion_step(b->a, rounded(b), b->b, NULL, b->x, b->s.n, b->ranges, 2, p, b->control, b->clip,
                          b->stream);
    return (struct op_work){.bytes = floats(5.0 * (double)b->s.n) + rounded_bytes(b)};
}

const struct op_speed_case op_speed_cases[] = {
    [OP_SPEED_COPY] = {"a copy", copy},
    [OP_SPEED_GEMM] = {"a large gemm", large_gemm},
    {"gemm: qkv", gemm_qkv},
    {"gemm: gate_up", gemm_gate_up},
    {"gemm: down", gemm_down},
    {"gemm: gate_up, dx", gemm_gate_up_dx},
    {"gemm: gate_up, dweight", gemm_gate_up_dweight},
    {"gemm: head", gemm_head},
    {"gemm_few_rows: head, 1 row", one_row_head},
    {"gemm_few_rows: head, 16 rows", few_rows_head},
    {"attention_forward", attention_forward},
    {"attention_backward", attention_backward},
    {"embedding_forward", embedding_forward},
    {"embedding_backward", embedding_backward},
    {"rmsnorm_forward", rmsnorm_forward},
    {"rmsnorm_residual_forward", rmsnorm_residual},
    {"rmsnorm_recompute", rmsnorm_recompute},
    {"rmsnorm_backward", rmsnorm_backward},
    {"rope", rope},
    {"qk_norm_rope_forward", qk_norm_rope_forward},
    {"qk_norm_rope_backward", qk_norm_rope_backward},
    {"swiglu_forward", swiglu_forward},
    {"swiglu_backward", swiglu_backward},
    {"bias_forward", bias_forward},
    {"bias_backward", bias_backward},
    {"add", add},
    {"cast", cast},
    {"dropout", dropout},
    {"cross_entropy_forward", cross_entropy_forward},
    {"cross_entropy_fused", cross_entropy_fused},
    {"sum", sum},
    {"grad_norm", grad_norm},
    {"adamw", adamw},
    {"lion", lion},
    {0},
};

/* ---- operands ---- */

/* Keeps the first error in *status. */
static void *take(struct op_bench *b, size_t bytes, enum status *status, struct err *err)
{
    void *memory = NULL;
    if (*status) return NULL;
    *status = b->backend->mem_alloc(b->device, bytes, &memory, err);
    if (*status) return NULL;
    assert(b->count < BUFFERS_MAX);
    b->memory[b->count++] = memory;
    b->backend->mem_zero(memory, bytes, b->stream);
    return memory;
}

/* One block of noise, doubled on the device until it fills the memory. */
static void fill(struct op_bench *b, void *memory, size_t bytes, bool fp32, const float *noise, size_t n)
{
    size_t block = n * sizeof *noise, filled;
    if (fp32 || b->precision != PRECISION_BF16) {
        filled = block < bytes ? block : bytes;
        b->backend->mem_upload(memory, noise, filled, b->stream);
    } else {
        filled = block / 2 < bytes ? block / 2 : bytes;
        uint16_t *narrow = malloc(block / 2);
        for (size_t i = 0; narrow && i < n; i++) { /* truncated: noise is noise */
            uint32_t bits;
            memcpy(&bits, &noise[i], sizeof bits);
            narrow[i] = (uint16_t)(bits >> 16);
        }
        if (narrow) b->backend->mem_upload(memory, narrow, filled, b->stream);
        free(narrow);
    }
    for (; filled < bytes; filled *= 2)
        b->backend->mem_copy((char *)memory + filled, memory,
                             bytes - filled < filled ? bytes - filled : filled, b->stream);
}

static enum status fill_all(struct op_bench *b, struct err *err)
{
    enum { BLOCK = 1 << 17 };
    enum status status = STATUS_OK;
    float *noise = malloc(BLOCK * sizeof *noise);
    int32_t *tokens = malloc((size_t)b->N * sizeof *tokens);
    float *angles = malloc((size_t)b->s.T * (size_t)b->s.HS * sizeof *angles);
    if (!noise || !tokens || !angles) {
        status = err_set(err, STATUS_NO_MEMORY, "no memory for the operands of the timed operations");
        goto out;
    }
    for (uint32_t i = 0; i < BLOCK; i++) noise[i] = philox_uniform(philox4x32_10(i, 0, 0, 0, 7, 0).word[0]);
    fill(b, b->second, b->s.n * sizeof(float), true, noise, BLOCK);
    for (uint32_t i = 0; i < BLOCK; i++) noise[i] = 2 * noise[i] - 1;
    void *const filled[] = {b->x, b->y, b->a, b->b, b->c};
    for (size_t i = 0; i < sizeof filled / sizeof *filled; i++)
        fill(b, filled[i], b->bytes, false, noise, BLOCK);
    for (int i = 0; i < b->N; i++)
        tokens[i] = (int32_t)(philox4x32_10((uint32_t)i, 1, 0, 0, 7, 0).word[0] % (uint32_t)b->s.V);
    struct update_range ranges[] = {{b->s.n / 10 * 9, 1, 0.1f}, {b->s.n, 1, 0}};
    b->backend->mem_upload(b->ranges, ranges, sizeof ranges, b->stream);
    b->backend->mem_upload(b->tokens, tokens, (size_t)b->N * sizeof *tokens, b->stream);
    for (size_t i = 0; i < (size_t)b->s.T * (size_t)b->s.HS; i += 2) { /* 3-4-5: rotations keep the length */
        angles[i] = 0.6f;
        angles[i + 1] = 0.8f;
    }
    b->backend->mem_upload(b->cos_sin, angles, (size_t)b->s.T * (size_t)b->s.HS * sizeof *angles, b->stream);
    status = b->backend->stream_wait(b->stream, err);
out:
    free(noise), free(tokens), free(angles);
    return status;
}

static enum status take_all(struct op_bench *b, struct err *err)
{
    const struct op_speed_sizes *s = &b->s;
    enum status status = STATUS_OK;
    size_t N = (size_t)b->N, most = larger(N * (size_t)b->Q, N * (size_t)(2 * s->F)), work;
    most = larger(most, larger(N * (size_t)s->C, (size_t)s->rows * (size_t)s->V));
    most = larger(most, larger((size_t)s->V * (size_t)s->C, s->n));
    most = larger(most, larger((size_t)b->Q, (size_t)(2 * s->F)) * (size_t)s->C);
    most = larger(most, (size_t)s->square * (size_t)s->square);
    b->bytes = most * precision_bytes(b->precision);
    /* what holds fp32 in every precision: optimizer states, dweight */
    size_t fp32 = larger(s->n, larger((size_t)s->V * (size_t)s->C, (size_t)(2 * s->F) * (size_t)s->C));
    b->bytes = larger(b->bytes, fp32 * sizeof(float));
    work = row_chunk_workspace(b->N, s->C);
    work = larger(work, row_chunk_workspace(b->N, 2 * s->HS));
    work = larger(work, attention_workspace(s->B, s->T, s->NH, s->NKV, s->HS));
    work = larger(work, larger(row_chunk_workspace(b->N, b->Q), reduce_workspace(s->n)));
    b->x = take(b, b->bytes, &status, err);
    b->y = take(b, b->bytes, &status, err);
    b->a = take(b, b->bytes, &status, err);
    b->b = take(b, b->bytes, &status, err);
    b->c = take(b, b->bytes, &status, err);
    b->second = take(b, s->n * sizeof(float), &status, err);
    b->rstd = take(b, N * (size_t)(s->NH + s->NKV) * sizeof(float), &status, err);
    b->lse = take(b, N * (size_t)s->NH * sizeof(float), &status, err);
    b->losses = take(b, N * sizeof(float), &status, err);
    b->small = take(b, larger((size_t)b->Q, (size_t)(s->C + 2 * s->HS)) * sizeof(float), &status, err);
    b->cos_sin = take(b, (size_t)s->T * (size_t)s->HS * sizeof(float), &status, err);
    b->tokens = take(b, N * sizeof(int32_t), &status, err);
    b->workspace = take(b, larger(work, 256), &status, err);
    b->clip = take(b, sizeof *b->clip, &status, err);
    b->ranges = take(b, 2 * sizeof *b->ranges, &status, err);
    b->control = take(b, sizeof *b->control, &status, err);
    size_t lent = b->backend->gemm_workspace(b->device);
    void *products = lent ? take(b, lent, &status, err) : NULL;
    if (!status && lent) b->backend->gemm_lend(b->stream, products, lent);
    return status;
}

/* As before a training, so that products are timed as one would do them. */
static enum status warm_up(struct op_bench *b, struct err *err)
{
    struct gemm_shape shapes[PRODUCTS];
    for (int i = 0; i < PRODUCTS; i++) shapes[i] = measured_shape(b, i);
    return warm_products(b->backend, b->device, b->stream, shapes, PRODUCTS, NULL, err);
}

enum status op_bench_open(const struct backend *backend, enum precision precision,
                          const struct op_speed_sizes *sizes, struct op_bench **out, struct err *err)
{
    struct op_bench *b = calloc(1, sizeof *b);
    if (!b) return err_set(err, STATUS_NO_MEMORY, "no memory for the timed operations");
    b->backend = backend;
    b->precision = precision;
    b->s = *sizes;
    b->N = sizes->B * sizes->T;
    b->Q = (sizes->NH + 2 * sizes->NKV) * sizes->HS;
    enum status status = backend->device_open(DEVICE_FIRST, 0, &b->device, err);
    if (!status) status = backend->stream_open(b->device, precision, &b->stream, err);
    for (int i = 0; i < 2 && !status; i++) status = backend->event_open(b->device, &b->marks[i], err);
    if (!status) status = warm_up(b, err);
    if (!status) status = take_all(b, err);
    if (!status) status = fill_all(b, err);
    if (status) {
        op_bench_close(b);
        return status;
    }
    *out = b;
    return STATUS_OK;
}

void op_bench_close(struct op_bench *b)
{
    if (!b) return;
    while (b->count > 0) b->backend->mem_free(b->device, b->memory[--b->count]);
    for (int i = 0; i < 2; i++)
        if (b->marks[i]) b->backend->event_close(b->marks[i]);
    if (b->stream) b->backend->stream_close(b->stream);
    if (b->device) b->backend->device_close(b->device);
    free(b);
}

/* ---- timing ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds of so many calls, one after the other. */
static double time_calls(struct op_bench *b, const struct op_speed_case *op, int calls)
{
    b->backend->event_record(b->marks[0], b->stream);
    for (int i = 0; i < calls; i++) op->run(b);
    b->backend->event_record(b->marks[1], b->stream);
    return b->backend->event_elapsed(b->marks[0], b->marks[1]);
}

enum status op_bench_time(struct op_bench *b, const struct op_speed_case *op, double *ms,
                          struct op_work *work, struct err *err)
{
    double samples[SAMPLES];
    b->first = true;
    *work = op->run(b);
    b->first = false;
    /* two milliseconds between events: their resolution and the gaps between launches do not count */
    double once = time_calls(b, op, WARM_UP) / WARM_UP;
    int calls = once * b->s.calls < 2 ? b->s.calls : once < 2 ? (int)(2 / once) + 1 : 1;
    for (int i = 0; i < SAMPLES; i++) samples[i] = time_calls(b, op, calls) / calls;
    enum status status = b->backend->stream_wait(b->stream, err);
    if (status) return status;
    qsort(samples, SAMPLES, sizeof *samples, by_size);
    *ms = samples[SAMPLES / 2];
    return STATUS_OK;
}
