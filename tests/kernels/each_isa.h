/* The CPU's tables for every instruction set that this processor has, in fp32 and in bf16. */
#ifndef ANNEAL_TESTS_KERNELS_EACH_ISA_H
#define ANNEAL_TESTS_KERNELS_EACH_ISA_H

#include "tests/gpu/op_cases.h"

/* In the place of an instruction set: AMX in plain C (amx_emulated.h), on a processor that has v4-bf16. */
extern const char EMULATED[];

/* The table in fp32 of an instruction set; NULL: this processor lacks it. */
const struct backend *isa_backend(const char *isa);

/* Lets a stream compute as with this instruction set, whatever the process chose. */
void isa_apply(struct stream *stream, const char *isa);

struct sides {
    struct op_side fp32, bf16;
};

/* Runs the body with streams that compute with this instruction set, if the processor has it. cpu_isa() names
 * it meanwhile. */
void with_isa(const char *isa, void (*body)(const struct sides *sides));

void each_isa(void (*body)(const struct sides *sides));

/* The best one and, if that is not AMX, the emulation. */
void with_best_isa(void (*body)(const struct sides *sides));

#endif
