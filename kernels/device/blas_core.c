/* See blas_core.h. */
#include "kernels/device/blas_core.h"

#include <cblas.h>
#include <stddef.h>
#include <strings.h>

#include "kernels/device/cpu.h"

const char *blas_core_instead(const char *chosen, bool avx2, bool avx512)
{
    static const char *const with_avx2[] = {"Haswell",        "Zen", "Excavator", "SkylakeX", "Cooperlake",
                                            "SapphireRapids", "Zen4"};
    if (!avx2) return NULL;
    for (size_t i = 0; i < sizeof with_avx2 / sizeof *with_avx2; i++)
        if (strcasecmp(chosen, with_avx2[i]) == 0) return NULL;
    return avx512 ? "SkylakeX" : "Haswell";
}

const char *blas_core(void)
{
    return blas_core_instead(openblas_get_corename(), cpu_backend_for("v3") != NULL,
                             cpu_backend_for("v4") != NULL);
}
