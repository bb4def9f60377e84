/* Every CPU twin in bf16 on every instruction set of this processor, against the same in fp32 on the same
 * inputs; products against fp64, too. */
#include <math.h>
#include <sys/mman.h>

#include "kernels/device/cpu.h"
#include "kernels/device/cpu_device.h"
#include "tests/cmocka.h"
#include "tests/gpu/op_cases.h"
#include "tests/kernels/check.h"

#if defined(__SANITIZE_ADDRESS__)
enum { SHAPES = 10, SMALL = 1 };
#else
enum { SHAPES = 24, SMALL = 0 };
#endif

struct sides {
    struct op_side fp32, bf16;
};

static const char EMULATED[] = "v4-bf16 with AMX in plain C";

/* Makes a stream compute with AMX, whether this processor has it or not. */
static void emulate_amx(struct stream *stream)
{
#ifdef __x86_64__
    extern const struct backend cpu_table_amx_emulated_bf16;
    stream->bf16 = &cpu_table_amx_emulated_bf16;
#endif
    stream->bf16_products = BF16_TILES;
}

static void with_isa(const char *isa, void (*body)(const struct sides *sides))
{
    struct err err;
    struct sides sides;
    bool emulated = strcmp(isa, EMULATED) == 0;
    if (emulated) isa = "v4-bf16";
    const struct backend *backend = cpu_backend_for(isa);
    if (!backend) return;
    setenv("ANNEAL_CPU_ISA", isa, 1);
    assert_int_equal(op_side_open(&sides.fp32, backend, PRECISION_FP32, &err), STATUS_OK);
    assert_int_equal(op_side_open(&sides.bf16, backend, PRECISION_BF16, &err), STATUS_OK);
    if (emulated) emulate_amx(sides.bf16.stream);
    body(&sides);
    op_side_close(&sides.fp32);
    op_side_close(&sides.bf16);
    unsetenv("ANNEAL_CPU_ISA");
}

static void each_isa(void (*body)(const struct sides *sides))
{
    static const char *const isas[] = {"baseline", "v3", "v4", "v4-bf16", "v4-dot", "v4-amx", EMULATED};
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) with_isa(isas[i], body);
}

static void compare(const struct op_case *op, struct op_shape s, const struct sides *f)
{
    struct op_outcome want, got, again;
    s.precision = PRECISION_BF16;
    op->run(&f->fp32, s, &want);
    op->run(&f->bf16, s, &got);
    op->run(&f->bf16, s, &again);
    if (got.status || want.status) fail_msg("%s: %s", op->name, got.err.text);
    assert_int_equal(got.count, want.count);
    for (int i = 0; i < want.count; i++) {
        double error = op_error(&got, &want, i);
        if (!(error <= want.outputs[i].tolerance) || op_difference(&got, &again, i) >= 0)
            fail_msg("%s, %s %s: relative error %.3g, allowed %.3g; again the same bits: %s; B %d T %d NH %d "
                     "NKV %d HS %d C %d F %d V %d window %d seed %u skew %d",
                     cpu_isa(), op->name, want.outputs[i].name, error, want.outputs[i].tolerance,
                     op_difference(&got, &again, i) < 0 ? "yes" : "no", s.B, s.T, s.NH, s.NKV, s.HS, s.C, s.F,
                     s.V, s.window, s.seed, s.skew);
    }
    op_outcome_release(&want), op_outcome_release(&got), op_outcome_release(&again);
}

static void fuzz(const struct sides *sides)
{
    for (const struct op_case *op = op_cases; op->name; op++)
        for (uint32_t i = 0; i < SHAPES; i++) compare(op, op_fuzz(i, SMALL), sides);
}

TEST_CASE(every_operation_agrees_with_fp32)
{
    each_isa(fuzz);
}

/* Long sequences, whose sums have many parts; several blocks of a vocabulary; rows wider than a block of
 * sums; the widest head. */
static void large(const struct sides *sides)
{
    static const struct op_shape shapes[] = {
        {.B = 1, .T = 700, .NH = 2, .NKV = 1, .HS = 64, .C = 2057, .F = 519, .V = 2801, .seed = 1},
        {.B = 1,
         .T = 300,
         .NH = 3,
         .NKV = 3,
         .HS = 48,
         .C = 72,
         .F = 72,
         .V = 2056,
         .seed = 2,
         .window = 130},
        {.B = 1, .T = 3, .NH = 1, .NKV = 1, .HS = 1024, .C = 8, .F = 8, .V = 8, .seed = 3},
        {.B = 2, .T = 1000, .NH = 8, .NKV = 8, .HS = 32, .C = 8, .F = 8, .V = 8, .seed = 4},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (const struct op_case *op = op_cases; op->name; op++) compare(op, shapes[i], sides);
}

TEST_CASE(large_shapes_agree_too)
{
    with_isa(cpu_isa(), large);
    if (!cpu_backend_for("v4-amx")) with_isa(EMULATED, large);
}

/* ---- products ---- */

/* (rows, stride) of random numbers that bf16 has, and the same as bf16. */
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

static struct operand operand_new(size_t n, uint32_t seed)
{
    struct operand x = {check_random(n, seed, 1), malloc(n * sizeof *x.narrow)};
    assert_non_null(x.narrow);
    for (size_t i = 0; i < n; i++) x.narrow[i] = rounded(x.wide[i]), x.wide[i] = widened(x.narrow[i]);
    return x;
}

static void operand_release(struct operand x)
{
    free(x.wide), free(x.narrow);
}

struct product_trial {
    int M, N, K, gap;
    bool ta, tb, add, narrow; /* narrow: out is bf16 */
    float factor;
    bool few; /* gemm_few_rows */
};

/* out in fp32 differs by the rounding of sums, out in bf16 by at most twice that of the numbers themselves.
 */
static void expect_product(const struct sides *sides, struct product_trial t, uint32_t seed)
{
    int lda = (t.ta ? t.M : t.K) + t.gap, ldb = (t.tb ? t.K : t.N) + 2 * t.gap, ldo = t.N + 3 * t.gap;
    struct operand a = operand_new((size_t)(t.ta ? t.K : t.M) * (size_t)lda, seed),
                   b = operand_new((size_t)(t.tb ? t.N : t.K) * (size_t)ldb, seed + 1),
                   out = operand_new((size_t)t.M * (size_t)ldo, seed + 2),
                   before = operand_new((size_t)t.M * (size_t)ldo, seed + 2);
    double error = 0, least = 0, size = 0;
    struct matrix y = t.narrow ? matrix_view(out.narrow, ELEMENT_BF16, ldo)
                               : matrix_view(out.wide, ELEMENT_FP32, ldo),
                  x = matrix_view(a.narrow, ELEMENT_BF16, lda), w = matrix_view(b.narrow, ELEMENT_BF16, ldb);
    if (t.few)
        sides->bf16.backend->gemm_few_rows(y, x, w, t.M, t.N, t.K, sides->bf16.stream);
    else
        sides->bf16.backend->gemm(y, x, w, t.M, t.N, t.K, t.ta, t.tb, t.add, t.factor, sides->bf16.stream);
    for (int m = 0; m < t.M; m++)
        for (int n = 0; n < ldo; n++) {
            size_t at = (size_t)m * (size_t)ldo + (size_t)n;
            double got = (double)(t.narrow ? widened(out.narrow[at]) : out.wide[at]), want = 0;
            if (n >= t.N) {
                if (got != (double)before.wide[at]) fail_msg("%s: wrote behind a row", cpu_isa());
                continue;
            }
            for (int k = 0; k < t.K; k++)
                want += (double)a.wide[t.ta ? (size_t)k * (size_t)lda + (size_t)m
                                            : (size_t)m * (size_t)lda + (size_t)k] *
                        (double)b.wide[t.tb ? (size_t)n * (size_t)ldb + (size_t)k
                                            : (size_t)k * (size_t)ldb + (size_t)n];
            want = want * (double)t.factor + (t.add ? (double)before.wide[at] : 0);
            double rounding = t.narrow ? (double)widened(rounded((float)want)) - want : 0;
            error += (got - want) * (got - want), size += want * want, least += rounding * rounding;
        }
    double allowed = t.narrow ? 2 * sqrt(least) + CHECK_REDUCTION * sqrt(size) : CHECK_REDUCTION * sqrt(size);
    if (!(sqrt(error) <= allowed))
        fail_msg("%s: error %.3g, allowed %.3g; M %d N %d K %d gap %d transposed %d %d added %d narrow %d",
                 cpu_isa(), sqrt(error), allowed, t.M, t.N, t.K, t.gap, t.ta, t.tb, t.add, t.narrow);
    operand_release(a), operand_release(b), operand_release(out), operand_release(before);
}

/* Edges of tiles, blocks of k and of columns, and of the rows whose sums are kept in fp32. */
static void products(const struct sides *sides)
{
    static const int sizes[] = {1, 2, 13, 14, 15, 31, 33, 64, 67}, depths[] = {1, 2, 7, 8, 33, 255, 256, 700};
    for (uint32_t i = 0; i < 96; i++)
        expect_product(sides,
                       (struct product_trial){sizes[check_word(1, i) % 9], sizes[check_word(2, i) % 9],
                                              depths[check_word(3, i) % 8], i & 8 ? 1 + (int)i % 5 : 0, i & 1,
                                              i & 2, i & 4, i & 16, i & 8 ? -0.3f : 1, false},
                       3 * i);
    for (int i = 0; i < 12; i++) {
        struct product_trial few = {
            .M = 1 + i * 5 % FEW_ROWS_MAX, .N = sizes[i % 9] + 64 * (i & 1), .K = 32 * (i + 1)};
        few.tb = few.narrow = few.few = true, few.factor = 1, few.gap = i & 2 ? 8 : 0;
        expect_product(sides, few, 7 * (uint32_t)i);
    }
    expect_product(sides, (struct product_trial){37, 601, 300, 0, false, true, false, true, 1, false}, 1);
    expect_product(sides, (struct product_trial){5003, 33, 530, 0, true, false, true, true, 1, false}, 2);
}

TEST_CASE(products_agree_with_fp64)
{
    each_isa(products);
}

/* Rows whose sums do not all fit into memory at a time, nor do these fill tiles; a block of columns that
 * fills its memory but for less than a tile. */
static void tall(const struct sides *sides)
{
    expect_product(sides, (struct product_trial){40, 905, 288, 0, true, false, false, false, 1, false}, 1);
    expect_product(sides, (struct product_trial){2750, 70, 1100, 0, false, true, false, true, 1, false}, 1);
}

TEST_CASE(products_of_many_rows_agree_with_fp64)
{
    with_isa(cpu_isa(), tall);
    if (!cpu_backend_for("v4-amx")) with_isa(EMULATED, tall);
}

/* Products read nothing behind their operands: there is no memory. */
static void at_the_end(const struct sides *sides)
{
    enum { M = 35, K = 64, END = 1 << 16 };
    float out[M * M];
    char *region = mmap(NULL, 2 * END, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(region != MAP_FAILED && mprotect(region + END, END, PROT_NONE) == 0);
    char *last = region + END - M * K * sizeof(uint16_t);
    for (int transposed = 0; transposed < 4; transposed++) {
        bool ta = transposed & 1, tb = transposed & 2;
        struct matrix a = matrix_view(last, ELEMENT_BF16, ta ? M : K),
                      b = matrix_view(last, ELEMENT_BF16, tb ? K : M);
        sides->bf16.backend->gemm(matrix_view(out, ELEMENT_FP32, M), a, b, M, M, K, ta, tb, false, 1,
                                  sides->bf16.stream);
    }
    sides->bf16.backend->gemm_few_rows(matrix_view(out, ELEMENT_BF16, M),
                                       matrix_view(region, ELEMENT_BF16, K),
                                       matrix_view(last, ELEMENT_BF16, K), 7, M, K, sides->bf16.stream);
    munmap(region, 2 * END);
}

TEST_CASE(products_read_nothing_behind_their_operands)
{
    each_isa(at_the_end);
}

/* A product packs its operands into memory that earlier products have used. Their numbers must not change its
 * result. */
static void after_infinity(const struct sides *sides)
{
    enum { SIZE = 64, DEPTH = 33 };
    struct operand a = operand_new(SIZE * SIZE, 1), b = operand_new(SIZE * SIZE, 2),
                   out = operand_new(SIZE * SIZE, 3);
    struct matrix y = matrix_view(out.wide, ELEMENT_FP32, SIZE),
                  x = matrix_view(a.narrow, ELEMENT_BF16, SIZE),
                  w = matrix_view(b.narrow, ELEMENT_BF16, SIZE);
    for (int i = 0; i < SIZE * SIZE; i++) b.narrow[i] = a.narrow[i] = 0x7f80;
    sides->bf16.backend->gemm(y, x, w, SIZE, SIZE, SIZE, false, false, false, 1, sides->bf16.stream);
    for (int i = 0; i < SIZE * SIZE; i++) b.narrow[i] = a.narrow[i] = 0x3f80;
    for (int transposed = 0; transposed < 4; transposed++) {
        sides->bf16.backend->gemm(y, x, w, DEPTH, DEPTH, DEPTH, transposed & 1, transposed & 2, false, 1,
                                  sides->bf16.stream);
        for (int i = 0; i < DEPTH * SIZE; i++)
            if (i % SIZE < DEPTH && out.wide[i] != (float)DEPTH)
                fail_msg("%s: %d of %d is %g", cpu_isa(), i, DEPTH, (double)out.wide[i]);
    }
    operand_release(a), operand_release(b), operand_release(out);
}

TEST_CASE(an_infinite_product_leaves_nothing_to_the_next)
{
    each_isa(after_infinity);
}

/* out (M,N) of a and b in bf16 (MOST rows and columns), from row m and column n on. */
static void part_of_product(const struct sides *sides, float *out, struct operand a, struct operand b, int m,
                            int n, int M, int N, int K, int most)
{
    sides->bf16.backend->gemm(matrix_view(out + (size_t)m * (size_t)most + (size_t)n, ELEMENT_FP32, most),
                              matrix_view(a.narrow + m, ELEMENT_BF16, most),
                              matrix_view(b.narrow + n, ELEMENT_BF16, most), M, N, K, true, false, true, 1,
                              sides->bf16.stream);
}

static void parts(const struct sides *sides)
{
    enum { MOST = 131, K = 1100 };
    struct operand a = operand_new(MOST * K, 1), b = operand_new(MOST * K, 2);
    float *whole = check_random(MOST * MOST, 3, 1), *part = check_random(MOST * MOST, 3, 1);
    part_of_product(sides, whole, a, b, 0, 0, MOST, MOST, K, MOST);
    static const int ends[] = {0, 1, 18, 50, 82, 100, MOST};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            part_of_product(sides, part, a, b, ends[i], ends[j], ends[i + 1] - ends[i], ends[j + 1] - ends[j],
                            K, MOST);
    for (int i = 0; i < MOST * MOST; i++)
        if (whole[i] != part[i])
            fail_msg("%s: row %d, column %d: %.9g, and in a part %.9g", cpu_isa(), i / MOST, i % MOST,
                     (double)whole[i], (double)part[i]);
    operand_release(a), operand_release(b), free(whole), free(part);
}

TEST_CASE(an_element_has_the_same_bits_in_every_part_of_a_product)
{
    each_isa(parts);
}

/* The emulation gives the bits of AMX. */
static float *emulation_result;

static void product_for_emulation(const struct sides *sides)
{
    enum { SIZE = 96 };
    struct operand a = operand_new(SIZE * SIZE, 1), b = operand_new(SIZE * SIZE, 2);
    float *out = check_random(SIZE * SIZE, 3, 1);
    part_of_product(sides, out, a, b, 0, 0, SIZE, SIZE, SIZE, SIZE);
    if (emulation_result) assert_memory_equal(out, emulation_result, SIZE * SIZE * sizeof *out);
    free(emulation_result);
    emulation_result = out;
    operand_release(a), operand_release(b);
}

TEST_CASE(emulated_products_have_the_bits_of_amx)
{
    if (!cpu_backend_for("v4-amx")) skip();
    with_isa(EMULATED, product_for_emulation);
    with_isa("v4-amx", product_for_emulation);
    free(emulation_result);
}

TEST_MAIN()
