/* Kernels as nvcc compiles them: PTX, which the simulator reads and runs instruction by instruction instead
 * of the kernel that the C++ compiler has made of the same source. So the tests of kernels also test what a
 * GPU's driver is given. ANNEAL_SIM_PTX names their folder; `make ptx` does that. */
#ifndef ANNEAL_TESTS_CUDA_SIM_COMPILED_HH
#define ANNEAL_TESTS_CUDA_SIM_COMPILED_HH

#include <stdint.h>

#include <string>
#include <vector>

#include "tests/cuda_sim/machine.hh"

namespace sim {

struct frame;
struct compiled;

/* Each operand is a register or, below 0, a constant. */
struct instruction_of_kernel {
    void (*run)(frame &f, const instruction_of_kernel &i);
    const int32_t *operand;
    uint32_t first, operands; /* place in compiled.operands, and how many */
    int32_t condition;        /* a predicate's register; -1: always */
    bool unless;              /* runs where the predicate is false */
    bool takes_apart;         /* the first operand is several registers: a mov from a wider one */
    int line;                 /* of the file */
    /* of a load or store */
    char space; /* of "global", "shared", "param", "local" */
    uint8_t count, bytes;
    bool is_signed, is_constant; /* is_constant: of memory that the kernel does not write */
    int64_t offset;              /* added to the address */
    uint32_t target;             /* where a branch goes */
    const compiled *callee;      /* of a call, whose first `count` operands are results */
};

/* A .param or .local: a register holds its address. */
struct place_of_kernel {
    int32_t address;
    size_t offset, bytes;
};

/* A kernel, or a function that one calls. */
struct compiled {
    std::string name;
    std::vector<instruction_of_kernel> code;
    std::vector<int32_t> operands;
    std::vector<uint64_t> constants;
    int32_t registers;
    std::vector<std::pair<int32_t, const char *>> built_in; /* registers of %tid.x and so on */
    std::vector<place_of_kernel> params; /* results first, parameters behind, then others */
    size_t results, parameters;          /* how many */
    std::vector<place_of_kernel> locals;
    size_t param_bytes, local_bytes, shared_bytes; /* shared_bytes: static ones */
};

/* Where static shared memory begins; dynamic memory begins at 0. */
constexpr uint32_t STATIC_SHARED = 1 << 20;

/* A thread's registers during a call; ~n is constant n. */
struct frame {
    const compiled *of;
    uint64_t *registers;
    size_t next;
};

/* How to run the instruction of this name; false: unknown. */
bool instruction_named(const std::string &name, instruction_of_kernel *out);
/* results, parameters: memory of the caller, in the order of the declaration. */
void function_run(const compiled &c, void *const *results, const void *const *parameters);
/* Reads the kernels of a file. */
void compiled_read(const char *path, std::vector<compiled *> *out);

} // namespace sim

#endif
