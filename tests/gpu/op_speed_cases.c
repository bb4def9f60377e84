/* The timed operations: for each a call on the operands of op_bench.h, and the bytes and FLOPs that it
 * counts. */
#include "tests/gpu/op_bench.h"

#include <math.h>

#include "tests/kernels/product.h"

/* ---- sizes ---- */

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

/* Keys that a query sees through the window of the cases that have one. */
int op_bench_window(const struct op_bench *b)
{
    return 1 + b->s.T / 8;
}

/* ---- the calls ---- */

static struct op_work copy(struct op_bench *b)
{
    b->backend->mem_copy(b->a, b->x, b->bytes, b->stream);
    return (struct op_work){.bytes = 2.0 * (double)b->bytes};
}

struct gemm_shape op_bench_product(const struct op_bench *b, enum op_bench_products product)
{
    int N = b->N, C = b->s.C, F = b->s.F, large = b->s.square;
    const struct gemm_shape shapes[OP_BENCH_PRODUCTS] = {
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

static struct op_work product(struct op_bench *b, enum op_bench_products which)
{
    struct gemm_shape s = op_bench_product(b, which);
    double M = s.M, N = s.N, K = s.K;
    product_run(b->backend, b->a, b->x, b->y, s, 1, b->stream);
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

/* A step of decoding of this many sequences, at their last token. */
/* The last rows of these sequences, of which each sees `seen` keys. */
static struct op_work attention_cached(struct op_bench *b, int sequences, int seen)
{
    const struct op_speed_sizes *s = &b->s;
    b->backend->attention_cached(b->a, b->x, b->y, b->c, b->rows, b->rows + b->N, b->workspace, sequences,
                                 s->T, s->T, s->NH, s->NKV, s->HS, seen < s->T ? seen : 0, b->stream);
    return (struct op_work){.bytes = elements(b, 2.0 * sequences * s->NKV * ((double)seen * s->HS) +
                                                     2.0 * sequences * s->NH * s->HS),
                            .flops = 4.0 * sequences * s->NH * ((double)seen * s->HS)};
}

static struct op_work decode_one(struct op_bench *b)
{
    return attention_cached(b, 1, b->s.T);
}

static struct op_work decode_all(struct op_bench *b)
{
    return attention_cached(b, b->s.B, b->s.T);
}

static struct op_work decode_window(struct op_bench *b)
{
    return attention_cached(b, b->s.B, op_bench_window(b));
}

/* The second half of a prompt. */
static struct op_work cached_prompt(struct op_bench *b)
{
    const struct op_speed_sizes *s = &b->s;
    int first = s->T / 2, rows = s->T - first;
    const int32_t *slots = b->rows + 2 * b->N + first, *positions = slots + s->T;
    b->backend->attention_cached(b->a, b->x, b->y, b->c, slots, positions, b->workspace, rows, s->T, s->T,
                                 s->NH, s->NKV, s->HS, 0, b->stream);
    double pairs = (double)(attention_pairs(s->T, 0) - attention_pairs(first, 0));
    return (struct op_work){
        .bytes = elements(b, 2.0 * s->NKV * ((double)s->T * s->HS) + 2.0 * rows * s->NH * s->HS),
        .flops = 4.0 * s->NH * s->HS * pairs};
}

static struct op_work cache_store(struct op_bench *b)
{
    const struct op_speed_sizes *s = &b->s;
    b->backend->cache_store(b->a, b->b, b->x, b->rows, b->rows + b->N, b->N, s->T, s->NH, s->NKV, s->HS,
                            b->stream);
    return (struct op_work){.bytes = elements(b, 4.0 * b->N * s->NKV * s->HS) + floats(2.0 * b->N)};
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
    b->backend->embedding_backward(b->a, b->x, b->tokens, b->workspace, b->N, b->s.V, b->s.C, b->stream);
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

static struct op_work rmsnorm_backward(struct op_bench *b)
{
    if (b->first) rmsnorm_forward(b);
    b->backend->rmsnorm_backward(b->a, b->small, b->b, b->y, b->x, b->y, b->rstd, b->workspace, b->N, b->s.C,
                                 b->stream);
    return (struct op_work){.bytes = floats(b->N) + elements(b, 5 * stream_size(b))};
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
                                      NULL, b->workspace, s->B, s->T, s->NH, s->NKV, s->HS, b->stream);
    double rotated = (double)b->N * (s->NH + s->NKV);
    return (struct op_work){.bytes = floats(rotated) + elements(b, 3 * rotated * s->HS)};
}

/* Products of (T,HS) and (T,T), of which the causal half counts: q kᵀ and p v forward, five backward. */
static double attention_flops(const struct op_bench *b, int products, int window)
{
    const struct op_speed_sizes *s = &b->s;
    return products * 2.0 * s->B * s->NH * (double)attention_pairs(s->T, window) * s->HS;
}

static struct op_work attend(struct op_bench *b, int window)
{
    const struct op_speed_sizes *s = &b->s;
    b->backend->attention_forward(b->a, b->lse, b->x, NULL, b->workspace, s->B, s->T, s->NH, s->NKV, s->HS,
                                  window, b->stream);
    return (struct op_work){.bytes = floats((double)b->N * s->NH) +
                                     elements(b, (double)b->N * (b->Q + s->NH * s->HS)),
                            .flops = attention_flops(b, 2, window)};
}

static struct op_work attend_backward(struct op_bench *b, int window)
{
    const struct op_speed_sizes *s = &b->s;
    if (b->first) attend(b, window);
    b->backend->attention_backward(b->b, b->y, b->a, b->lse, b->x, NULL, b->cos_sin, b->workspace, s->B, s->T,
                                   s->NH, s->NKV, s->HS, window, b->stream);
    return (struct op_work){.bytes = floats((double)b->N * s->NH) +
                                     elements(b, 2.0 * b->N * (b->Q + s->NH * s->HS)),
                            .flops = attention_flops(b, 5, window)};
}

static struct op_work attention_forward(struct op_bench *b)
{
    return attend(b, 0);
}

static struct op_work attention_backward(struct op_bench *b)
{
    return attend_backward(b, 0);
}

static struct op_work window_forward(struct op_bench *b)
{
    return attend(b, op_bench_window(b));
}

static struct op_work window_backward(struct op_bench *b)
{
    return attend_backward(b, op_bench_window(b));
}

static struct op_work swiglu_forward(struct op_bench *b)
{
    b->backend->swiglu_forward(b->a, b->x, b->N, b->s.F, b->stream);
    return (struct op_work){.bytes = elements(b, 3.0 * b->N * b->s.F)};
}

static struct op_work swiglu_backward(struct op_bench *b)
{
    b->backend->swiglu_backward(b->a, b->b, b->y, b->x, b->N, b->s.F, b->stream);
    return (struct op_work){.bytes = elements(b, 6.0 * b->N * b->s.F)};
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

static struct op_work nf4_dequantise(struct op_bench *b)
{
    b->backend->nf4_dequantise(b->a, b->x, b->s.n, false, b->stream);
    return (struct op_work){.bytes = (double)nf4_bytes(b->s.n, false) + elements(b, (double)b->s.n)};
}

static struct matrix logits_of(const struct op_bench *b, const void *at)
{
    return matrix_view(at, precision_element(b->precision), b->s.V);
}

static struct op_work cross_entropy_forward(struct op_bench *b)
{
    b->backend->cross_entropy_forward(b->losses, logits_of(b, b->x), b->tokens, b->s.rows, b->s.V, b->stream);
    return (struct op_work){.bytes = elements(b, (double)b->s.rows * b->s.V)};
}

static struct op_work cross_entropy_fused(struct op_bench *b)
{
    if (b->first) b->backend->control_set(b->control, (struct step_control){.loss_scale = 1}, b->stream);
    b->backend->cross_entropy_fused(b->losses, logits_of(b, b->a), b->tokens, b->control, b->s.rows, b->s.V,
                                    b->stream);
    return (struct op_work){.bytes = elements(b, 2.0 * b->s.rows * b->s.V)};
}

static struct op_work sum(struct op_bench *b)
{
    b->backend->sum((double *)b->small, b->x, b->s.n, false, b->workspace, b->stream);
    return (struct op_work){.bytes = floats((double)b->s.n)};
}

static struct op_work grad_norm(struct op_bench *b)
{
    double *squares = (double *)b->small;
    if (b->first) b->backend->control_set(b->control, (struct step_control){0}, b->stream);
    b->backend->sum_of_squares(squares, b->x, b->s.n, b->workspace, b->stream);
    b->backend->clip_norm(b->clip, squares, squares, b->control, 1.0f, b->stream);
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

/* Both moments are where adamw has its first one. */
static struct op_work adamw8(struct op_bench *b)
{
    struct optimizer_params p = {0.9, 0.95, 1e-8f};
    struct moment_block *m = b->b, *v = m + moment_blocks(b->s.n);
    if (b->first) {
        prepare_update(b);
        b->backend->mem_zero(m, 2 * moment_bytes(b->s.n), b->stream);
    }
    b->backend->adamw8_step(b->a, rounded(b), m, v, b->x, b->s.n, b->ranges, 2, p, b->control, b->clip,
                            b->stream);
    return (struct op_work){.bytes = floats(3.0 * (double)b->s.n) + 4.0 * (double)moment_bytes(b->s.n) +
                                     rounded_bytes(b)};
}

/* The least shares of a bound. Operations that go through their operands once, products, and attention:
 * what the estimates of kernels/device/roofline.h assume, less a margin for one GPU beside another. Sums
 * over rows or columns write partial sums and read them again. Rows that are found by an index are not
 * neighbours in memory. */
#define WHOLE     0.7
#define SUMS      0.6
#define SCATTERED 0.3

const struct op_speed_case op_speed_cases[] = {
    [OP_SPEED_COPY] = {"a copy", copy, 0},
    [OP_SPEED_GEMM] = {"a large gemm", large_gemm, 0},
    {"gemm: qkv", gemm_qkv, WHOLE},
    {"gemm: gate_up", gemm_gate_up, WHOLE},
    {"gemm: down", gemm_down, WHOLE},
    {"gemm: gate_up, dx", gemm_gate_up_dx, WHOLE},
    {"gemm: gate_up, dweight", gemm_gate_up_dweight, WHOLE},
    {"gemm: head", gemm_head, WHOLE},
    {"gemm_few_rows: head, 1 row", one_row_head, WHOLE},
    {"gemm_few_rows: head, 16 rows", few_rows_head, WHOLE},
    {"attention_forward", attention_forward, WHOLE},
    {"attention_backward", attention_backward, WHOLE},
    {"attention_forward: window", window_forward, SUMS},
    {"attention_backward: window", window_backward, SUMS},
    {"cache_store", cache_store, WHOLE},
    {"attention_cached: 1 sequence", decode_one, 0},
    {"attention_cached: all sequences", decode_all, SCATTERED},
    {"attention_cached: window", decode_window, SCATTERED},
    {"attention_cached: prompt", cached_prompt, SCATTERED},
    {"embedding_forward", embedding_forward, WHOLE},
    {"embedding_backward", embedding_backward, SCATTERED},
    {"rmsnorm_forward", rmsnorm_forward, WHOLE},
    {"rmsnorm_residual_forward", rmsnorm_residual, WHOLE},
    {"rmsnorm_backward", rmsnorm_backward, SUMS},
    {"rope", rope, WHOLE},
    {"qk_norm_rope_forward", qk_norm_rope_forward, WHOLE},
    {"qk_norm_rope_backward", qk_norm_rope_backward, SUMS},
    {"swiglu_forward", swiglu_forward, WHOLE},
    {"swiglu_backward", swiglu_backward, WHOLE},
    {"nf4_dequantise", nf4_dequantise, WHOLE},
    {"bias_forward", bias_forward, WHOLE},
    {"bias_backward", bias_backward, SUMS},
    {"add", add, WHOLE},
    {"cast", cast, WHOLE},
    {"dropout", dropout, WHOLE},
    {"cross_entropy_forward", cross_entropy_forward, WHOLE},
    {"cross_entropy_fused", cross_entropy_fused, WHOLE},
    {"sum", sum, SUMS},
    {"grad_norm", grad_norm, SUMS},
    {"adamw", adamw, WHOLE},
    {"lion", lion, WHOLE},
    {"adamw8", adamw8, SCATTERED},
    {0},
};
