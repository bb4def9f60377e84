/* See op_cases.h. */
#include "tests/gpu/op_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"

#define ELEMENTWISE 1e-6
#define REDUCTION   1e-5

static void require(enum status status, const struct err *err)
{
    if (!status) return;
    fprintf(stderr, "op_cases: %s\n", err->text);
    exit(1);
}

enum status op_side_open(struct op_side *side, const struct backend *backend, struct err *err)
{
    *side = (struct op_side){.backend = backend};
    enum status status = backend->device_open(1, &side->device, err);
    if (status) return status;
    status = backend->stream_open(side->device, PRECISION_FP32, &side->stream, err);
    if (status) backend->device_close(side->device);
    return status;
}

void op_side_close(struct op_side *side)
{
    side->backend->stream_close(side->stream);
    side->backend->device_close(side->device);
}

/* ---- arrays on the device, for the length of a case ---- */

struct desk {
    const struct op_side *side;
    struct op_shape shape;
    void *memory[16];
    int count;
    uint32_t draws;
};

static void *put(struct desk *desk, const void *host, size_t bytes)
{
    struct err err = {0};
    void *memory = NULL;
    size_t skew = (size_t)desk->shape.skew * sizeof(float);
    require(desk->side->backend->mem_alloc(desk->side->device, bytes + skew, &memory, &err), &err);
    desk->memory[desk->count++] = memory;
    desk->side->backend->mem_upload((char *)memory + skew, host, bytes, desk->side->stream);
    require(desk->side->backend->stream_wait(desk->side->stream, &err), &err);
    return (char *)memory + skew;
}

/* n floats in [middle − spread, middle + spread): the same on every side. */
static float *uniform(struct desk *desk, size_t n, float middle, float spread)
{
    float *host = malloc((n + 1) * sizeof *host);
    uint32_t stream = desk->draws++;
    for (size_t i = 0; i < n; i++) {
        uint32_t word = philox4x32_10((uint32_t)i, stream, 0, 0, desk->shape.seed, 0x6f7073u).word[0];
        host[i] = middle + spread * (2.0f * philox_uniform(word) - 1.0f);
    }
    float *out = put(desk, host, n * sizeof *host);
    free(host);
    return out;
}

static int32_t *tokens(struct desk *desk, size_t n, int below, bool ignored)
{
    int32_t *host = malloc((n + 1) * sizeof *host);
    uint32_t stream = desk->draws++;
    for (size_t i = 0; i < n; i++) {
        struct philox_block r = philox4x32_10((uint32_t)i, stream, 0, 0, desk->shape.seed, 0x746f6bu);
        /* half of them among few, so that tokens repeat */
        host[i] = (int32_t)(r.word[0] % (uint32_t)(r.word[1] & 1 && below > 3 ? 3 : below));
        if (ignored && r.word[2] % 5 == 0) host[i] = -100;
    }
    int32_t *out = put(desk, host, n * sizeof *host);
    free(host);
    return out;
}

/* All NaN. */
static void *poisoned(struct desk *desk, size_t bytes)
{
    void *host = malloc(bytes + 1);
    memset(host, 0xff, bytes);
    void *out = put(desk, host, bytes);
    free(host);
    return out;
}

static float *blank(struct desk *desk, size_t n)
{
    return poisoned(desk, n * sizeof(float));
}

static struct desk desk_open(const struct op_side *side, struct op_shape shape, struct op_outcome *out)
{
    *out = (struct op_outcome){0};
    return (struct desk){.side = side, .shape = shape};
}

static void result(struct desk *desk, struct op_outcome *out, const char *name, const float *memory, size_t n,
                   double tolerance)
{
    float *values = malloc((n + 1) * sizeof *values);
    desk->side->backend->mem_download(values, memory, n * sizeof *values, desk->side->stream);
    out->outputs[out->count].name = name;
    out->outputs[out->count].values = values;
    out->outputs[out->count].n = n;
    out->outputs[out->count++].tolerance = tolerance;
}

static void desk_close(struct desk *desk, struct op_outcome *out)
{
    out->status = desk->side->backend->stream_wait(desk->side->stream, &out->err);
    while (desk->count > 0) desk->side->backend->mem_free(desk->side->device, desk->memory[--desk->count]);
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
    float *weight = uniform(&d, (size_t)s.V * C, 0, 1), *y = blank(&d, N * C);
    int32_t *t = tokens(&d, N, s.V, false);
    side->backend->embedding_forward(y, t, weight, (int)N, s.C, side->stream);
    result(&d, out, "out", y, N * C, 0);
    desk_close(&d, out);
}

static void embedding_backward_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s), C = (size_t)s.C;
    float *dweight = uniform(&d, (size_t)s.V * C, 0, 1), *dout = uniform(&d, N * C, 0, 1);
    int32_t *t = tokens(&d, N, s.V, false);
    void *workspace = poisoned(&d, embedding_backward_workspace((int)N, s.V));
    side->backend->embedding_backward(dweight, dout, t, workspace, (int)N, s.V, s.C, side->stream);
    result(&d, out, "dweight", dweight, (size_t)s.V * C, 0); /* the same additions in the same order */
    desk_close(&d, out);
}

static void rmsnorm_forward_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s), C = (size_t)s.C;
    float *x = uniform(&d, N * C, 0.1f, 1), *w = uniform(&d, C, 1, 0.5f), *y = blank(&d, N * C),
          *r = blank(&d, N);
    side->backend->rmsnorm_forward(y, r, x, w, (int)N, s.C, 1e-5f, side->stream);
    result(&d, out, "out", y, N * C, ELEMENTWISE);
    result(&d, out, "rstd", r, N, ELEMENTWISE);
    side->backend->rmsnorm_recompute(x, x, w, r, (int)N, s.C, side->stream);
    result(&d, out, "recomputed", x, N * C, ELEMENTWISE);
    desk_close(&d, out);
}

static void rmsnorm_residual_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s), C = (size_t)s.C;
    float *x = uniform(&d, N * C, 0, 1), *delta = uniform(&d, N * C, 0, 1), *w = uniform(&d, C, 1, 0.5f),
          *sum = blank(&d, N * C), *y = blank(&d, N * C), *r = blank(&d, N);
    if (s.seed % 2) sum = x; /* sum may alias x */
    side->backend->rmsnorm_residual_forward(sum, y, r, x, delta, w, (int)N, s.C, 1e-5f, side->stream);
    result(&d, out, "sum", sum, N * C, 0);
    result(&d, out, "out", y, N * C, ELEMENTWISE);
    result(&d, out, "rstd", r, N, ELEMENTWISE);
    desk_close(&d, out);
}

static void rmsnorm_backward_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s), C = (size_t)s.C;
    float *dx = uniform(&d, N * C, 0, 1), *dw = uniform(&d, C, 0, 1), *dout = uniform(&d, N * C, 0, 1),
          *x = uniform(&d, N * C, 0, 1), *w = uniform(&d, C, 1, 0.5f), *r = uniform(&d, N, 1.5f, 0.5f);
    void *workspace = poisoned(&d, rmsnorm_backward_workspace((int)N, s.C));
    side->backend->rmsnorm_backward(dx, dw, dout, x, w, r, workspace, (int)N, s.C, side->stream);
    result(&d, out, "dx", dx, N * C, ELEMENTWISE);
    result(&d, out, "dweight", dw, C, REDUCTION);
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

static void rope_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    s = even(s);
    struct desk d = desk_open(side, s, out);
    size_t n = qkv_floats(s);
    float *x = uniform(&d, n, 0, 1), *y = uniform(&d, n, 0, 1),
          *angles = uniform(&d, (size_t)s.T * (size_t)s.HS, 0, 1);
    side->backend->rope_forward(x, angles, s.B, s.T, s.NH, s.NKV, s.HS, side->stream);
    side->backend->rope_backward(y, angles, s.B, s.T, s.NH, s.NKV, s.HS, side->stream);
    result(&d, out, "qkv", x, n, ELEMENTWISE);
    result(&d, out, "dqkv", y, n, ELEMENTWISE);
    desk_close(&d, out);
}

static void qk_norm_forward_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    s = even(s);
    struct desk d = desk_open(side, s, out);
    size_t n = qkv_floats(s), rstds = (size_t)rows_of(s) * (size_t)(s.NH + s.NKV), HS = (size_t)s.HS;
    float *x = uniform(&d, n, 0, 1), *y = blank(&d, n), *r = blank(&d, rstds), *q = uniform(&d, HS, 1, 0.5f),
          *k = uniform(&d, HS, 1, 0.5f), *angles = uniform(&d, (size_t)s.T * HS, 0, 1);
    if (s.seed % 2) y = x; /* out may alias qkv */
    side->backend->qk_norm_rope_forward(y, r, x, q, k, angles, s.B, s.T, s.NH, s.NKV, s.HS, 1e-6f,
                                        side->stream);
    result(&d, out, "out", y, n, ELEMENTWISE);
    result(&d, out, "rstd", r, rstds, ELEMENTWISE);
    desk_close(&d, out);
}

static void qk_norm_backward_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    s = even(s);
    struct desk d = desk_open(side, s, out);
    int N = rows_of(s);
    size_t n = qkv_floats(s), HS = (size_t)s.HS;
    float *dqkv = uniform(&d, n, 0, 1), *dq = uniform(&d, HS, 0, 1), *dk = uniform(&d, HS, 0, 1),
          *x = uniform(&d, n, 0, 1), *r = uniform(&d, (size_t)N * (size_t)(s.NH + s.NKV), 1.5f, 0.5f),
          *q = uniform(&d, HS, 1, 0.5f), *k = uniform(&d, HS, 1, 0.5f),
          *angles = uniform(&d, (size_t)s.T * HS, 0, 1);
    void *workspace = poisoned(&d, qk_norm_rope_backward_workspace(N, s.NH, s.NKV, s.HS));
    side->backend->qk_norm_rope_backward(dqkv, dq, dk, x, r, q, k, angles, workspace, s.B, s.T, s.NH, s.NKV,
                                         s.HS, side->stream);
    result(&d, out, "dqkv", dqkv, n, ELEMENTWISE);
    result(&d, out, "dq_weight", dq, HS, REDUCTION);
    result(&d, out, "dk_weight", dk, HS, REDUCTION);
    desk_close(&d, out);
}

static void attention_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = qkv_floats(s), m = (size_t)rows_of(s) * (size_t)(s.NH * s.HS),
           rows = (size_t)rows_of(s) * (size_t)s.NH;
    float *qkv = uniform(&d, n, 0, 1), *dout = uniform(&d, m, 0, 1), *y = blank(&d, m),
          *lse = blank(&d, rows), *dqkv = blank(&d, n);
    void *workspace = poisoned(&d, attention_workspace(s.B, s.T, s.NH, s.NKV, s.HS));
    side->backend->attention_forward(y, lse, qkv, workspace, s.B, s.T, s.NH, s.NKV, s.HS, side->stream);
    side->backend->attention_backward(dqkv, dout, y, lse, qkv, workspace, s.B, s.T, s.NH, s.NKV, s.HS,
                                      side->stream);
    result(&d, out, "out", y, m, REDUCTION);
    result(&d, out, "lse", lse, rows, REDUCTION);
    result(&d, out, "dqkv", dqkv, n, REDUCTION);
    desk_close(&d, out);
}

static void swiglu_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s), F = (size_t)s.F;
    float *gate_up = uniform(&d, N * 2 * F, 0, 4), *dout = uniform(&d, N * F, 0, 1), *y = blank(&d, N * F),
          *dgate_up = blank(&d, N * 2 * F);
    if (s.seed % 2) dgate_up = gate_up; /* may alias */
    side->backend->swiglu_forward(y, gate_up, (int)N, s.F, side->stream);
    side->backend->swiglu_backward(dgate_up, dout, gate_up, (int)N, s.F, side->stream);
    result(&d, out, "out", y, N * F, ELEMENTWISE);
    result(&d, out, "dgate_up", dgate_up, N * 2 * F, ELEMENTWISE);
    desk_close(&d, out);
}

static void gemm_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t M = (size_t)rows_of(s), N = (size_t)s.F, K = (size_t)s.C;
    bool transpose_a = s.seed & 1, transpose_b = s.seed & 2, accumulate = s.seed & 4;
    float *a = uniform(&d, M * K, 0, 1), *b = uniform(&d, K * N, 0, 1),
          *y = accumulate ? uniform(&d, M * N, 0, 1) : blank(&d, M * N);
    for (int i = 0; i < 2; i++) /* the second call finds the first one's descriptors */
        side->backend->gemm(y, a, b, (int)M, (int)N, (int)K, transpose_a, transpose_b, accumulate,
                            side->stream);
    result(&d, out, "out", y, M * N, REDUCTION);
    desk_close(&d, out);
}

static void bias_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s), C = (size_t)s.C;
    float *x = uniform(&d, N * C, 0, 1), *bias = uniform(&d, C, 0, 1), *dbias = uniform(&d, C, 0, 1);
    void *workspace = poisoned(&d, bias_backward_workspace((int)N, s.C));
    side->backend->bias_backward(dbias, x, workspace, (int)N, s.C, side->stream);
    side->backend->bias_forward(x, bias, (int)N, s.C, side->stream);
    result(&d, out, "x", x, N * C, 0);
    result(&d, out, "dbias", dbias, C, REDUCTION);
    desk_close(&d, out);
}

static void add_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)rows_of(s) * (size_t)s.C;
    float *x = uniform(&d, n, 0, 1), *delta = uniform(&d, n, 0, 1), *twice = uniform(&d, n, 0, 1);
    side->backend->add(x, delta, n, side->stream);
    side->backend->add(twice, twice, n, side->stream);
    side->backend->add(twice, delta, 0, side->stream);
    result(&d, out, "x", x, n, 0);
    result(&d, out, "x + x", twice, n, 0);
    desk_close(&d, out);
}

static void dropout_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)rows_of(s) * (size_t)s.C;
    struct dropout_site site = {.seed = 0x123456789abcull * s.seed,
                                .step = s.seed,
                                .micro_batch = s.seed % 7,
                                .layer = (uint16_t)(s.seed % 31),
                                .site = 2};
    float *x = uniform(&d, n, 1, 1), *kept = uniform(&d, n, 1, 1);
    side->backend->dropout(x, n, 0.1f + 0.1f * (float)(s.seed % 8), site, side->stream);
    side->backend->dropout(kept, n, 0, site, side->stream);
    result(&d, out, "x", x, n, 0); /* the same bits on every device */
    result(&d, out, "x at probability 0", kept, n, 0);
    desk_close(&d, out);
}

static void cross_entropy_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t N = (size_t)rows_of(s), V = (size_t)s.V;
    float *logits = uniform(&d, N * V, 0, s.seed % 3 ? 5 : 80), *losses = blank(&d, N), *fused = blank(&d, N);
    int32_t *t = tokens(&d, N, s.V, true);
    side->backend->cross_entropy_forward(losses, logits, t, (int)N, s.V, side->stream);
    side->backend->cross_entropy_fused(fused, logits, t, 0.125f, (int)N, s.V, side->stream);
    result(&d, out, "losses", losses, N, REDUCTION);
    result(&d, out, "fused losses", fused, N, REDUCTION);
    result(&d, out, "dlogits", logits, N * V, REDUCTION);
    desk_close(&d, out);
}

/* In fp64 on both sides, whose last bits may differ: judged as floats. */
static void reduce_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n =
        s.seed % 4 ? (size_t)rows_of(s) * (size_t)s.C : (size_t)s.V * (size_t)s.C; /* over several chunks */
    float *x = uniform(&d, n, 0.5f, 1), *norm = blank(&d, 2);
    void *workspace = poisoned(&d, reduce_workspace(n));
    double *total = poisoned(&d, 2 * sizeof *total), host = 0;
    double *aligned =
        (double *)((uintptr_t)total / 8 * 8 + (s.skew % 2 ? 8 : 0)); /* fp64 has its own boundary */
    void *aligned_workspace = workspace;
    if ((uintptr_t)workspace % 8 != 0) aligned_workspace = poisoned(&d, reduce_workspace(n) + 8);
    aligned_workspace = (void *)(((uintptr_t)aligned_workspace + 7) / 8 * 8);
    side->backend->sum(aligned, x, n, aligned_workspace, side->stream);
    side->backend->mem_download(&host, aligned, sizeof host, side->stream);
    side->backend->grad_norm((struct clip_state *)norm, x, n, 1.0f, aligned_workspace, side->stream);
    result(&d, out, "norm and scale", norm, 2, ELEMENTWISE);
    result(&d, out, "sum", norm, 1, ELEMENTWISE);
    out->outputs[1].values[0] = (float)host;
    desk_close(&d, out);
}

static struct clip_state *clip_of(struct desk *d, float scale)
{
    struct clip_state clip = {2.0f, scale};
    return put(d, &clip, sizeof clip);
}

static void adamw_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)rows_of(s) * (size_t)s.C;
    float *w = uniform(&d, n, 0, 1), *m = uniform(&d, n, 0, 1), *v = uniform(&d, n, 1, 1),
          *g = uniform(&d, n, 0, 1);
    struct adamw_params p = {1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.19f, 0.0975f};
    side->backend->adamw_step(w, w, m, v, g, n, n / 2, p, clip_of(&d, 0.5f), side->stream);
    side->backend->adamw_step(w, w, m, v, g, n, n / 2, p, clip_of(&d, 0.0f), side->stream); /* skipped */
    result(&d, out, "w", w, n, ELEMENTWISE);
    result(&d, out, "m", m, n, ELEMENTWISE);
    result(&d, out, "v", v, n, ELEMENTWISE);
    desk_close(&d, out);
}

static void lion_case(const struct op_side *side, struct op_shape s, struct op_outcome *out)
{
    struct desk d = desk_open(side, s, out);
    size_t n = (size_t)rows_of(s) * (size_t)s.C;
    float *w = uniform(&d, n, 0, 1), *m = uniform(&d, n, 0, 1), *g = uniform(&d, n, 0, 1);
    struct lion_params p = {1e-2f, 0.9f, 0.99f, 0.1f};
    side->backend->lion_step(w, w, m, g, n, n / 2, p, clip_of(&d, 0.5f), side->stream);
    side->backend->lion_step(w, w, m, g, n, n / 2, p, clip_of(&d, 0.0f), side->stream); /* skipped */
    result(&d, out, "w", w, n, ELEMENTWISE);
    result(&d, out, "m", m, n, ELEMENTWISE);
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
    {"swiglu", swiglu_case},
    {"gemm", gemm_case},
    {"bias", bias_case},
    {"add", add_case},
    {"dropout", dropout_case},
    {"cross_entropy", cross_entropy_case},
    {"sum, grad_norm", reduce_case},
    {"adamw", adamw_case},
    {"lion", lion_case},
    {0},
};

/* ---- shapes ---- */

struct op_shape op_fuzz(uint32_t number, bool small)
{
    static const int lengths[] = {1, 2, 7, 31, 32, 33, 61, 64, 65, 127, 129, 131};
    static const int widths[] = {1, 3, 16, 31, 64, 96, 127, 128, 129, 260, 513, 1031};
    static const int heads[][2] = {{1, 1}, {2, 1}, {4, 2}, {3, 3}, {6, 2}, {4, 4}};
    static const int head_widths[] = {2, 5, 16, 17, 32, 64, 80, 128, 130, 256};
    static const int vocabularies[] = {1, 2, 5, 127, 256, 257, 1021, 2048};
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
                         .seed = number,
                         .skew = b.word[3] % 3 == 0 ? 1 + (int)(b.word[3] >> 8) % 3 : 0};
#undef PICK
    /* the cost of attention is B · NH · T² · HS */
    double most = small ? 3e5 : 1.5e6;
    while (s.T > 1 && (double)s.B * s.NH * s.T * s.T * s.HS > most) s.T = s.T / 2 + (s.T > 3);
    return s;
}

/* ---- judgement ---- */

void op_outcome_release(struct op_outcome *outcome)
{
    for (int i = 0; i < outcome->count; i++) free(outcome->outputs[i].values);
    *outcome = (struct op_outcome){0};
}

double op_error(const struct op_outcome *out, const struct op_outcome *ref, int output)
{
    const float *x = out->outputs[output].values, *y = ref->outputs[output].values;
    double apart = 0, size = 0;
    for (size_t i = 0; i < ref->outputs[output].n; i++) {
        double d = (double)x[i] - (double)y[i];
        apart += d * d;
        size += (double)y[i] * (double)y[i];
    }
    return apart == 0 ? 0 : sqrt(apart / size);
}

int64_t op_difference(const struct op_outcome *a, const struct op_outcome *b, int output)
{
    for (size_t i = 0; i < a->outputs[output].n; i++)
        if (memcmp(&a->outputs[output].values[i], &b->outputs[output].values[i], sizeof(float)) != 0)
            return (int64_t)i;
    return -1;
}
