/* PTX instructions. PTX(text, OUT(…), IN(…)) is one: its text, in which %0, %1 … stand for the operands in
 * their order; or several in braces, which share predicates. nvcc compiles both. The simulator of
 * tests/cuda_sim reads the text, too, and runs the named instructions on the operands where the text has
 * them; so one that is swapped, missing, or of another kind is found there. A device function with an
 * instruction ends its parameters with PTX_CALLER, the place that the simulator names in a finding. */
#ifndef ANNEAL_KERNELS_PTX_CUH
#define ANNEAL_KERNELS_PTX_CUH

#ifdef ANNEAL_CUDA_SIM
#include <ptx.h>
#else

#define PTX(text, out, in)           asm volatile(text:out:in : "memory")
#define PTX_REGISTERS(text, out, in) asm volatile(text:out : in) /* touches no memory */
#define PTX_PURE(text, out, in)      asm(text:out : in)          /* depends on its operands alone */
#define OUT(...)                     __VA_ARGS__
#define IN(...)                      __VA_ARGS__
#define PTX_CALLER                   int = 0

/* Results, also one that is added to, and inputs. */
#define SET_WORD(x)                  "=r"(x)
#define SET_FLOAT(x)                 "=f"(x)
#define ADD_WORD(x)                  "+r"(x)
#define ADD_FLOAT(x)                 "+f"(x)
#define WORD(x)                      "r"(x)
#define LONG(x)                      "l"(x)
#define FLOAT(x)                     "f"(x)
#define CONSTANT(x)                  "n"(x)
#define SHARED_AT(p)                 "r"((uint32_t)__cvta_generic_to_shared(p))
#define GLOBAL_AT(p)                 "l"(__cvta_generic_to_global(p))
#define TENSOR_AT(p)                 "l"(p) /* its map, a parameter of the kernel */

#endif

#endif
