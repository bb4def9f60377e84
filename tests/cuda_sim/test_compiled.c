/* Compiled kernels in the simulator (compiled.hh): that instructions do what the PTX ISA says, and that
 * mistakes in them are found as those in a kernel's source are. `make ptx` runs our own kernels. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"
#include "tests/cuda_sim/child.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

enum { N = 64 };

/* Each thread has its number in %tid, and the addresses of its elements of out and x, of 4 bytes each. */
#define BEGIN                                                                                                \
    ".version 9.0\n.target sm_80\n.address_size 64\n"                                                        \
    ".visible .entry kernel(.param .u64 kernel_param_0, .param .u64 kernel_param_1)\n{\n"                    \
    ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .f32 %f<20>; .reg .b64 %d<20>; .reg .f64 "    \
    "%g<9>;\n"                                                                                               \
    ".reg .b64 %out, %x; .reg .b32 %tid;\n"                                                                  \
    "ld.param.u64 %out, [kernel_param_0]; ld.param.u64 %x, [kernel_param_1];\n"                              \
    "mov.u32 %tid, %tid.x; mul.wide.u32 %d1, %tid, 4; add.s64 %out, %out, %d1; add.s64 %x, %x, %d1;\n"       \
    "ld.global.u32 %r1, [%x]; mov.b32 %f1, %r1;\n"
#define END    "ret;\n}\n"
#define WORD   "st.global.u32 [%out], %r9;\n" END
#define NUMBER "st.global.f32 [%out], %f9;\n" END

static const char *file_of(const char *ptx)
{
    static char *path;
    if (!path) path = rig_path("kernel.ptx");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(ptx, file);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* ---- words ---- */

static int32_t reversed(const int32_t *x, int i)
{
    return x[N - 1 - i];
}
static int32_t of_lane(const int32_t *x, int i)
{
    return x[i ^ 5];
}
static int32_t arithmetic(const int32_t *x, int i)
{
    return (int32_t)((uint32_t)x[i] * 7u) / 3 - x[i] % 5 + (x[i] >> 3);
}
static int32_t chosen(const int32_t *x, int i)
{
    return x[i] < 0 && i % 2 ? -x[i] : x[i] > 40 ? 40 : x[i];
}
static int32_t collatz(const int32_t *x, int i)
{
    int32_t steps = 0;
    (void)x;
    for (int n = i + 1; n != 1; steps++) n = n % 2 ? 3 * n + 1 : n / 2;
    return steps;
}
static int32_t shifted(const int32_t *x, int i)
{
    return i >= 32 ? (x[i] < 0 ? -1 : 0) : (int32_t)((uint32_t)x[i] << i) ^ (x[i] >> i);
}
static int32_t halves(const int32_t *x, int i)
{
    uint32_t word = (uint32_t)x[i];
    return (int32_t)(word >> 16 | word << 16);
}
static int32_t squares(const int32_t *x, int i)
{
    return (int32_t)((uint32_t)x[i] * (uint32_t)x[i] + 1);
}
static int32_t votes(const int32_t *x, int i)
{
    uint32_t out = 0;
    for (int l = 0; l < 32; l++) out |= (uint32_t)(x[i / 32 * 32 + l] > 0) << l;
    return (int32_t)out;
}

static const struct {
    const char *name, *ptx;
    int32_t (*expected)(const int32_t *x, int i);
} word_cases[] = {
    {"through shared memory",
     BEGIN ".shared .align 16 .b8 tile[256];\n"
           "shl.b32 %r2, %tid, 2; mov.u32 %r3, tile; add.s32 %r4, %r3, %r2; st.shared.u32 [%r4], %r1;\n"
           "bar.sync 0; sub.s32 %r5, %r3, %r2; ld.shared.u32 %r9, [%r5+252];\n" WORD,
     reversed},
    {"from another lane", BEGIN "shfl.sync.bfly.b32 %r9|%p1, %r1, 5, 31, -1;\n" WORD, of_lane},
    {"arithmetic",
     BEGIN "mul.lo.s32 %r2, %r1, 7; div.s32 %r3, %r2, 3; rem.s32 %r4, %r1, 5; sub.s32 %r5, %r3, %r4;\n"
           "shr.s32 %r6, %r1, 3; add.s32 %r9, %r5, %r6;\n" WORD,
     arithmetic},
    {"conditions",
     BEGIN "setp.lt.s32 %p1, %r1, 0; and.b32 %r2, %tid, 1; setp.ne.s32 %p2, %r2, 0; and.pred %p3, %p1, %p2;\n"
           "min.s32 %r9, %r1, 40; @!%p3 bra $kept; neg.s32 %r9, %r1;\n$kept:\n" WORD,
     chosen},
    {"a loop",
     BEGIN
     "add.s32 %r2, %tid, 1; mov.u32 %r9, 0;\n$again:\nsetp.eq.s32 %p1, %r2, 1; @%p1 bra $done;\n"
     "add.s32 %r9, %r9, 1; and.b32 %r3, %r2, 1; setp.eq.b32 %p2, %r3, 1; @%p2 bra $odd;\n"
     "shr.u32 %r2, %r2, 1; bra.uni $again;\n$odd:\nmad.lo.s32 %r2, %r2, 3, 1; bra.uni $again;\n$done:\n" WORD,
     collatz},
    {"shifts by more than the width",
     BEGIN "shl.b32 %r2, %r1, %tid; shr.s32 %r3, %r1, %tid; xor.b32 %r9, %r2, %r3;\n" WORD, shifted},
    {"halves of a word", BEGIN "mov.b32 {%h1, %h2}, %r1; mov.b32 %r9, {%h2, %h1};\n" WORD, halves},
    {"words of local memory",
     BEGIN ".local .align 16 .b8 own[16]; mov.u64 %d2, own; st.local.v4.f32 [%d2], {%f1, %f1, %f1, %f1};\n"
           "ld.local.u32 %r2, [%d2+12]; mad.lo.s32 %r9, %r2, %r2, 1;\n" WORD,
     squares},
    {"votes of a warp", BEGIN "setp.gt.s32 %p1, %r1, 0; vote.sync.ballot.b32 %r9, %p1, -1;\n" WORD, votes},
};

TEST_CASE(words)
{
    int32_t x[N], out[N];
    for (int i = 0; i < N; i++) x[i] = (i * 7919 % 201 - 100) * (i % 3 ? 1 : 7654321);
    for (size_t k = 0; k < sizeof word_cases / sizeof *word_cases; k++) {
        sim_run_ptx(file_of(word_cases[k].ptx), out, x);
        for (int i = 0; i < N; i++)
            if (out[i] != word_cases[k].expected(x, i))
                fail_msg("%s: %d of %d is %d, not %d", word_cases[k].name, i, x[i], out[i],
                         word_cases[k].expected(x, i));
    }
}

/* ---- numbers ---- */

static float fused(float x)
{
    return fmaf(x, x, -0x1.8p3f);
}
static float rounded_down(float x)
{
    return (float)(2 * floor(((double)x * 3 + 0x1p23 * 3) / 2)) - 0x1p23f * 3; /* there 2 apart */
}
static float in_bf16(float x)
{
    union {
        float number;
        uint32_t bits;
    } u = {x};
    u.bits += 0x7fff + (u.bits >> 16 & 1);
    u.bits &= 0xffff0000;
    return u.number;
}
static float in_double(float x)
{
    return (float)sqrt(fabs((double)x) / 3);
}
static float not_a_number(float x)
{
    return x < 2 ? 1 : 0;
}
static float cubed(float x)
{
    return x * x * x;
}

static const struct {
    const char *name, *ptx;
    float (*expected)(float x);
} number_cases[] = {
    {"a fused multiply-add", BEGIN "fma.rn.f32 %f9, %f1, %f1, 0fC1400000;\n" NUMBER, fused},
    {"rounding down",
     BEGIN "fma.rm.f32 %f2, %f1, 0f40400000, 0f4BC00000; sub.f32 %f9, %f2, 0f4BC00000;\n" NUMBER,
     rounded_down},
    {"bf16, in the lower and the upper half",
     BEGIN
     "cvt.rn.bf16x2.f32 %r2, %f1, 0f3F800000; mov.b32 {%h1, %h2}, %r2; { mov.b32 %f9, {0,%h2};}\n" NUMBER,
     in_bf16},
    {"doubles",
     BEGIN "cvt.f64.f32 %g1, %f1; abs.f64 %g2, %g1; div.rn.f64 %g3, %g2, 0d4008000000000000; sqrt.rn.f64 "
           "%g4, %g3;\n"
           "cvt.rn.f32.f64 %f9, %g4;\n" NUMBER,
     in_double},
    {"comparisons with NaN",
     BEGIN "setp.geu.f32 %p1, 0f7FC00000, %f1; setp.lt.f32 %p2, 0f7FC00000, %f1; setp.lt.f32 %p3, %f1, "
           "0f40000000;\n"
           "not.pred %p4, %p2; and.pred %p5, %p1, %p4; and.pred %p6, %p5, %p3; selp.f32 %f9, 0f3F800000, "
           "0f00000000, %p6;\n" NUMBER,
     not_a_number},
    {"a call",
     ".version 9.0\n.func (.param .b32 result) cube(.param .b32 cube_param_0);\n" BEGIN
     "{ .reg .b32 temp; .param .b32 given; st.param.f32 [given+0], %f1; .param .b32 back;\n"
     "call.uni (back), cube, (given); ld.param.f32 %f9, [back+0]; }\n" NUMBER
     ".func (.param .b32 result) cube(.param .b32 cube_param_0)\n{ .reg .f32 %f<5>; ld.param.f32 %f1, "
     "[cube_param_0];\n"
     "mul.f32 %f2, %f1, %f1; mul.f32 %f3, %f2, %f1; st.param.f32 [result+0], %f3; ret; }\n",
     cubed},
};

TEST_CASE(numbers)
{
    float x[N], out[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i * 7919 % 201 - 100) / 7;
    for (size_t k = 0; k < sizeof number_cases / sizeof *number_cases; k++) {
        sim_run_ptx(file_of(number_cases[k].ptx), out, x);
        for (int i = 0; i < N; i++)
            if (out[i] != number_cases[k].expected(x[i]))
                fail_msg("%s: of %.9g it is %.9g, not %.9g", number_cases[k].name, x[i], out[i],
                         number_cases[k].expected(x[i]));
    }
}

/* ---- findings ---- */

static const struct {
    const char *ptx, *says;
} findings[] = {
    {BEGIN ".shared .align 16 .b8 tile[256];\n"
           "shl.b32 %r2, %tid, 2; mov.u32 %r3, tile; add.s32 %r4, %r3, %r2; st.shared.u32 [%r4], %r1;\n"
           "and.b32 %r5, %r2, 248; add.s32 %r6, %r3, %r5; ld.shared.u32 %r9, [%r6];\n" WORD,
     "race on shared memory"},
    {BEGIN ".shared .align 16 .b8 tile[128];\n"
           "shl.b32 %r2, %tid, 2; mov.u32 %r3, tile; add.s32 %r4, %r3, %r2; st.shared.u32 [%r4], %r1;\n" WORD,
     "shared memory out of range: static shared memory[128] of 128"},
    {BEGIN ".shared .align 16 .b8 tile[256]; mov.u32 %r3, tile; ld.shared.u32 %r9, [%r3+4];\n" WORD,
     "is read, but no thread of this block wrote it"},
    {BEGIN "ld.global.nc.v2.u32 {%r9, %r2}, [%x];\n" WORD, "misaligned access"},
    {BEGIN "@%p1 bar.sync 0;\n setp.eq.s32 %p2, %tid, 3; @%p2 bra $end; bar.sync 0;\n$end:\n" WORD,
     "divergent barrier"},
    {BEGIN "dp4a.u32.u32 %r9, %r1, %r1, %r1;\n" WORD, "the simulator does not know \"dp4a.u32.u32\""},
    {BEGIN "mov.u32 %r9, %clock;\n" WORD, "the simulator does not know \"%clock\""},
    {BEGIN "bra $nowhere;\n" WORD, "the simulator does not know \"$nowhere\""},
};

static void run_finding(int which)
{
    uint32_t x[N] = {0}, out[N];
    sim_run_ptx(file_of(findings[which].ptx), out, x);
}

TEST_CASE(mistakes_are_found)
{
    static char said[4096];
    for (int k = 0; k < (int)(sizeof findings / sizeof *findings); k++) {
        int status = child_run(run_finding, k, said, sizeof said);
        if (status != SIM_FAILURE_STATUS || !strstr(said, findings[k].says))
            fail_msg("exit status %d, wanted \"%s\" in: %s", status, findings[k].says, said);
    }
}

/* The kernel's own write may not be seen by a load that takes memory to be constant. */
static void run_stale(int kernel)
{
    static const char *const kernels[] = {
        BEGIN "ld.global.nc.u32 %r9, [%x]; st.global.u32 [%x], %r9; ret; }\n",
        BEGIN "add.s32 %r1, %r1, 1; st.global.u32 [%x], %r1; ld.global.nc.u32 %r9, [%x]; ret; }\n",
    };
    struct device *device;
    struct err err;
    void *x;
    if (cuda_plugin.table->device_open(0, 0, &device, &err) ||
        cuda_plugin.table->mem_alloc(device, N * sizeof(int32_t), &x, &err))
        _exit(1);
    sim_set_races(true);
    sim_run_ptx(file_of(kernels[kernel]), x, x);
}

TEST_CASE(a_stale_read_is_found)
{
    static char said[4096];
#if defined(__SANITIZE_ADDRESS__)
    skip(); /* races on device memory are found without it */
#endif
    assert_int_equal(child_run(run_stale, 0, said, sizeof said), 0);
    assert_int_equal(child_run(run_stale, 1, said, sizeof said), SIM_FAILURE_STATUS);
    if (!strstr(said, "read as if nothing wrote it, after a write")) fail_msg("%s", said);
}

TEST_MAIN()
