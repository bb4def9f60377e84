/* Reads the text of PTX instructions (kernels/ptx.cuh) and runs them, with the functions of tensor_core.cc.
 *
 * A signature has a letter for every operand, in the order of the text: R a word that is set, F a float that
 * is set, r and f those that are read, S an address in shared and G one in global memory, i a number that is
 * known to the compiler. Braces, commas and brackets are those of the text. */
#include <stdlib.h>

#include <vector>

#include "tests/cuda_sim/machine.hh"

#include <ptx.h>
#include <tensor_core.h>

namespace {

/* The operands in the order of the text. */
using operands = sim::ptx_operand *;

float number(const sim::ptx_operand &o)
{
    float x;
    memcpy(&x, &o.word, sizeof x);
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
    for (int i = 0; i < 4; i++) d[i] = (float *)o[i].at, a[i] = o[4 + i].word, c[i] = number(o[10 + i]);
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

void cp_async_commit(operands, const sim::call_site &)
{
    sim::copy_commit();
}

void cp_async_wait(operands o, const sim::call_site &at)
{
    sim::copy_wait((int)o[0].word, at.file, at.line);
}

void ex2(operands o, const sim::call_site &)
{
    float y = exp2f(number(o[1]));
    *(float *)o[0].at = std::fpclassify(y) == FP_SUBNORMAL ? 0.0f : y;
}

template <int WORDS> void st_global(operands o, const sim::call_site &)
{
    uint32_t *to = (uint32_t *)o[0].at;
    if ((uintptr_t)to % (4 * WORDS) != 0) sim::fail("misaligned access: %p, %d bytes", (void *)to, 4 * WORDS);
    sim::memory_touched(to, 4 * WORDS, true);
    for (int i = 0; i < WORDS; i++) to[i] = o[1 + i].word;
}

const struct definition {
    const char *name, *signature;
    void (*run)(operands, const sim::call_site &);
} definitions[] = {
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "{F,F,F,F},{r,r,r,r},{r,r},{f,f,f,f}", mma},
    {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", "{R,R,R,R},[S]", ldmatrix<false>},
    {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "{R,R,R,R},[S]", ldmatrix<true>},
    {"cp.async.cg.shared.global", "[S],[G],i,r", cp_async},
    {"cp.async.ca.shared.global", "[S],[G],i,r", cp_async},
    {"cp.async.commit_group", "", cp_async_commit},
    {"cp.async.wait_group", "i", cp_async_wait},
    {"ex2.approx.ftz.f32", "F,f", ex2},
    {"st.global.v2.b32", "[G],{r,r}", st_global<2>},
    {"st.global.v4.b32", "[G],{r,r,r,r}", st_global<4>},
};

/* Whether an operand may stand where the signature has `wanted`. One that is added to is also read. */
bool fits(char kind, char wanted)
{
    return kind == wanted || (kind == 'A' && (wanted == 'F' || wanted == 'f'));
}

} // namespace

namespace sim {

enum { OPERANDS_MAX = 16 };

/* An operand of the text: a number of OUT and IN, or, where that is −1, a value; and its letter. */
struct place {
    int number;
    uint32_t value;
    char wanted;
};

struct instruction {
    const char *text;
    const definition *known;
    std::vector<place> places;
};

const instruction *instruction_read(const char *text)
{
    instruction *out = new instruction{text, NULL, {}};
    size_t length = strcspn(text, " ;");
    for (const definition &k : definitions)
        if (strlen(k.name) == length && strncmp(k.name, text, length) == 0) out->known = &k;
    if (out->known == NULL) fail("the simulator does not know the instruction \"%s\"", text);
    const char *at = text + length;
    for (const char *s = out->known->signature; *s; s++) {
        while (*at == ' ') at++;
        if (strchr("{}[],", *s)) {
            if (*at++ != *s) fail("\"%s\" has other operands than %s", text, out->known->signature);
            continue;
        }
        bool numbered = *at == '%';
        char *end;
        place p = {-1, (uint32_t)strtoul(at + numbered, &end, 10), *s};
        if (end == at + numbered || (!numbered && *s != 'i'))
            fail("\"%s\" has other operands than %s", text, out->known->signature);
        if (numbered) p.number = (int)p.value;
        out->places.push_back(p);
        at = end;
    }
    if (strcmp(at, ";") != 0) fail("\"%s\" does not end after %s", text, out->known->signature);
    return out;
}

void instruction_run(const instruction *what, std::initializer_list<ptx_operand> out,
                     std::initializer_list<ptx_operand> in, const sim::call_site &caller)
{
    ptx_operand list[OPERANDS_MAX];
    size_t count = 0;
    for (const place &p : what->places) {
        ptx_operand *o = &list[count++];
        if (p.number < 0)
            *o = {'i', p.value, NULL};
        else if ((size_t)p.number < out.size())
            *o = out.begin()[p.number];
        else if ((size_t)p.number < out.size() + in.size())
            *o = in.begin()[(size_t)p.number - out.size()];
        else
            fail("\"%s\" has no operand %%%d", what->text, p.number);
        if (!fits(o->kind, p.wanted)) fail("\"%s\": operand %%%d is of another kind", what->text, p.number);
    }
    what->known->run(list, caller);
}

} // namespace sim
