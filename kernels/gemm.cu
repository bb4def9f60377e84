/* CUDA twin of gemm.h, on cuBLASLt. In fp32: CUBLAS_COMPUTE_32F, no tensor-core rounding; in tf32: the same
 * elements on tensor cores; in bf16: bf16 operands, fp32 sums, out as its view says.
 *
 * cuBLASLt is column-major: the row-major product out = op(a) op(b) is the column-major outᵀ = op(b)ᵀ op(a)ᵀ,
 * and a row-major matrix is its own transpose in column-major order, so the operands change places and
 * nothing is copied.
 *
 * Descriptors and the chosen algorithm are kept per device for each shape, precision, alignment of the
 * operands and workspace: after a shape's first product a call is one cublasLtMatmul. Nothing is ever
 * allocated. Which algorithm: the fastest one measured, for the shapes that gemm_warm.cu was told; for any
 * other shape the one that the heuristics put first, without measuring, because that is the same one in the
 * next process. Only reductions in a fixed order are allowed, so results are deterministic; a stream has one
 * workspace, lent by gemm_lend, as its products run one after the other.
 *
 * An alignment over 16 bytes counts as 16: that is what the widest loads and TMA descriptors want of an
 * address, so that more of it offers no further algorithm, and fewer keys serve more tensors. */
#include "kernels/gemm_cache.cuh"
#include "kernels/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status gemm_cache_open(struct device *device, struct err *err)
{
    device->gemm = (struct gemm_cache *)calloc(1, sizeof *device->gemm);
    if (device->gemm == NULL)
        return err_set(err, STATUS_NO_MEMORY, "cuda: no memory for the products' descriptors");
    return STATUS_OK;
}

void gemm_cache_close(struct device *device)
{
    free(device->gemm);
    device->gemm = NULL;
}

/* What cuBLAS itself recommends for its workspace: 32 MiB on Hopper and later, 4 MiB before. */
size_t gemm_workspace(struct device *device)
{
    return (size_t)(device->properties.major >= 9 ? 32 : 4) << 20;
}

void gemm_lend(struct stream *stream, void *workspace, size_t bytes)
{
    size_t most = gemm_workspace(stream->device); /* more would make other keys, and no faster products */
    stream->workspace = bytes > 0 ? workspace : NULL;
    stream->workspace_bytes = bytes < most ? bytes : most;
}

struct gemm_key gemm_key_of(const struct gemm_shape *s, enum precision precision, int alignment,
                            size_t workspace)
{
    struct gemm_key key;
    memset(&key, 0, sizeof key); /* compared as bytes */
    key.M = s->M;
    key.N = s->N;
    key.K = s->K;
    key.flags = (uint8_t)((s->transpose_a ? GEMM_TRANSPOSE_A : 0) | (s->transpose_b ? GEMM_TRANSPOSE_B : 0) |
                          (s->accumulate ? GEMM_ACCUMULATE : 0));
    key.out_stride = s->out.stride, key.a_stride = s->a.stride, key.b_stride = s->b.stride;
    key.out_element = (uint8_t)s->out.element;
    key.a_element = (uint8_t)s->a.element;
    key.b_element = (uint8_t)s->b.element;
    key.precision = (uint8_t)precision;
    key.alignment = (uint8_t)alignment;
    key.workspace = workspace;
    return key;
}

/* Which elements go together: the table of gemm.h. */
static bool elements_fit(const struct gemm_key *key)
{
    uint8_t in = key->precision == PRECISION_BF16 ? ELEMENT_BF16 : ELEMENT_FP32;
    return key->a_element == in && key->b_element == in &&
           (key->out_element == ELEMENT_FP32 || in == ELEMENT_BF16);
}

static cudaDataType_t data_type(uint8_t element)
{
    return element == ELEMENT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* In cuBLASLt's words its A is our b and its B our a. */
cublasStatus_t gemm_entry_prepare(struct gemm_entry *e, struct gemm_key key)
{
    bool transpose_a = key.flags & GEMM_TRANSPOSE_A, transpose_b = key.flags & GEMM_TRANSPOSE_B;
    uint64_t M = (uint64_t)key.M, N = (uint64_t)key.N, K = (uint64_t)key.K;
    cublasComputeType_t compute =
        key.precision == PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t op_a = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                      op_b = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    memset(e, 0, sizeof *e);
    if (!elements_fit(&key)) return CUBLAS_STATUS_NOT_SUPPORTED;
    cublasStatus_t status = cublasLtMatmulDescInit(&e->product, compute, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(&e->product, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(&e->product, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatrixLayoutInit(&e->a, data_type(key.b_element), transpose_b ? K : N,
                                          transpose_b ? N : K, key.b_stride);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatrixLayoutInit(&e->b, data_type(key.a_element), transpose_a ? M : K,
                                          transpose_a ? K : M, key.a_stride);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatrixLayoutInit(&e->out, data_type(key.out_element), N, M, key.out_stride);
    if (status == CUBLAS_STATUS_SUCCESS) e->key = key;
    return status;
}

/* INPLACE promises that parts are added up one after the other, not in which order; OUTPUT_TYPE rounds each
 * part to bf16. */
static bool adds_in_order(const cublasLtMatmulAlgo_t *algorithm)
{
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
    size_t written = 0;
    if (cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                             sizeof scheme, &written) != CUBLAS_STATUS_SUCCESS)
        return false;
    return scheme == CUBLASLT_REDUCTION_SCHEME_NONE || scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

static cublasStatus_t prefer(cublasLtMatmulPreferenceOpaque_t *out, const struct gemm_key *key)
{
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = key->alignment;
    uint64_t workspace = key->workspace;
    cublasStatus_t status = cublasLtMatmulPreferenceInit(out);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(out, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &workspace, sizeof workspace);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(out, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                      &schemes, sizeof schemes);
    for (int i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++)
        status = cublasLtMatmulPreferenceSetAttribute(out, alignments[i], &alignment, sizeof alignment);
    return status;
}

cublasStatus_t gemm_entry_candidates(struct gemm_entry *e, cublasLtHandle_t blas,
                                     cublasLtMatmulAlgo_t out[GEMM_CANDIDATES], int wanted, int *count)
{
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t results[GEMM_CANDIDATES];
    int found = 0;
    *count = 0;
    memset(results, 0, sizeof results);
    cublasStatus_t status = prefer(&preference, &e->key);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoGetHeuristic(blas, &e->product, &e->a, &e->b, &e->out, &e->out,
                                                &preference, GEMM_CANDIDATES, results, &found);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    for (int i = 0; i < found && *count < wanted; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS && results[i].workspaceSize <= e->key.workspace &&
            adds_in_order(&results[i].algo))
            out[(*count)++] = results[i].algo;
    return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

bool gemm_entry_accepts(struct gemm_entry *e, cublasLtHandle_t blas, const cublasLtMatmulAlgo_t *algorithm)
{
    cublasLtMatmulHeuristicResult_t result;
    memset(&result, 0, sizeof result);
    return cublasLtMatmulAlgoCheck(blas, &e->product, &e->a, &e->b, &e->out, &e->out, algorithm, &result) ==
               CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= e->key.workspace && adds_in_order(algorithm);
}

cublasStatus_t gemm_entry_run(struct gemm_entry *e, struct stream *stream, void *out, const void *a,
                              const void *b, void *workspace)
{
    float one = 1.0f, beta = e->key.flags & GEMM_ACCUMULATE ? 1.0f : 0.0f;
    return cublasLtMatmul(stream->device->blas, &e->product, &one, b, &e->a, a, &e->b, &beta, out, &e->out,
                          out, &e->out, &e->algorithm, workspace, e->key.workspace, stream->queue);
}

struct gemm_entry *gemm_cache_find(struct gemm_cache *cache, const struct gemm_key *key)
{
    for (int i = 0; i < GEMM_ENTRIES; i++)
        if (memcmp(&cache->entries[i].key, key, sizeof *key) == 0) return &cache->entries[i];
    return NULL;
}

/* Fewer than all entries are warmed, so this ends. */
struct gemm_entry *gemm_cache_place(struct gemm_cache *cache)
{
    for (int i = 0; i < GEMM_ENTRIES; i++)
        if (cache->entries[i].key.M == 0) return &cache->entries[i];
    for (;;) {
        struct gemm_entry *e = &cache->entries[cache->next_out++ % GEMM_ENTRIES];
        if (!e->warmed) return e;
    }
}

/* The largest power of two up to 16 that divides every address. */
static int common_alignment(const void *a, const void *b, const void *c)
{
    uintptr_t bits = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | 16;
    return (int)(bits & (~bits + 1));
}

static cublasStatus_t entry_for(struct stream *stream, struct gemm_key key, struct gemm_entry **out)
{
    struct device *device = stream->device;
    struct gemm_entry *e = gemm_cache_find(device->gemm, &key);
    *out = e;
    if (e != NULL) return CUBLAS_STATUS_SUCCESS;
    cublasLtMatmulAlgo_t first[GEMM_CANDIDATES];
    int count = 0;
    *out = e = gemm_cache_place(device->gemm);
    cublasStatus_t status = gemm_entry_prepare(e, key);
    if (status == CUBLAS_STATUS_SUCCESS) status = gemm_entry_candidates(e, device->blas, first, 1, &count);
    if (status == CUBLAS_STATUS_SUCCESS)
        e->algorithm = first[0];
    else
        memset(e, 0, sizeof *e);
    return status;
}

/* cuBLASLt's refusal of a product, which has then not run: only some of them mean that CUDA has failed. */
static void product_failed(struct stream *stream, const char *why, cublasStatus_t status)
{
    const char *at = "cublasLtMatmul";
    cudaError_t error = cudaGetLastError(); /* what it left behind: no later launch shall find it */
    if (status == CUBLAS_STATUS_ALLOC_FAILED || error == cudaErrorMemoryAllocation)
        stream_decline(stream, at, why, true);
    else if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
        stream_decline(stream, at, why, false);
    else
        stream_fault(stream, at, why);
}

void gemm(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K, bool transpose_a,
          bool transpose_b, bool accumulate, struct stream *stream)
{
    struct gemm_shape shape = gemm_shape_of(out, a, b, M, N, K, transpose_a, transpose_b, accumulate);
    struct gemm_entry *e = NULL;
    if (!stream_usable(stream)) return;
    int alignment = common_alignment(out.at, a.at, b.at);
    cublasStatus_t status =
        entry_for(stream, gemm_key_of(&shape, stream->precision, alignment, stream->workspace_bytes), &e);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = gemm_entry_run(e, stream, out.at, a.at, b.at, stream->workspace);
    if (status != CUBLAS_STATUS_SUCCESS) {
        char why[96];
        snprintf(why, sizeof why, "(%d,%d) += (%d,%d)(%d,%d): %s", M, N, M, K, K, N,
                 cublasLtGetStatusString(status));
        product_failed(stream, why, status);
    }
}
