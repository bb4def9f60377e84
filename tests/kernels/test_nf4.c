/* NF4: quantised to the bits of bitsandbytes, in a fixture that its CPU version made
 * (tests/fixtures/nf4/make_nf4.py); dequantised alike by every instruction set and any number of threads. The
 * CUDA twin is compared with the CPU's in tests/cuda_sim. */
#include <math.h>

#include "core/model/safetensors.h"
#include "kernels/nf4.h"
#include "tests/cmocka.h"
#include "tests/kernels/check.h"

static const char *const cases[] = {"normal", "odd",      "single", "zeros", "mixed",
                                    "ties",   "denormal", "huge",   "halves"};
enum { CASES = sizeof cases / sizeof *cases };

static struct safetensors fixture;

static int open_fixture(void **state)
{
    (void)state;
    return (int)safetensors_open("tests/fixtures/nf4/nf4.safetensors", &fixture, NULL);
}

static int close_fixture(void **state)
{
    (void)state;
    safetensors_close(&fixture);
    return 0;
}

/* A copy, aligned, of `what` of a case; *bytes may be NULL. */
static void *part(const char *name, const char *what, size_t *bytes)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s", name, what);
    const struct safetensor *t = safetensors_find(&fixture, full);
    if (!t) fail_msg("the fixture has no %s", full);
    void *copy = malloc(t->bytes + 1);
    memcpy(copy, t->data, t->bytes);
    if (bytes) *bytes = t->bytes;
    return copy;
}

/* The stored form of x (n). *mean: of nested scales; NULL: not nested. */
static uint8_t *stored_form(const float *x, size_t n, const float *mean)
{
    bool nested = mean != NULL;
    uint8_t *stored = aligned_alloc(16, (nf4_bytes(n, nested) + 15) & ~(size_t)15);
    float *scales = malloc(nf4_blocks(n) * sizeof *scales);
    nf4_quantise(stored, scales, x, n);
    if (nested)
        nf4_nest(stored + nf4_code_bytes(n), scales, *mean, n);
    else
        memcpy(stored + nf4_code_bytes(n), scales, nf4_blocks(n) * sizeof *scales);
    free(scales);
    return stored;
}

static void expect_bytes(const char *name, const char *what, const void *ours, size_t bytes)
{
    size_t theirs_bytes;
    uint8_t *theirs = part(name, what, &theirs_bytes);
    const uint8_t *bits = ours;
    assert_int_equal(bytes, theirs_bytes);
    for (size_t i = 0; i < bytes; i++)
        if (bits[i] != theirs[i])
            fail_msg("%s.%s: byte %zu of %zu is %02x, bitsandbytes has %02x", name, what, i, bytes, bits[i],
                     theirs[i]);
    free(theirs);
}

/* The mean that torch computes in fp32 depends in the last bits on the processor and its threads, and with it
 * all that is computed from it: so ours is compared, and then theirs is used. */
static void expect_nested(const char *name, const float *scales, size_t n)
{
    float *nested = malloc(nf4_scale_bytes(n, true)), *mean = part(name, "mean", NULL),
          ours = nf4_mean(scales, n);
    if (!(fabsf(ours - *mean) <= 2e-7f * fabsf(*mean)))
        fail_msg("%s: the mean is %.9g, theirs %.9g", name, (double)ours, (double)*mean);
    nf4_nest(nested, scales, *mean, n);
    assert_memory_equal(nested + NF4_AT_MEAN, mean, sizeof *mean);
    expect_bytes(name, "groups", nested + NF4_AT_GROUPS, nf4_groups(n) * sizeof(float));
    expect_bytes(name, "nested", nested + NF4_AT_GROUPS + nf4_groups(n), nf4_blocks(n));
    free(nested), free(mean);
}

static void expect_quantised(const char *name, const float *x, size_t n)
{
    uint8_t *stored = stored_form(x, n, NULL);
    expect_bytes(name, "codes", stored, (n + 1) / 2);
    expect_bytes(name, "scales", stored + nf4_code_bytes(n), nf4_blocks(n) * sizeof(float));
    expect_nested(name, (const float *)(stored + nf4_code_bytes(n)), n);
    free(stored);
}

TEST_CASE(codes_and_scales_are_those_of_bitsandbytes)
{
    for (int i = 0; i < CASES; i++) {
        size_t bytes;
        float *x = part(cases[i], "x", &bytes);
        expect_quantised(cases[i], x, bytes / sizeof *x);
        free(x);
    }
}

/* As the fixture's script draws them. */
static float *drawn(size_t n)
{
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = ((uint32_t)i * 2654435761u) >> 8;
        float factor = 1 + (float)(i / 64 * 37 % 101) / 64.0f;
        x[i] = ((float)bits / 16777216.0f - 0.5f) * factor;
    }
    return x;
}

TEST_CASE(so_are_those_of_a_tensor_with_several_groups_of_scales)
{
    enum { MANY = 64 * 600 + 20 };
    float *x = drawn(MANY);
    expect_quantised("many", x, MANY);
    free(x);
}

TEST_CASE(the_values_of_nested_scales_are_those_of_bitsandbytes)
{
    float one = 1, nested[NF4_AT_GROUPS + 2];
    nf4_nest(nested, &one, 1, 64);
    const struct safetensor *map = safetensors_find(&fixture, "map");
    assert_non_null(map);
    assert_int_equal(map->bytes, NF4_SCALE_VALUES * sizeof(float));
    assert_memory_equal(nested + NF4_AT_VALUES, map->data, map->bytes);
}

/* A large tensor is quantised in pieces, as it is read. */
TEST_CASE(pieces_of_whole_blocks_give_the_same_codes)
{
    enum { N = 64 * 11 + 7 };
    float *x = drawn(N), scales[12], pieces[12];
    uint8_t codes[(N + 1) / 2], in_pieces[(N + 1) / 2];
    nf4_quantise(codes, scales, x, N);
    for (size_t at = 0, n; at < N; at += n) {
        n = N - at < 192 ? N - at : 192;
        nf4_quantise(in_pieces + at / 2, pieces + at / NF4_BLOCK, x + at, n);
    }
    assert_memory_equal(in_pieces, codes, sizeof codes);
    assert_memory_equal(pieces, scales, sizeof scales);
    free(x);
}

TEST_CASE(what_is_no_number_stays_visible)
{
    float x[128];
    for (int i = 0; i < 128; i++) x[i] = (float)i;
    x[3] = NAN;
    x[70] = -INFINITY;
    for (int nested = 0; nested < 2; nested++) {
        uint8_t *stored = stored_form(x, 128, nested ? &(float){NAN} : NULL);
        float *out = check_poisoned(128);
        struct check_target t;
        check_open(&t, "baseline", 1);
        t.backend->nf4_dequantise(out, stored, 128, nested, t.stream);
        check_close(&t);
        for (int i = 0; i < 64; i++) assert_true(isnan(out[i]));
        assert_false(isfinite(out[70]));
        free(stored), free(out);
    }
}

/* ---- dequantising ---- */

static void dequantise_body(const struct check_target *t)
{
    for (int i = 0; i < CASES; i++)
        for (int nested = 0; nested < 2; nested++) {
            size_t bytes;
            float *x = part(cases[i], "x", &bytes),
                  *theirs = part(cases[i], nested ? "nested_values" : "values", NULL);
            size_t n = bytes / sizeof *x;
            float *mean = part(cases[i], "mean", NULL), *out = check_poisoned(n + 1);
            uint8_t *stored = stored_form(x, n, nested ? mean : NULL);
            t->backend->nf4_dequantise(out, stored, n, nested, t->stream);
            for (size_t k = 0; k < n; k++)
                if (out[k] != theirs[k] && !(isnan(out[k]) && isnan(theirs[k])))
                    fail_msg("%s, %s%s: element %zu is %.9g, bitsandbytes has %.9g", t->isa, cases[i],
                             nested ? ", nested" : "", k, (double)out[k], (double)theirs[k]);
            assert_true(isnan(out[n]));
            free(x), free(theirs), free(stored), free(mean), free(out);
        }
}

TEST_CASE(values_are_those_of_bitsandbytes)
{
    check_each_isa(1, dequantise_body);
    check_each_isa(3, dequantise_body);
}

/* ---- a product of few rows ---- */

static void few_rows_body(const struct check_target *t)
{
    static const int widths[] = {64, 192, 448};
    enum { N = 37, GAP = 3 };
    for (int M = 1; M <= FEW_ROWS_MAX; M++)
        for (int nested = 0; nested < 2; nested++) {
            int K = widths[M % 3], ldx = K + GAP, ldo = N + GAP;
            float *x = check_random((size_t)M * (size_t)ldx, 1, 1), *w = check_random((size_t)(N * K), 2, 1),
                  *out = check_poisoned((size_t)M * (size_t)ldo), *dense = check_poisoned((size_t)M * N);
            uint8_t *stored = stored_form(w, (size_t)(N * K), nested ? &(float){0.9f} : NULL);
            double *want = check_doubles(NULL, (size_t)M * N);
            t->backend->nf4_dequantise(w, stored, (size_t)(N * K), nested, t->stream);
            for (int m = 0; m < M; m++)
                for (int n = 0; n < N; n++)
                    for (int k = 0; k < K; k++)
                        want[m * N + n] += (double)x[m * ldx + k] * (double)w[n * K + k];
            t->backend->gemm_few_rows(matrix_view(out, ELEMENT_FP32, ldo), matrix_view(x, ELEMENT_FP32, ldx),
                                      matrix_view(stored, nested ? ELEMENT_NF4_NESTED : ELEMENT_NF4, K), M, N,
                                      K, t->stream);
            for (int m = 0; m < M; m++) {
                memcpy(dense + (size_t)m * N, out + (size_t)m * (size_t)ldo, N * sizeof *dense);
                for (int n = N; n < ldo; n++) assert_true(isnan(out[m * ldo + n]));
            }
            check_near("gemm_few_rows of NF4", dense, want, (size_t)M * N, CHECK_REDUCTION);
            free(x), free(w), free(out), free(dense), free(stored), free(want);
        }
}

TEST_CASE(a_product_of_few_rows_multiplies_the_codes_as_they_are)
{
    check_each_isa(1, few_rows_body);
    check_each_isa(3, few_rows_body);
}

int main(void)
{
    return TEST_RUN(open_fixture, close_fixture);
}
