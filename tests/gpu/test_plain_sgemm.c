/* Compares the matrix product of gpu-check's reference with one in double precision. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>

#include "core/base/philox.h"
#include "tests/gpu/plain_sgemm.h"

static float *filled(size_t n, uint32_t seed)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = 2 * philox_uniform(philox4x32_10((uint32_t)i, 0, 0, 0, seed, 9).word[0]) - 1;
    return x;
}

/* Rows are longer than needed, and the gaps between them must not change. */
static void expect_product(int M, int N, int K, bool transpose_a, bool transpose_b, bool accumulate)
{
    int lda = (transpose_a ? M : K) + 3, ldb = (transpose_b ? K : N) + 1, ldo = N + 2;
    float *a = filled((size_t)(transpose_a ? K : M) * (size_t)lda, 1),
          *b = filled((size_t)(transpose_b ? N : K) * (size_t)ldb, 2), *out = filled((size_t)(M * ldo), 3),
          *before = filled((size_t)(M * ldo), 3);
    if (!accumulate) /* what is overwritten must not be read */
        for (int m = 0; m < M; m++)
            for (int n = 0; n < N; n++) out[m * ldo + n] = NAN;
    plain_sgemm(transpose_a, transpose_b, M, N, K, a, lda, b, ldb, accumulate, out, ldo);
    double apart = 0, size = 0;
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            double want = accumulate ? (double)before[m * ldo + n] : 0;
            for (int k = 0; k < K; k++)
                want += (double)a[transpose_a ? k * lda + m : m * lda + k] *
                        (double)b[transpose_b ? n * ldb + k : k * ldb + n];
            double d = (double)out[m * ldo + n] - want;
            apart += d * d;
            size += want * want;
        }
        assert_memory_equal(out + m * ldo + N, before + m * ldo + N, 2 * sizeof(float));
    }
    if (!(apart <= 1e-12 * size)) /* 1e-6, as numerics.md asks of the twins 1e-5 */
        fail_msg("(%d,%d,%d) %d%d%d: relative error %.3g", M, N, K, transpose_a, transpose_b, accumulate,
                 sqrt(apart / size));
    free(a), free(b), free(out), free(before);
}

static void every_form_at_the_edges_of_its_blocks(void **state)
{
    (void)state;
    static const int shapes[][3] = {{1, 1, 1},    {6, 32, 1},     {5, 31, 7},     {7, 33, 255},
                                    {96, 2, 256}, {97, 257, 257}, {61, 256, 300}, {193, 300, 513}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 8; form++)
            expect_product(shapes[i][0], shapes[i][1], shapes[i][2], form & 1, form & 2, form & 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_at_the_edges_of_its_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
