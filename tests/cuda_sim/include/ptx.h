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
    uint32_t word;
    void *at; /* the register that is set, the place in global memory, a shared_place */
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

static inline uint32_t bits_of(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

} // namespace sim

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

#define SET_WORD(x)                                                                                          \
    sim::ptx_operand                                                                                         \
    {                                                                                                        \
        'R', 0, &(x)                                                                                         \
    }
#define SET_FLOAT(x)                                                                                         \
    sim::ptx_operand                                                                                         \
    {                                                                                                        \
        'F', 0, &(x)                                                                                         \
    }
#define ADD_FLOAT(x)                                                                                         \
    sim::ptx_operand                                                                                         \
    {                                                                                                        \
        'A', sim::bits_of(x), &(x)                                                                           \
    }
#define WORD(x)                                                                                              \
    sim::ptx_operand                                                                                         \
    {                                                                                                        \
        'r', (uint32_t)(x), NULL                                                                             \
    }
#define FLOAT(x)                                                                                             \
    sim::ptx_operand                                                                                         \
    {                                                                                                        \
        'f', sim::bits_of(x), NULL                                                                           \
    }
#define CONSTANT(x)                                                                                          \
    sim::ptx_operand                                                                                         \
    {                                                                                                        \
        'i', (uint32_t)(x), NULL                                                                             \
    }
#define SHARED_AT(p)                                                                                         \
    sim::ptx_operand                                                                                         \
    {                                                                                                        \
        'S', 0, (void *)&(const sim::shared_place &)sim::shared_place_of(p)                                  \
    }
#define GLOBAL_AT(p)                                                                                         \
    sim::ptx_operand                                                                                         \
    {                                                                                                        \
        'G', 0, (void *)(p)                                                                                  \
    }

#endif
#endif
