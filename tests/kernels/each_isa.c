/* See each_isa.h. */
#include "tests/kernels/each_isa.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/device/cpu.h"
#include "kernels/device/cpu_device.h"
#include "tests/cmocka.h"

const char EMULATED[] = "v4-bf16 with AMX in plain C";

#ifdef __x86_64__
extern const struct backend cpu_table_amx_emulated, cpu_table_amx_emulated_bf16;
#endif

/* The instruction set that the emulation needs. */
static const char *real_isa(const char *isa)
{
    return strcmp(isa, EMULATED) == 0 ? "v4-bf16" : isa;
}

const struct backend *isa_backend(const char *isa)
{
    const struct backend *backend = cpu_backend_for(real_isa(isa));
#ifdef __x86_64__
    if (backend && strcmp(isa, EMULATED) == 0) return &cpu_table_amx_emulated;
#endif
    return backend;
}

void isa_apply(struct stream *stream, const char *isa)
{
    bool emulated = strcmp(isa, EMULATED) == 0;
    stream->product_way = emulated || strcmp(isa, "v4-amx") == 0 ? WAY_AMX
                          : strcmp(isa, "v4-dot") == 0           ? WAY_DOTS
                                                                 : WAY_FMA;
#ifdef __x86_64__
    if (emulated) stream->bf16 = &cpu_table_amx_emulated_bf16;
#endif
}

void with_isa(const char *isa, void (*body)(const struct sides *sides))
{
    struct err err;
    struct sides sides;
    if (!isa_backend(isa)) return;
    setenv("ANNEAL_CPU_ISA", real_isa(isa), 1);
    assert_int_equal(op_side_open(&sides.fp32, isa_backend(isa), PRECISION_FP32, &err), STATUS_OK);
    assert_int_equal(op_side_open(&sides.bf16, cpu_backend_for(real_isa(isa)), PRECISION_BF16, &err),
                     STATUS_OK);
    isa_apply(sides.fp32.stream, isa);
    isa_apply(sides.bf16.stream, isa);
    body(&sides);
    op_side_close(&sides.fp32);
    op_side_close(&sides.bf16);
    unsetenv("ANNEAL_CPU_ISA");
}

void each_isa(void (*body)(const struct sides *sides))
{
    const char *const isas[] = {"baseline", "v3", "v4", "v4-bf16", "v4-dot", "v4-amx", EMULATED};
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) with_isa(isas[i], body);
}

void with_best_isa(void (*body)(const struct sides *sides))
{
    with_isa(cpu_isa(), body);
    if (!cpu_backend_for("v4-amx")) with_isa(EMULATED, body);
}
