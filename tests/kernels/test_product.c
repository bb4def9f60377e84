/* Matrix products on every instruction set of this processor, in fp32 and in bf16, against fp64. */
#include <math.h>
#include <sys/mman.h>

#include "kernels/device/cpu.h"
#include "tests/cmocka.h"
#include "tests/kernels/check.h"
#include "tests/kernels/each_isa.h"

/* A stream, and the precision of its operands. */
struct target {
    const struct op_side *side;
    enum precision precision;
};

static void (*body_of_each)(const struct target *target);

static void both_precisions(const struct sides *sides)
{
    body_of_each(&(struct target){&sides->fp32, PRECISION_FP32});
    body_of_each(&(struct target){&sides->bf16, PRECISION_BF16});
}

static void each(void (*body)(const struct target *target))
{
    body_of_each = body;
    each_isa(both_precisions);
}

static void with_best(void (*body)(const struct target *target))
{
    body_of_each = body;
    with_best_isa(both_precisions);
}

/* (rows, stride) of random numbers, which in bf16 are those that it has, and the same as bf16. */
struct operand {
    float *wide;
    uint16_t *narrow;
};

static uint16_t rounded(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float widened(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

static struct operand operand_new(size_t n, uint32_t seed, enum precision precision)
{
    struct operand x = {check_random(n, seed, 1), malloc(n * sizeof *x.narrow)};
    assert_non_null(x.narrow);
    for (size_t i = 0; i < n; i++) {
        x.narrow[i] = rounded(x.wide[i]);
        if (precision == PRECISION_BF16) x.wide[i] = widened(x.narrow[i]);
    }
    return x;
}

/* The operand from an element on. */
static struct matrix operand_view(struct operand x, size_t at, int stride, enum precision precision)
{
    return precision == PRECISION_FP32 ? matrix_view(x.wide + at, ELEMENT_FP32, stride)
                                       : matrix_view(x.narrow + at, ELEMENT_BF16, stride);
}

static void operand_release(struct operand x)
{
    free(x.wide), free(x.narrow);
}

struct trial {
    int M, N, K, gap;
    bool ta, tb, add, narrow; /* narrow: out is bf16, or in fp32 b */
    float factor;
    bool few; /* gemm_few_rows */
};

/* out in fp32 differs by the rounding of sums, out in bf16 by at most twice that of the numbers themselves.
 */
static void expect_product(const struct target *target, struct trial t, uint32_t seed)
{
    const enum precision precision = target->precision;
    const struct backend *k = target->side->backend;
    bool narrow_b = t.narrow && precision == PRECISION_FP32,
         narrow_out = t.narrow && precision == PRECISION_BF16;
    int lda = (t.ta ? t.M : t.K) + t.gap, ldb = (t.tb ? t.K : t.N) + 2 * t.gap, ldo = t.N + 3 * t.gap;
    struct operand a = operand_new((size_t)(t.ta ? t.K : t.M) * (size_t)lda, seed, precision),
                   b = operand_new((size_t)(t.tb ? t.N : t.K) * (size_t)ldb, seed + 1,
                                   narrow_b ? PRECISION_BF16 : precision),
                   out = operand_new((size_t)t.M * (size_t)ldo, seed + 2, PRECISION_BF16),
                   before = operand_new((size_t)t.M * (size_t)ldo, seed + 2, PRECISION_BF16);
    double error = 0, least = 0, size = 0;
    struct matrix y = operand_view(out, 0, ldo, narrow_out ? PRECISION_BF16 : PRECISION_FP32),
                  x = operand_view(a, 0, lda, precision),
                  w = operand_view(b, 0, ldb, narrow_b ? PRECISION_BF16 : precision);
    if (t.few)
        k->gemm_few_rows(y, x, w, t.M, t.N, t.K, target->side->stream);
    else
        k->gemm(y, x, w, t.M, t.N, t.K, t.ta, t.tb, t.add, t.factor, target->side->stream);
    for (int m = 0; m < t.M; m++)
        for (int n = 0; n < ldo; n++) {
            size_t at = (size_t)m * (size_t)ldo + (size_t)n;
            double got = (double)(narrow_out ? widened(out.narrow[at]) : out.wide[at]), want = 0;
            if (n >= t.N) {
                if (got != (double)before.wide[at]) fail_msg("%s: wrote behind a row", cpu_isa());
                continue;
            }
            for (int i = 0; i < t.K; i++)
                want += (double)a.wide[t.ta ? (size_t)i * (size_t)lda + (size_t)m
                                            : (size_t)m * (size_t)lda + (size_t)i] *
                        (double)b.wide[t.tb ? (size_t)n * (size_t)ldb + (size_t)i
                                            : (size_t)i * (size_t)ldb + (size_t)n];
            want = want * (double)t.factor + (t.add ? (double)before.wide[at] : 0);
            double rounding = narrow_out ? (double)widened(rounded((float)want)) - want : 0;
            error += (got - want) * (got - want), size += want * want, least += rounding * rounding;
        }
    double allowed = 2 * sqrt(least) + CHECK_REDUCTION * sqrt(size);
    if (!(sqrt(error) <= allowed))
        fail_msg(
            "%s, %s: error %.3g, allowed %.3g; M %d N %d K %d gap %d transposed %d %d added %d narrow %d",
            cpu_isa(), precision_name(precision), sqrt(error), allowed, t.M, t.N, t.K, t.gap, t.ta, t.tb,
            t.add, t.narrow);
    operand_release(a), operand_release(b), operand_release(out), operand_release(before);
}

/* Edges of tiles, blocks of k and of columns, and of the rows whose sums are kept in fp32. */
static void products(const struct target *target)
{
    static const int sizes[] = {1, 2, 13, 14, 15, 31, 33, 64, 67}, depths[] = {1, 2, 7, 8, 33, 255, 256, 700};
    for (uint32_t i = 0; i < 96; i++)
        expect_product(target,
                       (struct trial){sizes[check_word(1, i) % 9], sizes[check_word(2, i) % 9],
                                      depths[check_word(3, i) % 8], i & 8 ? 1 + (int)i % 5 : 0, i & 1, i & 2,
                                      i & 4, i & 16, i & 8 ? -0.3f : 1, false},
                       3 * i);
    for (int i = 0; i < 12; i++) {
        struct trial few = {
            .M = 1 + i * 5 % FEW_ROWS_MAX, .N = sizes[i % 9] + 64 * (i & 1), .K = 32 * (i + 1)};
        few.tb = few.narrow = few.few = true, few.factor = 1, few.gap = i & 2 ? 8 : 0;
        expect_product(target, few, 7 * (uint32_t)i);
    }
    expect_product(target, (struct trial){37, 601, 300, 0, false, true, false, true, 1, false}, 1);
    expect_product(target, (struct trial){5003, 33, 530, 0, true, false, true, true, 1, false}, 2);
}

TEST_CASE(products_agree_with_fp64)
{
    each(products);
}

/* Rows whose sums do not all fit into memory at a time, nor do these fill tiles; a block of columns that
 * fills its memory but for less than a tile; whole tiles alone, by one panel and by many. */
static void tall(const struct target *target)
{
    expect_product(target, (struct trial){40, 905, 288, 0, true, false, false, false, 1, false}, 1);
    expect_product(target, (struct trial){2750, 70, 1100, 0, false, true, false, true, 1, false}, 1);
    for (int i = 0; i < 8; i++)
        expect_product(
            target, (struct trial){224, i & 4 ? 32 : 416, 1088, 0, i & 1, i & 2, i & 1, false, 1, false}, 1);
}

TEST_CASE(products_of_many_rows_agree_with_fp64)
{
    with_best(tall);
}

/* Products read nothing behind their operands: there is no memory. */
static void at_the_end(const struct target *target)
{
    enum { M = 35, K = 64, END = 1 << 16 };
    const struct backend *k = target->side->backend;
    const enum element element = precision_element(target->precision);
    float out[M * M];
    char *region = mmap(NULL, 2 * END, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(region != MAP_FAILED && mprotect(region + END, END, PROT_NONE) == 0);
    char *last = region + END - M * K * element_bytes(element);
    for (int transposed = 0; transposed < 4; transposed++) {
        bool ta = transposed & 1, tb = transposed & 2;
        struct matrix a = matrix_view(last, element, ta ? M : K), b = matrix_view(last, element, tb ? K : M);
        k->gemm(matrix_view(out, ELEMENT_FP32, M), a, b, M, M, K, ta, tb, false, 1, target->side->stream);
    }
    k->gemm_few_rows(matrix_view(out, element, M), matrix_view(region, element, K),
                     matrix_view(last, element, K), 7, M, K, target->side->stream);
    munmap(region, 2 * END);
}

TEST_CASE(products_read_nothing_behind_their_operands)
{
    each(at_the_end);
}

static void fill(struct operand x, size_t n, float value)
{
    for (size_t i = 0; i < n; i++) x.wide[i] = value, x.narrow[i] = rounded(value);
}

/* A product packs its operands into memory that earlier products have used. Their numbers must not change its
 * result. What is not finite stays so. */
static void after_infinity(const struct target *target)
{
    enum { SIZE = 64, DEPTH = 33 };
    const enum precision precision = target->precision;
    const struct backend *k = target->side->backend;
    struct operand a = operand_new(SIZE * SIZE, 1, precision), b = operand_new(SIZE * SIZE, 2, precision),
                   out = operand_new(SIZE * SIZE, 3, precision);
    struct matrix y = matrix_view(out.wide, ELEMENT_FP32, SIZE), x = operand_view(a, 0, SIZE, precision),
                  w = operand_view(b, 0, SIZE, precision);
    static const float not_finite[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        fill(a, SIZE * SIZE, not_finite[i]), fill(b, SIZE * SIZE, 0.1f), fill(out, SIZE * SIZE, 0);
        k->gemm(y, x, w, SIZE, SIZE, SIZE, false, false, false, 1, target->side->stream);
        for (int j = 0; j < SIZE * SIZE; j++) assert_false(isfinite(out.wide[j]));
    }
    fill(a, SIZE * SIZE, INFINITY), fill(b, SIZE * SIZE, INFINITY);
    k->gemm(y, x, w, SIZE, SIZE, SIZE, false, false, false, 1, target->side->stream);
    fill(a, SIZE * SIZE, 1), fill(b, SIZE * SIZE, 1);
    for (int transposed = 0; transposed < 4; transposed++) {
        k->gemm(y, x, w, DEPTH, DEPTH, DEPTH, transposed & 1, transposed & 2, false, 1, target->side->stream);
        for (int i = 0; i < DEPTH * SIZE; i++)
            if (i % SIZE < DEPTH && out.wide[i] != (float)DEPTH)
                fail_msg("%s: %d of %d is %g", cpu_isa(), i, DEPTH, (double)out.wide[i]);
    }
    operand_release(a), operand_release(b), operand_release(out);
}

TEST_CASE(an_infinite_product_leaves_nothing_to_the_next)
{
    each(after_infinity);
}

/* Numbers of very different sizes: AMX adds up the parts that fp32 has and bf16 has not, down to 2^-100. */
static void wide_range(const struct target *target)
{
    enum { SIZE = 32, K = 96 };
    if (target->precision != PRECISION_FP32) return;
    struct operand a = operand_new(SIZE * K, 1, PRECISION_FP32), b = operand_new(SIZE * K, 2, PRECISION_FP32),
                   out = operand_new(SIZE * SIZE, 3, PRECISION_FP32);
    for (int exponent = -98; exponent <= 98; exponent += 14) {
        for (int i = 0; i < SIZE * K; i++) {
            a.wide[i] = ldexpf(1 + 0x1p-23f * (float)(check_word(4, (uint32_t)i) % (1 << 23)), exponent);
            b.wide[i] = ldexpf(1 + 0x1p-23f * (float)(check_word(5, (uint32_t)i) % (1 << 23)), -exponent);
            if (i & 1) a.wide[i] = -a.wide[i];
            if (i & 16 && exponent == 0) a.wide[i] *= 0x1p-125f; /* has parts that fp32 has no room for */
        }
        target->side->backend->gemm(matrix_view(out.wide, ELEMENT_FP32, SIZE),
                                    operand_view(a, 0, K, PRECISION_FP32),
                                    operand_view(b, 0, K, PRECISION_FP32), SIZE, SIZE, K, false, true, false,
                                    1, target->side->stream);
        for (int m = 0; m < SIZE; m++)
            for (int n = 0; n < SIZE; n++) {
                double want = 0, size = 0;
                for (int k = 0; k < K; k++) {
                    double product = (double)a.wide[m * K + k] * (double)b.wide[n * K + k];
                    want += product, size += fabs(product);
                }
                if (!(fabs((double)out.wide[m * SIZE + n] - want) <= 0x1p-21 * size))
                    fail_msg("%s, 2^%d: %.9g instead of %.9g, of numbers that add up to %g", cpu_isa(),
                             exponent, (double)out.wide[m * SIZE + n], want, size);
            }
    }
    operand_release(a), operand_release(b), operand_release(out);
}

TEST_CASE(products_in_fp32_keep_all_bits_of_large_and_small_numbers)
{
    each(wide_range);
}

/* out (M,N) of a and b (MOST rows and columns), from row m and column n on. */
static void part_of_product(const struct target *target, float *out, struct operand a, struct operand b,
                            int m, int n, int M, int N, int K, int most)
{
    target->side->backend->gemm(matrix_view(out + (size_t)m * (size_t)most + (size_t)n, ELEMENT_FP32, most),
                                operand_view(a, (size_t)m, most, target->precision),
                                operand_view(b, (size_t)n, most, target->precision), M, N, K, true, false,
                                true, 1, target->side->stream);
}

static void parts(const struct target *target)
{
    enum { MOST = 131, K = 1100 };
    struct operand a = operand_new(MOST * K, 1, target->precision),
                   b = operand_new(MOST * K, 2, target->precision);
    float *whole = check_random(MOST * MOST, 3, 1), *part = check_random(MOST * MOST, 3, 1);
    part_of_product(target, whole, a, b, 0, 0, MOST, MOST, K, MOST);
    static const int ends[] = {0, 1, 18, 50, 82, 100, MOST};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            part_of_product(target, part, a, b, ends[i], ends[j], ends[i + 1] - ends[i],
                            ends[j + 1] - ends[j], K, MOST);
    for (int i = 0; i < MOST * MOST; i++)
        if (whole[i] != part[i])
            fail_msg("%s: row %d, column %d: %.9g, and in a part %.9g", cpu_isa(), i / MOST, i % MOST,
                     (double)whole[i], (double)part[i]);
    operand_release(a), operand_release(b), free(whole), free(part);
}

TEST_CASE(an_element_has_the_same_bits_in_every_part_of_a_product)
{
    each(parts);
}

/* The emulation gives the bits of AMX. */
static float *emulation_results[2];

static void product_for_emulation(const struct target *target)
{
    enum { SIZE = 96 };
    float **result = &emulation_results[target->precision == PRECISION_BF16];
    struct operand a = operand_new(SIZE * SIZE, 1, target->precision),
                   b = operand_new(SIZE * SIZE, 2, target->precision);
    float *out = check_random(SIZE * SIZE, 3, 1);
    part_of_product(target, out, a, b, 0, 0, SIZE, SIZE, SIZE, SIZE);
    if (*result) assert_memory_equal(out, *result, SIZE * SIZE * sizeof *out);
    free(*result);
    *result = out;
    operand_release(a), operand_release(b);
}

TEST_CASE(emulated_products_have_the_bits_of_amx)
{
    if (!cpu_backend_for("v4-amx")) skip();
    body_of_each = product_for_emulation;
    with_isa(EMULATED, both_precisions);
    with_isa("v4-amx", both_precisions);
    free(emulation_results[0]), free(emulation_results[1]);
}

TEST_MAIN()
