/* Reads the text of PTX instructions (kernels/ptx.cuh) and runs them, with the functions of tensor_core.cc,
 * hopper.cc and hopper_product.cc.
 *
 * A text is one instruction, or several in braces, after the names of the predicates that they share, or
 * nothing: then it names the registers of a product.
 *
 * A signature has a letter for every operand, in the order of the text: R a word that is set, F a float that
 * is set, A one that is added to, P a predicate that is set; r, f, l and p a word, a float, 64 bits and a
 * predicate that are read; S an address in shared and G one in global memory, T a tensor's map, i a number
 * that is known to the compiler. A letter with a number stands for so many operands with commas between. All
 * else is as in the text. */
#include <ctype.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "tests/cuda_sim/hopper.hh"

#include <tensor_core.h>

namespace {

/* The operands in the order of the text. */
using operands = const sim::ptx_operand *;

float floating(const sim::ptx_operand &o)
{
    uint32_t word = (uint32_t)o.word;
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

struct sim::span shared(const sim::ptx_operand &o, size_t bytes)
{
    const sim::shared_place *place = (const sim::shared_place *)o.at;
    return place->span(place->pointer, bytes);
}

void mma(operands o, const sim::call_site &at)
{
    float *d[4], c[4];
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; i++) d[i] = (float *)o[i].at, a[i] = o[4 + i].word, c[i] = floating(o[10 + i]);
    for (int i = 0; i < 2; i++) b[i] = o[8 + i].word;
    sim::mma_bf16(d, a, b, c, at.file, at.line);
}

template <bool TRANSPOSED> void ldmatrix(operands o, const sim::call_site &at)
{
    uint32_t *f[4];
    for (int i = 0; i < 4; i++) f[i] = (uint32_t *)o[i].at;
    sim::matrices_load(f, shared(o[4], 16), TRANSPOSED, at.file, at.line);
}

/* The bytes of the last operand are copied, zeros up to the number before it. */
void cp_async(operands o, const sim::call_site &)
{
    size_t bytes = o[2].word, there = o[3].word;
    if (there != 0 && there != bytes) sim::fail("an asynchronous copy of %zu of %zu bytes", there, bytes);
    sim::copy_async(shared(o[0], bytes), o[1].at, there == bytes);
}

void ex2(operands o, const sim::call_site &)
{
    float y = exp2f(floating(o[1]));
    *(float *)o[0].at = std::fpclassify(y) == FP_SUBNORMAL ? 0.0f : y;
}

template <int WORDS> void st_global(operands o, const sim::call_site &)
{
    uint32_t *to = (uint32_t *)o[0].at;
    if ((uintptr_t)to % (4 * WORDS) != 0) sim::fail("misaligned access: %p, %d bytes", (void *)to, 4 * WORDS);
    sim::memory_touched(to, 4 * WORDS, true);
    for (int i = 0; i < WORDS; i++) to[i] = o[1 + i].word;
}

/* The array whose elements these registers are, in their order. */
void *array_of(operands o, int count)
{
    for (int i = 1; i < count; i++)
        if (o[i].at != (const uint32_t *)o[0].at + i)
            sim::fail("wgmma: its registers are not the elements of an array, in their order");
    return o[0].at;
}

/* After the sums: a, b, whether to add, the signs of a and b, and of those in shared memory whether they are
 * columns. */
template <int COLUMNS, bool FROM_REGISTERS> void wgmma(operands o, const sim::call_site &at)
{
    constexpr int SUMS = COLUMNS / 2, LEFT = FROM_REGISTERS ? 4 : 1;
    operands a = o + SUMS, b = a + LEFT, flags = b + 2;
    sim::group_product p = {};
    p.d = (float *)array_of(o, SUMS);
    p.a = (const uint32_t *)array_of(a, LEFT);
    p.of.columns = COLUMNS, p.of.from_registers = FROM_REGISTERS;
    p.of.a_at = FROM_REGISTERS ? 0 : a->word, p.of.b_at = b->word, p.of.add = b[1].word != 0;
    if (flags[0].word != 1 || flags[1].word != 1) sim::fail("wgmma: the simulator knows no signs but 1");
    p.of.a_columns = !FROM_REGISTERS && flags[2].word != 0;
    p.of.b_columns = flags[FROM_REGISTERS ? 2 : 3].word != 0;
    sim::group_product_begin(p, at.file, at.line);
}

/* One that is an expression of its operands and its place. */
#define RUNS(...) [](operands o, const sim::call_site &at) { (void)o, (void)at, __VA_ARGS__; }

const struct definition {
    const char *name, *signature;
    void (*run)(operands, const sim::call_site &);
} definitions[] = {
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "{F4},{r4},{r2},{f4}", mma},
    {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", "{R4},[S]", ldmatrix<false>},
    {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "{R4},[S]", ldmatrix<true>},
    {"cp.async.cg.shared.global", "[S],[G],i,r", cp_async},
    {"cp.async.ca.shared.global", "[S],[G],i,r", cp_async},
    {"cp.async.commit_group", "", RUNS(sim::copy_commit())},
    {"cp.async.wait_group", "i", RUNS(sim::copy_wait((int)o[0].word, at.file, at.line))},
    {"ex2.approx.ftz.f32", "F,f", ex2},
    {"st.global.v2.b32", "[G],{r2}", st_global<2>},
    {"st.global.v4.b32", "[G],{r4}", st_global<4>},
    {"setp.ne.b32", "P,r,i", RUNS(*(bool *)o[0].at = o[1].word != o[2].word)},
    {"selp.u32", "R,i,i,p", RUNS(*(uint32_t *)o[0].at = (uint32_t)o[o[3].word ? 1 : 2].word)},
    {"mbarrier.init.shared::cta.b64", "[S],r", RUNS(sim::barrier_init(shared(o[0], 8), (unsigned)o[1].word))},
    {"fence.mbarrier_init.release.cluster", "", RUNS(sim::barriers_ready())},
    {"mbarrier.arrive.shared::cta.b64", "_,[S]", RUNS(sim::barrier_arrive(shared(o[0], 8), 0))},
    {"mbarrier.arrive.expect_tx.shared::cta.b64", "_,[S],r",
     RUNS(sim::barrier_arrive(shared(o[0], 8), (unsigned)o[1].word))},
    {"mbarrier.try_wait.parity.shared::cta.b64", "P,[S],r",
     RUNS(*(bool *)o[0].at = sim::barrier_wait(shared(o[1], 8), (unsigned)o[2].word, at.file, at.line))},
    {"cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", "[S],[T,{r4}],[S]",
     RUNS(sim::box_load(sim::shared_address(shared(o[0], 16)), (const CUtensorMap *)o[1].at, shared(o[6], 8),
                        {(int)o[2].word, (int)o[3].word, (int)o[4].word, (int)o[5].word}))},
    {"setmaxnreg.dec.sync.aligned.u32", "i",
     RUNS(sim::registers_set((int)o[0].word, false, at.file, at.line))},
    {"setmaxnreg.inc.sync.aligned.u32", "i",
     RUNS(sim::registers_set((int)o[0].word, true, at.file, at.line))},
    {"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "{A32},l2,p,i4", wgmma<64, false>},
    {"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", "{A64},l2,p,i4", wgmma<128, false>},
    {"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "{A32},{r4},l,p,i3", wgmma<64, true>},
    {"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", "{A64},{r4},l,p,i3", wgmma<128, true>},
    {"wgmma.fence.sync.aligned", "", RUNS(sim::group_fence(at.file, at.line))},
    {"wgmma.commit_group.sync.aligned", "", RUNS(sim::group_commit(at.file, at.line))},
    {"wgmma.wait_group.sync.aligned", "i", RUNS(sim::group_wait((int)o[0].word, at.file, at.line))},
};

enum { OPERANDS_MAX = 80, PREDICATES_MAX = 4 };

/* An operand of the text: one of OUT and IN, a predicate, or a number; and its letter. */
struct place {
    enum { OUT_IN, PREDICATE, NUMBER } is;
    uint32_t value;
    char wanted;
};

struct statement {
    const definition *known;
    std::vector<place> places;
};

/* Whether an operand may stand where the signature has `wanted`. One that is added to is also read. */
bool fits(char kind, char wanted)
{
    return kind == wanted || (kind == 'A' && (wanted == 'F' || wanted == 'f')) ||
           ((kind == 'P' || kind == 'i') && wanted == 'p');
}

/* The rest of a text, and the predicates that it has named. */
struct reader {
    const char *at;
    std::vector<std::string> predicates;
    unsigned set; /* a bit for each that an instruction before has set */

    /* Whether the text goes on like this, after spaces; then it is behind. */
    bool skip(const char *what)
    {
        at += strspn(at, " \n");
        bool there = strncmp(at, what, strlen(what)) == 0;
        if (there) at += strlen(what);
        return there;
    }

    std::string word()
    {
        skip("");
        std::string out(at, strcspn(at, " ;"));
        at += out.size();
        return out;
    }

    bool read_place(char wanted, std::vector<place> *out)
    {
        bool numbered = skip("%"), of_predicate = wanted == 'P' || wanted == 'p';
        for (size_t i = 0; i < predicates.size() && of_predicate && !numbered; i++)
            if (skip(predicates[i].c_str())) {
                if (wanted == 'P') set |= 1u << i;
                if (!(set >> i & 1))
                    sim::fail("the predicate %s is read before it is set", predicates[i].c_str());
                out->push_back({place::PREDICATE, (uint32_t)i, wanted});
                return true;
            }
        char *end;
        out->push_back({numbered ? place::OUT_IN : place::NUMBER, (uint32_t)strtoul(at, &end, 10), wanted});
        bool there = end != at && (numbered || wanted == 'i' || wanted == 'p');
        at = end;
        return there;
    }

    bool read_places(const char *signature, std::vector<place> *out)
    {
        for (const char *s = signature; *s;) {
            char wanted = *s++, *end;
            if (!isalpha(wanted)) {
                if (!skip(std::string(1, wanted).c_str())) return false;
                continue;
            }
            long count = strtol(s, &end, 10);
            if (end == s) count = 1;
            s = end;
            for (long i = 0; i < count; i++)
                if ((i > 0 && !skip(",")) || !read_place(wanted, out)) return false;
        }
        return skip(";");
    }

    statement read_statement()
    {
        std::string name = word();
        const char *begin = at, *signature = NULL;
        for (const definition &k : definitions) {
            statement out = {&k, {}};
            if (name != k.name) continue;
            at = begin;
            if (read_places(k.signature, &out.places)) return out;
            signature = k.signature;
        }
        if (signature == NULL) sim::fail("the simulator does not know the instruction \"%s\"", name.c_str());
        sim::fail("%s has other operands than %s", name.c_str(), signature);
    }
};

} // namespace

namespace sim {

struct instruction {
    std::vector<statement> statements;
};

const instruction *instruction_read(const char *text)
{
    instruction *out = new instruction;
    reader r = {text, {}, 0};
    bool braces = r.skip("{");
    while (r.skip(".reg .pred")) {
        r.predicates.push_back(r.word());
        r.skip(";");
    }
    if (r.predicates.size() > PREDICATES_MAX) fail("more than %d predicates", PREDICATES_MAX);
    while (r.skip(""), *r.at != '\0' && *r.at != '}') out->statements.push_back(r.read_statement());
    if (braces != r.skip("}") || *r.at != '\0') fail("\"%s\" has braces without the other", text);
    return out;
}

void instruction_run(const instruction *what, std::initializer_list<ptx_operand> out,
                     std::initializer_list<ptx_operand> in, const sim::call_site &caller)
{
    bool predicates[PREDICATES_MAX] = {};
    if (what->statements.empty())
        for (const ptx_operand &o : out) group_name((uint32_t *)o.at);
    else
        group_named();
    for (const statement &s : what->statements) {
        ptx_operand list[OPERANDS_MAX];
        size_t count = 0;
        for (const place &p : s.places) {
            ptx_operand *o = &list[count++];
            if (p.is == place::NUMBER)
                *o = {'i', p.value, NULL};
            else if (p.is == place::PREDICATE)
                *o = {'P', predicates[p.value], &predicates[p.value]};
            else if (p.value < out.size())
                *o = out.begin()[p.value];
            else if (p.value < out.size() + in.size())
                *o = in.begin()[p.value - out.size()];
            else
                fail("%s: there is no operand %%%u", s.known->name, p.value);
            if (!fits(o->kind, p.wanted)) fail("%s: operand %%%u is of another kind", s.known->name, p.value);
        }
        s.known->run(list, caller);
    }
}

} // namespace sim
