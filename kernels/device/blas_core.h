/* Which of its kernels OpenBLAS should use. It knows processors by family and model, and takes one that came
 * after it for one of the oldest: with the release of Debian 12 a Xeon with AVX-512 then multiplies matrices
 * with SSE3. What a processor can do is known without its name. */
#ifndef ANNEAL_KERNELS_DEVICE_BLAS_CORE_H
#define ANNEAL_KERNELS_DEVICE_BLAS_CORE_H

#include <stdbool.h>

/* The name for $OPENBLAS_CORETYPE, which is read before main; NULL: OpenBLAS has chosen well, or nothing
 * better is known. Static text. */
const char *blas_core(void);

/* The same for an OpenBLAS that has chosen `chosen`, on a processor with AVX2 and FMA, or with AVX-512 too.
 */
const char *blas_core_instead(const char *chosen, bool avx2, bool avx512);

#endif
