/* See tests/cuda_sim/include/cublasLt.h. */
#include <cblas.h>
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <omp.h>

#include <vector>

#include "tests/cuda_sim/machine.hh"

struct sim_blas {
    int unused;
};

namespace {

enum { MAGIC = 0x616c676f }; /* of an algorithm */
enum kind { PLAIN, VECTOR, BROKEN, SPLIT, RACING, KINDS };

struct product {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    cublasOperation_t a, b;
};

struct matrix {
    uint64_t rows, columns;
    int64_t leading;
    cudaDataType_t type;
};

struct preference {
    uint64_t workspace;
    uint32_t schemes, alignment[4]; /* of A, B, C, D, in bytes; 256 unless set, as in cuBLASLt */
};

/* A choice is valid only for its product. */
struct algorithm {
    uint32_t magic, kind;
    uint64_t alignment, workspace, scheme, product;
};

static_assert(sizeof(product) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(matrix) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t));

uint64_t heuristics, descriptors, products;
int last_kind = -1, slow_kind = -1;
const char *const kind_names[KINDS] = {"plain", "vector", "broken", "split", "racing"};
size_t version = 130100;

template <typename T, typename O> T get(const O *opaque)
{
    T value;
    memcpy(&value, opaque->data, sizeof value);
    return value;
}

template <typename T, typename O> void set(O *opaque, const T &value)
{
    memset(opaque->data, 0, sizeof opaque->data);
    memcpy(opaque->data, &value, sizeof value);
}

/* One product: op(A) is (M,K), op(B) is (K,N), C and D are (M,N). */
struct call {
    product desc;
    matrix a, b, d;
    uint64_t M, N, K;
};

cublasStatus_t describe(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, call *out)
{
    call x = {get<product>(desc), get<matrix>(a), get<matrix>(b), get<matrix>(d), 0, 0, 0};
    matrix layout_c = get<matrix>(c);
    bool plain_a = x.desc.a == CUBLAS_OP_N, plain_b = x.desc.b == CUBLAS_OP_N;
    x.M = plain_a ? x.a.rows : x.a.columns;
    x.K = plain_a ? x.a.columns : x.a.rows;
    x.N = plain_b ? x.b.columns : x.b.rows;
    if (x.K != (plain_b ? x.b.rows : x.b.columns) || x.d.rows != x.M || x.d.columns != x.N ||
        memcmp(&layout_c, &x.d, sizeof x.d) != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    /* the fp32 and bf16 rows of the table of supported types */
    bool narrow = x.a.type == CUDA_R_16BF;
    if (x.desc.scale != CUDA_R_32F || x.a.type != x.b.type || (!narrow && x.d.type != CUDA_R_32F) ||
        (narrow && x.desc.compute != CUBLAS_COMPUTE_32F))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *out = x;
    return CUBLAS_STATUS_SUCCESS;
}

uint64_t mixed(const call &x)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const uint64_t words[] = {x.M,
                              x.N,
                              x.K,
                              (uint64_t)x.desc.compute,
                              (uint64_t)x.desc.a,
                              (uint64_t)x.desc.b,
                              (uint64_t)x.a.type,
                              (uint64_t)x.d.type};
    for (uint64_t word : words) hash = (hash ^ word) * 0x100000001b3u;
    return hash;
}

algorithm make(const call &x, kind k)
{
    algorithm out = {MAGIC, (uint32_t)k, 2, 0, CUBLASLT_REDUCTION_SCHEME_NONE, mixed(x)};
    if (k == VECTOR) out.alignment = 16;
    if (k == SPLIT) out.workspace = 2 * x.M * x.N * sizeof(float);
    if (k == SPLIT) out.scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (k == RACING) out.scheme = CUBLASLT_REDUCTION_SCHEME_INPLACE;
    return out;
}

/* For a long K, SPLIT is faster in spite of its second pass. */
double microseconds(const call &x, uint32_t k)
{
    double work = (double)(x.M * x.N * x.K) * 1e-3;
    const double factors[KINDS] = {1, 0.5, 0.1, x.K > 2 * x.M ? 0.25 : 2, 0.01};
    return (300 + work * factors[k]) * ((int)k == slow_kind ? 100 : 1);
}

bool sound(const call &x, const algorithm &algo)
{
    if (algo.magic != MAGIC || algo.kind >= KINDS) return false;
    algorithm same = make(x, (kind)algo.kind);
    if (algo.kind == SPLIT) same.workspace = 0; /* only the check of a variant computes it */
    return memcmp(&same, &algo, sizeof algo) == 0;
}

size_t bytes_of(cudaDataType_t type)
{
    return type == CUDA_R_16BF ? 2 : 4;
}

void expect(const void *at, const matrix &l, uint64_t alignment, const char *what)
{
    size_t elements = (size_t)(l.columns - 1) * (size_t)l.leading + l.rows;
    sim::memory_expect(at, elements * bytes_of(l.type), what);
    if (alignment < bytes_of(l.type)) alignment = bytes_of(l.type);
    if ((uintptr_t)at % alignment != 0)
        sim::fail("cublasLtMatmul: %s is not aligned to %llu bytes, as the heuristic was promised", what,
                  (unsigned long long)alignment);
}

/* To 10 bits of mantissa, ties to even. */
float tf32(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    if ((word & 0x7f800000u) == 0x7f800000u) return x;
    word += 0xfffu + (word >> 13 & 1);
    word &= ~0x1fffu;
    memcpy(&x, &word, sizeof x);
    return x;
}

/* The matrix without gaps between its columns, in fp32 as the multipliers see it. */
std::vector<float> operand(const void *at, const matrix &l, cublasComputeType_t compute)
{
    std::vector<float> out(l.rows * l.columns);
    for (uint64_t c = 0; c < l.columns; c++)
        for (uint64_t r = 0; r < l.rows; r++) {
            size_t i = c * (size_t)l.leading + r;
            float x = l.type == CUDA_R_16BF ? __bfloat162float(((const __nv_bfloat16 *)at)[i])
                                            : ((const float *)at)[i];
            out[c * l.rows + r] = compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? tf32(x) : x;
        }
    return out;
}

/* out (M,N) = op(a)[:, k0:k1] op(b)[k0:k1, :] */
void multiply(const call &x, const float *a, const float *b, uint64_t k0, uint64_t k1, float *out)
{
    bool plain_a = x.desc.a == CUBLAS_OP_N, plain_b = x.desc.b == CUBLAS_OP_N;
    int threads = omp_get_max_threads();
    omp_set_num_threads(
        1); /* some releases of OpenBLAS allocate for each product that several threads share */
    cblas_sgemm(CblasColMajor, plain_a ? CblasNoTrans : CblasTrans, plain_b ? CblasNoTrans : CblasTrans,
                (int)x.M, (int)x.N, (int)(k1 - k0), 1.0f, a + k0 * (plain_a ? x.a.rows : 1), (int)x.a.rows,
                b + k0 * (plain_b ? 1 : x.b.rows), (int)x.b.rows, 0.0f, out, (int)x.M);
    omp_set_num_threads(threads);
}

void write_out(const call &x, const float *sums, float alpha, float beta, void *d)
{
    for (uint64_t c = 0; c < x.N; c++)
        for (uint64_t r = 0; r < x.M; r++) {
            size_t i = c * (size_t)x.d.leading + r;
            float value = alpha * sums[c * x.M + r];
            if (x.d.type == CUDA_R_16BF) {
                __nv_bfloat16 *out = (__nv_bfloat16 *)d + i;
                *out = __float2bfloat16_rn(beta == 0 ? value : value + beta * __bfloat162float(*out));
            } else {
                float *out = (float *)d + i;
                *out = beta == 0 ? value : value + beta * *out;
            }
        }
}

} // namespace

extern "C" uint64_t sim_heuristics(void)
{
    return heuristics;
}

/* A handle that is never destroyed because its device is lost is not a leak. */
static auto &handles = *new std::vector<sim_blas *>;

extern "C" uint64_t sim_descriptors(void)
{
    return descriptors;
}

extern "C" uint64_t sim_products(void)
{
    return products;
}

extern "C" const char *sim_last_algorithm(void)
{
    return last_kind < 0 ? "none" : kind_names[last_kind];
}

extern "C" void sim_slow_down(const char *algorithm)
{
    slow_kind = -1;
    for (int k = 0; algorithm != NULL && k < KINDS; k++)
        if (strcmp(algorithm, kind_names[k]) == 0) slow_kind = k;
}

extern "C" void sim_set_blas_version(uint64_t to)
{
    version = to;
}

size_t cublasLtGetVersion(void)
{
    return version;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    openblas_set_num_threads(
        1); /* as in training on the CPU: with more, OpenBLAS allocates for each product */
    handles.push_back(*out = new sim_blas());
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    std::erase(handles, handle);
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t desc, cublasComputeType_t compute,
                                      cudaDataType_t scale)
{
    descriptors++;
    set(desc, product{compute, scale, CUBLAS_OP_N, CUBLAS_OP_N});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t size)
{
    product p = get<product>(desc);
    if (size != sizeof(cublasOperation_t)) return CUBLAS_STATUS_INVALID_VALUE;
    (what == CUBLASLT_MATMUL_DESC_TRANSA ? p.a : p.b) = *(const cublasOperation_t *)value;
    set(desc, p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType_t type, uint64_t rows,
                                        uint64_t columns, int64_t leading)
{
    if (rows == 0 || columns == 0 || leading < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
    descriptors++;
    matrix m;
    memset(&m, 0, sizeof m); /* compared as bytes */
    m.rows = rows, m.columns = columns, m.leading = leading, m.type = type;
    set(layout, m);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t out)
{
    descriptors++;
    set(out, preference{0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}});
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t out,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t size)
{
    preference p = get<preference>(out);
    bool wide = what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    if (size != (wide ? 8 : 4)) return CUBLAS_STATUS_INVALID_VALUE;
    if (wide)
        p.workspace = *(const uint64_t *)value;
    else if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        p.schemes = *(const uint32_t *)value;
    else
        p.alignment[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] = *(const uint32_t *)value;
    set(out, p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wish, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *found)
{
    call x;
    cublasStatus_t status = describe(desc, a, b, c, d, &x);
    preference p = get<preference>(wish);
    uint64_t least = 256;
    heuristics++;
    *found = 0;
    if (status != CUBLAS_STATUS_SUCCESS || wanted < 1) return CUBLAS_STATUS_NOT_SUPPORTED;
    for (unsigned alignment : p.alignment) least = alignment < least ? alignment : least;
    for (int k = 0; k < KINDS && *found < wanted; k++) {
        algorithm algo = make(x, (kind)k);
        if (k == SPLIT) continue; /* a variant of PLAIN, which has to be asked for */
        if (algo.alignment > least || algo.workspace > p.workspace || (algo.scheme & ~p.schemes) != 0)
            continue;
        cublasLtMatmulHeuristicResult_t *result = &results[(*found)++];
        set(&result->algo, algo);
        result->workspaceSize = algo.workspace;
        result->state = CUBLAS_STATUS_SUCCESS;
        result->wavesCount = 1;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    call x;
    cublasStatus_t status = describe(desc, a, b, c, d, &x);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (!sound(x, get<algorithm>(algo))) return CUBLAS_STATUS_INVALID_VALUE;
    result->workspaceSize = make(x, (kind)get<algorithm>(algo).kind).workspace;
    result->state = CUBLAS_STATUS_SUCCESS;
    result->wavesCount = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t, void *value,
                                                    size_t size, size_t *written)
{
    if (size != sizeof(uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
    *(uint32_t *)value = (uint32_t)get<algorithm>(algo).scheme;
    *written = size;
    return CUBLAS_STATUS_SUCCESS;
}

/* In two parts only, and of PLAIN only. */
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t what,
                                                    const void *value, size_t size)
{
    algorithm a = get<algorithm>(algo);
    if (size != sizeof(uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
    if (what == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)
        a.scheme = *(const uint32_t *)value;
    else if (a.kind == PLAIN && *(const int32_t *)value == 2)
        a.kind = SPLIT;
    else
        return CUBLAS_STATUS_NOT_SUPPORTED;
    set(algo, a);
    return CUBLAS_STATUS_SUCCESS;
}

static void run_product(const call &x, const algorithm &algo, const void *a, const void *b, float times,
                        float plus, void *d, void *workspace)
{
    if (!sim::launch_runs("cublasLtMatmul")) return;
    products++;
    last_kind = (int)algo.kind;
    sim::work_done(sim::KERNEL, "cublasLtMatmul", 0, microseconds(x, algo.kind));
    sim::memory_open(true);
    std::vector<float> wide_a = operand(a, x.a, x.desc.compute), wide_b = operand(b, x.b, x.desc.compute),
                       sums(x.M * x.N);
    if (algo.kind == SPLIT) {
        float *parts = (float *)workspace;
        size_t n = x.M * x.N;
        uint64_t half = x.K / 2;
        memset(parts, 0, n * sizeof *parts); /* K may be 1 */
        if (half > 0) multiply(x, wide_a.data(), wide_b.data(), 0, half, parts);
        multiply(x, wide_a.data(), wide_b.data(), half, x.K, parts + n);
        for (size_t i = 0; i < n; i++) sums[i] = parts[i] + parts[n + i];
    } else {
        multiply(x, wide_a.data(), wide_b.data(), 0, x.K, sums.data());
    }
    write_out(x, sums.data(), times, plus, d);
    sim::memory_check("cublasLtMatmul");
    sim::memory_open(false);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t layout_a, const void *b, cublasLtMatrixLayout_t layout_b,
                              const void *beta, const void *c, cublasLtMatrixLayout_t layout_c, void *d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t *chosen,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    call x;
    cublasStatus_t status = describe(desc, layout_a, layout_b, layout_c, layout_d, &x);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    algorithm algo = get<algorithm>(chosen);
    if (sim::product_refused()) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (sim::product_broken()) return CUBLAS_STATUS_EXECUTION_FAILED;
    /* a fault is reported later, lack of memory at once */
    if (!sim::launch_taken("cublasLtMatmul")) return CUBLAS_STATUS_ALLOC_FAILED;
    if (c != d || !sound(x, algo) || make(x, (kind)algo.kind).workspace > workspace_bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algo.kind == RACING) sim::fail("cublasLtMatmul: an algorithm that adds up in no fixed order");
    if (algo.kind == BROKEN) return CUBLAS_STATUS_NOT_SUPPORTED;
    expect(a, x.a, algo.alignment, "matrix A");
    expect(b, x.b, algo.alignment, "matrix B");
    expect(d, x.d, algo.alignment, "matrix D");
    if (workspace_bytes > 0) sim::memory_expect(workspace, workspace_bytes, "the workspace");
    if ((uintptr_t)workspace % 256 != 0) sim::fail("cublasLtMatmul: the workspace is not aligned");
    float times = *(const float *)alpha, plus = *(const float *)beta;
    sim::queue(stream, [=] { run_product(x, algo, a, b, times, plus, d, workspace); });
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS            ? "success"
           : status == CUBLAS_STATUS_ALLOC_FAILED     ? "an allocation failed"
           : status == CUBLAS_STATUS_INVALID_VALUE    ? "an unsupported value"
           : status == CUBLAS_STATUS_EXECUTION_FAILED ? "the execution failed"
                                                      : "not supported";
}
