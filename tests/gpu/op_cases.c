/* See op_cases.h. */
#include "tests/gpu/op_cases.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"
#include "tests/gpu/op_desk.h"
#include "tests/kernels/packed.h"
#include "tests/kernels/product.h"

enum status op_side_open(struct op_side *side, const struct backend *backend, enum precision precision,
                         struct err *err)
{
    *side = (struct op_side){.backend = backend, .precision = precision};
    enum status status = backend->device_open(DEVICE_FIRST, 1, &side->device, err);
    if (status) return status;
    status = backend->stream_open(side->device, precision, &side->stream, err);
    if (status) backend->device_close(side->device);
    return status;
}

void op_side_close(struct op_side *side)
{
    side->backend->stream_close(side->stream);
    side->backend->device_close(side->device);
}

/* ---- the cases ---- */

static int rows_of(struct op_shape s)
{
    return s.B * s.T;
}

static void embedding_forward_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s), C = (size_t)s.C;
    void *weight = desk_tensor(&d, (size_t)s.V * C, 0, 1), *y = desk_blank_tensor(&d, N * C);
    int32_t *t = desk_tokens(&d, N, s.V, false);
    struct matrix rows = matrix_view(weight, precision_element(side->precision), s.C);
    side->backend->embedding_forward(y, t, rows, (int)N, s.V, s.C, side->stream);
    desk_tensor_result(&d, out, "out", y, N * C, 0);
    desk_close(&d, out);
}

static void embedding_backward_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s), C = (size_t)s.C;
    float *dweight = desk_floats(&d, (size_t)s.V * C, 0, 1);
    void *dout = desk_tensor(&d, N * C, 0, 1);
    int32_t *t = desk_tokens(&d, N, s.V, false);
    void *workspace = desk_scratch(&d, embedding_backward_workspace((int)N));
    side->backend->embedding_backward(dweight, dout, t, workspace, (int)N, s.V, s.C, side->stream);
    desk_result(&d, out, "dweight", dweight, (size_t)s.V * C, 0); /* the same additions in the same order */
    desk_close(&d, out);
}

static void rmsnorm_forward_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s), C = (size_t)s.C;
    void *x = desk_tensor(&d, N * C, 0.1f, 1), *w = desk_tensor(&d, C, 1, 0.5f),
         *y = desk_blank_tensor(&d, N * C);
    float *r = desk_blank(&d, N);
    side->backend->rmsnorm_forward(y, r, x, w, (int)N, s.C, 1e-5f, side->stream);
    desk_tensor_result(&d, out, "out", y, N * C, ELEMENTWISE);
    desk_result(&d, out, "rstd", r, N, ELEMENTWISE);
    side->backend->rmsnorm_forward(x, r, x, w, (int)N, s.C, 1e-5f, side->stream);
    desk_tensor_result(&d, out, "in place", x, N * C, ELEMENTWISE);
    desk_close(&d, out);
}

/* In bf16 the norm is of the sum as rounded: an fp32 side takes that as its x a second time. */
static void rmsnorm_residual_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s), C = (size_t)s.C;
    void *x = desk_tensor(&d, N * C, 0, 1), *delta = desk_tensor(&d, N * C, 0, 1),
         *w = desk_tensor(&d, C, 1, 0.5f), *sum = desk_blank_tensor(&d, N * C),
         *y = desk_blank_tensor(&d, N * C);
    float *r = desk_blank(&d, N);
    if (s.seed % 2) sum = x; /* sum may alias x */
    side->backend->rmsnorm_residual_forward(sum, y, r, x, delta, w, (int)N, s.C, 1e-5f, side->stream);
    desk_tensor_result(&d, out, "sum", sum, N * C, 0);
    if (desk_is_reference(&d))
        side->backend->rmsnorm_forward(y, r, desk_elements(&d, N * C, out->outputs[0].values), w, (int)N, s.C,
                                       1e-5f, side->stream);
    desk_tensor_result(&d, out, "out", y, N * C, ELEMENTWISE);
    desk_result(&d, out, "rstd", r, N, ELEMENTWISE);
    side->backend->rmsnorm_forward(y, r, sum, w, (int)N, s.C, 1e-5f, side->stream);
    if (!desk_is_reference(&d)) { /* bit for bit: judged as the same output */
        struct op_outcome again = {0};
        desk_tensor_result(&d, &again, "out", y, N * C, 0);
        if (memcmp(again.outputs[0].values, out->outputs[1].values, N * C * sizeof(float)) != 0)
            memset(out->outputs[1].values, 0xff, N * C * sizeof(float));
        op_outcome_release(&again);
    }
    desk_close(&d, out);
}

static void rmsnorm_backward_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s), C = (size_t)s.C;
    void *dx = desk_tensor(&d, N * C, 0, 1), *dout = desk_tensor(&d, N * C, 0, 1),
         *x = desk_tensor(&d, N * C, 0, 1), *w = desk_tensor(&d, C, 1, 0.5f),
         *norm = desk_tensor(&d, N * C, 0, 1);
    float *dw = desk_floats(&d, C, 0, 1), *r = desk_floats(&d, N, 1.5f, 0.5f);
    void *workspace = desk_scratch(&d, rmsnorm_backward_workspace((int)N, s.C));
    side->backend->rmsnorm_backward(dx, s.seed % 4 == 3 ? NULL : dw, s.seed % 3 == 2 ? NULL : norm, dout, x,
                                    w, r, workspace, (int)N, s.C, side->stream);
    desk_tensor_result(&d, out, "dx", dx, N * C, ELEMENTWISE);
    desk_tensor_result(&d, out, "norm", norm, N * C, ELEMENTWISE);
    desk_result(&d, out, "dweight", dw, C, REDUCTION);
    desk_close(&d, out);
}

static size_t qkv_floats(struct op_shape s)
{
    return (size_t)rows_of(s) * (size_t)(s.NH + 2 * s.NKV) * (size_t)s.HS;
}

static struct op_shape even(struct op_shape s)
{
    s.HS += s.HS % 2;
    return s;
}

/* Of sequences that are packed into rows, as the seed says; NULL for most shapes. */
static const int32_t *packed(struct desk *d, struct op_shape s)
{
    if (s.seed % 3 != 1) return NULL;
    size_t bytes = (size_t)rows_of(s) * sizeof(int32_t);
    int32_t *host = malloc(bytes);
    packed_positions(host, s.B, s.T, 1 + (int)(s.seed / 3 % (uint32_t)s.T));
    const int32_t *positions = desk_put(d, host, bytes, sizeof *host);
    free(host);
    return positions;
}

static void rope_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    s = even(s);
    struct desk d = desk_open(side, s, out);
    size_t n = qkv_floats(s);
    void *x = desk_tensor(&d, n, 0, 1), *y = desk_tensor(&d, n, 0, 1);
    float *angles = desk_floats(&d, (size_t)s.T * (size_t)s.HS, 0, 1);
    const int32_t *positions = desk_tokens(&d, (size_t)rows_of(s), s.T, false);
    side->backend->rope(x, angles, s.seed % 3 ? positions : NULL, s.B, s.T, s.NH, s.NKV, s.HS, false,
                        side->stream);
    side->backend->rope(y, angles, s.seed % 2 ? positions : NULL, s.B, s.T, s.NH, s.NKV, s.HS, true,
                        side->stream);
    desk_tensor_result(&d, out, "qkv", x, n, ELEMENTWISE);
    desk_tensor_result(&d, out, "dqkv", y, n, ELEMENTWISE);
    desk_close(&d, out);
}

static void qk_norm_forward_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    s = even(s);
    struct desk d = desk_open(side, s, out);
    size_t n = qkv_floats(s), rstds = (size_t)rows_of(s) * (size_t)(s.NH + s.NKV), HS = (size_t)s.HS;
    void *x = desk_tensor(&d, n, 0, 1), *y = desk_blank_tensor(&d, n), *q = desk_tensor(&d, HS, 1, 0.5f),
         *k = desk_tensor(&d, HS, 1, 0.5f);
    float *r = desk_blank(&d, rstds), *angles = desk_floats(&d, (size_t)s.T * HS, 0, 1);
    const int32_t *positions = desk_tokens(&d, (size_t)rows_of(s), s.T, false);
    if (s.seed % 2) y = x; /* out may alias qkv */
    side->backend->qk_norm_rope_forward(y, r, x, q, k, angles, s.seed % 3 ? positions : NULL, s.B, s.T, s.NH,
                                        s.NKV, s.HS, 1e-6f, side->stream);
    desk_tensor_result(&d, out, "out", y, n, ELEMENTWISE);
    desk_result(&d, out, "rstd", r, rstds, ELEMENTWISE);
    desk_close(&d, out);
}

static void qk_norm_backward_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    s = even(s);
    struct desk d = desk_open(side, s, out);
    int N = rows_of(s);
    size_t n = qkv_floats(s), HS = (size_t)s.HS;
    void *dqkv = desk_tensor(&d, n, 0, 1), *x = desk_tensor(&d, n, 0, 1), *q = desk_tensor(&d, HS, 1, 0.5f),
         *k = desk_tensor(&d, HS, 1, 0.5f);
    float *dq = desk_floats(&d, HS, 0, 1), *dk = desk_floats(&d, HS, 0, 1),
          *r = desk_floats(&d, (size_t)N * (size_t)(s.NH + s.NKV), 1.5f, 0.5f),
          *angles = desk_floats(&d, (size_t)s.T * HS, 0, 1);
    void *workspace = desk_scratch(&d, rmsnorm_backward_workspace(N, 2 * s.HS));
    side->backend->qk_norm_rope_backward(dqkv, s.seed % 8 >= 6 ? NULL : dq, s.seed % 4 == 3 ? NULL : dk, x, r,
                                         q, k, angles, packed(&d, s), workspace, s.B, s.T, s.NH, s.NKV, s.HS,
                                         side->stream);
    desk_tensor_result(&d, out, "dqkv", dqkv, n, ELEMENTWISE);
    desk_result(&d, out, "dq_weight", dq, HS, REDUCTION);
    desk_result(&d, out, "dk_weight", dk, HS, REDUCTION);
    desk_close(&d, out);
}

static void attention_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = qkv_floats(s), m = (size_t)rows_of(s) * (size_t)(s.NH * s.HS),
           rows = (size_t)rows_of(s) * (size_t)s.NH;
    void *qkv = desk_tensor(&d, n, 0, 1), *dout = desk_tensor(&d, m, 0, 1), *y = desk_blank_tensor(&d, m),
         *dqkv = desk_blank_tensor(&d, n);
    float *lse = desk_blank(&d, rows);
    void *workspace = desk_scratch(&d, attention_workspace(s.B, s.T, s.NH, s.NKV, s.HS));
    const int32_t *positions = packed(&d, s);
    desk_use_cudnn(&d, (struct attention_problem){s.B, s.T, s.NH, s.NKV, s.HS, s.window, false});
    side->backend->attention_forward(y, lse, qkv, positions, workspace, s.B, s.T, s.NH, s.NKV, s.HS, s.window,
                                     side->stream);
    desk_tensor_result(&d, out, "out", y, m, REDUCTION);
    desk_round(&d, y, m);
    const float *angles = desk_floats(&d, (size_t)s.T * (size_t)s.HS, 0, 1);
    if (s.HS % 2 || s.seed % 2) angles = NULL;
    side->backend->attention_backward(dqkv, dout, y, lse, qkv, positions, angles, workspace, s.B, s.T, s.NH,
                                      s.NKV, s.HS, s.window, side->stream);
    desk_result(&d, out, "lse", lse, rows, REDUCTION);
    /* ds is rounded to bf16 before its products, by up to 2^-9 of itself; chance averages that over many
     * terms, but the smallest shapes have few */
    desk_tensor_result(&d, out, "dqkv", dqkv, n, REDUCTION + (s.precision == PRECISION_BF16 ? 1.0 / 512 : 0));
    desk_close(&d, out);
}

/* Rows of three sequences of different length: in runs of four, as in decoding; and in longer ones, as in
 * prompts, of which some begin within a tile. */
static void attention_cached_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    enum { SLOTS = 3, ROWS_MAX = 150 };
    static const int runs[] = {4, 4, 4, 20, 70, ROWS_MAX};
    struct desk d = desk_open(side, s, out);
    int32_t slots[ROWS_MAX], positions[ROWS_MAX], lengths[SLOTS];
    int run = runs[s.seed % 6], N = run == 4 ? 1 + (int)(s.seed % 7) * 3 : 16 + (int)(s.seed % 135),
        longest = 1, window = s.seed / 6 % 3 ? 0 : 1 + s.T / 2;
    for (int i = 0; i < SLOTS; i++) lengths[i] = (int)((s.seed + (uint32_t)i * 7) % (uint32_t)(2 * s.T));
    for (int i = 0; i < N; i++) {
        slots[i] = i / run % SLOTS;
        positions[i] = lengths[slots[i]]++;
        if (positions[i] >= longest) longest = positions[i] + 1;
    }
    int S = longest + (int)(s.seed % 5);
    size_t HS = (size_t)s.HS, cache = (size_t)(SLOTS * s.NKV) * (size_t)S * HS,
           n = (size_t)N * (size_t)(s.NH + 2 * s.NKV) * HS, m = (size_t)(N * s.NH) * HS;
    void *qkv = desk_tensor(&d, n, 0, 1), *keys = desk_tensor(&d, cache, 0, 1),
         *values = desk_tensor(&d, cache, 0, 1), *y = desk_blank_tensor(&d, m);
    const int32_t *slot = desk_put(&d, slots, (size_t)N * sizeof *slots, sizeof *slots),
                  *position = desk_put(&d, positions, (size_t)N * sizeof *positions, sizeof *positions);
    void *workspace = desk_scratch(&d, attention_cached_workspace(N, longest, s.NH, s.NKV, s.HS));
    side->backend->cache_store(keys, values, qkv, slot, position, N, S, s.NH, s.NKV, s.HS, side->stream);
    side->backend->attention_cached(y, qkv, keys, values, slot, position, workspace, N, longest, S, s.NH,
                                    s.NKV, s.HS, window, side->stream);
    desk_tensor_result(&d, out, "keys", keys, cache, 0);
    desk_tensor_result(&d, out, "values", values, cache, 0);
    desk_tensor_result(&d, out, "out", y, m, REDUCTION);
    desk_close(&d, out);
}

static void swiglu_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s), F = (size_t)s.F;
    float spread = s.seed % 5 == 4 ? 120 : 4; /* beyond 89, e^x is infinite */
    void *gate_up = desk_tensor(&d, N * 2 * F, 0, spread), *dout = desk_tensor(&d, N * F, 0, 1),
         *y = desk_blank_tensor(&d, N * F), *dgate_up = desk_blank_tensor(&d, N * 2 * F);
    if (s.seed % 2) dgate_up = gate_up; /* may alias */
    side->backend->swiglu_forward(y, gate_up, (int)N, s.F, side->stream);
    desk_tensor_result(&d, out, "out", y, N * F, ELEMENTWISE);
    side->backend->swiglu_backward(dgate_up, s.seed % 3 == 2 ? NULL : dout, dout, gate_up, (int)N, s.F,
                                   side->stream);
    desk_tensor_result(&d, out, "out over dout", dout, N * F, ELEMENTWISE);
    desk_tensor_result(&d, out, "dgate_up", dgate_up, N * 2 * F, ELEMENTWISE);
    desk_close(&d, out);
}

static void gemm_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t M = (size_t)rows_of(s), N = (size_t)s.F, K = (size_t)s.C;
    /* tf32 keeps 10 bits of an operand's mantissa: an error of up to 2^-11 each, 2^-10 of a product together;
     * a tensor core may cut them off instead of rounding, twice that */
    double tolerance = REDUCTION + (s.precision == PRECISION_TF32 ? 1.0 / 512 : 0);
    struct gemm_shape g = {.M = (int)M,
                           .N = (int)N,
                           .K = (int)K,
                           .transpose_a = s.seed & 1,
                           .transpose_b = s.seed & 2,
                           .accumulate = s.seed & 4};
    g = product_shape(g, side->precision, s.seed & 8 ? 8 : 0); /* ranges of columns of wider matrices */
    size_t n = M * (size_t)g.out.stride;
    void *a = desk_tensor(&d, (g.transpose_a ? K : M) * (size_t)g.a.stride, 0, 1),
         *b = desk_tensor(&d, (g.transpose_b ? N : K) * (size_t)g.b.stride, 0, 1),
         *y = g.accumulate ? desk_floats(&d, n, 0, 1) : desk_tensor(&d, n, 0, 1);
    for (int i = 0; i < 2; i++) /* the second call finds the first one's descriptors */
        product_run(side->backend, y, a, b, g, s.seed & 16 ? 0.375f : 1, side->stream);
    if (g.accumulate)
        desk_result(&d, out, "out", y, n, tolerance);
    else
        desk_tensor_result(&d, out, "out", y, n, tolerance);
    desk_close(&d, out);
}

static void gemm_few_rows_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    int M = rows_of(s) < FEW_ROWS_MAX ? rows_of(s) : 1 + rows_of(s) % FEW_ROWS_MAX, gap = s.seed & 1 ? 8 : 0;
    size_t N = (size_t)s.F, K = (size_t)s.C, rows = (size_t)M;
    enum element e = precision_element(side->precision);
    void *x = desk_tensor(&d, rows * (K + (size_t)gap), 0, 1),
         *w = desk_tensor(&d, N * (K + (size_t)gap), 0, 1),
         *y = desk_tensor(&d, rows * (N + (size_t)gap), 0, 1);
    side->backend->gemm_few_rows(matrix_view(y, e, s.F + gap), matrix_view(x, e, s.C + gap),
                                 matrix_view(w, e, s.C + gap), M, s.F, s.C, side->stream);
    desk_tensor_result(&d, out, "out", y, rows * (N + (size_t)gap), REDUCTION);
    desk_close(&d, out);
}

static void bias_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    int stride = s.C + (s.seed % 2 ? 8 : 0); /* columns of a wider tensor */
    size_t N = (size_t)rows_of(s), C = (size_t)s.C, n = N * (size_t)stride;
    /* with a mean, so that no sum cancels to its rounding errors */
    void *x = desk_tensor(&d, n, 0.5f, 1), *bias = desk_tensor(&d, C, 0, 1);
    float *dbias = desk_floats(&d, C, 0, 1);
    void *workspace = desk_scratch(&d, row_chunk_workspace((int)N, s.C));
    side->backend->bias_backward(dbias, x, workspace, (int)N, s.C, stride, side->stream);
    side->backend->bias_forward(x, bias, (int)N, s.C, stride, side->stream);
    desk_tensor_result(&d, out, "x", x, n, 0);
    desk_result(&d, out, "dbias", dbias, C, REDUCTION);
    desk_close(&d, out);
}

static void add_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)rows_of(s) * (size_t)s.C;
    void *x = desk_tensor(&d, n, 0, 1), *delta = desk_tensor(&d, n, 0, 1), *twice = desk_tensor(&d, n, 0, 1);
    side->backend->add(x, delta, n, side->stream);
    side->backend->add(twice, twice, n, side->stream);
    side->backend->add(twice, delta, 0, side->stream);
    desk_tensor_result(&d, out, "x", x, n, 0);
    desk_tensor_result(&d, out, "x + x", twice, n, 0);
    desk_close(&d, out);
}

static void cast_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)rows_of(s) * (size_t)s.C;
    float *x = desk_floats(&d, n, 0, 1);
    void *y = desk_blank_tensor(&d, n);
    side->backend->cast(y, x, n, side->stream);
    side->backend->cast(y, x, 0, side->stream);
    desk_tensor_result(&d, out, "out", y, n, 0);
    desk_close(&d, out);
}

static void nf4_dequantise_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)rows_of(s) * (size_t)s.C;
    for (int nested = 0; nested < 2; nested++) {
        void *y = desk_blank_tensor(&d, n), *stored = desk_nf4(&d, n, nested);
        side->backend->nf4_dequantise(y, stored, n, nested, side->stream);
        side->backend->nf4_dequantise(y, stored, 0, nested, side->stream);
        desk_tensor_result(&d, out, nested ? "nested" : "out", y, n, 0);
    }
    desk_close(&d, out);
}

static void nf4_few_rows_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    int M = 1 + (int)(s.seed % FEW_ROWS_MAX), K = (1 + s.C % 5) * NF4_BLOCK, gap = s.seed & 1 ? 8 : 0;
    enum element e = precision_element(side->precision), nf4 = s.seed & 2 ? ELEMENT_NF4 : ELEMENT_NF4_NESTED;
    size_t rows = (size_t)M, columns = (size_t)(s.F + gap);
    void *x = desk_tensor(&d, rows * (size_t)(K + gap), 0, 1), *y = desk_tensor(&d, rows * columns, 0, 1),
         *w = desk_nf4(&d, (size_t)s.F * (size_t)K, nf4 == ELEMENT_NF4_NESTED);
    side->backend->gemm_few_rows(matrix_view(y, e, s.F + gap), matrix_view(x, e, K + gap),
                                 matrix_view(w, nf4, K), M, s.F, K, side->stream);
    desk_tensor_result(&d, out, "out", y, rows * columns, REDUCTION);
    desk_close(&d, out);
}

static void dropout_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)rows_of(s) * (size_t)s.C;
    struct step_control control = {
        .seed = 0x123456789abcull * s.seed, .step = s.seed, .micro_batch = s.seed % 7};
    if (s.seed % 2)
        control.row = s.seed / 2 % 3, control.rows = control.row + 1 + s.seed % 3; /* a rank's part */
    struct dropout_site site = {desk_control(&d, control), (uint16_t)(s.seed % 31), 2,
                                (size_t)s.T * (size_t)s.C};
    void *x = desk_tensor(&d, n, 1, 1), *kept = desk_tensor(&d, n, 1, 1);
    side->backend->dropout(x, n, 0.1f + 0.1f * (float)(s.seed % 8), site, side->stream);
    side->backend->dropout(kept, n, 0, site, side->stream);
    desk_tensor_result(&d, out, "x", x, n, 0); /* the same bits on every device */
    desk_tensor_result(&d, out, "x at probability 0", kept, n, 0);
    desk_close(&d, out);
}

static void cross_entropy_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s);
    struct matrix logits = desk_logits(&d, s.seed % 3 ? 5 : 80);
    float *losses = desk_blank(&d, N), *fused = desk_blank(&d, N);
    int32_t *t = desk_tokens(&d, N, s.V, true);
    const struct step_control *control =
        desk_control(&d, (struct step_control){.loss_scale = 0.125f, .z_loss = s.seed % 2 ? 0.01f : 0});
    side->backend->cross_entropy_forward(losses, logits, t, (int)N, s.V, side->stream);
    side->backend->cross_entropy_fused(fused, logits, t, control, (int)N, s.V, side->stream);
    desk_result(&d, out, "losses", losses, N, REDUCTION);
    desk_result(&d, out, "fused losses", fused, N, REDUCTION);
    desk_tensor_result(&d, out, "dlogits and gaps", logits.at, N * (size_t)logits.stride, REDUCTION);
    desk_close(&d, out);
}

/* In fp64 on both sides, whose last bits may differ: judged as floats. */
static void reduce_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n =
        s.seed % 4 ? (size_t)rows_of(s) * (size_t)s.C : (size_t)s.V * (size_t)s.C; /* over several chunks */
    float *x = desk_floats(&d, n, 0.5f, 1), *norm = &desk_clip(&d, 0, 0)->norm;
    void *workspace = desk_scratch(&d, reduce_workspace(n));
    double *total = desk_scratch(&d, 2 * sizeof *total), host = 0;
    double *aligned =
        (double *)((uintptr_t)total / 8 * 8 + (s.skew % 2 ? 8 : 0)); /* fp64 has its own boundary */
    void *aligned_workspace = workspace;
    if ((uintptr_t)workspace % 8 != 0) aligned_workspace = desk_scratch(&d, reduce_workspace(n) + 8);
    aligned_workspace = (void *)(((uintptr_t)aligned_workspace + 7) / 8 * 8);
    side->backend->sum(aligned, x, n, false, aligned_workspace, side->stream);
    side->backend->sum(aligned, x, n, true, aligned_workspace, side->stream);
    side->backend->mem_download(&host, aligned, sizeof host, side->stream);
    side->backend->sum_of_squares(aligned, x, n, aligned_workspace, side->stream);
    const struct step_control *control =
        desk_control(&d, (struct step_control){.loss_limit = s.seed % 3 ? 0 : 1e-30});
    side->backend->clip_norm((struct clip_state *)norm, aligned, aligned, control, 1.0f, side->stream);
    desk_result(&d, out, "norm and scale", norm, 2, ELEMENTWISE);
    desk_result(&d, out, "twice the sum", norm, 1, ELEMENTWISE);
    out->outputs[1].values[0] = (float)host;
    desk_close(&d, out);
}

static void adamw_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)rows_of(s) * (size_t)s.C;
    float *w = desk_floats(&d, n, 0, 1), *m = desk_floats(&d, n, 0, 1), *v = desk_floats(&d, n, 1, 1),
          *g = desk_floats(&d, n, 0, 1);
    void *weights = side->precision == PRECISION_BF16 ? desk_blank_tensor(&d, n) : w;
    struct optimizer_params p = {0.9, 0.95, 1e-8f};
    struct step_control *control = desk_control(&d, (struct step_control){.lr = 1e-2f});
    const struct clip_state *clip = desk_clip(&d, 0.5f, 1 + s.seed % 50), *skip = desk_clip(&d, 0, 3);
    int count;
    struct update_range *ranges = desk_ranges(&d, n, &count);
    side->backend->cast(weights, w, n, side->stream); /* an update that is skipped leaves these values */
    side->backend->adamw_step(w, weights, m, v, g, n, ranges, count, p, control, clip, side->stream);
    side->backend->adamw_step(w, weights, m, v, g, n, ranges, count, p, control, skip, side->stream);
    desk_result(&d, out, "w", w, n, ELEMENTWISE);
    desk_tensor_result(&d, out, "weights", weights, n, ELEMENTWISE);
    desk_result(&d, out, "m", m, n, ELEMENTWISE);
    desk_result(&d, out, "v", v, n, ELEMENTWISE);
    desk_close(&d, out);
}

static void lion_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)rows_of(s) * (size_t)s.C;
    float *w = desk_floats(&d, n, 0, 1), *m = desk_floats(&d, n, 0, 1), *g = desk_floats(&d, n, 0, 1);
    void *weights = side->precision == PRECISION_BF16 ? desk_blank_tensor(&d, n) : w;
    struct optimizer_params p = {0.9f, 0.99f, 0};
    struct step_control *control = desk_control(&d, (struct step_control){.lr = 1e-2f});
    const struct clip_state *clip = desk_clip(&d, 0.5f, 1), *skip = desk_clip(&d, 0, 1);
    int count;
    struct update_range *ranges = desk_ranges(&d, n, &count);
    side->backend->cast(weights, w, n, side->stream); /* an update that is skipped leaves these values */
    side->backend->lion_step(w, weights, m, NULL, g, n, ranges, count, p, control, clip, side->stream);
    side->backend->lion_step(w, weights, m, NULL, g, n, ranges, count, p, control, skip, side->stream);
    desk_result(&d, out, "w", w, n, ELEMENTWISE);
    desk_tensor_result(&d, out, "weights", weights, n, ELEMENTWISE);
    desk_result(&d, out, "m", m, n, ELEMENTWISE);
    desk_close(&d, out);
}

const struct op_case op_cases[] = {
    {"embedding_forward", embedding_forward_case},
    {"embedding_backward", embedding_backward_case},
    {"rmsnorm_forward", rmsnorm_forward_case},
    {"rmsnorm_residual_forward", rmsnorm_residual_case},
    {"rmsnorm_backward", rmsnorm_backward_case},
    {"rope", rope_case},
    {"qk_norm_rope_forward", qk_norm_forward_case},
    {"qk_norm_rope_backward", qk_norm_backward_case},
    {"attention", attention_case},
    {"cache_store, attention_cached", attention_cached_case},
    {"swiglu", swiglu_case},
    {"gemm", gemm_case},
    {"gemm_few_rows", gemm_few_rows_case},
    {"nf4_dequantise", nf4_dequantise_case},
    {"gemm_few_rows, nf4", nf4_few_rows_case},
    {"bias", bias_case},
    {"add", add_case},
    {"cast", cast_case},
    {"dropout", dropout_case},
    {"all_reduce, all_reduce_value, reduce_slices, gather_slices", op_case_all_reduce},
    {"cross_entropy", cross_entropy_case},
    {"weigh_classes", op_case_class_weights},
    {"mean_pool_forward, mean_pool_backward", op_case_pooling},
    {"sum, sum_of_squares, clip_norm", reduce_case},
    {"adamw", adamw_case},
    {"lion", lion_case},
    {"adamw8, lion8", op_case_moments},
    {"average_weights", op_case_average},
    {"muon_momentum, muon_normalise, muon_polynomial, muon_update", op_case_muon},
    {0},
};

/* ---- shapes ---- */

struct op_shape op_fuzz(uint32_t number, bool small)
{
    static const int lengths[] = {1, 2, 7, 31, 32, 33, 61, 64, 65, 127, 129, 131};
    static const int widths[] = {1, 3, 8, 16, 31, 64, 96, 127, 128, 129, 260, 513, 1031, 1032};
    static const int heads[][2] = {{1, 1}, {2, 1}, {4, 2}, {3, 3}, {6, 2}, {4, 4}, {7, 1}, {8, 1}, {24, 2}};
    static const int head_widths[] = {2, 5, 16, 17, 32, 64, 80, 128, 130, 256};
    static const int windows[] = {0, 0, 0, 0, 1, 2, 9, 32, 33, 64, 65, 100};
    static const int vocabularies[] = {1, 2, 5, 127, 256, 257, 1020, 1021, 2048};
    struct philox_block a = philox4x32_10(number, 0, 0, 0, 0x73686170u, 0),
                        b = philox4x32_10(number, 1, 0, 0, 0x73686170u, 0);
#define PICK(list, word) ((word) % (sizeof(list) / sizeof *(list)))
    const int *grouped = heads[PICK(heads, a.word[1])];
    struct op_shape s = {.B = 1 + (int)(a.word[0] >> 8 & 1),
                         .T = lengths[PICK(lengths, a.word[2])],
                         .NH = grouped[0],
                         .NKV = grouped[1],
                         .HS = head_widths[PICK(head_widths, a.word[3])],
                         .C = widths[PICK(widths, b.word[0])],
                         .F = widths[PICK(widths, b.word[1])],
                         .V = vocabularies[PICK(vocabularies, b.word[2])],
                         .window = windows[PICK(windows, b.word[3] >> 16)],
                         .seed = number,
                         .skew = b.word[3] % 3 == 0 ? 1 + (int)(b.word[3] >> 8) % 3 : 0};
#undef PICK
    /* the cost of attention is B · NH · T² · HS */
    double most = small ? 3e5 : 1.5e6;
    while (s.T > 1 && (double)s.B * s.NH * s.T * s.T * s.HS > most) s.T = s.T / 2 + (s.T > 3);
    return s;
}
