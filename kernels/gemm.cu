/* CUDA twin of gemm, on cuBLASLt. fp32: CUBLAS_COMPUTE_32F, no tensor-core
 * rounding; tf32: the same elements on tensor cores; bf16: bf16 operands, fp32 sums, out as its view says.
 *
 * cuBLASLt is column-major, where a row-major matrix is its own transpose: the row-major product out = op(a)
 * op(b) is outᵀ = op(b)ᵀ op(a)ᵀ, so the operands change places and nothing is copied.
 *
 * Descriptors and the chosen algorithm are cached per device for each shape, precision, alignment of the
 * operands (16 bytes at most: more enables no further algorithm) and workspace: after a shape's first product
 * a call is one cublasLtMatmul, and nothing is ever allocated. The algorithm is the fastest one measured, for
 * shapes given to `warm`; for any other shape it is the heuristics' first choice, unmeasured, because that
 * is the same in the next process. Only reductions in a fixed order are allowed. */
#include "kernels/warming.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More than can be warmed: the others are for shapes that were not announced. */
enum { GEMM_ENTRIES = 256 };

/* Algorithms to measure: those that the heuristics offer, and variants of the first few. */
enum { GEMM_OFFERED = 16, GEMM_VARIED = 4, GEMM_CANDIDATES = 32 };

/* The key of a product with its own algorithm; compared and stored as bytes. */
struct gemm_key {
    int32_t M, N, K, out_stride, a_stride, b_stride;
    uint8_t transpose_a, transpose_b, accumulate;
    uint8_t precision, out_element, a_element, b_element;
    uint8_t alignment;  /* of all operands in bytes: 2, 4, 8 or 16 */
    uint64_t workspace; /* bytes that the product may use */
};
static_assert(sizeof(struct gemm_key) == 40, "a key has no padding");

/* Descriptors are members of the entry: preparing one allocates nothing and needs no destructor. */
struct gemm_entry {
    struct gemm_key key; /* M 0: free */
    bool warmed;         /* stays until the next warming */
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t a, b, out;
    cublasLtMatmulAlgo_t algorithm;
};

struct gemm_cache {
    struct gemm_entry entries[GEMM_ENTRIES];
    unsigned next_out; /* the entry to replace when all are in use */
};

enum status gemm_cache_open(struct device *device, struct err *err)
{
    device->gemm = (struct gemm_cache *)calloc(1, sizeof *device->gemm);
    if (device->gemm == NULL) return err_no_memory(err, "the products' descriptors");
    return STATUS_OK;
}

void gemm_cache_close(struct device *device)
{
    free(device->gemm);
    device->gemm = NULL;
}

/* The workspace that cuBLAS itself recommends: 32 MiB on Hopper and later, 4 MiB before. More would change
 * the keys without faster products. */
size_t gemm_workspace(const struct device *device)
{
    return (size_t)(device->properties.major >= 9 ? 32 : 4) << 20;
}

/* ---- prepared products ---- */

static struct gemm_key key_of(const struct gemm_shape *s, enum precision precision, int alignment,
                              size_t workspace)
{
    struct gemm_key key = {};
    key.M = s->M, key.N = s->N, key.K = s->K;
    key.out_stride = s->out.stride, key.a_stride = s->a.stride, key.b_stride = s->b.stride;
    key.transpose_a = s->transpose_a, key.transpose_b = s->transpose_b, key.accumulate = s->accumulate;
    key.out_element = (uint8_t)s->out.element;
    key.a_element = (uint8_t)s->a.element, key.b_element = (uint8_t)s->b.element;
    key.precision = (uint8_t)precision, key.alignment = (uint8_t)alignment, key.workspace = workspace;
    return key;
}

/* Whether the elements are a row of gemm's table in operations.def. */
static bool elements_fit(const struct gemm_key *key)
{
    uint8_t in = (uint8_t)precision_element((enum precision)key->precision);
    return key->a_element == in && key->b_element == in &&
           (key->out_element == ELEMENT_FP32 || in == ELEMENT_BF16);
}

static cudaDataType_t data_type(uint8_t element)
{
    return element == ELEMENT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* Fills the descriptors for key. cuBLASLt's A is our b, and its B is our a. */
static cublasStatus_t entry_prepare(struct gemm_entry *e, const struct gemm_key *key)
{
    uint64_t M = (uint64_t)key->M, N = (uint64_t)key->N, K = (uint64_t)key->K;
    cublasComputeType_t compute =
        key->precision == PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t op_a = key->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                      op_b = key->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    memset(e, 0, sizeof *e);
    if (!elements_fit(key)) return CUBLAS_STATUS_NOT_SUPPORTED;
    cublasStatus_t status = cublasLtMatmulDescInit(&e->product, compute, CUDA_R_32F);
    if (!status)
        status = cublasLtMatmulDescSetAttribute(&e->product, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
    if (!status)
        status = cublasLtMatmulDescSetAttribute(&e->product, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
    if (!status)
        status = cublasLtMatrixLayoutInit(&e->a, data_type(key->b_element), key->transpose_b ? K : N,
                                          key->transpose_b ? N : K, key->b_stride);
    if (!status)
        status = cublasLtMatrixLayoutInit(&e->b, data_type(key->a_element), key->transpose_a ? M : K,
                                          key->transpose_a ? K : M, key->a_stride);
    if (!status)
        status = cublasLtMatrixLayoutInit(&e->out, data_type(key->out_element), N, M, key->out_stride);
    if (!status) e->key = *key;
    return status;
}

/* Whether an algorithm may be used: it fits the workspace and adds in a fixed order. INPLACE promises that
 * parts are added one after the other, but not in which order; OUTPUT_TYPE rounds each part to bf16. */
static bool allowed(const struct gemm_entry *e, const cublasLtMatmulHeuristicResult_t *result,
                    const cublasLtMatmulAlgo_t *algorithm)
{
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
    size_t written = 0;
    if (result->state != CUBLAS_STATUS_SUCCESS || result->workspaceSize > e->key.workspace ||
        cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
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
    if (!status)
        status = cublasLtMatmulPreferenceSetAttribute(out, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &workspace, sizeof workspace);
    if (!status)
        status = cublasLtMatmulPreferenceSetAttribute(out, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                      &schemes, sizeof schemes);
    for (int i = 0; i < 4 && !status; i++)
        status = cublasLtMatmulPreferenceSetAttribute(out, alignments[i], &alignment, sizeof alignment);
    return status;
}

/* The same for an algorithm from the file, if cuBLASLt accepts it for these descriptors on this device. */
static bool accepted(struct gemm_entry *e, cublasLtHandle_t blas, const cublasLtMatmulAlgo_t *algorithm)
{
    cublasLtMatmulHeuristicResult_t result = {};
    return !cublasLtMatmulAlgoCheck(blas, &e->product, &e->a, &e->b, &e->out, &e->out, algorithm, &result) &&
           allowed(e, &result, algorithm);
}

/* The allowed algorithms that cuBLASLt's heuristics offer for a prepared entry, best first. */
static cublasStatus_t heuristics(struct gemm_entry *e, cublasLtHandle_t blas,
                                 cublasLtMatmulAlgo_t out[GEMM_CANDIDATES], int *count)
{
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t results[GEMM_OFFERED] = {};
    int found = 0;
    *count = 0;
    cublasStatus_t status = prefer(&preference, &e->key);
    if (!status)
        status = cublasLtMatmulAlgoGetHeuristic(blas, &e->product, &e->a, &e->b, &e->out, &e->out,
                                                &preference, GEMM_OFFERED, results, &found);
    if (status) return status;
    for (int i = 0; i < found; i++)
        if (allowed(e, &results[i], &results[i].algo)) out[(*count)++] = results[i].algo;
    return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Adds variants of the first algorithms that divide the sum among more blocks, each of which writes its part
 * to the workspace, from where the parts are added in a fixed order: the gradient of a weight is a small
 * matrix, and its sum over all tokens a long one. */
static void add_variants(struct gemm_entry *e, cublasLtHandle_t blas,
                         cublasLtMatmulAlgo_t out[GEMM_CANDIDATES], int *count)
{
    static const int32_t parts[] = {2, 3, 4, 8};
    const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    int varied = *count < GEMM_VARIED ? *count : GEMM_VARIED;
    for (int i = 0; i < varied * 4 && *count < GEMM_CANDIDATES; i++) {
        cublasLtMatmulAlgo_t algorithm = out[i / 4];
        if (!cublasLtMatmulAlgoConfigSetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts[i % 4],
                                                  sizeof *parts) &&
            !cublasLtMatmulAlgoConfigSetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                                  sizeof scheme) &&
            accepted(e, blas, &algorithm))
            out[(*count)++] = algorithm;
    }
}

static cublasStatus_t entry_run(struct gemm_entry *e, struct stream *stream, void *out, const void *a,
                                const void *b, void *workspace, float factor)
{
    float beta = e->key.accumulate ? 1.0f : 0.0f;
    return cublasLtMatmul(stream->device->blas, &e->product, &factor, b, &e->a, a, &e->b, &beta, out, &e->out,
                          out, &e->out, &e->algorithm, workspace, e->key.workspace, stream->queue);
}

/* The entry of key, or one to fill, never a warmed one: not all entries are warmed. */
static struct gemm_entry *entry_place(struct gemm_cache *cache, const struct gemm_key *key)
{
    struct gemm_entry *free_one = NULL;
    for (int i = GEMM_ENTRIES - 1; i >= 0; i--) {
        struct gemm_entry *e = &cache->entries[i];
        if (memcmp(&e->key, key, sizeof *key) == 0) return e;
        if (e->key.M == 0) free_one = e;
    }
    while (free_one == NULL || free_one->warmed) free_one = &cache->entries[cache->next_out++ % GEMM_ENTRIES];
    return free_one;
}

/* ---- one product ---- */

/* The largest power of two up to 16 that divides every address. */
static int common_alignment(const void *a, const void *b, const void *c)
{
    uintptr_t bits = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | 16;
    return (int)(bits & (~bits + 1));
}

static cublasStatus_t entry_for(struct device *device, const struct gemm_key *key, struct gemm_entry **out)
{
    cublasLtMatmulAlgo_t candidates[GEMM_CANDIDATES];
    int count = 0;
    struct gemm_entry *e = *out = entry_place(device->gemm, key);
    if (memcmp(&e->key, key, sizeof *key) == 0) return CUBLAS_STATUS_SUCCESS;
    cublasStatus_t status = entry_prepare(e, key);
    if (!status) status = heuristics(e, device->blas, candidates, &count);
    if (!status)
        e->algorithm = candidates[0];
    else
        memset(e, 0, sizeof *e);
    return status;
}

void gemm(struct matrix out, struct matrix a, struct matrix b, int M, int N, int K, bool transpose_a,
          bool transpose_b, bool accumulate, float factor, struct stream *stream)
{
    struct gemm_layout to = {out.element, out.stride}, left = {a.element, a.stride},
                       right = {b.element, b.stride};
    struct gemm_shape shape = {M, N, K, transpose_a, transpose_b, accumulate, to, left, right};
    struct gemm_entry *e = NULL;
    if (!stream_usable(stream)) return;
    size_t most = gemm_workspace(stream->device),
           lent = stream->workspace_bytes < most ? stream->workspace_bytes : most;
    struct gemm_key key = key_of(&shape, stream->precision, common_alignment(out.at, a.at, b.at), lent);
    cublasStatus_t status = entry_for(stream->device, &key, &e);
    if (!status) status = entry_run(e, stream, out.at, a.at, b.at, stream->workspace, factor);
    if (status) {
        char why[96];
        snprintf(why, sizeof why, "(%d,%d) += (%d,%d)(%d,%d): %s", M, N, M, K, K, N,
                 cublasLtGetStatusString(status));
        stream_library_failed(stream, "cublasLtMatmul", why,
                              status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE,
                              status == CUBLAS_STATUS_ALLOC_FAILED);
    }
}

/* ---- warming up ---- */

enum { ALIGN = 256 };

/* The bytes of out, a and b, with the gaps between rows. */
static void operand_bytes(const struct gemm_shape *s, size_t out[3])
{
    const struct gemm_layout layouts[] = {s->out, s->a, s->b};
    const int rows[] = {s->M, s->transpose_a ? s->K : s->M, s->transpose_b ? s->N : s->K};
    for (int i = 0; i < 3; i++) {
        size_t bytes = (size_t)rows[i] * (size_t)layouts[i].stride * element_bytes(layouts[i].element);
        out[i] = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
}

size_t gemm_operands(const struct gemm_shape *shape)
{
    size_t bytes[3];
    operand_bytes(shape, bytes);
    return bytes[0] + bytes[1] + bytes[2];
}

/* An entry on trial. */
struct trial {
    struct warming *warming;
    struct gemm_entry *entry;
    void *out, *a, *b;
};

static bool run(void *context)
{
    const struct trial *t = (const struct trial *)context;
    struct warming *w = t->warming;
    return entry_run(t->entry, w->stream, t->out, t->a, t->b, warming_workspace(w), 1) ==
           CUBLAS_STATUS_SUCCESS;
}

/* Chooses the fastest of the candidates as the entry's algorithm; false: none of them runs. A single
 * candidate needs no other round. */
static enum status fastest(struct trial *t, const cublasLtMatmulAlgo_t *candidates, int count, bool *found,
                           struct err *err)
{
    double least[GEMM_CANDIDATES] = {}, once = 0;
    int best = -1;
    for (int i = 0; i < count * (count > 1 ? WARM_ROUNDS + 1 : 1); i++) {
        int round = i / count, c = i % count;
        if (least[c] < 0) continue;
        t->entry->algorithm = candidates[c];
        enum status status = warming_time(t->warming, run, t, &once, err);
        if (status) return status;
        if (round <= 1 || once < least[c]) least[c] = once;
    }
    for (int i = 0; i < count; i++)
        if (least[i] >= 0 && (best < 0 || least[i] < least[best])) best = i;
    *found = best >= 0;
    if (*found) t->entry->algorithm = candidates[best];
    return STATUS_OK;
}

/* Gives an entry the file's algorithm for its product, or a new one, which is stored. */
static enum status decide(struct trial *t, const struct gemm_key *key, struct err *err)
{
    struct gemm_entry *e = t->entry;
    cublasLtHandle_t blas = t->warming->stream->device->blas;
    cublasLtMatmulAlgo_t candidates[GEMM_CANDIDATES];
    struct choice choice;
    static_assert(sizeof choice.key == sizeof *key && sizeof choice.value == sizeof e->algorithm);
    int count = 0;
    bool found = false;
    enum status status = STATUS_OK;
    cublasStatus_t described = entry_prepare(e, key);
    memcpy(choice.key, key, sizeof *key);
    if (!described && warming_recall(t->warming, &choice)) {
        memcpy(candidates, choice.value, sizeof *candidates);
        if (accepted(e, blas, candidates)) status = fastest(t, candidates, 1, &found, err);
    }
    if (status || found) return status;
    if (!described) described = heuristics(e, blas, candidates, &count);
    if (!described && key->transpose_a) add_variants(e, blas, candidates, &count);
    status = fastest(t, candidates, count, &found, err);
    if (!status && !found)
        status =
            err_set(err, STATUS_DEVICE, "cuda: cuBLASLt has no algorithm for (%d,%d) = (%d,%d)(%d,%d): %s",
                    key->M, key->N, key->M, key->K, key->K, key->N,
                    cublasLtGetStatusString(described ? described : CUBLAS_STATUS_NOT_SUPPORTED));
    if (status) return status;
    memcpy(choice.value, &e->algorithm, sizeof choice.value);
    warming_keep(t->warming, &choice);
    return STATUS_OK;
}

void gemm_begin_warming(struct device *device)
{
    for (int i = 0; i < GEMM_ENTRIES; i++) device->gemm->entries[i].warmed = false;
}

enum status gemm_choose(struct warming *w, const struct gemm_shape *shape, struct err *err)
{
    struct device *device = w->stream->device;
    struct gemm_key key = key_of(shape, w->stream->precision, 16, gemm_workspace(device));
    struct gemm_entry *e = entry_place(device->gemm, &key);
    size_t bytes[3];
    if (e->warmed) return STATUS_OK; /* listed twice */
    operand_bytes(shape, bytes);
    struct trial t = {w, e, w->scratch, w->scratch + bytes[0], w->scratch + bytes[0] + bytes[1]};
    enum status status = decide(&t, &key, err);
    if (status) memset(e, 0, sizeof *e);
    e->warmed = !status;
    return status;
}
