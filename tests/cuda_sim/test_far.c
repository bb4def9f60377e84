/* Offsets beyond 32 bits: each operation on tensors of more than 2^32 elements, of which only the last rows
 * hold anything and only the last blocks of a launch run, against the same rows alone. An index that is
 * computed in 32 bits reaches other memory of the tensor, which is zero. Not here: the backward passes
 * of norms, whose blocks go through a share of all rows. */
#include "kernels/device/cuda_plugin.h"
#include "kernels/moments.h"
#include "kernels/nf4.h"
#include "kernels/partition.h"
#include "tests/cmocka.h"
#include "tests/cuda_sim/simulator.h"
#include "tests/gpu/op_cases.h"

extern const struct cuda_plugin cuda_plugin;

/* N rows of C, of which the last TAIL are compared. */
enum { N = (1 << 22) + 6, C = 1032, TAIL = 2, BLOCKS = 64, FEW_BLOCKS = 4 };

static struct op_side sides[2];
static const struct backend *k;
static struct device *device;
static struct stream *stream;
static enum element element;
static size_t E; /* its bytes */

/* A tensor, and one of its last elements alone. */
struct tensor {
    char *of[2];                  /* near, far */
    size_t count[2], tail, bytes; /* of an element */
};
static struct tensor made[16];
static int made_count;

static void *allocated(size_t bytes)
{
    struct err err;
    void *memory;
    if (k->mem_alloc(device, bytes, &memory, &err)) fail_msg("%s", err.text);
    return memory;
}

/* `few` elements near and `all` far, whose last `tail` are `values`. */
static struct tensor *tensor_of(size_t all, size_t few, size_t tail, size_t bytes, const void *values)
{
    struct tensor *t = &made[made_count++];
    *t = (struct tensor){.count = {few, all}, .tail = tail, .bytes = bytes};
    for (int far = 0; far < 2; far++) {
        t->of[far] = allocated(t->count[far] * bytes);
        k->mem_upload(t->of[far] + (t->count[far] - tail) * bytes, values, tail * bytes, stream);
    }
    return t;
}

/* The same with multiples of 1/128 between −1 and 1, whose sums are exact. */
static struct tensor *numbers(size_t all, size_t few, size_t bytes)
{
    static uint32_t draw = 1;
    size_t tail = few;
    char *values = malloc(tail * bytes);
    for (size_t i = 0; i < tail; i++) {
        float x = (float)((int)((draw = draw * 1664525u + 1013904223u) >> 24) - 128) / 128.0f;
        memcpy(values + i * bytes, (char *)&x + (4 - bytes), bytes);
    }
    struct tensor *t = tensor_of(all, few, tail, bytes, values);
    free(values);
    return t;
}

static struct tensor *rows(size_t width)
{
    return numbers((size_t)N * width, TAIL * width, E);
}

static struct tensor *floats(size_t all, size_t few)
{
    return numbers(all, few, sizeof(float));
}

/* The same on both sides. */
static struct tensor *common(size_t count, size_t bytes)
{
    return numbers(count, count, bytes);
}

static void expect_same(const char *what, const struct tensor *t)
{
    char *values[2];
    for (int far = 0; far < 2; far++) {
        values[far] = malloc(t->tail * t->bytes);
        k->mem_download(values[far], t->of[far] + (t->count[far] - t->tail) * t->bytes, t->tail * t->bytes,
                        stream);
    }
    size_t at = 0;
    while (at < t->tail && memcmp(values[0] + at * t->bytes, values[1] + at * t->bytes, t->bytes) == 0) at++;
    free(values[0]), free(values[1]);
    if (at < t->tail) fail_msg("%s: element %zu of the last %zu differs", what, at, t->tail);
}

static void forget(void)
{
    while (made_count > 0) {
        struct tensor *t = &made[--made_count];
        for (int far = 0; far < 2; far++) k->mem_free(device, t->of[far]);
    }
    sim_set_last_blocks(0);
}

/* Twice: far = 1 with the last blocks alone, then 0. */
#define ON_BOTH(blocks) for (int far = 1; far >= 0 && (sim_set_last_blocks(far ? (blocks) : 0), true); far--)

static void elementwise(void)
{
    size_t n[2] = {TAIL * C, (size_t)N * C};
    struct tensor *x = rows(C), *y = rows(C), *wide = floats(n[1], n[0]), *narrow = rows(C);
    ON_BOTH(BLOCKS)
    {
        k->add(x->of[far], y->of[far], n[far], stream);
        k->cast(narrow->of[far], (float *)wide->of[far], n[far], stream);
    }
    expect_same("add", x);
    expect_same("cast", narrow);
    forget();
}

static void bias(void)
{
    enum { WIDE = (1 << 30) + 8, ROWS = 5, LAST = 1024 };
    struct tensor *x = rows(2 * C), *b = common(C, E), *dout = numbers((size_t)ROWS * WIDE, LAST, E),
                  *dbias = floats(WIDE, LAST), *workspace = floats(WIDE, LAST);
    ON_BOTH(BLOCKS)
    {
        int n[2] = {TAIL, N}, width[2] = {LAST, WIDE}, count[2] = {1, ROWS};
        k->bias_forward(x->of[far] + E * C, b->of[far], n[far], C, 2 * C, stream);
        k->bias_backward((float *)dbias->of[far], dout->of[far], workspace->of[far], count[far], width[far],
                         width[far], stream);
    }
    expect_same("bias", x);
    expect_same("dbias", dbias);
    forget();
}

static void swiglu(void)
{
    struct tensor *gate_up = rows(2 * C), *out = rows(C), *dout = rows(C), *again = rows(C),
                  *dgate_up = rows(2 * C);
    ON_BOTH(BLOCKS)
    {
        int n[2] = {TAIL, N};
        k->swiglu_forward(out->of[far], gate_up->of[far], n[far], C, stream);
        k->swiglu_backward(dgate_up->of[far], again->of[far], dout->of[far], gate_up->of[far], n[far], C,
                           stream);
    }
    expect_same("swiglu", out);
    expect_same("swiglu again", again);
    expect_same("dgate_up", dgate_up);
    forget();
}

/* Near, the elements are numbered as a later part of a micro-batch. */
static void dropout(void)
{
    enum { WIDTH = TAIL * C };
    struct tensor *x = rows(C);
    struct step_control part[2] = {{.seed = 5, .row = N / TAIL - 1, .rows = N / TAIL},
                                   {.seed = 5, .row = 0, .rows = N / TAIL}};
    ON_BOTH(BLOCKS)
    {
        struct tensor *control = tensor_of(sizeof *part, sizeof *part, sizeof *part, 1, &part[far]);
        struct dropout_site site = {(struct step_control *)control->of[far], 1, 1, WIDTH};
        k->dropout(x->of[far], far ? (size_t)N * C : WIDTH, 0.5f, site, stream);
    }
    expect_same("dropout", x);
    forget();
}

static void rmsnorm(void)
{
    struct tensor *x = rows(C), *delta = rows(C), *sum = rows(C), *out = rows(C), *weight = common(C, E),
                  *rstd = floats(N, TAIL);
    ON_BOTH(BLOCKS)
    {
        int n[2] = {TAIL, N};
        k->rmsnorm_residual_forward(sum->of[far], out->of[far], (float *)rstd->of[far], x->of[far],
                                    delta->of[far], weight->of[far], n[far], C, 1e-5f, stream);
    }
    expect_same("sum", sum);
    expect_same("norm", out);
    forget();
}

static void embedding(void)
{
    enum { TOKENS = 3 };
    const int32_t tokens[2][TOKENS] = {{0, 1, 1}, {N - 2, N - 1, N - 1}};
    struct tensor *weight = rows(C), *dweight = floats((size_t)N * C, TAIL * C), *out = common(TOKENS * C, E),
                  *dout = common(TOKENS * C, E),
                  *workspace = common(embedding_backward_workspace(TOKENS) / 4, sizeof(float));
    ON_BOTH(0)
    {
        struct tensor *t = tensor_of(TOKENS, TOKENS, TOKENS, sizeof **tokens, tokens[far]);
        int V = far ? N : TAIL;
        k->embedding_forward(out->of[far], (int32_t *)t->of[far], matrix_view(weight->of[far], element, C),
                             TOKENS, V, C, stream);
        k->embedding_backward((float *)dweight->of[far], dout->of[far], (int32_t *)t->of[far],
                              workspace->of[far], TOKENS, V, C, stream);
    }
    expect_same("embedding", out);
    expect_same("dweight", dweight);
    forget();
}

static void rope(void)
{
    enum { T = 8, B = (1 << 19) + 1, NH = 4, NKV = 2, HS = 128, ROW = (NH + 2 * NKV) * HS };
    size_t all = (size_t)B * T, normed = NH + NKV;
    struct tensor *qkv = numbers(all * ROW, T * ROW, E), *out = numbers(all * ROW, T * ROW, E),
                  *rstd = floats(all * normed, T * normed), *angles = common(T * HS, sizeof(float)),
                  *weight = common(HS, E);
    ON_BOTH(BLOCKS)
    {
        int b[2] = {1, B};
        k->qk_norm_rope_forward(out->of[far], (float *)rstd->of[far], qkv->of[far], weight->of[far],
                                weight->of[far], (float *)angles->of[far], NULL, b[far], T, NH, NKV, HS,
                                1e-5f, stream);
        k->rope(qkv->of[far], (float *)angles->of[far], NULL, b[far], T, NH, NKV, HS, false, stream);
    }
    expect_same("norms of heads", out);
    expect_same("rope", qkv);
    forget();
}

/* The row products of one sequence take all BLOCKS. */
static void attention(void)
{
    enum { T = 32, B = 43700, NH = 8, NKV = 8, HS = 128, ROW = (NH + 2 * NKV) * HS };
    size_t all = (size_t)B * T;
    struct tensor *qkv = numbers(all * ROW, T * ROW, E), *dqkv = numbers(all * ROW, T * ROW, E),
                  *out = numbers(all * NH * HS, T * NH * HS, E),
                  *dout = numbers(all * NH * HS, T * NH * HS, E), *lse = floats(all * NH, T * NH),
                  *products = floats(all * NH, T * NH);
    ON_BOTH(BLOCKS)
    {
        int b[2] = {1, B};
        k->attention_forward(out->of[far], (float *)lse->of[far], qkv->of[far], NULL, NULL, b[far], T, NH,
                             NKV, HS, 0, stream);
        k->attention_backward(dqkv->of[far], dout->of[far], out->of[far], (float *)lse->of[far], qkv->of[far],
                              NULL, NULL, products->of[far], b[far], T, NH, NKV, HS, 0, stream);
    }
    expect_same("attention", out);
    expect_same("lse", lse);
    expect_same("dqkv", dqkv);
    forget();
}

/* A few rows, and as many as make a tile. */
static void cache(void)
{
    enum { S = 1024, NH = 4, NKV = 2, HS = 128, SLOT = NKV * S * HS, SLOTS = 16400, MOST = 20 };
    for (int n = 2; n <= MOST; n += MOST - 2) {
        size_t row = (NH + 2 * NKV) * HS;
        struct tensor *keys = numbers((size_t)SLOTS * SLOT, SLOT, E),
                      *values = numbers((size_t)SLOTS * SLOT, SLOT, E), *qkv = common((size_t)n * row, E),
                      *out = common((size_t)n * NH * HS, E),
                      *workspace = common(attention_cached_workspace(n, n, NH, NKV, HS) / 4, sizeof(float));
        ON_BOTH(0)
        {
            int32_t slots[MOST], positions[MOST];
            for (int i = 0; i < n; i++) slots[i] = far ? SLOTS - 1 : 0, positions[i] = i;
            struct tensor *slot = tensor_of((size_t)n, (size_t)n, (size_t)n, sizeof *slots, slots),
                          *position = tensor_of((size_t)n, (size_t)n, (size_t)n, sizeof *slots, positions);
            k->cache_store(keys->of[far], values->of[far], qkv->of[far], (int32_t *)slot->of[far],
                           (int32_t *)position->of[far], n, S, NH, NKV, HS, stream);
            k->attention_cached(out->of[far], qkv->of[far], keys->of[far], values->of[far],
                                (int32_t *)slot->of[far], (int32_t *)position->of[far], workspace->of[far], n,
                                n, S, NH, NKV, HS, 0, stream);
        }
        expect_same("keys", keys);
        expect_same("values", values);
        expect_same("attention over the cache", out);
        forget();
    }
}

static void few_rows(void)
{
    struct tensor *w = rows(C), *x = common(C, E), *out = numbers(N, TAIL, E);
    ON_BOTH(BLOCKS)
    {
        int n[2] = {TAIL, N};
        k->gemm_few_rows(matrix_view(out->of[far], element, n[far]), matrix_view(x->of[far], element, C),
                         matrix_view(w->of[far], element, C), 1, n[far], C, stream);
    }
    expect_same("product of a row", out);
    forget();
}

static void nf4(void)
{
    enum { ROWS = (1 << 26) + 64, FEW = 64, K = NF4_BLOCK };
    size_t all = (size_t)ROWS * K, few = FEW * K;
    uint8_t codes[FEW * K / 2];
    float scales[FEW], *values = malloc(few * sizeof *values);
    for (size_t i = 0; i < few; i++) values[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    nf4_quantise(codes, scales, values, few);
    free(values);
    struct tensor *out = numbers(all, few, E), *product = numbers(ROWS, FEW, E), *x = common(K, E),
                  *stored = tensor_of(nf4_bytes(all, false), nf4_bytes(few, false), sizeof scales, 1, scales);
    for (int far = 0; far < 2; far++)
        k->mem_upload(stored->of[far] + nf4_code_bytes(far ? all : few) - sizeof codes, codes, sizeof codes,
                      stream);
    ON_BOTH(BLOCKS)
    {
        int n[2] = {FEW, ROWS};
        k->nf4_dequantise(out->of[far], stored->of[far], far ? all : few, false, stream);
        k->gemm_few_rows(matrix_view(product->of[far], element, n[far]), matrix_view(x->of[far], element, K),
                         matrix_view(stored->of[far], ELEMENT_NF4, K), 1, n[far], K, stream);
    }
    expect_same("dequantised", out);
    expect_same("product with NF4", product);
    forget();
}

static void losses(void)
{
    enum { V = 32776, ROWS = 131072 };
    const int32_t targets[TAIL] = {7, V - 1};
    const struct step_control scale = {.loss_scale = 0.5f};
    struct tensor *logits = numbers((size_t)ROWS * V, (size_t)TAIL * V, E), *out = floats(ROWS, TAIL),
                  *t = tensor_of(ROWS, TAIL, TAIL, sizeof *targets, targets),
                  *control = tensor_of(sizeof scale, sizeof scale, sizeof scale, 1, &scale),
                  *weights = common(V, sizeof(float));
    ON_BOTH(FEW_BLOCKS)
    {
        int n[2] = {TAIL, ROWS};
        struct matrix rows_of_logits = matrix_view(logits->of[far], element, V);
        k->cross_entropy_fused((float *)out->of[far], rows_of_logits, (int32_t *)t->of[far],
                               (struct step_control *)control->of[far], n[far], V, stream);
        k->weigh_classes((float *)out->of[far], rows_of_logits, (int32_t *)t->of[far],
                         (float *)weights->of[far], n[far], V, stream);
    }
    expect_same("losses", out);
    expect_same("dlogits", logits);
    forget();
}

static void pooling(void)
{
    const int32_t targets[TAIL] = {-100, 1};
    struct tensor *x = rows(C), *dx = rows(C), *t = tensor_of(N, TAIL, TAIL, sizeof *targets, targets);
    ON_BOTH(TAIL) /* a sequence has one target, of the others no block may run */
    {
        int b[2] = {1, N / TAIL};
        k->mean_pool_forward(x->of[far], (int32_t *)t->of[far], NULL, b[far], TAIL, C, stream);
        k->mean_pool_backward(dx->of[far], (int32_t *)t->of[far], NULL, b[far], TAIL, C, stream);
    }
    expect_same("mean", x);
    expect_same("its gradient", dx);
    forget();
}

static void sums(void)
{
    size_t few = FEW_BLOCKS * REDUCE_CHUNK, all = ((size_t)1 << 32) + few, n[2] = {few, all};
    double none = 0, *zeros = calloc(1, reduce_workspace(all));
    struct tensor *x = floats(all, few), *out = tensor_of(1, 1, 1, sizeof none, &none),
                  *squares = tensor_of(1, 1, 1, sizeof none, &none),
                  *partial = tensor_of(reduce_workspace(all), reduce_workspace(all), reduce_workspace(all), 1,
                                       zeros);
    free(zeros);
    ON_BOTH(FEW_BLOCKS)
    {
        k->sum((double *)out->of[far], (float *)x->of[far], n[far], false, partial->of[far], stream);
        k->sum_of_squares((double *)squares->of[far], (float *)x->of[far], n[far], partial->of[far], stream);
    }
    expect_same("sum", out);
    expect_same("sum of squares", squares);
    forget();
}

static void optimizers(void)
{
    size_t few = 2048, all = ((size_t)1 << 32) + few, n[2] = {few, all};
    const struct optimizer_params p = {0.9, 0.95, 1e-8f};
    const struct step_control step = {.lr = 0.01f};
    const struct clip_state clip = {1, 0.5f, 3};
    struct tensor *w = floats(all, few), *m = floats(all, few), *v = floats(all, few), *g = floats(all, few),
                  *weights = numbers(all, few, E),
                  *control = tensor_of(sizeof step, sizeof step, sizeof step, 1, &step),
                  *clipped = tensor_of(sizeof clip, sizeof clip, sizeof clip, 1, &clip), *blocks[2];
    struct moment_block *zeros = calloc(moment_blocks(few), sizeof *zeros);
    for (int i = 0; i < 2; i++)
        blocks[i] =
            tensor_of(moment_blocks(all), moment_blocks(few), moment_blocks(few), sizeof *zeros, zeros);
    free(zeros);
    ON_BOTH(FEW_BLOCKS)
    {
        /* two ranges, the second of the last few elements */
        const struct update_range list[2] = {{n[far] - 1000, 1, 0.1f}, {n[far], 2, 0}};
        struct tensor *ranges = tensor_of(sizeof list, sizeof list, sizeof list, 1, list);
        void *narrow = E == 2 ? weights->of[far] : w->of[far];
        k->adamw_step((float *)w->of[far], narrow, (float *)m->of[far], (float *)v->of[far],
                      (float *)g->of[far], n[far], (struct update_range *)ranges->of[far], 2, p,
                      (struct step_control *)control->of[far], (struct clip_state *)clipped->of[far], stream);
        k->lion_step((float *)w->of[far], narrow, (float *)m->of[far], NULL, (float *)g->of[far], n[far],
                     (struct update_range *)ranges->of[far], 2, p, (struct step_control *)control->of[far],
                     (struct clip_state *)clipped->of[far], stream);
        k->adamw8_step((float *)w->of[far], narrow, (struct moment_block *)blocks[0]->of[far],
                       (struct moment_block *)blocks[1]->of[far], (float *)g->of[far], n[far],
                       (struct update_range *)ranges->of[far], 2, p, (struct step_control *)control->of[far],
                       (struct clip_state *)clipped->of[far], stream);
        k->average_weights((float *)v->of[far], (float *)w->of[far], n[far], 0.9,
                           (struct clip_state *)clipped->of[far], stream);
        k->muon_momentum((float *)m->of[far], (float *)g->of[far], n[far], 0.95f, true,
                         (struct clip_state *)clipped->of[far], stream);
    }
    expect_same("w", w);
    expect_same("first moments in 8 bits", blocks[0]);
    expect_same("second moments in 8 bits", blocks[1]);
    expect_same("average", v);
    expect_same("momentum", m);
    expect_same("Nesterov's gradient", g);
    expect_same("weights", weights);
    forget();
}

TEST_CASE(offsets_beyond_32_bits_reach_their_elements)
{
    static void (*const cases[])(void) = {elementwise, bias,   swiglu,    dropout, rmsnorm,
                                          embedding,   rope,   attention, cache,   few_rows,
                                          nf4,         losses, pooling,   sums,    optimizers};
    for (int s = 0; s < 2; s++) {
        k = sides[s].backend, device = sides[s].device, stream = sides[s].stream;
        element = precision_element(sides[s].precision), E = precision_bytes(sides[s].precision);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) cases[i]();
    }
}

static int open_sides(void **state)
{
    struct err err;
    (void)state;
    sim_set_device_memory((uint64_t)200 << 30);
    for (int s = 0; s < 2; s++)
        if (op_side_open(&sides[s], cuda_plugin.table, s ? PRECISION_BF16 : PRECISION_FP32, &err)) return 1;
    return 0;
}

static int close_sides(void **state)
{
    (void)state;
    for (int s = 0; s < 2; s++) op_side_close(&sides[s]);
    return 0;
}

int main(void)
{
    return TEST_RUN(open_sides, close_sides);
}
