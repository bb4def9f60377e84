/* Runs the instructions of compiled kernels: each thread has registers of its own, and what concerns a warp,
 * a block or shared memory is the simulator's, as for kernels from their source. Meanings of the
 * instructions: Parallel Thread Execution ISA, NVIDIA. */
#include "tests/cuda_sim/compiled.hh"

#include <cuda_bf16.h>
#include <fenv.h>
#include <stdlib.h>

#include <algorithm>
#include <map>

#include "tests/cuda_sim/hopper.hh"

#include <tensor_core.h>

namespace {

using sim::compiled, sim::frame, sim::WARP;
using instruction = sim::instruction_of_kernel;

/* What a register holds that was never set. */
constexpr uint64_t UNSET = 0x7ff4dead7fc0dead;

/* ---- operands ---- */

template <typename T> T get(const frame &f, const instruction &i, size_t n)
{
    const uint64_t *word = &f.registers[i.operand[n]];
    T out;
    memcpy(&out, word, sizeof out);
    return out;
}

template <typename T> void set(frame &f, const instruction &i, size_t n, T value)
{
    uint64_t word = 0;
    memcpy(&word, &value, sizeof value);
    f.registers[i.operand[n]] = word;
}

/* ---- memory ---- */

enum { STATIC_MAX = 48 << 10 };
unsigned char static_bytes[STATIC_MAX] __attribute__((aligned(1024)));
sim::mark static_marks[STATIC_MAX / sim::MARKED];

/* Shared memory, aligned to its size. */
sim::span shared_span(const frame &f, uint32_t address, size_t bytes)
{
    unsigned char *base = static_bytes;
    sim::mark *marks = static_marks;
    size_t at = address - sim::STATIC_SHARED, most = f.of->shared_bytes;
    if (address < sim::STATIC_SHARED) {
        sim::dynamic_shared(&base, &marks, &most);
        at = address;
    }
    const char *name = address < sim::STATIC_SHARED ? "dynamic shared memory" : "static shared memory";
    if (at + bytes > most) sim::out_of_range(name, (ptrdiff_t)at, most);
    if (at % bytes != 0) sim::misaligned(name, (ptrdiff_t)at, bytes);
    return {base + at, marks + at / sim::MARKED, bytes, name, (ptrdiff_t)(at / sim::MARKED)};
}

sim::span shared_of(const frame &f, const instruction &i, size_t n, size_t bytes)
{
    return shared_span(f, (uint32_t)(get<uint64_t>(f, i, n) + (uint64_t)i.offset), bytes);
}

/* Where a load or store goes, after the checks of its kind of memory; n: the operand with the address. */
unsigned char *reach(const frame &f, const instruction &i, size_t n, bool writes)
{
    size_t bytes = (size_t)i.count * i.bytes;
    uint64_t address = get<uint64_t>(f, i, n) + (uint64_t)i.offset;
    if (i.space == 's') {
        sim::span s = shared_of(f, i, n, bytes);
        for (size_t m = 0; m < bytes / sim::MARKED; m++)
            writes ? sim::check_write(s.marks + m, s.name, s.index + (ptrdiff_t)m)
                   : sim::check_read(s.marks + m, s.name, s.index + (ptrdiff_t)m);
        return s.at;
    }
    if (address % bytes != 0)
        sim::fail("line %d: misaligned access: %#lx, %zu bytes", i.line, address, bytes);
    if (i.is_constant)
        sim::memory_constant((const void *)address, bytes);
    else if (i.space == 'g')
        sim::memory_touched((const void *)address, bytes, writes);
    return (unsigned char *)address;
}

void load(frame &f, const instruction &i)
{
    const unsigned char *from = reach(f, i, i.count, false);
    for (size_t n = 0; n < i.count; n++, from += i.bytes) {
        uint64_t word = 0;
        memcpy(&word, from, i.bytes);
        if (i.is_signed) word = (uint64_t)((int64_t)(word << (64 - 8 * i.bytes)) >> (64 - 8 * i.bytes));
        set(f, i, n, word);
    }
}

void store(frame &f, const instruction &i)
{
    unsigned char *to = reach(f, i, 0, true);
    for (size_t n = 0; n < i.count; n++, to += i.bytes) {
        uint64_t word = get<uint64_t>(f, i, 1 + n);
        memcpy(to, &word, i.bytes);
    }
}

/* "ld.global.nc.v4.f32" and the like. */
bool memory_access(const std::string &name, instruction *out)
{
    static const char *const spaces[] = {"global", "shared", "param", "local"};
    std::string rest = name.substr(3), type = name.substr(name.rfind('.') + 1);
    if (name.compare(0, 3, "ld.") != 0 && name.compare(0, 3, "st.") != 0) return false;
    for (const char *space : spaces)
        if (rest.compare(0, strlen(space) + 1, std::string(space) + ".") == 0) {
            out->space = space[0];
            rest.erase(0, strlen(space) + 1);
        }
    out->is_constant = rest.compare(0, 3, "nc.") == 0;
    if (out->is_constant) rest.erase(0, 3);
    out->count = 1;
    if (rest[0] == 'v') {
        out->count = (uint8_t)(rest[1] - '0');
        rest.erase(0, 3);
    }
    if (out->space == 0 || rest != type || strchr("bfus", type[0]) == NULL) return false;
    out->bytes = (uint8_t)(atoi(type.c_str() + 1) / 8);
    out->is_signed = type[0] == 's';
    out->run = name[0] == 'l' ? load : store;
    return true;
}

/* ---- moving ---- */

/* Whole, or as parts of a wider register: those that come first are the lower ones. */
void move(frame &f, const instruction &i, size_t bytes)
{
    size_t parts = i.operands - 1;
    uint64_t word = 0;
    if (parts == 1) return set(f, i, 0, get<uint64_t>(f, i, 1));
    for (size_t n = 0; n < parts && !i.takes_apart; n++) {
        uint64_t part = get<uint64_t>(f, i, 1 + n);
        memcpy((char *)&word + n * (bytes / parts), &part, bytes / parts);
    }
    if (!i.takes_apart) return set(f, i, 0, word);
    word = get<uint64_t>(f, i, parts);
    for (size_t n = 0; n < parts; n++) {
        uint64_t part = 0;
        memcpy(&part, (char *)&word + n * (bytes / parts), bytes / parts);
        set(f, i, n, part);
    }
}

template <typename T> T shift_left(T a, uint32_t by)
{
    return by >= 8 * sizeof a ? 0 : (T)(a << by);
}

template <typename T> T shift_right(T a, uint32_t by)
{
    return (T)(a >> std::min<uint32_t>(by, 8 * sizeof a - 1) >> (by >= 8 * sizeof a ? 1 : 0));
}

/* ---- arithmetic ---- */

/* Rounded towards minus infinity. */
float multiply_add_down(float a, float b, float c)
{
    volatile float x = a, y = b, z = c;
    fesetround(FE_DOWNWARD);
    volatile float out = fmaf(x, y, z);
    fesetround(FE_TONEAREST);
    return out;
}

float power_of_2(float x, bool flushes)
{
    float y = exp2f(x);
    return flushes && std::fpclassify(y) == FP_SUBNORMAL ? 0.0f : y;
}

/* With the upper half of the bits, of which the lowest is the result's own precision. */
double reciprocal_about(double x)
{
    double y = 1 / x;
    uint64_t bits;
    memcpy(&bits, &y, sizeof bits);
    bits &= ~0xffffffffull;
    memcpy(&y, &bits, sizeof bits);
    return y;
}

uint16_t to_bf16(float x)
{
    __nv_bfloat16 y = __float2bfloat16_rn(x);
    uint16_t out;
    memcpy(&out, &y, sizeof out);
    return out;
}

float from_bf16(uint16_t bits)
{
    return __bfloat162float({bits});
}

/* ---- of a warp, a block, or at a distance ---- */

#define SITE f.of->name.c_str(), i.line

void shuffle(frame &f, const instruction &i, bool crosswise)
{
    size_t n = i.operands - 4; /* behind the result, and a predicate if there is one */
    uint32_t value = get<uint32_t>(f, i, n), by = get<uint32_t>(f, i, n + 1),
             clamp = get<uint32_t>(f, i, n + 2);
    if (clamp != 31) sim::fail("line %d: a shuffle of parts of a warp", i.line);
    int from = crosswise ? sim::lane() ^ (int)by : (int)(by & 31);
    set(f, i, 0, sim::shuffle(get<uint32_t>(f, i, n + 3), value, from, SITE));
}

void multiply_tiles(frame &f, const instruction &i)
{
    float sum[4], c[4], *d[4];
    uint32_t a[4], b[2];
    for (size_t n = 0; n < 4; n++)
        d[n] = &sum[n], a[n] = get<uint32_t>(f, i, 4 + n), c[n] = get<float>(f, i, 10 + n);
    for (size_t n = 0; n < 2; n++) b[n] = get<uint32_t>(f, i, 8 + n);
    sim::mma_bf16(d, a, b, c, SITE);
    for (size_t n = 0; n < 4; n++) set(f, i, n, sum[n]);
}

void load_tiles(frame &f, const instruction &i, bool transposed)
{
    uint32_t words[4], *to[4] = {words, words + 1, words + 2, words + 3};
    sim::matrices_load(to, shared_of(f, i, 4, 16), transposed, SITE);
    for (size_t n = 0; n < 4; n++) set(f, i, n, words[n]);
}

/* The last operand: how many bytes are there, the others become 0. */
void copy_later(frame &f, const instruction &i)
{
    size_t bytes = get<uint32_t>(f, i, 2), there = get<uint32_t>(f, i, 3);
    if (there != 0 && there != bytes) sim::fail("an asynchronous copy of %zu of %zu bytes", there, bytes);
    sim::copy_async(shared_of(f, i, 0, bytes), get<const void *>(f, i, 1), there == bytes);
}

/* ---- compute capability 9.0 ---- */

sim::span barrier_of(const frame &f, const instruction &i, size_t n)
{
    return shared_of(f, i, n, 8);
}

/* After the sums: the left operand, the right one, whether to add, the signs of both, and of those in shared
 * memory whether they are columns. */
void multiply_group(frame &f, const instruction &i, size_t columns)
{
    enum { SUMS_MAX = 64 };
    size_t sums = columns / 2, left = i.operands == sums + 9 ? 4 : 1, b = sums + left;
    float d[SUMS_MAX];
    uint32_t a[4];
    sim::group_product p = {};
    if (i.operands != sums + left + (left == 4 ? 5 : 6))
        sim::fail("line %d: not the operands of wgmma", i.line);
    for (size_t n = 0; n < sums; n++) d[n] = get<float>(f, i, n);
    for (size_t n = 0; n < left; n++) a[n] = get<uint32_t>(f, i, sums + n);
    p.d = d, p.a = a, p.at_once = true;
    p.of.columns = columns, p.of.from_registers = left == 4;
    p.of.a_at = left == 4 ? 0 : get<uint64_t>(f, i, sums), p.of.b_at = get<uint64_t>(f, i, b);
    p.of.add = get<uint8_t>(f, i, b + 1) != 0;
    if (get<int>(f, i, b + 2) != 1 || get<int>(f, i, b + 3) != 1)
        sim::fail("line %d: the simulator knows no signs but 1", i.line);
    p.of.a_columns = left == 1 && get<int>(f, i, b + 4) != 0;
    p.of.b_columns = get<int>(f, i, b + (left == 1 ? 5 : 4)) != 0;
    sim::group_product_begin(p, SITE);
    for (size_t n = 0; n < sums; n++) set(f, i, n, d[n]);
}

void load_box(frame &f, const instruction &i)
{
    sim::box_load(get<uint32_t>(f, i, 0), get<const CUtensorMap *>(f, i, 1), barrier_of(f, i, 6),
                  {get<int>(f, i, 2), get<int>(f, i, 3), get<int>(f, i, 4), get<int>(f, i, 5)});
}

/* ---- calls ---- */

unsigned built_in(const char *name)
{
    const unsigned grid[] = {gridDim.x, gridDim.y, gridDim.z}, block[] = {blockDim.x, blockDim.y, blockDim.z},
                   at[] = {blockIdx.x, blockIdx.y, blockIdx.z},
                   thread[] = {threadIdx.x, threadIdx.y, threadIdx.z};
    if (strcmp(name, "%laneid") == 0) return (unsigned)sim::lane();
    const char *dot = strchr(name, '.');
    const unsigned *of = name[1] == 't'                     ? thread
                         : strncmp(name, "%ntid", 5) == 0   ? block
                         : strncmp(name, "%nctaid", 7) == 0 ? grid
                                                            : at;
    return of[dot[1] - 'x'];
}

void call(frame &f, const instruction &i)
{
    enum { MOST = 8 };
    void *results[MOST];
    const void *parameters[MOST];
    if (i.operands > MOST) sim::fail("line %d: a call with more than %d operands", i.line, MOST);
    for (size_t n = 0; n < i.operands; n++)
        if (n < i.count)
            results[n] = get<void *>(f, i, n);
        else
            parameters[n - i.count] = get<const void *>(f, i, n);
    sim::function_run(*i.callee, results, parameters);
}

/* ---- all of them ---- */

#define DOES(...)                                                                                            \
    [](frame &f, const instruction &i) {                                                                     \
        (void)f, (void)i;                                                                                    \
        __VA_ARGS__;                                                                                         \
    }
/* The first operand becomes an expression of the others, a, b, c. */
#define ONE(A, ...)    DOES(A a = get<A>(f, i, 1); set(f, i, 0, (__VA_ARGS__)))
#define TWO(A, B, ...) DOES(A a = get<A>(f, i, 1); B b = get<B>(f, i, 2); set(f, i, 0, (__VA_ARGS__)))
#define THREE(A, B, C, ...)                                                                                  \
    DOES(A a = get<A>(f, i, 1); B b = get<B>(f, i, 2); C c = get<C>(f, i, 3); set(f, i, 0, (__VA_ARGS__)))
#define SAME(T, ...)      TWO(T, T, (T)(__VA_ARGS__))
#define PREDICATE(T, ...) TWO(T, T, (uint64_t)(__VA_ARGS__))
#define SELECTS(name, T)                                                                                     \
    {                                                                                                        \
        "selp." name, THREE(T, T, uint8_t, c ? a : b)                                                        \
    }
#define COMPARES(name, T)                                                                                    \
    {"setp.eq." name, PREDICATE(T, a == b)}, {"setp.ne." name, PREDICATE(T, a != b)},                        \
        {"setp.lt." name, PREDICATE(T, a < b)}, {"setp.le." name, PREDICATE(T, a <= b)},                     \
        {"setp.gt." name, PREDICATE(T, a > b)},                                                              \
    {                                                                                                        \
        "setp.ge." name, PREDICATE(T, a >= b)                                                                \
    }
#define IS_NAN (a != a || b != b)
/* Of floats: false if one is NaN, or with "u" true. */
#define COMPARES_REAL(name, T)                                                                               \
    {"setp.eq." name, PREDICATE(T, a == b)}, {"setp.ne." name, PREDICATE(T, a != b && !IS_NAN)},             \
        {"setp.lt." name, PREDICATE(T, a < b)}, {"setp.le." name, PREDICATE(T, a <= b)},                     \
        {"setp.gt." name, PREDICATE(T, a > b)}, {"setp.ge." name, PREDICATE(T, a >= b)},                     \
        {"setp.equ." name, PREDICATE(T, a == b || IS_NAN)}, {"setp.neu." name, PREDICATE(T, a != b)},        \
        {"setp.ltu." name, PREDICATE(T, a < b || IS_NAN)},                                                   \
        {"setp.leu." name, PREDICATE(T, a <= b || IS_NAN)},                                                  \
        {"setp.gtu." name, PREDICATE(T, a > b || IS_NAN)},                                                   \
    {                                                                                                        \
        "setp.geu." name, PREDICATE(T, a >= b || IS_NAN)                                                     \
    }
#define INTEGERS(bits)                                                                                       \
    {"add.s" #bits, SAME(uint##bits##_t, a + b)}, {"add.u" #bits, SAME(uint##bits##_t, a + b)},              \
        {"sub.s" #bits, SAME(uint##bits##_t, a - b)}, {"mul.lo.s" #bits, SAME(uint##bits##_t, a * b)},       \
        {"mad.lo.s" #bits, THREE(uint##bits##_t, uint##bits##_t, uint##bits##_t, a * b + c)},                \
        {"div.s" #bits, SAME(int##bits##_t, a / b)}, {"div.u" #bits, SAME(uint##bits##_t, a / b)},           \
        {"rem.s" #bits, SAME(int##bits##_t, a % b)}, {"rem.u" #bits, SAME(uint##bits##_t, a % b)},           \
        {"min.s" #bits, SAME(int##bits##_t, a < b ? a : b)},                                                 \
        {"min.u" #bits, SAME(uint##bits##_t, a < b ? a : b)},                                                \
        {"max.s" #bits, SAME(int##bits##_t, a > b ? a : b)},                                                 \
        {"max.u" #bits, SAME(uint##bits##_t, a > b ? a : b)}, {"neg.s" #bits, ONE(uint##bits##_t, 0 - a)},   \
        {"not.b" #bits, ONE(uint##bits##_t, ~a)}, {"and.b" #bits, SAME(uint##bits##_t, a & b)},              \
        {"or.b" #bits, SAME(uint##bits##_t, a | b)}, {"xor.b" #bits, SAME(uint##bits##_t, a ^ b)},           \
        {"shl.b" #bits, TWO(uint##bits##_t, uint32_t, shift_left(a, b))},                                    \
        {"shr.u" #bits, TWO(uint##bits##_t, uint32_t, shift_right(a, b))},                                   \
        {"shr.s" #bits, TWO(int##bits##_t, uint32_t, shift_right(a, b))},                                    \
        COMPARES("s" #bits, int##bits##_t), COMPARES("u" #bits, uint##bits##_t),                             \
        COMPARES("b" #bits, uint##bits##_t)
#define REALS(name, T)                                                                                       \
    {"add." name, SAME(T, a + b)}, {"add.rn." name, SAME(T, a + b)}, {"sub." name, SAME(T, a - b)},          \
        {"mul." name, SAME(T, a * b)}, {"mul.rn." name, SAME(T, a * b)}, {"div.rn." name, SAME(T, a / b)},   \
        {"rcp.rn." name, ONE(T, 1 / a)}, {"sqrt.rn." name, ONE(T, std::sqrt(a))},                            \
        {"fma.rn." name, THREE(T, T, T, std::fma(a, b, c))}, {"neg." name, ONE(T, -a)},                      \
        {"abs." name, ONE(T, std::fabs(a))}, {"min." name, SAME(T, std::fmin(a, b))},                        \
        {"max." name, SAME(T, std::fmax(a, b))}, COMPARES_REAL(name, T), SELECTS(name, T)

const auto &all()
{
    static const std::map<std::string, void (*)(frame &, const instruction &)> out = {
        INTEGERS(32),
        INTEGERS(64),
        REALS("f32", float),
        REALS("f64", double),
        COMPARES("s16", int16_t),
        SELECTS("b16", uint16_t),
        SELECTS("b32", uint32_t),
        SELECTS("u32", uint32_t),
        SELECTS("b64", uint64_t),
        {"mul.wide.s32", TWO(int32_t, int32_t, (int64_t)a * b)},
        {"mul.wide.u32", TWO(uint32_t, uint32_t, (uint64_t)a * b)},
        {"mul.wide.u16", TWO(uint16_t, uint16_t, (uint32_t)a * b)},
        {"mul.hi.s32", TWO(int32_t, int32_t, (int32_t)((int64_t)a * b >> 32))},
        {"popc.b32", ONE(uint32_t, (uint32_t)__builtin_popcount(a))},
        {"and.pred", PREDICATE(uint8_t, a && b)},
        {"or.pred", PREDICATE(uint8_t, a || b)},
        {"xor.pred", PREDICATE(uint8_t, a != b)},
        {"not.pred", ONE(uint8_t, (uint64_t)!a)},
        {"mov.pred", DOES(move(f, i, 8))},

        {"mov.b16", DOES(move(f, i, 2))},
        {"mov.u16", DOES(move(f, i, 2))},
        {"mov.b32", DOES(move(f, i, 4))},
        {"mov.u32", DOES(move(f, i, 4))},
        {"mov.f32", DOES(move(f, i, 4))},
        {"mov.b64", DOES(move(f, i, 8))},
        {"mov.u64", DOES(move(f, i, 8))},
        {"mov.f64", DOES(move(f, i, 8))},
        {"cvta.to.global.u64", DOES(move(f, i, 8))},
        {"cvta.param.u64", DOES(move(f, i, 8))},

        {"cvt.s64.s32", ONE(int32_t, (int64_t)a)},
        {"cvt.u64.u32", ONE(uint32_t, (uint64_t)a)},
        {"cvt.u32.u64", ONE(uint64_t, (uint32_t)a)},
        {"cvt.u16.u32", ONE(uint32_t, (uint16_t)a)},
        {"cvt.u32.u16", ONE(uint16_t, (uint32_t)a)},
        {"cvt.rn.f32.s32", ONE(int32_t, (float)a)},
        {"cvt.rn.f32.u32", ONE(uint32_t, (float)a)},
        {"cvt.rn.f64.s32", ONE(int32_t, (double)a)},
        {"cvt.rn.f64.s64", ONE(int64_t, (double)a)},
        {"cvt.f64.f32", ONE(float, (double)a)},
        {"cvt.rn.f32.f64", ONE(double, (float)a)},
        {"cvt.rzi.f64.f64", ONE(double, std::trunc(a))},
        {"cvt.sat.f32.f32", ONE(float, a > 0 ? std::fmin(a, 1.0f) : 0.0f)},
        {"cvt.rn.bf16.f32", ONE(float, to_bf16(a))},
        {"cvt.f32.bf16", ONE(uint16_t, from_bf16(a))},
        {"cvt.rn.bf16x2.f32", TWO(float, float, (uint32_t)to_bf16(a) << 16 | to_bf16(b))},

        {"fma.rm.f32", THREE(float, float, float, multiply_add_down(a, b, c))},
        {"ex2.approx.f32", ONE(float, power_of_2(a, false))},
        {"ex2.approx.ftz.f32", ONE(float, power_of_2(a, true))},
        {"div.approx.f32", TWO(float, float, __fdividef(a, b))},
        {"rcp.approx.ftz.f64", ONE(double, reciprocal_about(a))},

        {"bra", DOES(f.next = i.target)},
        {"bra.uni", DOES(f.next = i.target)},
        {"ret", DOES(f.next = f.of->code.size())},
        {"call.uni", call},
        {"trap", DOES(sim::fail("line %d: a trap", i.line))},
        {"bar.sync", DOES(if (get<int>(f, i, 0) != 0) sim::fail("line %d: another barrier than 0", i.line);
                          sim::sync_threads(SITE))},
        {"bar.warp.sync", DOES(sim::sync_warp(get<uint32_t>(f, i, 0), SITE))},
        {"shfl.sync.bfly.b32", DOES(shuffle(f, i, true))},
        {"shfl.sync.idx.b32", DOES(shuffle(f, i, false))},
        {"vote.sync.ballot.b32",
         DOES(set(f, i, 0, sim::ballot(get<uint32_t>(f, i, 2), get<uint8_t>(f, i, 1) != 0, SITE)))},
        {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", multiply_tiles},
        {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", DOES(load_tiles(f, i, false))},
        {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", DOES(load_tiles(f, i, true))},
        {"cp.async.cg.shared.global", copy_later},
        {"cp.async.ca.shared.global", copy_later},
        {"cp.async.commit_group", DOES(sim::copy_commit())},
        {"cp.async.wait_group", DOES(sim::copy_wait(get<int>(f, i, 0), SITE))},

        {"mbarrier.init.shared::cta.b64",
         DOES(sim::barrier_init(barrier_of(f, i, 0), get<unsigned>(f, i, 1)))},
        {"fence.mbarrier_init.release.cluster", DOES(sim::barriers_ready())},
        {"mbarrier.arrive.shared::cta.b64", DOES(sim::barrier_arrive(barrier_of(f, i, 1), 0))},
        {"mbarrier.arrive.expect_tx.shared::cta.b64",
         DOES(sim::barrier_arrive(barrier_of(f, i, 1), get<unsigned>(f, i, 2)))},
        {"mbarrier.try_wait.parity.shared::cta.b64",
         DOES(set(f, i, 0, (uint64_t)sim::barrier_wait(barrier_of(f, i, 1), get<unsigned>(f, i, 2), SITE)))},
        {"cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", load_box},
        {"setmaxnreg.dec.sync.aligned.u32", DOES(sim::registers_set(get<int>(f, i, 0), false, SITE))},
        {"setmaxnreg.inc.sync.aligned.u32", DOES(sim::registers_set(get<int>(f, i, 0), true, SITE))},
        {"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", DOES(multiply_group(f, i, 64))},
        {"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", DOES(multiply_group(f, i, 128))},
        {"wgmma.fence.sync.aligned", DOES(sim::group_fence(SITE))},
        {"wgmma.commit_group.sync.aligned", DOES(sim::group_commit(SITE))},
        {"wgmma.wait_group.sync.aligned", DOES(sim::group_wait(get<int>(f, i, 0), SITE))},
    };
    return out;
}

} // namespace

namespace sim {

bool instruction_named(const std::string &name, instruction_of_kernel *out)
{
    auto found = all().find(name);
    if (found != all().end()) out->run = found->second;
    return found != all().end() || memory_access(name, out);
}

void function_run(const compiled &c, void *const *results, const void *const *parameters)
{
    std::vector<uint64_t> words(c.constants.rbegin(), c.constants.rend());
    words.resize(words.size() + (size_t)c.registers, UNSET);
    uint64_t *registers = words.data() + c.constants.size();
    std::vector<uint64_t> memory((c.param_bytes + c.local_bytes) / 8 + 32);
    unsigned char *params = (unsigned char *)(((uintptr_t)memory.data() + 127) & ~(uintptr_t)127),
                  *locals = params + (c.param_bytes + 15) / 16 * 16;
    frame f = {&c, registers, 0};
    for (const place_of_kernel &p : c.params) registers[p.address] = (uint64_t)(params + p.offset);
    for (const place_of_kernel &p : c.locals) registers[p.address] = (uint64_t)(locals + p.offset);
    for (const auto &[at, name] : c.built_in) registers[at] = built_in(name);
    for (size_t n = 0; n < c.parameters; n++) {
        const place_of_kernel &p = c.params[c.results + n];
        memcpy(params + p.offset, parameters[n], p.bytes);
    }
    while (f.next < c.code.size()) {
        const instruction_of_kernel &i = c.code[f.next++];
        if (i.condition < 0 || (registers[i.condition] != 0) != i.unless) i.run(f, i);
    }
    for (size_t n = 0; n < c.results; n++) memcpy(results[n], params + c.params[n].offset, c.params[n].bytes);
}

} // namespace sim
