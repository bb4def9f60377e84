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

void with_isa(const char *isa, void (*body)(const struct sides *sides))
{
    struct err err;
    struct sides sides;
    bool emulated = strcmp(isa, EMULATED) == 0;
    if (emulated) isa = "v4-bf16";
    const struct backend *backend = cpu_backend_for(isa), *fp32 = backend;
    if (!backend) return;
#ifdef __x86_64__
    if (emulated) fp32 = &cpu_table_amx_emulated;
#endif
    setenv("ANNEAL_CPU_ISA", isa, 1);
    assert_int_equal(op_side_open(&sides.fp32, fp32, PRECISION_FP32, &err), STATUS_OK);
    assert_int_equal(op_side_open(&sides.bf16, backend, PRECISION_BF16, &err), STATUS_OK);
#ifdef __x86_64__
    if (emulated) {
        sides.bf16.stream->bf16 = &cpu_table_amx_emulated_bf16;
        sides.fp32.stream->product_way = sides.bf16.stream->product_way = WAY_AMX;
    }
#endif
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
