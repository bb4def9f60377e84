/* See chip.h. Figures from NVIDIA's data sheets and architecture white papers: half of a rate that is given
 * with sparsity, and half of a link's that counts both directions. A bridge that joins only two cards is not
 * counted as a link: PCI Express joins all of a host. */
#include "kernels/device/chip.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NVLINK "NVLink"
#define PCIE4  "PCI Express 4.0"
#define PCIE5  "PCI Express 5.0"

/* In this order: the more specific name first. */
static const struct chip_sheet table[] = {
    {"a100", "A100-SXM4-80GB", 8, 108, {19.5, 156, 312}, 80, 2039, 300, NVLINK},
    {"a100-40gb", "A100-SXM4-40GB", 8, 108, {19.5, 156, 312}, 40, 1555, 300, NVLINK},
    {"a100-pcie", "A100 80GB PCIe", 8, 108, {19.5, 156, 312}, 80, 1935, 32, PCIE4},
    {"a100-pcie-40gb", "A100-PCIE-40GB", 8, 108, {19.5, 156, 312}, 40, 1555, 32, PCIE4},
    {NULL, "A100", 8, 108, {19.5, 156, 312}, 40, 1555, 32, PCIE4},
    {"a30", "A30", 8, 56, {10.3, 82, 165}, 24, 933, 32, PCIE4},
    {"a10", "A10", 8, 72, {31.2, 62.5, 125}, 24, 600, 32, PCIE4},
    {"a40", "A40", 8, 84, {37.4, 74.8, 149.7}, 48, 696, 32, PCIE4},
    {"rtx3090", "RTX 3090", 8, 82, {35.6, 35.6, 71}, 24, 936, 32, PCIE4},
    {"l4", "L4", 8, 58, {30.3, 60, 121}, 24, 300, 32, PCIE4},
    {"l40s", "L40S", 8, 142, {91.6, 183, 362}, 48, 864, 32, PCIE4},
    {"l40", "L40", 8, 142, {90.5, 90.5, 181}, 48, 864, 32, PCIE4},
    {"rtx4090", "RTX 4090", 8, 128, {82.6, 82.6, 165.2}, 24, 1008, 32, PCIE4},
    {"h100-pcie", "H100 PCIe", 9, 114, {51.2, 378, 756}, 80, 2000, 64, PCIE5},
    {"h100-nvl", "H100 NVL", 9, 132, {60, 417.5, 835}, 94, 3900, 64, PCIE5},
    {"h100", "H100", 9, 132, {66.9, 494.7, 989.4}, 80, 3350, 450, NVLINK},
    {"h200-nvl", "H200 NVL", 9, 132, {60, 417.5, 835}, 141, 4800, 64, PCIE5},
    {"h200", "H200", 9, 132, {66.9, 494.7, 989.4}, 141, 4800, 450, NVLINK},
    {"gh200", "GH200", 9, 132, {66.9, 494.7, 989.4}, 96, 4000, 450, NVLINK},
};
enum { SHEETS = sizeof table / sizeof *table };

const struct chip_sheet *chip_find(const char *word)
{
    for (int i = 0; i < SHEETS; i++)
        if (table[i].word && strcasecmp(table[i].word, word) == 0) return &table[i];
    return NULL;
}

char *chip_words(char *buf, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < SHEETS && used < size; i++)
        if (table[i].word)
            used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? ", " : "", table[i].word);
    return buf;
}

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
    for (int i = 0; i < SHEETS; i++) {
        if (chip->multiprocessors != table[i].multiprocessors || !names(chip->name, table[i].model)) continue;
        for (int p = 0; p < PRECISIONS; p++) out[p] = table[i].teraflops[p] * 1e12;
        return CHIP_PUBLISHED;
    }
    bool known = rates(chip, out) && chip->hertz > 0;
    for (int p = 0; p < PRECISIONS; p++) out[p] *= known ? chip->multiprocessors * chip->hertz : 0;
    return known ? CHIP_BY_CLOCK : CHIP_UNKNOWN;
}
