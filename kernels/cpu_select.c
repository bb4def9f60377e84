/* Chooses among the CPU tables, and OpenBLAS's kernels. Compiled once, for the oldest processor: what runs
 * before the choice must run anywhere.
 *
 * The tables are built from the same sources (see KERNEL_SRC in the Makefile): each object exports only its
 * table. */
#include "kernels/cpu.h"

#include <cblas.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
#endif
    return NULL;
}

const char *cpu_isa(void)
{
    static const char *const best_first[] = {"v4", "v3", "baseline"};
    const char *wish = getenv("ANNEAL_CPU_ISA");
    for (size_t i = 0; wish != NULL && i < 3; i++)
        if (strcmp(wish, best_first[i]) == 0 && cpu_backend_for(wish) != NULL) return best_first[i];
    for (size_t i = 0; i < 2; i++)
        if (cpu_backend_for(best_first[i]) != NULL) return best_first[i];
    return "baseline";
}

const struct backend *cpu_backend(void)
{
    return cpu_backend_for(cpu_isa());
}

const char *cpu_blas_wanted_coretype(void)
{
#ifdef __x86_64__
    static const char *const with_avx512[] = {"SkylakeX", "Cooperlake", "Sapphirerapids"};
    const char *set = getenv("OPENBLAS_CORETYPE");
    if ((set != NULL && *set != '\0') || !has_v3() || !has_avx512()) return NULL;
    const char *core = openblas_get_corename();
    for (size_t i = 0; i < sizeof with_avx512 / sizeof *with_avx512; i++)
        if (strcasecmp(core, with_avx512[i]) == 0) return NULL;
    return "SkylakeX";
#else
    return NULL;
#endif
}

void cpu_blas_reexec(char **argv)
{
    const char *wanted = cpu_blas_wanted_coretype();
    if (wanted == NULL || getenv("ANNEAL_REEXECUTED") != NULL) return;
    if (setenv("ANNEAL_REEXECUTED", "1", 1) != 0) return;
    if (setenv("OPENBLAS_CORETYPE", wanted, 1) == 0) execv("/proc/self/exe", argv);
    unsetenv("OPENBLAS_CORETYPE");
    unsetenv("ANNEAL_REEXECUTED");
}
