/* Chooses among the CPU tables. Compiled once, for the oldest processor: code that runs before the choice
 * must run anywhere.
 *
 * The tables are built from the same sources (see KERNEL_SRC in the Makefile): each object exports only its
 * table. */
#include "kernels/device/cpu.h"

#include <cblas.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

extern const struct backend cpu_table_baseline;

#ifdef __x86_64__
extern const struct backend cpu_table_v3, cpu_table_v4;

/* F16C, MOVBE and LZCNT, which not every compiler's __builtin_cpu_supports can name. */
static bool has_v3_rest(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_F16C) || !(c & bit_MOVBE)) return false;
    return __get_cpuid(0x80000001u, &a, &b, &c, &d) && (c & bit_LZCNT);
}

static bool has_v3(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") && has_v3_rest();
}

static bool has_avx512(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

const struct backend *cpu_backend_for(const char *isa)
{
    if (strcmp(isa, "baseline") == 0) return &cpu_table_baseline;
#ifdef __x86_64__
    if (strcmp(isa, "v3") == 0 && has_v3()) return &cpu_table_v3;
    if (strcmp(isa, "v4") == 0 && has_v3() && has_avx512()) return &cpu_table_v4;
    if ((strcmp(isa, "v4-bf16") == 0 || strcmp(isa, "v4-dot") == 0) && __builtin_cpu_supports("avx512bf16"))
        return cpu_backend_for("v4");
#endif
    return NULL;
}

static bool is_amd(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}

const char *cpu_isa(void)
{
    static const char *const best_first[] = {"v4-dot", "v4-bf16", "v4", "v3", "baseline"};
    const char *wish = getenv("ANNEAL_CPU_ISA");
    for (size_t i = 0; wish != NULL && i < sizeof best_first / sizeof *best_first; i++)
        if (strcmp(wish, best_first[i]) == 0 && cpu_backend_for(wish) != NULL) return best_first[i];
    size_t best = is_amd() ? 0 : 1;
    while (cpu_backend_for(best_first[best]) == NULL) best++;
    return best_first[best];
}

bool cpu_has_bf16(void)
{
    return strcmp(cpu_isa(), "v4-bf16") == 0 || cpu_dots();
}

bool cpu_dots(void)
{
    return strcmp(cpu_isa(), "v4-dot") == 0;
}

const struct backend *cpu_backend(void)
{
    return cpu_backend_for(cpu_isa());
}

/* The kernels of OpenBLAS that use AVX2 and FMA, and those that use AVX-512, too. */
static const struct {
    const char *name;
    bool avx512;
} blas_cores[] = {{"Haswell", false},   {"Zen", false},           {"Excavator", false}, {"SkylakeX", true},
                  {"Cooperlake", true}, {"SapphireRapids", true}, {"Zen4", true}};

enum { BLAS_CORES = sizeof blas_cores / sizeof *blas_cores };

static int blas_core_index(const char *name)
{
    int i = 0;
    while (i < BLAS_CORES && strcasecmp(name, blas_cores[i].name) != 0) i++;
    return i;
}

const char *blas_core_instead(const char *chosen, bool avx2, bool avx512)
{
    if (!avx2 || blas_core_index(chosen) < BLAS_CORES) return NULL;
    return avx512 ? "SkylakeX" : "Haswell";
}

const char *blas_core(void)
{
    return blas_core_instead(openblas_get_corename(), cpu_backend_for("v3") != NULL,
                             cpu_backend_for("v4") != NULL);
}

bool blas_core_wastes(const char *chosen, bool avx2, bool avx512)
{
    int core = blas_core_index(chosen);
    return core == BLAS_CORES ? avx2 : avx512 && !blas_cores[core].avx512;
}

const char *blas_core_forced(void)
{
    const char *core = openblas_get_corename();
    bool wastes = blas_core_wastes(core, cpu_backend_for("v3") != NULL, cpu_backend_for("v4") != NULL);
    return getenv("OPENBLAS_CORETYPE") != NULL && wastes ? core : NULL;
}
