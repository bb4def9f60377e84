/* See chip.h. Figures from NVIDIA's data sheets and architecture white papers; half of a figure that is given
 * with sparsity. */
#include "kernels/device/chip.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

struct published {
    const char *model;   /* words of the driver's name */
    int multiprocessors; /* of the whole chip: a MIG slice or a smaller chip of the same name has fewer */
    double teraflops[PRECISIONS];
};

/* In this order: the more specific name first. */
static const struct published table[] = {
    {"A100", 108, {19.5, 156, 312}},        {"A30", 56, {10.3, 82, 165}},
    {"A10", 72, {31.2, 62.5, 125}},         {"A40", 84, {37.4, 74.8, 149.7}},
    {"RTX 3090", 82, {35.6, 35.6, 71}},     {"L4", 58, {30.3, 60, 121}},
    {"L40S", 142, {91.6, 183, 362}},        {"L40", 142, {90.5, 90.5, 181}},
    {"RTX 4090", 128, {82.6, 82.6, 165.2}}, {"H100 PCIe", 114, {51.2, 378, 756}},
    {"H100 NVL", 132, {60, 417.5, 835}},    {"H100", 132, {66.9, 494.7, 989.4}},
    {"H200 NVL", 132, {60, 417.5, 835}},    {"H200", 132, {66.9, 494.7, 989.4}},
    {"GH200", 132, {66.9, 494.7, 989.4}},
};

/* Whether `name` contains `words`, with no letter or digit at either end. */
static bool names(const char *name, const char *words)
{
    size_t n = strlen(words);
    for (const char *at = strstr(name, words); at; at = strstr(at + 1, words))
        if ((at == name || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[n])) return true;
    return false;
}

/* Operations per clock of one multiprocessor. GeForce chips of 8.6 and 8.9 run tensor cores at half the rate
 * when they accumulate in fp32. */
static bool rates(const struct chip *chip, double out[PRECISIONS])
{
    double half = strstr(chip->name, "GeForce") ? 0.5 : 1;
    double cores = chip->major == 8 && chip->minor == 0    ? 64
                   : chip->major >= 8 && chip->major <= 12 ? 128
                                                           : 0;
    double bf16 = 0;
    if (chip->major == 8 && chip->minor == 0) bf16 = 2048;
    if (chip->major == 8 && (chip->minor == 6 || chip->minor == 9)) bf16 = 1024 * half;
    if (chip->major == 9 && chip->minor == 0) bf16 = 4096;
    out[PRECISION_FP32] = 2 * cores;
    out[PRECISION_TF32] = bf16 / 2;
    out[PRECISION_BF16] = bf16;
    return cores > 0;
}

enum chip_source chip_peaks(const struct chip *chip, double out[PRECISIONS])
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (chip->multiprocessors != table[i].multiprocessors || !names(chip->name, table[i].model)) continue;
        for (int p = 0; p < PRECISIONS; p++) out[p] = table[i].teraflops[p] * 1e12;
        return CHIP_PUBLISHED;
    }
    bool known = rates(chip, out) && chip->hertz > 0;
    for (int p = 0; p < PRECISIONS; p++) out[p] *= known ? chip->multiprocessors * chip->hertz : 0;
    return known ? CHIP_BY_CLOCK : CHIP_UNKNOWN;
}
