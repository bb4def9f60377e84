/* Attention on tensor cores, run by the simulator, against the CPU twin in fp32 on the same bf16 inputs: on a
 * device of compute capability 8.6, and the kernels for 9.0 on one of 9.0. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/philox.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/cuda_sim/child.h"
#include "tests/cuda_sim/planted.h"
#include "tests/cuda_sim/simulator.h"
#include "tests/gpu/op_cases.h"
#include "tests/kernels/packed.h"

extern const struct cuda_plugin cuda_plugin;

struct fixture {
    struct op_side cpu, cuda;
};

static struct fixture fixture;

static int open_sides(void)
{
    struct err err;
    if (op_side_open(&fixture.cpu, cpu_backend(), PRECISION_FP32, &err) ||
        op_side_open(&fixture.cuda, cuda_plugin.table, PRECISION_BF16, &err))
        return -1;
    return 0;
}

static int open_sides_86(void **state)
{
    (void)state;
    sim_set_capability(8, 6);
    return open_sides();
}

static int open_sides_90(void **state)
{
    (void)state;
    sim_set_capability(9, 0);
    return open_sides();
}

static int close_sides(void **state)
{
    (void)state;
    op_side_close(&fixture.cpu);
    op_side_close(&fixture.cuda);
    return 0;
}

/* ---- bf16 on the host ---- */

static float widen(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static uint16_t narrow(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return (uint16_t)((word + 0x7fffu + (word >> 16 & 1)) >> 16);
}

/* ---- one problem on both sides ---- */

struct problem {
    int B, T, NH, NKV, HS;
    int skew; /* elements by which each bf16 array starts off its boundary */
    uint32_t seed;
    int window; /* 0: none */
    int each;   /* tokens of a sequence, on average; 0: a row is one sequence */
};

static size_t rows_of(struct problem p)
{
    return (size_t)p.B * (size_t)p.T;
}

/* (B,T); NULL where rows are sequences; free it. */
static int32_t *positions_of(struct problem p)
{
    if (!p.each) return NULL;
    int32_t *positions = malloc(rows_of(p) * sizeof *positions);
    packed_positions(positions, p.B, p.T, p.each);
    return positions;
}

static size_t qkv_count(struct problem p)
{
    return rows_of(p) * (size_t)((p.NH + 2 * p.NKV) * p.HS);
}

static size_t out_count(struct problem p)
{
    return rows_of(p) * (size_t)(p.NH * p.HS);
}

struct result {
    uint16_t *out, *dqkv;
    float *lse;
};

static void result_free(struct result *r)
{
    free(r->out), free(r->dqkv), free(r->lse);
}

static uint16_t *inputs(size_t n, uint32_t seed, uint32_t which)
{
    uint16_t *values = malloc((n + 1) * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] =
            narrow(2.0f * philox_uniform(philox4x32_10((uint32_t)i, which, 0, 0, seed, 7).word[0]) - 1.0f);
    return values;
}

/* An array on the device with host's bytes, or all NaN; free `base`. */
static void *place(const void *host, size_t bytes, size_t skew, void **base)
{
    struct err err;
    void *nan = NULL;
    if (fixture.cuda.backend->mem_alloc(fixture.cuda.device, bytes + skew, base, &err))
        fail_msg("%s", err.text);
    if (host == NULL) host = nan = memset(malloc(bytes + 1), 0xff, bytes);
    fixture.cuda.backend->mem_upload((char *)*base + skew, host, bytes, fixture.cuda.stream);
    free(nan);
    return (char *)*base + skew;
}

static struct result run_cuda(struct problem p, const uint16_t *qkv, const uint16_t *dout)
{
    const struct op_side *s = &fixture.cuda;
    size_t n = qkv_count(p), m = out_count(p), rows = rows_of(p) * (size_t)p.NH, skew = 2 * (size_t)p.skew;
    struct result r = {malloc(2 * m), malloc(2 * n), malloc(4 * rows)};
    void *base[7];
    int32_t *sequences = positions_of(p), *positions = NULL;
    struct err err;
    void *x = place(qkv, 2 * n, skew, &base[0]), *g = place(dout, 2 * m, skew, &base[1]),
         *y = place(NULL, 2 * m, skew, &base[2]), *dx = place(NULL, 2 * n, skew, &base[3]);
    float *lse = place(NULL, 4 * rows, 0, &base[4]);
    void *workspace = place(NULL, attention_workspace(p.B, p.T, p.NH, p.NKV, p.HS), 0, &base[5]);
    void *there = place(sequences, rows_of(p) * sizeof *sequences, 0, &base[6]);
    if (sequences) positions = there;
    s->backend->attention_forward(y, lse, x, positions, workspace, p.B, p.T, p.NH, p.NKV, p.HS, p.window,
                                  s->stream);
    s->backend->attention_backward(dx, g, y, lse, x, positions, NULL, workspace, p.B, p.T, p.NH, p.NKV, p.HS,
                                   p.window, s->stream);
    s->backend->mem_download(r.out, y, 2 * m, s->stream);
    s->backend->mem_download(r.dqkv, dx, 2 * n, s->stream);
    s->backend->mem_download(r.lse, lse, 4 * rows, s->stream);
    if (s->backend->stream_wait(s->stream, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < 7; i++) s->backend->mem_free(s->device, base[i]);
    free(sequences);
    return r;
}

struct reference {
    float *out, *lse, *dqkv;
};

static float *widened(const uint16_t *values, size_t n)
{
    float *wide = malloc((n + 1) * sizeof *wide);
    for (size_t i = 0; i < n; i++) wide[i] = widen(values[i]);
    return wide;
}

/* Runs the backward pass with the same out and lse as the other side. */
static struct reference run_cpu(struct problem p, const uint16_t *qkv, const uint16_t *dout,
                                const struct result *other)
{
    const struct op_side *s = &fixture.cpu;
    size_t n = qkv_count(p), m = out_count(p), rows = rows_of(p) * (size_t)p.NH;
    struct reference r = {malloc(4 * m), malloc(4 * rows), malloc(4 * n)};
    float *x = widened(qkv, n), *g = widened(dout, m), *y = widened(other->out, m);
    void *workspace = malloc(attention_workspace(p.B, p.T, p.NH, p.NKV, p.HS));
    int32_t *positions = positions_of(p);
    s->backend->attention_forward(r.out, r.lse, x, positions, workspace, p.B, p.T, p.NH, p.NKV, p.HS,
                                  p.window, s->stream);
    s->backend->attention_backward(r.dqkv, g, y, other->lse, x, positions, NULL, workspace, p.B, p.T, p.NH,
                                   p.NKV, p.HS, p.window, s->stream);
    free(x), free(g), free(y), free(workspace), free(positions);
    return r;
}

static void reference_free(struct reference *r)
{
    free(r->out), free(r->lse), free(r->dqkv);
}

/* ---- judgement ---- */

/* The distance of a bf16 result from the reference, divided by twice the error of rounding the reference: at
 * most 1 is good. Both are norms over the columns [from, to) of rows of `width`.
 *
 * One rounding is that of the result. The other is for the weights p and ds, rounded before their products:
 * an error of the same relative size in every term of a sum, which by chance adds up to about the same
 * relative size in the sum, √2 times one rounding together. `floor` is for values that cancel to zero, as ds
 * does in the first row: the fp32 error of an element whose terms are of size 1. */
static double excess(const uint16_t *got, const float *want, size_t rows, int width, int from, int to)
{
    const double floor = 1.0 / (1 << 20);
    double apart = 0, rounding = 0, n = 0;
    for (size_t r = 0; r < rows; r++)
        for (int c = from; c < to; c++) {
            size_t i = r * (size_t)width + (size_t)c;
            double d = (double)widen(got[i]) - (double)want[i];
            double e = (double)widen(narrow(want[i])) - (double)want[i];
            apart += d * d;
            rounding += e * e;
            n++;
        }
    return sqrt(apart) / (2 * sqrt(rounding) + floor * sqrt(n)); /* NaN where either is */
}

struct judgement {
    double worst;
    const char *output;
};

static void worse(struct judgement *j, const char *output, double excess)
{
    if (isnan(j->worst) || excess <= j->worst) return; /* NaN is the worst there is */
    j->worst = excess;
    j->output = output;
}

static struct judgement judge(struct problem p, const struct result *got, const struct reference *want)
{
    struct judgement j = {0, "none"};
    int q = p.NH * p.HS, k = q + p.NKV * p.HS, v = k + p.NKV * p.HS;
    size_t N = rows_of(p);
    double apart = 0, size = 0;
    for (size_t i = 0; i < N * (size_t)p.NH; i++) {
        double d = (double)got->lse[i] - (double)want->lse[i];
        apart += d * d;
        size +=
            1 + (double)want->lse[i] * (double)want->lse[i]; /* a log: what counts is the absolute error */
    }
    worse(&j, "lse", sqrt(apart / size) / 1e-5);
    worse(&j, "out", excess(got->out, want->out, N, q, 0, q));
    worse(&j, "dq", excess(got->dqkv, want->dqkv, N, v, 0, q));
    worse(&j, "dk", excess(got->dqkv, want->dqkv, N, v, q, k));
    worse(&j, "dv", excess(got->dqkv, want->dqkv, N, v, k, v));
    return j;
}

static struct judgement compare(struct problem p)
{
    uint16_t *qkv = inputs(qkv_count(p), p.seed, 1), *dout = inputs(out_count(p), p.seed, 2);
    struct result got = run_cuda(p, qkv, dout);
    struct reference want = run_cpu(p, qkv, dout, &got);
    struct judgement j = judge(p, &got, &want);
    result_free(&got), reference_free(&want), free(qkv), free(dout);
    return j;
}

static void expect_good(struct problem p)
{
    struct judgement j = compare(p);
    if (!(j.worst <= 1))
        fail_msg("B %d T %d NH %d NKV %d HS %d skew %d window %d each %d: %s is off by %.3g times the bound",
                 p.B, p.T, p.NH, p.NKV, p.HS, p.skew, p.window, p.each, j.output, j.worst);
}

/* ---- tests ---- */

/* Tests each width with its own code and widths that are padded to it, at and next to the edges of the
 * tiles. */
TEST_CASE(every_head_width_agrees_with_the_cpu)
{
    static const struct problem problems[] = {
        {1, 129, 2, 1, 32, 0, 1, 0, 0},  {1, 65, 2, 2, 16, 0, 2, 0, 0},   {1, 128, 2, 1, 64, 0, 3, 0, 0},
        {2, 33, 3, 1, 48, 0, 4, 0, 0},   {1, 97, 1, 1, 96, 0, 5, 0, 0},   {1, 64, 2, 1, 80, 0, 6, 0, 0},
        {1, 130, 1, 1, 128, 0, 7, 0, 0}, {1, 63, 2, 1, 112, 0, 8, 0, 0},  {1, 66, 1, 1, 192, 0, 9, 0, 0},
        {1, 31, 2, 1, 160, 0, 10, 0, 0}, {1, 70, 1, 1, 256, 0, 11, 0, 0}, {1, 32, 2, 1, 224, 0, 12, 0, 0},
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) expect_good(problems[i]);
}

/* No width is refused and no alignment needed. */
TEST_CASE(odd_widths_and_unaligned_tensors_agree_too)
{
    static const struct problem problems[] = {
        {4, 40, 2, 1, 1, 0, 21, 0, 0},   {2, 17, 2, 2, 7, 1, 22, 0, 0},  {1, 67, 4, 2, 33, 0, 23, 0, 0},
        {1, 30, 2, 1, 63, 1, 24, 0, 0},  {1, 35, 1, 1, 66, 0, 25, 0, 0}, {1, 21, 2, 1, 129, 3, 26, 0, 0},
        {1, 19, 1, 1, 255, 0, 27, 0, 0},
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) expect_good(problems[i]);
}

TEST_CASE(grouped_heads_and_batches_agree)
{
    static const struct problem problems[] = {
        {3, 1, 2, 1, 64, 0, 31, 0, 0},  {2, 5, 8, 2, 32, 0, 32, 0, 0},  {1, 66, 6, 2, 16, 0, 33, 0, 0},
        {2, 34, 4, 4, 64, 0, 34, 0, 0}, {1, 200, 3, 1, 8, 0, 35, 0, 0},
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) expect_good(problems[i]);
}

static void expect_same(struct problem p, struct problem q, enum sim_order order, const char *what)
{
    uint16_t *qkv = inputs(qkv_count(p), p.seed, 1), *dout = inputs(out_count(p), p.seed, 2);
    struct result a = run_cuda(p, qkv, dout);
    sim_set_order(order, 5);
    struct result b = run_cuda(q, qkv, dout);
    sim_set_order(SIM_FORWARD, 0);
    if (memcmp(a.out, b.out, 2 * out_count(p)) || memcmp(a.dqkv, b.dqkv, 2 * qkv_count(p)) ||
        memcmp(a.lse, b.lse, 4 * rows_of(p) * (size_t)p.NH))
        fail_msg("HS %d: the bits depend on %s", p.HS, what);
    result_free(&a), result_free(&b), free(qkv), free(dout);
}

/* Each width with its own code, windows within a tile, of several tiles, and of one key. */
TEST_CASE(windows_agree)
{
    static const struct problem problems[] = {
        {1, 200, 2, 1, 32, 0, 91, 40, 0}, {1, 200, 2, 1, 64, 0, 92, 65, 0}, {1, 150, 1, 1, 96, 0, 93, 33, 0},
        {1, 150, 1, 1, 128, 0, 94, 1, 0}, {1, 90, 2, 1, 192, 0, 95, 31, 0}, {1, 70, 1, 1, 256, 0, 96, 20, 0},
        {2, 200, 4, 2, 16, 1, 97, 70, 0}, {1, 270, 1, 1, 8, 0, 98, 129, 0},
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) expect_good(problems[i]);
}

TEST_CASE(a_window_as_long_as_the_sequence_changes_no_bit)
{
    struct problem none = {1, 150, 2, 1, 32, 0, 99, 0, 0}, whole = none, longer = none;
    whole.window = 150, longer.window = 1 << 20;
    expect_same(none, whole, SIM_FORWARD, "a window that is as long as the sequence");
    expect_same(none, longer, SIM_FORWARD, "a window that is longer than the sequence");
}

/* Each width with its own code; sequences shorter and longer than a tile, with a window, too. */
TEST_CASE(packed_sequences_agree)
{
    static const struct problem problems[] = {
        {2, 200, 2, 1, 32, 0, 101, 0, 40},  {1, 260, 2, 1, 64, 0, 102, 0, 90},
        {1, 150, 1, 1, 96, 0, 103, 0, 20},  {1, 150, 1, 1, 128, 0, 104, 0, 64},
        {1, 90, 2, 1, 192, 0, 105, 0, 9},   {1, 70, 1, 1, 256, 0, 106, 0, 20},
        {2, 200, 4, 2, 16, 1, 107, 30, 60}, {1, 270, 1, 1, 8, 0, 108, 0, 1},
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) expect_good(problems[i]);
}

TEST_CASE(neither_order_nor_alignment_changes_a_bit)
{
    static const struct problem problems[] = {
        {1, 70, 2, 1, 64, 0, 41, 0, 0}, {1, 67, 2, 1, 80, 0, 42, 0, 0}, {1, 40, 2, 2, 200, 0, 43, 0, 0}};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        struct problem p = problems[i], skewed = p, halfway = p;
        skewed.skew = 1;
        halfway.skew = 2;
        expect_same(p, p, SIM_REVERSE, "the order of threads");
        expect_same(p, p, SIM_SHUFFLED, "the order of threads");
        expect_same(p, skewed, SIM_FORWARD, "the alignment");
        expect_same(p, halfway, SIM_FORWARD, "the alignment");
    }
}

/* ---- on a device of compute capability 9.0 ---- */

/* At and next to the edges of the tiles, and long enough for rings to be filled again. */
TEST_CASE(both_widths_agree_with_the_cpu)
{
    static const struct problem problems[] = {
        {1, 128, 2, 1, 64, 0, 111, 0, 0},  {1, 129, 1, 1, 64, 0, 112, 0, 0},
        {2, 63, 4, 2, 64, 0, 113, 0, 0},   {1, 65, 3, 1, 64, 0, 114, 0, 0},
        {3, 1, 2, 1, 64, 0, 115, 0, 0},    {1, 400, 1, 1, 64, 0, 116, 0, 0},
        {1, 130, 2, 1, 128, 0, 117, 0, 0}, {2, 64, 2, 2, 128, 0, 118, 0, 0},
        {1, 330, 2, 2, 128, 0, 119, 0, 0},
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) expect_good(problems[i]);
}

TEST_CASE(windows_and_packed_sequences_agree)
{
    static const struct problem problems[] = {
        {1, 300, 2, 1, 64, 0, 121, 65, 0},  {1, 200, 1, 1, 128, 0, 122, 1, 0},
        {1, 390, 1, 1, 64, 0, 123, 129, 0}, {2, 260, 2, 1, 64, 0, 124, 0, 90},
        {1, 270, 1, 1, 128, 0, 125, 0, 9},  {1, 270, 2, 1, 128, 0, 126, 50, 70},
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) expect_good(problems[i]);
}

TEST_CASE(no_order_of_threads_and_copies_changes_a_bit)
{
    static const struct problem problems[] = {{1, 300, 2, 1, 64, 0, 131, 0, 0},
                                              {2, 150, 1, 1, 128, 0, 132, 0, 0}};
    for (size_t i = 0; i < 2; i++) {
        expect_same(problems[i], problems[i], SIM_REVERSE, "the order of threads");
        expect_same(problems[i], problems[i], SIM_SHUFFLED, "the order of threads");
    }
}

/* Both kinds of kernels sum over the same tiles in the same precision, but their tiles differ. */
TEST_CASE(tensors_that_tma_does_not_take_agree_too)
{
    expect_good((struct problem){1, 140, 2, 1, 64, 1, 141, 0, 0});
    expect_good((struct problem){1, 70, 2, 1, 96, 0, 142, 0, 0});
}

/* ---- on both ---- */

/* Scores that differ so much that most weights are 0, and are so large that exp would overflow without the
 * maximum. */
TEST_CASE(large_scores_neither_overflow_nor_vanish)
{
    struct problem p = {1, 80, 2, 1, 64, 0, 51, 0, 0};
    uint16_t *qkv = inputs(qkv_count(p), p.seed, 1), *dout = inputs(out_count(p), p.seed, 2);
    for (size_t i = 0; i < qkv_count(p); i++)
        if (i % 256 < 192) qkv[i] = narrow(16.0f * widen(qkv[i])); /* queries and keys, not values */
    struct result got = run_cuda(p, qkv, dout);
    struct reference want = run_cpu(p, qkv, dout, &got);
    struct judgement j = judge(p, &got, &want);
    if (!(j.worst <= 1)) fail_msg("%s is off by %.3g times the bound", j.output, j.worst);
    result_free(&got), reference_free(&want), free(qkv), free(dout);
}

TEST_CASE(a_nan_is_not_hidden)
{
    struct problem p = {1, 70, 1, 1, 64, 0, 61, 0, 0};
    uint16_t *qkv = inputs(qkv_count(p), p.seed, 1), *dout = inputs(out_count(p), p.seed, 2);
    qkv[40 * 192 + 64] = 0x7fc0; /* in key 40 */
    struct result got = run_cuda(p, qkv, dout);
    for (int t = 0; t < p.T; t++) {
        float first = widen(got.out[t * 64]);
        assert_true((t >= 40) == (first != first));
        assert_true((t >= 40) == (got.lse[t] != got.lse[t]));
        if (t >= 40) assert_true(isnan(widen(got.dqkv[t * 192])));
    }
    result_free(&got), free(qkv), free(dout);
}

/* Only the comparison above finds an index that is wrong but in range. */
TEST_CASE(the_bound_tells_a_swapped_head_and_a_missed_key)
{
    struct problem p = {1, 70, 4, 2, 64, 0, 71, 0, 0};
    uint16_t *qkv = inputs(qkv_count(p), p.seed, 1), *dout = inputs(out_count(p), p.seed, 2);
    struct result good = run_cuda(p, qkv, dout);
    struct reference want = run_cpu(p, qkv, dout, &good);
    assert_true(judge(p, &good, &want).worst <= 1);
    for (int bug = 0; bug < 2; bug++) {
        uint16_t *wrong = malloc(2 * qkv_count(p));
        memcpy(wrong, qkv, 2 * qkv_count(p));
        for (int t = 0; t < p.T; t++)
            for (int c = 0; c < 64; c++) {
                uint16_t *key = wrong + (t * 8 + 4) * 64 + c, *value = key + 128;
                if (bug == 0) { /* as if query heads took the other key/value head of the two */
                    uint16_t k = key[0], v = value[0];
                    key[0] = key[64], value[0] = value[64];
                    key[64] = k, value[64] = v;
                } else if (t == 63) { /* as if a tile's last key were left out, or nearly: its value is */
                    value[0] = value[64] = 0;
                }
            }
        struct result got = run_cuda(p, wrong, dout);
        assert_true(judge(p, &got, &want).worst > 4);
        result_free(&got), free(wrong);
    }
    result_free(&good), reference_free(&want), free(qkv), free(dout);
}

/* ---- each barrier and each wait is needed ---- */

static struct problem several_tiles;

static void run_without(int barrier)
{
    uint16_t *qkv = inputs(qkv_count(several_tiles), 81, 1), *dout = inputs(out_count(several_tiles), 81, 2);
    sim_skip_barrier(barrier);
    struct result r = run_cuda(several_tiles, qkv, dout);
    result_free(&r), free(qkv), free(dout);
}

TEST_CASE(each_barrier_and_each_wait_is_needed)
{
    static char said[65536];
    several_tiles = (struct problem){1, 140, 2, 1, 32, 0, 81, 0, 0};
    run_without(-1);
    int sites = sim_barriers();
    assert_true(sites >= 12); /* a barrier and a wait before and in the loop of three kernels */
    for (int i = 0; i < sites; i++) {
        int status = child_run(run_without, i, said, sizeof said);
        if (status != SIM_FAILURE_STATUS || !(strstr(said, "race on shared memory") ||
                                              strstr(said, "wrote it") || strstr(said, "waited for")))
            fail_msg("without %d of %d: exit status %d: %s", i, sites, status, said);
    }
}

/* A wait in a method of the rings is one for all rings. */
TEST_CASE(each_wait_and_each_fence_is_needed)
{
    static char said[65536];
    if (getenv("ANNEAL_SIM_PTX")) skip(); /* the fences of registers, of which there nothing is known */
    several_tiles = (struct problem){1, 300, 1, 1, 64, 0, 82, 0, 0};
    run_without(-1);
    int sites = sim_barriers();
    assert_true(sites >= 20); /* in three kernels */
    for (int i = 0; i < sites; i++)
        if (child_run(run_without, i, said, sizeof said) != SIM_FAILURE_STATUS)
            fail_msg("without %d of %d: %s", i, sites, said);
}

int main(void)
{
    const struct CMUnitTest before[] = {
        cmocka_unit_test(every_head_width_agrees_with_the_cpu),
        cmocka_unit_test(odd_widths_and_unaligned_tensors_agree_too),
        cmocka_unit_test(grouped_heads_and_batches_agree),
        cmocka_unit_test(windows_agree),
        cmocka_unit_test(a_window_as_long_as_the_sequence_changes_no_bit),
        cmocka_unit_test(packed_sequences_agree),
        cmocka_unit_test(neither_order_nor_alignment_changes_a_bit),
        cmocka_unit_test(large_scores_neither_overflow_nor_vanish),
        cmocka_unit_test(a_nan_is_not_hidden),
        cmocka_unit_test(the_bound_tells_a_swapped_head_and_a_missed_key),
        cmocka_unit_test(each_barrier_and_each_wait_is_needed),
    };
    const struct CMUnitTest hopper[] = {
        cmocka_unit_test(both_widths_agree_with_the_cpu),
        cmocka_unit_test(windows_and_packed_sequences_agree),
        cmocka_unit_test(no_order_of_threads_and_copies_changes_a_bit),
        cmocka_unit_test(tensors_that_tma_does_not_take_agree_too),
        cmocka_unit_test(large_scores_neither_overflow_nor_vanish),
        cmocka_unit_test(a_nan_is_not_hidden),
        cmocka_unit_test(the_bound_tells_a_swapped_head_and_a_missed_key),
        cmocka_unit_test(each_wait_and_each_fence_is_needed),
    };
    return cmocka_run_group_tests(before, open_sides_86, close_sides) +
           cmocka_run_group_tests(hopper, open_sides_90, close_sides);
}
