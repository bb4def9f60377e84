/* The slot warm: everything that the first step of a training would otherwise wait for, before the large
 * allocations are made: the code of our kernels and of cuBLASLt's is on the device, and every announced
 * product has its algorithm.
 *
 * An algorithm is chosen once: cuBLASLt's heuristics offer up to eight, each runs on scratch memory, and the
 * one with the least median time stays. Two algorithms may round differently, so the choice is kept in a file
 * (gemm_choices.h) and the next process takes it from there; its product runs once all the same, which loads
 * its code. Choices of a device name in the file's name and header what they depend on.
 *
 * Scratch is as large as the largest product's operands and the workspace, which the memory plan holds
 * anyway: a device on which it does not fit is too small for the training. It is filled with random numbers
 * of full mantissas: zeros draw less power, and a chip that draws less runs faster. */
#include "kernels/gemm_cache.cuh"
#include "kernels/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The median of RUNS times, each of as many products as take ENOUGH together, at most REPEATS. */
enum { RUNS = 5, REPEATS = 20, ALIGN = 256, PATTERN_BYTES = 1 << 20 };
static const double ENOUGH = 200; /* microseconds */

struct scratch {
    unsigned char *memory; /* borrowed; NULL: none */
    size_t bytes;          /* of the operands; behind them the workspace */
    void *workspace;
    cudaEvent_t from, to;
};

struct operands {
    void *out, *a, *b;
};

static size_t padded(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* `rows` of a matrix, with the gaps behind them. */
static size_t operand_bytes(struct gemm_layout l, int rows)
{
    return padded((size_t)rows * (size_t)l.stride * element_bytes(l.element));
}

static size_t out_bytes(const struct gemm_shape *s)
{
    return operand_bytes(s->out, s->M);
}

static size_t a_bytes(const struct gemm_shape *s)
{
    return operand_bytes(s->a, s->transpose_a ? s->K : s->M);
}

static size_t b_bytes(const struct gemm_shape *s)
{
    return operand_bytes(s->b, s->transpose_b ? s->N : s->K);
}

static struct operands place(const struct scratch *scratch, const struct gemm_shape *s)
{
    unsigned char *out = scratch->memory, *a = out + out_bytes(s);
    return {out, a, a + a_bytes(s)};
}

/* An error of the device is the stream's fault from here on: nothing touches the device any more. */
static enum status cuda_fail(struct stream *stream, const char *at, cudaError_t error, struct err *err)
{
    stream_fault(stream, at, cudaGetErrorString(error));
    return cuda_table.stream_wait(stream, err);
}

/* Words that are, as one fp32 or as two bf16, of size ½ to 1 with random sign and mantissa; the operands
 * repeat them. */
static enum status scratch_fill(const struct scratch *scratch, struct stream *stream, struct err *err)
{
    size_t first = scratch->bytes < PATTERN_BYTES ? scratch->bytes : (size_t)PATTERN_BYTES;
    uint32_t *pattern = (uint32_t *)malloc(PATTERN_BYTES);
    uint64_t state = 1;
    if (pattern == NULL) return err_set(err, STATUS_NO_MEMORY, "cuda: no memory for test operands");
    for (size_t i = 0; i < PATTERN_BYTES / sizeof *pattern; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
        uint32_t bits = (uint32_t)(state >> 32);
        pattern[i] = stream->precision == PRECISION_BF16 ? (bits & 0x807f807fu) | 0x3f003f00u
                                                         : (bits & 0x807fffffu) | 0x3f000000u;
    }
    cudaError_t error =
        cudaMemcpyAsync(scratch->memory, pattern, first, cudaMemcpyHostToDevice, stream->queue);
    for (size_t done = first; error == cudaSuccess && done < scratch->bytes;) {
        size_t more = scratch->bytes - done < done ? scratch->bytes - done : done;
        error = cudaMemcpyAsync(scratch->memory + done, scratch->memory, more, cudaMemcpyDeviceToDevice,
                                stream->queue);
        done += more;
    }
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream->queue);
    free(pattern);
    return error == cudaSuccess ? STATUS_OK : cuda_fail(stream, "filling test operands", error, err);
}

static void scratch_close(struct scratch *scratch, struct stream *stream)
{
    if (stream->device->lost) return; /* to the end of the process */
    if (scratch->from != NULL) cudaEventDestroy(scratch->from);
    if (scratch->to != NULL) cudaEventDestroy(scratch->to);
    memset(scratch, 0, sizeof *scratch);
}

static enum status scratch_open(struct scratch *out, struct stream *stream, const struct gemm_shape *shapes,
                                int count, const struct warm_watch *watch, struct err *err)
{
    struct scratch s;
    size_t workspace = gemm_workspace(stream->device);
    void *memory = NULL;
    memset(&s, 0, sizeof s);
    for (int i = 0; i < count; i++) {
        size_t bytes = out_bytes(&shapes[i]) + a_bytes(&shapes[i]) + b_bytes(&shapes[i]);
        if (bytes > s.bytes) s.bytes = bytes;
    }
    enum status status = watch->scratch(watch->context, s.bytes + workspace, &memory, err);
    if (status) return status;
    s.memory = (unsigned char *)memory;
    s.workspace = s.memory + s.bytes;
    cudaError_t error = cudaEventCreate(&s.from);
    if (error == cudaSuccess) error = cudaEventCreate(&s.to);
    if (error != cudaSuccess) status = cuda_fail(stream, "creating an event", error, err);
    if (!status) status = scratch_fill(&s, stream, err);
    if (status) {
        scratch_close(&s, stream);
        return status;
    }
    *out = s;
    return STATUS_OK;
}

/* Runs the entry `times` times and waits. *microseconds: all of it; negative where cuBLASLt refuses. An
 * error of the device is sticky: it ends the warming. */
static enum status run(struct gemm_entry *e, const struct scratch *scratch, struct operands at, int times,
                       struct stream *stream, double *microseconds, struct err *err)
{
    float milliseconds = 0;
    cublasStatus_t blas = CUBLAS_STATUS_SUCCESS;
    cudaError_t error = cudaEventRecord(scratch->from, stream->queue);
    for (int i = 0; i < times && blas == CUBLAS_STATUS_SUCCESS; i++)
        blas = gemm_entry_run(e, stream, at.out, at.a, at.b, scratch->workspace);
    if (error == cudaSuccess) error = cudaEventRecord(scratch->to, stream->queue);
    if (error == cudaSuccess) error = cudaEventSynchronize(scratch->to);
    if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, scratch->from, scratch->to);
    if (error != cudaSuccess) return cuda_fail(stream, "trying a matrix product", error, err);
    cudaGetLastError(); /* what a refused launch left behind is not the next one's */
    *microseconds = blas == CUBLAS_STATUS_SUCCESS ? 1e3 * (double)milliseconds : -1;
    return STATUS_OK;
}

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* The median time of one product with the entry's algorithm; negative where it does not run. */
static enum status measure(struct gemm_entry *e, const struct scratch *scratch, struct operands at,
                           struct stream *stream, double *microseconds, struct err *err)
{
    double first = 0, times[RUNS];
    enum status status = run(e, scratch, at, 1, stream, &first, err); /* loads code, fills caches */
    if (!status && first >= 0) status = run(e, scratch, at, 1, stream, &first, err);
    *microseconds = first;
    if (status || first < 0) return status;
    int repeats = first * (double)REPEATS <= ENOUGH ? (int)REPEATS : (int)(ENOUGH / first);
    if (repeats < 1) repeats = 1;
    for (int i = 0; i < RUNS && !status; i++) status = run(e, scratch, at, repeats, stream, &times[i], err);
    if (status) return status;
    for (int i = 0; i < RUNS; i++)
        if (times[i] < 0) *microseconds = -1;
    qsort(times, RUNS, sizeof *times, ascending);
    if (*microseconds >= 0) *microseconds = times[RUNS / 2] / repeats;
    return STATUS_OK;
}

/* The fastest of the candidates becomes the entry's algorithm. */
static enum status choose(struct gemm_entry *e, const struct scratch *scratch, struct operands at,
                          struct stream *stream, struct err *err)
{
    cublasLtMatmulAlgo_t candidates[GEMM_CANDIDATES];
    int count = 0, best = -1;
    double least = 0;
    enum status status = STATUS_OK;
    cublasStatus_t blas =
        gemm_entry_candidates(e, stream->device->blas, candidates, GEMM_CANDIDATES, &count);
    for (int i = 0; i < count && !status; i++) {
        double microseconds = -1;
        e->algorithm = candidates[i];
        status = measure(e, scratch, at, stream, &microseconds, err);
        if (status || microseconds < 0 || (best >= 0 && microseconds >= least)) continue;
        best = i;
        least = microseconds;
    }
    if (status) return status;
    if (best < 0)
        return err_set(err, STATUS_DEVICE, "cuda: cuBLASLt has no algorithm for (%d,%d) = (%d,%d)(%d,%d): %s",
                       e->key.M, e->key.N, e->key.M, e->key.K, e->key.K, e->key.N,
                       cublasLtGetStatusString(blas != CUBLAS_STATUS_SUCCESS ? blas
                                                                             : CUBLAS_STATUS_NOT_SUPPORTED));
    e->algorithm = candidates[best];
    return STATUS_OK;
}

/* Takes over an algorithm of the file; false where it does not run here. */
static enum status adopt(struct gemm_entry *e, const struct gemm_choice *choice,
                         const struct scratch *scratch, struct operands at, struct stream *stream,
                         bool *taken, struct err *err)
{
    cublasLtMatmulAlgo_t algorithm;
    double microseconds = -1;
    static_assert(sizeof algorithm == sizeof choice->algorithm, "cuBLASLt's algorithms are 64 bytes");
    memcpy(&algorithm, choice->algorithm, sizeof algorithm);
    *taken = false;
    if (!gemm_entry_accepts(e, stream->device->blas, &algorithm)) return STATUS_OK;
    cublasLtMatmulAlgo_t before = e->algorithm;
    e->algorithm = algorithm;
    enum status status = run(e, scratch, at, 1, stream, &microseconds, err);
    *taken = !status && microseconds >= 0;
    if (!*taken) e->algorithm = before;
    return status;
}

/* ---- the file ---- */

/* What a choice depends on besides the product, and a file's name of it. */
static void identify(const struct device *device, char *identity, size_t size, char *file, size_t file_size)
{
    const cudaDeviceProp *p = &device->properties;
    char name[65];
    snprintf(name, sizeof name, "%.64s", p->name);
    snprintf(identity, size, "%s, compute capability %d.%d, %d multiprocessors, cublasLt %zu", name, p->major,
             p->minor, p->multiProcessorCount, cublasLtGetVersion());
    for (char *c = name; *c != '\0'; c++)
        if (!(*c >= '0' && *c <= '9') && !(*c >= 'A' && *c <= 'Z') && !(*c >= 'a' && *c <= 'z')) *c = '-';
    snprintf(file, file_size, "gemm-%s-%d.%d-%d-%zu", name, p->major, p->minor, p->multiProcessorCount,
             cublasLtGetVersion());
}

struct warming {
    struct stream *stream;
    const struct gemm_shape *shapes;
    int count;
    struct scratch scratch;
    struct gemm_choices choices;
};

/* An entry for shape i with its algorithm: the file's, or a new one where there is none that runs. */
static enum status warm_one(struct warming *w, int i, struct err *err)
{
    struct gemm_key key =
        gemm_key_of(&w->shapes[i], w->stream->precision, 16, gemm_workspace(w->stream->device));
    struct gemm_cache *cache = w->stream->device->gemm;
    struct operands at = place(&w->scratch, &w->shapes[i]);
    struct gemm_entry *e = gemm_cache_find(cache, &key);
    if (e != NULL && e->warmed) return STATUS_OK; /* named twice */
    if (e == NULL) e = gemm_cache_place(cache);
    if (gemm_entry_prepare(e, key) != CUBLAS_STATUS_SUCCESS) {
        memset(e, 0, sizeof *e);
        return err_set(err, STATUS_DEVICE, "cuda: cuBLASLt cannot describe (%d,%d) = (%d,%d)(%d,%d)", key.M,
                       key.N, key.M, key.K, key.K, key.N);
    }
    bool taken = false;
    enum status status = STATUS_OK;
    const struct gemm_choice *choice = gemm_choices_find(&w->choices, &key);
    if (choice != NULL) status = adopt(e, choice, &w->scratch, at, w->stream, &taken, err);
    if (!status && !taken) {
        struct gemm_choice chosen;
        status = choose(e, &w->scratch, at, w->stream, err);
        chosen.key = key;
        memcpy(chosen.algorithm, &e->algorithm, sizeof chosen.algorithm);
        if (!status) status = gemm_choices_set(&w->choices, &chosen, err);
    }
    e->warmed = !status;
    if (status) memset(e, 0, sizeof *e);
    return status;
}

enum status gemm_warm(struct stream *stream, const struct gemm_shape *shapes, int count,
                      const struct warm_watch *watch, struct err *err)
{
    char identity[GEMM_IDENTITY_MAX], file[128], path[4096];
    struct warming w;
    struct err why;
    memset(&w, 0, sizeof w);
    w.stream = stream;
    w.shapes = shapes;
    w.count = count;
    if (count > GEMM_WARM_MAX)
        return err_set(err, STATUS_USAGE, "cuda: cannot warm up %d matrix products, at most %d", count,
                       GEMM_WARM_MAX);
    if (stream_usable(stream)) modules_load();
    enum status status = cuda_table.stream_wait(stream, err);
    if (status || count == 0) return status;
    identify(stream->device, identity, sizeof identity, file, sizeof file);
    bool keep =
        watch->folder != NULL && snprintf(path, sizeof path, "%s/%s", watch->folder, file) < (int)sizeof path;
    w.choices.lock = -1;
    bool go_on = watch->progress(watch->context, 0, count);
    if (keep) status = gemm_choices_open(&w.choices, path, identity, &why);
    while (status == STATUS_INTERRUPTED && (go_on = watch->progress(watch->context, 0, count)))
        status = gemm_choices_open(&w.choices, path, identity, &why);
    if (status && go_on) {
        err_prefix(&why, "cuda: the algorithms of matrix products are measured anew");
        watch->warning(watch->context, why.text);
    }
    for (int i = 0; i < GEMM_ENTRIES; i++) stream->device->gemm->entries[i].warmed = false;
    status = scratch_open(&w.scratch, stream, shapes, count, watch, err);
    for (int i = 0; i < count && !status && go_on; i++) {
        status = warm_one(&w, i, err);
        if (!status) go_on = watch->progress(watch->context, i + 1, count);
    }
    if (!status && keep && gemm_choices_save(&w.choices, path, identity, &why)) {
        err_prefix(&why, "cuda: the choice of matrix products' algorithms is not kept, and a resumed run may "
                         "round differently");
        watch->warning(watch->context, why.text);
    }
    if (!status && !go_on) status = err_set(err, STATUS_INTERRUPTED, "interrupted while warming up");
    scratch_close(&w.scratch, stream);
    gemm_choices_close(&w.choices);
    return status;
}
