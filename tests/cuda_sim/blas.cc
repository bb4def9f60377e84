/* See tests/cuda_sim/include/cublasLt.h. */
#include <cblas.h>
#include <cublasLt.h>

#include <vector>

#include "tests/cuda_sim/machine.hh"

struct sim_blas {
    int unused;
};
struct sim_matmul {
    cublasOperation_t a, b;
};
struct sim_layout {
    uint64_t rows, columns;
    int64_t leading;
};
struct sim_preference {
    uint32_t alignment[4]; /* of A, B, C, D, in bytes; 256 as in cuBLASLt unless told */
};

static uint64_t heuristics;

extern "C" uint64_t sim_heuristics(void)
{
    return heuristics;
}

/* A handle that is never destroyed, because its device is lost, is no leak. */
static auto &handles = *new std::vector<sim_blas *>;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    handles.push_back(*out = new sim_blas());
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    std::erase(handles, handle);
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t, cudaDataType_t)
{
    *out = new sim_matmul{CUBLAS_OP_N, CUBLAS_OP_N};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    delete desc;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t size)
{
    if (size != sizeof(cublasOperation_t)) return CUBLAS_STATUS_INVALID_VALUE;
    (what == CUBLASLT_MATMUL_DESC_TRANSA ? desc->a : desc->b) = *(const cublasOperation_t *)value;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType_t, uint64_t rows,
                                          uint64_t columns, int64_t leading)
{
    if (rows == 0 || columns == 0 || leading < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
    *out = new sim_layout{rows, columns, leading};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = new sim_preference{{256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t)
{
    if (what >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
        preference->alignment[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] = *(const uint32_t *)value;
    return CUBLAS_STATUS_SUCCESS;
}

/* op(a) is (M,K), op(b) is (K,N), c and d are (M,N). */
static bool shapes_agree(const sim_matmul *desc, const sim_layout *a, const sim_layout *b,
                         const sim_layout *c, const sim_layout *d)
{
    uint64_t M = desc->a == CUBLAS_OP_N ? a->rows : a->columns,
             K = desc->a == CUBLAS_OP_N ? a->columns : a->rows;
    uint64_t N = desc->b == CUBLAS_OP_N ? b->columns : b->rows,
             L = desc->b == CUBLAS_OP_N ? b->rows : b->columns;
    return K == L && d->rows == M && d->columns == N && c->rows == M && c->columns == N;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *found)
{
    heuristics++;
    *found = 0;
    if (wanted < 1 || !shapes_agree(desc, a, b, c, d)) return CUBLAS_STATUS_NOT_SUPPORTED;
    unsigned least = 256;
    for (unsigned alignment : preference->alignment) least = alignment < least ? alignment : least;
    results[0] = {{least}, 0, CUBLAS_STATUS_SUCCESS};
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

static void expect(const void *at, const sim_layout *l, unsigned alignment, const char *what)
{
    sim::memory_expect(at, ((size_t)(l->columns - 1) * (size_t)l->leading + l->rows) * sizeof(float), what);
    if ((uintptr_t)at % alignment != 0)
        sim::fail("cublasLtMatmul: %s is not aligned to %u bytes, as the heuristic was told", what,
                  alignment);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t layout_a, const void *b, cublasLtMatrixLayout_t layout_b,
                              const void *beta, const void *c, cublasLtMatrixLayout_t layout_c, void *d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t)
{
    if (!shapes_agree(desc, layout_a, layout_b, layout_c, layout_d) || c != d)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!sim::launch_runs("cublasLtMatmul")) return CUBLAS_STATUS_SUCCESS; /* what is wrong comes out later */
    expect(a, layout_a, algo->alignment, "matrix A");
    expect(b, layout_b, algo->alignment, "matrix B");
    expect(d, layout_d, algo->alignment, "matrix D");
    sim::memory_expect(workspace, workspace_bytes, "the workspace");
    sim::memory_open(true);
    uint64_t K = desc->a == CUBLAS_OP_N ? layout_a->columns : layout_a->rows;
    cblas_sgemm(CblasColMajor, desc->a == CUBLAS_OP_N ? CblasNoTrans : CblasTrans,
                desc->b == CUBLAS_OP_N ? CblasNoTrans : CblasTrans, (int)layout_d->rows,
                (int)layout_d->columns, (int)K, *(const float *)alpha, (const float *)a,
                (int)layout_a->leading, (const float *)b, (int)layout_b->leading, *(const float *)beta,
                (float *)d, (int)layout_d->leading);
    sim::memory_check("cublasLtMatmul");
    sim::memory_open(false);
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS         ? "success"
           : status == CUBLAS_STATUS_INVALID_VALUE ? "an unsupported value"
                                                   : "not supported";
}
