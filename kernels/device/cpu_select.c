/* Chooses among the CPU tables. Compiled once, for the oldest processor: code that runs before the choice
 * must run anywhere.
 *
 * The tables are built from the same sources (see KERNEL_SRC in the Makefile): each object exports only its
 * table. */
#include "kernels/device/cpu.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
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

/* Linux must be asked for the registers of tiles, once for all threads of a process. */
static bool has_amx(void)
{
    enum { TILES = 1 << 24, BF16 = 1 << 22, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & TILES) && (d & BF16) &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#endif

const struct backend *cpu_backend_for(const char *isa)
{
    if (strcmp(isa, "baseline") == 0) return &cpu_table_baseline;
#ifdef __x86_64__
    if (strcmp(isa, "v3") == 0 && has_v3()) return &cpu_table_v3;
    if (strcmp(isa, "v4") == 0 && has_v3() && has_avx512()) return &cpu_table_v4;
    bool amx = strcmp(isa, "v4-amx") == 0;
    if ((amx || strcmp(isa, "v4-bf16") == 0 || strcmp(isa, "v4-dot") == 0) &&
        __builtin_cpu_supports("avx512bf16") && (!amx || has_amx()))
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

static const char *const best_first[] = {"v4-amx", "v4-dot", "v4-bf16", "v4", "v3", "baseline"};
enum { ISAS = sizeof best_first / sizeof *best_first };

/* The index of ANNEAL_CPU_ISA in best_first; ISAS: it is another word. -1: not set. */
static int find_wish(void)
{
    const char *wish = getenv("ANNEAL_CPU_ISA");
    int i = 0;
    if (wish == NULL || !*wish) return -1;
    while (i < ISAS && strcmp(wish, best_first[i]) != 0) i++;
    return i;
}

static int find_best(void)
{
    int best = 0;
    while (cpu_backend_for(best_first[best]) == NULL ||
           (strcmp(best_first[best], "v4-dot") == 0 && !is_amd()))
        best++;
    return best;
}

const char *cpu_isa(void)
{
    int wish = find_wish();
    bool usable = wish >= 0 && wish < ISAS && cpu_backend_for(best_first[wish]) != NULL;
    return best_first[usable ? wish : find_best()];
}

const char *cpu_isa_note(char *buf, size_t size)
{
    int wish = find_wish();
    if (wish < 0) return NULL;
    if (wish < ISAS && cpu_backend_for(best_first[wish]) == NULL)
        snprintf(buf, size,
                 "ANNEAL_CPU_ISA = %s has no effect: this processor lacks it, and computes with %s",
                 best_first[wish], best_first[find_best()]);
    else if (wish == ISAS)
        snprintf(
            buf, size,
            "ANNEAL_CPU_ISA = %.40s has no effect (it must be baseline, v3, v4, v4-bf16, v4-dot or v4-amx)",
            getenv("ANNEAL_CPU_ISA"));
    else if (cpu_backend() != cpu_backend_for(best_first[find_best()]))
        snprintf(buf, size, "ANNEAL_CPU_ISA = %s: steps take longer than with %s, which this processor has",
                 best_first[wish], best_first[find_best()]);
    else
        return NULL;
    return buf;
}

bool cpu_has_bf16(void)
{
    return strcmp(cpu_isa(), "v4-bf16") == 0 || cpu_product_way() != WAY_FMA;
}

enum product_way cpu_product_way(void)
{
    const char *isa = cpu_isa();
    return strcmp(isa, "v4-amx") == 0 ? WAY_AMX : strcmp(isa, "v4-dot") == 0 ? WAY_DOTS : WAY_FMA;
}

const struct backend *cpu_backend(void)
{
    return cpu_backend_for(cpu_isa());
}
