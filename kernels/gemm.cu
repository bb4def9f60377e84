/* CUDA twin of gemm.h, on cuBLASLt in fp32 (CUBLAS_COMPUTE_32F: no tensor-core rounding).
 *
 * cuBLASLt is column-major: the row-major product out = op(a) op(b) is the column-major outᵀ = op(b)ᵀ op(a)ᵀ,
 * and a row-major matrix is its own transpose in column-major order, so the operands change places and
 * nothing is copied.
 *
 * Descriptors and the chosen algorithm are kept per shape (and per alignment of the operands, of which the
 * choice depends): after a shape's first product a call is one cublasLtMatmul. Only reductions in a fixed
 * order are allowed. A stream has one workspace, as its products run one after the other. */
#include "kernels/cuda_device.cuh"
#include "kernels/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 128, WORKSPACE = 32 << 20 };

struct gemm_key {
    int M, N, K, alignment; /* alignment: bytes, 4 to 256 */
    int flags;              /* 1 transpose_a, 2 transpose_b */
};

struct gemm_entry {
    struct gemm_key key; /* M 0: free */
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, out;
    cublasLtMatmulAlgo_t algorithm;
};

struct gemm_cache {
    struct gemm_entry entries[ENTRIES];
    unsigned next_out; /* which entry makes room when all are taken */
    void *workspace;
};

enum status gemm_cache_open(struct stream *stream, struct err *err)
{
    struct gemm_cache *cache = (struct gemm_cache *)calloc(1, sizeof *cache);
    if (cache == NULL) return err_set(err, STATUS_NO_MEMORY, "cuda: no memory for the products' descriptors");
    cudaError_t error = cudaMalloc(&cache->workspace, WORKSPACE);
    if (error != cudaSuccess) {
        free(cache);
        return err_set(err, STATUS_NO_MEMORY, "cuda: no room for cuBLASLt's workspace of %d MiB: %s",
                       WORKSPACE >> 20, cudaGetErrorString(error));
    }
    stream->gemm = cache;
    return STATUS_OK;
}

static void entry_release(struct gemm_entry *entry)
{
    if (entry->a != NULL) cublasLtMatrixLayoutDestroy(entry->a);
    if (entry->b != NULL) cublasLtMatrixLayoutDestroy(entry->b);
    if (entry->out != NULL) cublasLtMatrixLayoutDestroy(entry->out);
    if (entry->product != NULL) cublasLtMatmulDescDestroy(entry->product);
    memset(entry, 0, sizeof *entry);
}

void gemm_cache_close(struct stream *stream)
{
    struct gemm_cache *cache = stream->gemm;
    if (cache == NULL) return;
    for (int i = 0; i < ENTRIES; i++) entry_release(&cache->entries[i]);
    if (!stream->device->lost) cudaFree(cache->workspace);
    free(cache);
    stream->gemm = NULL;
}

/* The largest power of two up to 256 that divides every address. */
static int common_alignment(const void *a, const void *b, const void *c)
{
    uintptr_t bits = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | 256;
    return (int)(bits & (~bits + 1));
}

/* The algorithm that cuBLASLt's heuristic puts first, for operands of this alignment. */
static cublasStatus_t choose(struct gemm_entry *e, cublasLtHandle_t blas)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t result;
    uint64_t workspace = WORKSPACE;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = (uint32_t)e->key.alignment;
    int found = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &workspace, sizeof workspace);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                      &schemes, sizeof schemes);
    for (int i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++)
        status =
            cublasLtMatmulPreferenceSetAttribute(preference, alignments[i], &alignment, sizeof alignment);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoGetHeuristic(blas, e->product, e->a, e->b, e->out, e->out, preference, 1,
                                                &result, &found);
    if (status == CUBLAS_STATUS_SUCCESS && found == 0) status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (status == CUBLAS_STATUS_SUCCESS) e->algorithm = result.algo;
    if (preference != NULL) cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

/* In cuBLASLt's words its A is our b and its B our a. */
static cublasStatus_t entry_fill(struct gemm_entry *e, struct gemm_key key, cublasLtHandle_t blas)
{
    bool transpose_a = key.flags & 1, transpose_b = key.flags & 2;
    uint64_t M = (uint64_t)key.M, N = (uint64_t)key.N, K = (uint64_t)key.K;
    cublasOperation_t op_a = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                      op_b = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    e->key = key;
    cublasStatus_t status = cublasLtMatmulDescCreate(&e->product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(e->product, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(e->product, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = transpose_b ? cublasLtMatrixLayoutCreate(&e->a, CUDA_R_32F, K, N, (int64_t)K)
                             : cublasLtMatrixLayoutCreate(&e->a, CUDA_R_32F, N, K, (int64_t)N);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = transpose_a ? cublasLtMatrixLayoutCreate(&e->b, CUDA_R_32F, M, K, (int64_t)M)
                             : cublasLtMatrixLayoutCreate(&e->b, CUDA_R_32F, K, M, (int64_t)K);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatrixLayoutCreate(&e->out, CUDA_R_32F, N, M, (int64_t)N);
    if (status == CUBLAS_STATUS_SUCCESS) status = choose(e, blas);
    if (status != CUBLAS_STATUS_SUCCESS) entry_release(e);
    return status;
}

static cublasStatus_t entry_find(struct gemm_cache *cache, struct gemm_key key, cublasLtHandle_t blas,
                                 struct gemm_entry **out)
{
    for (int i = 0; i < ENTRIES; i++) {
        struct gemm_entry *e = &cache->entries[i];
        if (memcmp(&e->key, &key, sizeof key) == 0) {
            *out = e;
            return CUBLAS_STATUS_SUCCESS;
        }
    }
    struct gemm_entry *e = &cache->entries[cache->next_out++ % ENTRIES];
    entry_release(e);
    *out = e;
    return entry_fill(e, key, blas);
}

void gemm(void *out_, const void *a_, const void *b_, int M, int N, int K, bool transpose_a, bool transpose_b,
          bool accumulate, struct stream *stream)
{
    float *out = (float *)out_;
    const float *a = (const float *)a_;
    const float *b = (const float *)b_;
    struct gemm_key key = {M, N, K, common_alignment(out, a, b), (int)transpose_a | (int)transpose_b << 1};
    struct gemm_entry *e = NULL;
    float one = 1.0f, beta = accumulate ? 1.0f : 0.0f;
    if (stream->fault_at != NULL) return;
    cublasStatus_t status = entry_find(stream->gemm, key, stream->device->blas, &e);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            cublasLtMatmul(stream->device->blas, e->product, &one, b, e->a, a, e->b, &beta, out, e->out, out,
                           e->out, &e->algorithm, stream->gemm->workspace, WORKSPACE, stream->queue);
    if (status != CUBLAS_STATUS_SUCCESS) {
        char why[96];
        snprintf(why, sizeof why, "(%d,%d) += (%d,%d)(%d,%d): %s", M, N, M, K, K, N,
                 cublasLtGetStatusString(status));
        stream_fault(stream, "cublasLtMatmul", why);
    }
}
