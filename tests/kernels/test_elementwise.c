/* Embedding, bias, add, SwiGLU, dropout and GEMM against double-precision references. */
#include <math.h>

#include "core/base/philox.h"
#include "kernels/device/backend.h"
#include "tests/cmocka.h"
#include "tests/kernels/check.h"
#include "tests/kernels/product.h"

/* From a table of bf16 whose rows are apart; out is exactly what is stored. */
static void embed_bf16(const struct check_target *t, const int32_t *tokens, const float *weight, int N, int V,
                       int C)
{
    size_t n = (size_t)N * C, stride = (size_t)C + 3;
    uint16_t *narrow = calloc((size_t)V * stride, sizeof *narrow);
    float *out = check_poisoned(n);
    double *out64 = check_doubles(NULL, n);
    assert_non_null(narrow);
    for (size_t i = 0; i < (size_t)V * C; i++) {
        uint32_t bits;
        memcpy(&bits, &weight[i], sizeof bits);
        narrow[i / C * stride + i % C] = (uint16_t)(bits >> 16);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)narrow[(size_t)tokens[i / C] * stride + i % C] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        out64[i] = (double)value;
    }
    t->backend->embedding_forward(out, tokens, matrix_view(narrow, ELEMENT_BF16, (int)stride), N, V, C,
                                  t->stream);
    check_near("embedding_forward of bf16", out, out64, n, 0);
    free(narrow), free(out), free(out64);
}

static void embedding_body(const struct check_target *t)
{
    const int shapes[][3] = {{1, 1, 1}, {5, 3, 7}, {100, 4, 16}, {33, 50, 17}, {64, 11, 100}}; /* N, V, C */
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int N = shapes[s][0], V = shapes[s][1], C = shapes[s][2];
        size_t n = (size_t)N * C, m = (size_t)V * C;
        float *weight = check_random(m, 1, 1), *out = check_poisoned(n), *dout = check_random(n, 2, 1);
        float *dweight = check_random(m, 3, 1);
        int32_t *tokens = check_tokens((size_t)N, V, 4);
        double *out64 = check_doubles(NULL, n), *dweight64 = check_doubles(dweight, m);
        for (int i = 0; i < N; i++)
            for (int c = 0; c < C; c++) {
                out64[(size_t)i * C + c] = (double)weight[(size_t)tokens[i] * C + c];
                dweight64[(size_t)tokens[i] * C + c] += (double)dout[(size_t)i * C + c];
            }
        t->backend->embedding_forward(out, tokens, matrix_view(weight, ELEMENT_FP32, C), N, V, C, t->stream);
        check_near("embedding_forward", out, out64, n, 0);
        embed_bf16(t, tokens, weight, N, V, C);
        t->backend->embedding_backward(dweight, dout, tokens, NULL, N, V, C, t->stream);
        check_near("embedding_backward, added", dweight, dweight64, m, CHECK_ELEMENTWISE);
        free(weight), free(out), free(dout), free(dweight), free(tokens), free(out64), free(dweight64);
    }
}

TEST_CASE(embedding_gathers_rows_and_adds_repeated_tokens)
{
    check_each_isa(2, embedding_body);
    check_each_isa(7, embedding_body);
}

/* (rows, columns) of random numbers as a matrix whose rows are `stride` long; the gaps are NaN. */
static float *strided(int rows, int columns, int stride, uint32_t draw)
{
    float *dense = check_random((size_t)rows * columns, draw, 1),
          *out = check_poisoned((size_t)rows * stride);
    for (int i = 0; i < rows; i++)
        memcpy(out + (size_t)i * stride, dense + (size_t)i * columns, (size_t)columns * sizeof *out);
    free(dense);
    return out;
}

/* Every second one on columns of a wider tensor. */
static void bias_body(const struct check_target *t)
{
    const int shapes[][2] = {{1, 1}, {3, 17}, {65, 64}, {1500, 5}, {17, 259}, {64, 48}};
    for (int s = 0; s < (int)(sizeof shapes / sizeof *shapes); s++) {
        int N = shapes[s][0], C = shapes[s][1], stride = C + s % 2 * 3;
        float *x = strided(N, C, stride, 5), *bias = check_random(C, 6, 1), *dbias = check_random(C, 7, 1);
        float *before = check_copy(x, (size_t)N * stride);
        double *x64 = check_doubles(x, (size_t)N * stride), *dbias64 = check_doubles(dbias, C);
        for (int n = 0; n < N; n++)
            for (int c = 0; c < C; c++) {
                dbias64[c] += x64[(size_t)n * stride + c];
                x64[(size_t)n * stride + c] += (double)bias[c];
            }
        void *workspace = check_workspace(row_chunk_workspace(N, C));
        t->backend->bias_backward(dbias, x, workspace, N, C, stride, t->stream);
        check_near("bias_backward, added", dbias, dbias64, C, CHECK_ELEMENTWISE);
        t->backend->bias_forward(x, bias, N, C, stride, t->stream);
        for (int n = 0; n < N; n++) {
            size_t at = (size_t)n * stride;
            check_near("bias_forward", x + at, x64 + at, C, CHECK_ELEMENTWISE);
            check_same_bits("the gap behind a row", x + at + C, before + at + C, (size_t)(stride - C));
        }
        free(x), free(bias), free(dbias), free(x64), free(dbias64), free(workspace), free(before);
    }
}

TEST_CASE(bias_is_added_to_rows_and_summed_over_them)
{
    check_each_isa(2, bias_body);
}

static void add_body(const struct check_target *t)
{
    const size_t sizes[] = {0, 1, 15, 17, 1000, 4099};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s];
        float *x = check_random(n, 8, 1), *delta = check_random(n, 9, 1);
        double *x64 = check_doubles(x, n);
        for (size_t i = 0; i < n; i++) x64[i] += (double)delta[i];
        t->backend->add(x, delta, n, t->stream);
        check_near("add", x, x64, n, CHECK_ELEMENTWISE);
        for (size_t i = 0; i < n; i++) x64[i] = 2 * (double)x[i];
        t->backend->add(x, x, n, t->stream);
        check_near("add to itself", x, x64, n, 0);
        free(x), free(delta), free(x64);
    }
}

TEST_CASE(add_adds)
{
    check_each_isa(2, add_body);
}

static double silu(double g)
{
    return g / (1 + exp(-g));
}

struct swiglu_loss {
    double *gate_up, *dout;
    int N, F;
};

static double swiglu_loss(const void *context)
{
    const struct swiglu_loss *c = context;
    double total = 0;
    for (int n = 0; n < c->N; n++)
        for (int f = 0; f < c->F; f++)
            total += c->dout[(size_t)n * c->F + f] * silu(c->gate_up[(size_t)n * 2 * c->F + f]) *
                     c->gate_up[(size_t)n * 2 * c->F + c->F + f];
    return total;
}

static void swiglu_body(const struct check_target *t)
{
    const int shapes[][2] = {{1, 1}, {3, 15}, {5, 16}, {7, 19}};
    const float scales[] = {1, 20};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int k = 0; k < 2; k++) {
            int N = shapes[s][0], F = shapes[s][1];
            size_t n = (size_t)N * F;
            float *gate_up = check_random(2 * n, 10, scales[k]), *dout = check_random(n, 11, 1);
            float *out = check_poisoned(n), *dgate_up = check_poisoned(2 * n);
            struct swiglu_loss c = {check_doubles(gate_up, 2 * n), check_doubles(dout, n), N, F};
            double *out64 = check_doubles(NULL, n), *d64 = check_doubles(NULL, 2 * n);
            for (int i = 0; i < N; i++)
                for (int f = 0; f < F; f++)
                    out64[(size_t)i * F + f] =
                        silu(c.gate_up[(size_t)i * 2 * F + f]) * c.gate_up[(size_t)i * 2 * F + F + f];
            check_differences(d64, c.gate_up, 2 * n, swiglu_loss, &c);
            t->backend->swiglu_forward(out, gate_up, N, F, t->stream);
            check_near("swiglu_forward", out, out64, n, CHECK_ELEMENTWISE);
            t->backend->swiglu_backward(dgate_up, NULL, dout, gate_up, N, F, t->stream);
            check_near("swiglu_backward", dgate_up, d64, 2 * n, CHECK_ELEMENTWISE);
            t->backend->swiglu_backward(gate_up, dout, dout, gate_up, N, F, t->stream);
            check_same_bits("swiglu_backward in place", gate_up, dgate_up, 2 * n);
            check_same_bits("swiglu_backward out over dout", dout, out, n);
            free(gate_up), free(dout), free(out), free(dgate_up), free(c.gate_up), free(c.dout), free(out64),
                free(d64);
        }
}

TEST_CASE(swiglu_agrees_with_the_reference_and_its_differences)
{
    check_each_isa(2, swiglu_body);
}

/* Every exponent fp32 has, through silu: the vector exponential must neither overflow early nor lose digits.
 */
static void swiglu_range_body(const struct check_target *t)
{
    enum { F = 4001 };
    float *gate_up = malloc(2 * F * sizeof *gate_up), *out = check_poisoned(F);
    for (int f = 0; f < F; f++) gate_up[f] = ((float)f - 2000) * 0.043f, gate_up[F + f] = 1;
    t->backend->swiglu_forward(out, gate_up, 1, F, t->stream);
    for (int f = 0; f < F; f++) {
        double expected = silu((double)gate_up[f]);
        assert_true(fabs((double)out[f] - expected) <= 4e-7 * fabs(expected) + 1e-44);
    }
    const float edges[] = {-INFINITY, NAN, INFINITY, -1e30f, 1e30f};
    for (int f = 0; f < 5; f++) gate_up[f] = edges[f], gate_up[5 + f] = 1;
    t->backend->swiglu_forward(out, gate_up, 1, 5, t->stream);
    assert_true(isnan(out[1]) && isinf(out[2]) && out[3] == 0 && out[4] == 1e30f);
    free(gate_up), free(out);
}

TEST_CASE(exponential_is_right_over_its_whole_range)
{
    check_each_isa(1, swiglu_range_body);
}

/* The mask as operations.def defines it, word by word. */
static float expected_dropout(float x, size_t i, float p, struct dropout_site s)
{
    const struct step_control *c = s.control;
    uint64_t j = i / 4;
    struct philox_block block =
        philox4x32_10((uint32_t)j, (uint32_t)(j >> 32) ^ c->micro_batch * 65536u, c->step,
                      s.site * 65536u + s.layer, (uint32_t)c->seed, (uint32_t)(c->seed >> 32));
    uint32_t threshold = (uint32_t)floor((double)p * 16777216.0 + 0.5);
    return block.word[i % 4] >> 8 >= threshold ? x * (float)(1.0 / (1.0 - (double)p)) : 0.0f;
}

static void dropout_body(const struct check_target *t)
{
    const size_t sizes[] = {1, 3, 4, 5, 255, 256, 257, 1000, 4099};
    const float probabilities[] = {0.1f, 0.5f, 0.97f};
    const struct step_control control = {.seed = 0x123456789abcdef0u, .step = 77, .micro_batch = 3};
    const struct dropout_site site = {&control, 11, 2, 0};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int k = 0; k < 3; k++) {
            size_t n = sizes[s];
            float *x = check_random(n, 12, 1), *expected = check_copy(x, n), *ones = check_random(n, 13, 1);
            for (size_t i = 0; i < n; i++) expected[i] = expected_dropout(x[i], i, probabilities[k], site);
            t->backend->dropout(x, n, probabilities[k], site, t->stream);
            check_same_bits("dropout", x, expected, n);
            t->backend->dropout(ones, n, 0.0f, site, t->stream);
            float *untouched = check_random(n, 13, 1);
            check_same_bits("dropout with p = 0", ones, untouched, n);
            free(x), free(expected), free(ones), free(untouched);
        }
}

TEST_CASE(dropout_mask_is_the_documented_function_of_its_site)
{
    check_each_isa(2, dropout_body);
}

/* Rows of a step, three in a micro-batch: masks do not depend on where a rank's part begins. */
static void part_body(const struct check_target *t)
{
    enum { ROWS = 3, STEP = 11 };
    const size_t widths[] = {1, 37, 64, 130};
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
        size_t width = widths[k], n = STEP * width;
        float *x = check_random(n, 12, 1), *expected = check_copy(x, n);
        for (int row = 0; row < STEP; row += ROWS) {
            struct step_control control = {.seed = 5, .step = 6, .micro_batch = (uint32_t)(2 + row / ROWS)};
            int rows = STEP - row < ROWS ? STEP - row : ROWS;
            t->backend->dropout(expected + (size_t)row * width, (size_t)rows * width, 0.3f,
                                (struct dropout_site){&control, 1, 2, width}, t->stream);
        }
        for (uint32_t first = 0; first < STEP; first++)
            for (uint32_t rows = 1; first + rows <= STEP; rows++) {
                float *part = check_copy(x + first * width, rows * width);
                struct step_control control = {
                    .seed = 5, .step = 6, .micro_batch = 2 + first / ROWS, .row = first % ROWS, .rows = ROWS};
                t->backend->dropout(part, rows * width, 0.3f, (struct dropout_site){&control, 1, 2, width},
                                    t->stream);
                check_same_bits("dropout of a part", part, expected + first * width, rows * width);
                free(part);
            }
        free(x), free(expected);
    }
}

TEST_CASE(dropout_of_a_part_of_the_rows_draws_as_that_of_all)
{
    check_each_isa(2, part_body);
}

TEST_CASE(dropout_keeps_the_expected_share_and_sites_differ)
{
    enum { N = 100000 };
    struct check_target t;
    check_open(&t, "baseline", 2);
    const struct step_control controls[4] = {
        {.seed = 1}, {.seed = 2}, {.seed = 1, .step = 1}, {.seed = 1, .micro_batch = 1}};
    const struct dropout_site sites[6] = {{&controls[0], 0, 0, 0}, {&controls[1], 0, 0, 0},
                                          {&controls[2], 0, 0, 0}, {&controls[3], 0, 0, 0},
                                          {&controls[0], 1, 0, 0}, {&controls[0], 0, 1, 0}};
    float *masks[6];
    for (int i = 0; i < 6; i++) {
        masks[i] = malloc(N * sizeof *masks[i]);
        for (int j = 0; j < N; j++) masks[i][j] = 1;
        t.backend->dropout(masks[i], N, 0.25f, sites[i], t.stream);
        size_t kept = 0, same = 0;
        for (int j = 0; j < N; j++)
            kept += masks[i][j] != 0, same += (masks[i][j] != 0) == (masks[0][j] != 0);
        assert_true(fabs((double)kept / N - 0.75) < 0.007); /* five standard deviations */
        if (i > 0) assert_true(fabs((double)same / N - (0.75 * 0.75 + 0.25 * 0.25)) < 0.008);
    }
    for (int i = 0; i < 6; i++) free(masks[i]);
    check_close(&t);
}

/* Rounds to bf16 in place, and gives the same numbers as bf16. */
static uint16_t *narrowed(float *values, size_t n)
{
    uint16_t *out = malloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        out[i] = (uint16_t)(bits >> 16);
        bits = (uint32_t)out[i] << 16;
        memcpy(&values[i], &bits, sizeof bits);
    }
    return out;
}

/* Every second product reads and writes ranges of columns of wider matrices; every third has a b of bf16. */
static void gemm_body(const struct check_target *t)
{
    const int sizes[] = {1, 2, 15, 16, 17, 33, 64, 67, 201};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    uint32_t draw = 0;
    for (int trial = 0; trial < 96; trial++) {
        int M = sizes[check_word(14, draw++) % COUNT], N = sizes[check_word(14, draw++) % COUNT];
        int K = trial % 12 == 5 ? 601 : sizes[check_word(14, draw++) % COUNT],
            gap = trial & 8 ? 1 + trial % 5 : 0;
        bool ta = trial & 1, tb = trial & 2, accumulate = trial & 4, narrow = trial % 3 == 2;
        float factor = trial & 8 ? -0.3f : 1;
        int lda = (ta ? M : K) + gap, ldb = (tb ? K : N) + 2 * gap, ldo = N + 3 * gap;
        float *a = strided(ta ? K : M, ta ? M : K, lda, draw++),
              *b = strided(tb ? N : K, tb ? K : N, ldb, draw++);
        float *out = accumulate ? strided(M, N, ldo, draw++) : check_poisoned((size_t)M * ldo);
        uint16_t *b16 = narrow ? narrowed(b, (size_t)(tb ? N : K) * ldb) : NULL;
        float *before = check_copy(out, (size_t)M * ldo), *dense = check_poisoned((size_t)M * N);
        double *out64 = check_doubles(NULL, (size_t)M * N);
        for (int m = 0; m < M; m++)
            for (int n = 0; n < N; n++) {
                double *sum = &out64[(size_t)m * N + n];
                if (accumulate) *sum = (double)before[(size_t)m * ldo + n];
                for (int k = 0; k < K; k++)
                    *sum += (double)factor * (double)(ta ? a[(size_t)k * lda + m] : a[(size_t)m * lda + k]) *
                            (double)(tb ? b[(size_t)n * ldb + k] : b[(size_t)k * ldb + n]);
            }
        t->backend->gemm(matrix_view(out, ELEMENT_FP32, ldo), matrix_view(a, ELEMENT_FP32, lda),
                         narrow ? matrix_view(b16, ELEMENT_BF16, ldb) : matrix_view(b, ELEMENT_FP32, ldb), M,
                         N, K, ta, tb, accumulate, factor, t->stream);
        for (int m = 0; m < M; m++) {
            memcpy(dense + (size_t)m * N, out + (size_t)m * ldo, (size_t)N * sizeof *dense);
            check_same_bits("the gap behind a row", out + (size_t)m * ldo + N, before + (size_t)m * ldo + N,
                            (size_t)(ldo - N));
        }
        check_near("gemm", dense, out64, (size_t)M * N, CHECK_REDUCTION);
        free(a), free(b), free(b16), free(out), free(before), free(dense), free(out64);
    }
}

TEST_CASE(gemm_agrees_in_every_orientation)
{
    check_each_isa(1, gemm_body);
    check_each_isa(2, gemm_body);
    check_each_isa(6, gemm_body);
}

/* Every second product reads and writes ranges of columns of wider matrices; every third has a w of bf16. */
static void few_rows_body(const struct check_target *t)
{
    const int sizes[] = {1, 2, 15, 16, 17, 33, 64, 67, 201, 520};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    uint32_t draw = 0;
    for (int trial = 0; trial < 96; trial++) {
        int M = 1 + trial % FEW_ROWS_MAX, N = sizes[check_word(17, draw++) % COUNT];
        int K = sizes[check_word(17, draw++) % COUNT], gap = trial & 16 ? 1 + trial % 5 : 0;
        bool narrow = trial % 3 == 2;
        int ldx = K + gap, ldw = K + 2 * gap, ldo = N + 3 * gap;
        float *x = strided(M, K, ldx, draw++), *w = strided(N, K, ldw, draw++),
              *out = check_poisoned((size_t)M * ldo), *dense = check_poisoned((size_t)M * N);
        uint16_t *w16 = narrow ? narrowed(w, (size_t)N * ldw) : NULL;
        double *out64 = check_doubles(NULL, (size_t)M * N);
        for (int m = 0; m < M; m++)
            for (int n = 0; n < N; n++)
                for (int k = 0; k < K; k++)
                    out64[(size_t)m * N + n] +=
                        (double)x[(size_t)m * ldx + k] * (double)w[(size_t)n * ldw + k];
        t->backend->gemm_few_rows(matrix_view(out, ELEMENT_FP32, ldo), matrix_view(x, ELEMENT_FP32, ldx),
                                  narrow ? matrix_view(w16, ELEMENT_BF16, ldw)
                                         : matrix_view(w, ELEMENT_FP32, ldw),
                                  M, N, K, t->stream);
        for (int m = 0; m < M; m++) {
            memcpy(dense + (size_t)m * N, out + (size_t)m * ldo, (size_t)N * sizeof *dense);
            for (int n = N; n < ldo; n++) assert_true(isnan(out[(size_t)m * ldo + n]));
        }
        check_near("gemm_few_rows", dense, out64, (size_t)M * N, CHECK_REDUCTION);
        free(x), free(w), free(w16), free(out), free(dense), free(out64);
    }
}

TEST_CASE(a_product_of_few_rows_agrees_for_every_number_of_them)
{
    check_each_isa(1, few_rows_body);
    check_each_isa(2, few_rows_body);
    check_each_isa(6, few_rows_body);
}

/* A sequence's text must not depend on the number of processors. */
TEST_CASE(a_product_of_few_rows_has_the_same_bits_on_any_number_of_threads)
{
    enum { N = 203, K = 301 };
    for (int M = 1; M <= FEW_ROWS_MAX; M++) {
        float *x = check_random((size_t)M * K, 18, 1), *w = check_random(N * K, 19, 1), *out[3];
        for (int i = 0; i < 3; i++) {
            struct check_target t;
            check_open(&t, "baseline", 1 + 2 * i);
            out[i] = check_poisoned((size_t)M * N);
            t.backend->gemm_few_rows(matrix_view(out[i], ELEMENT_FP32, N), matrix_view(x, ELEMENT_FP32, K),
                                     matrix_view(w, ELEMENT_FP32, K), M, N, K, t.stream);
            check_same_bits("gemm_few_rows", out[0], out[i], (size_t)M * N);
            check_close(&t);
        }
        free(x), free(w), free(out[0]), free(out[1]), free(out[2]);
    }
}

/* Several blocks of columns and of steps; training must not depend on the number of processors. */
static void gemm_bits_body(const struct check_target *t)
{
    enum { M = 150, N = 1100, K = 601 };
    static const float factors[] = {1, -0.3f};
    struct check_target one;
    float *a = check_random(M * K, 15, 1), *b = check_random(K * N, 16, 1),
          *before = check_random(M * N, 17, 1);
    float *alone = check_poisoned(M * N), *shared = check_poisoned(M * N);
    check_open(&one, t->isa, 1);
    for (int i = 0; i < 4; i++) {
        bool add = i % 2;
        float *out[] = {alone, shared};
        const struct check_target *on[] = {&one, t};
        for (int k = 0; k < 2; k++) {
            memcpy(out[k], before, M * N * sizeof *before);
            on[k]->backend->gemm(matrix_view(out[k], ELEMENT_FP32, N), matrix_view(a, ELEMENT_FP32, K),
                                 matrix_view(b, ELEMENT_FP32, N), M, N, K, false, false, add, factors[i / 2],
                                 on[k]->stream);
        }
        check_same_bits("gemm", alone, shared, M * N);
    }
    check_close(&one);
    free(a), free(b), free(before), free(alone), free(shared);
}

TEST_CASE(gemm_has_the_same_bits_on_any_number_of_threads)
{
    check_each_isa(2, gemm_bits_body);
    check_each_isa(3, gemm_bits_body);
    check_each_isa(6, gemm_bits_body);
}

TEST_CASE(gemm_repeats_its_bits)
{
    enum { M = 130, N = 75, K = 301 };
    struct check_target t;
    check_open(&t, "baseline", 2);
    float *a = check_random(M * K, 15, 1), *b = check_random(K * N, 16, 1);
    float *first = check_poisoned(M * N), *again = check_poisoned(M * N);
    product_dense(t.backend, first, a, b, M, N, K, false, false, false, t.stream);
    for (int i = 0; i < 5; i++) {
        product_dense(t.backend, again, a, b, M, N, K, false, false, false, t.stream);
        check_same_bits("gemm", first, again, M * N);
    }
    free(a), free(b), free(first), free(again);
    check_close(&t);
}

TEST_MAIN()
