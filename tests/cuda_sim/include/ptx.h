/* kernels/ptx.cuh in the simulator: an instruction is read from its text, once, and runs on the operands that
 * the text names; see ptx.cc. */
#ifndef ANNEAL_TESTS_CUDA_SIM_PTX_H
#define ANNEAL_TESTS_CUDA_SIM_PTX_H
#ifdef __cplusplus

#include <cuda_runtime.h>

#include <initializer_list>

namespace sim {

/* An operand, of OUT or of IN. kind: its letter in the signatures of ptx.cc. */
struct ptx_operand {
    char kind;
    uint64_t word;
    void *at; /* the register, the place in global memory, a shared_place, a tensor's map */
};

/* A place in shared memory, of whatever type. */
struct shared_place {
    struct span (*span)(const void *pointer, size_t bytes);
    const void *pointer;
};
template <typename T> shared_place shared_place_of(const pointer<T> &p)
{
    return {[](const void *at, size_t bytes) { return ((const pointer<T> *)at)->span(bytes); }, &p};
}

/* The line of a call. clang 14 does not know std::source_location. */
struct call_site {
    const char *file;
    int line;
    static call_site here(const char *file = __builtin_FILE(), int line = __builtin_LINE())
    {
        return {file, line};
    }
};

struct instruction;
const instruction *instruction_read(const char *text);
void instruction_run(const instruction *what, std::initializer_list<ptx_operand> out,
                     std::initializer_list<ptx_operand> in, const call_site &caller);

uint32_t shared_address(const span &at);

static inline uint32_t bits_of(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

/* A word's register is known where it is a variable. */
static inline ptx_operand word_operand(const uint32_t &x)
{
    return {'r', x, (void *)&x};
}
static inline ptx_operand float_operand(char kind, const float &x)
{
    return {kind, bits_of(x), (void *)&x};
}
static inline ptx_operand number_operand(char kind, uint64_t x)
{
    return {kind, x, NULL};
}
static inline ptx_operand place_operand(char kind, void *at)
{
    return {kind, 0, at};
}

} // namespace sim

/* Of dynamic shared memory alone. */
template <typename T> size_t __cvta_generic_to_shared(const sim::pointer<T> &at)
{
    return sim::shared_address(at.span(16));
}

#define PTX_CALLER sim::call_site caller = sim::call_site::here()
#define PTX(text, out, in)                                                                                   \
    do {                                                                                                     \
        static const sim::instruction *const instruction = sim::instruction_read(text);                      \
        sim::instruction_run(instruction, {out}, {in}, caller);                                              \
    } while (0)
#define PTX_REGISTERS(text, out, in) PTX(text, OUT(out), IN(in))
#define PTX_PURE(text, out, in)      PTX(text, OUT(out), IN(in))
#define OUT(...)                     __VA_ARGS__
#define IN(...)                      __VA_ARGS__

#define SET_WORD(x)  sim::place_operand('R', &(x))
#define SET_FLOAT(x) sim::place_operand('F', &(x))
#define ADD_WORD(x)  sim::place_operand('B', &(x))
#define ADD_FLOAT(x) sim::float_operand('A', x)
#define WORD(x)      sim::word_operand(x)
#define LONG(x)      sim::number_operand('l', x)
#define FLOAT(x)     sim::float_operand('f', x)
#define CONSTANT(x)  sim::number_operand('i', (uint32_t)(x))
#define SHARED_AT(p) sim::place_operand('S', (void *)&(const sim::shared_place &)sim::shared_place_of(p))
#define GLOBAL_AT(p) sim::place_operand('G', (void *)(p))
#define TENSOR_AT(p) sim::place_operand('T', (void *)(p))

#endif
#endif
