/* Replaces NVIDIA's cuda_runtime.h for .cu files in the simulator: qualifiers, built-in variables, barriers
 * and warp functions, shared memory that checks each access, and the part of the runtime API that the product
 * uses. See tests/cuda_sim/simulator.h. */
#ifndef ANNEAL_TESTS_CUDA_SIM_CUDA_RUNTIME_H
#define ANNEAL_TESTS_CUDA_SIM_CUDA_RUNTIME_H
#ifdef __cplusplus

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmath>
#include <functional>
#include <type_traits>

#define ANNEAL_CUDA_SIM 1
#define CUDART_VERSION  13000
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

/* Rounded before anything else happens to it, so that no compiler makes a multiply-add of the two. */
static inline float __fmul_rn(float a, float b)
{
    volatile float product = a * b;
    return product;
}

static inline float __fadd_rn(float a, float b)
{
    return a + b;
}

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

/* Variables of the running thread. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

struct sim_stream;

namespace sim {

/* Prints the finding with kernel, block and thread, and ends the process. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* at: the kernel's function, for which cudaFuncSetAttribute may have been called. `body` runs when the stream
 * reaches it. */
void launch(const char *kernel, const void *at, struct sim_stream *stream, dim3 grid, dim3 block,
            size_t shared_bytes, const std::function<void()> &body);

/* A kernel as nvcc has compiled it; NULL: kernels are to run from their source. See compiled.hh. */
struct compiled;
const compiled *compiled_kernel(const char *name);
void run_compiled(const compiled *kernel, const void *const *arguments);

template <auto K> const char *name_of_kernel()
{
    return __PRETTY_FUNCTION__;
}

template <auto K> struct kernel_of;
template <typename... P, void (*K)(P...)> struct kernel_of<K> {
    static void launch(const char *name, struct sim_stream *stream, dim3 grid, dim3 block,
                       size_t shared_bytes, P... arguments)
    {
        const compiled *found = compiled_kernel(name_of_kernel<K>());
        sim::launch(name, (const void *)K, stream, grid, block, shared_bytes, [=] {
            const void *const at[] = {NULL, &arguments...};
            if (found != NULL)
                run_compiled(found, at + 1);
            else
                K(arguments...);
        });
    }
};

void sync_threads(const char *file, int line);
void sync_warp(unsigned mask, const char *file, int line);
/* Posts a value and waits for the lanes of the mask; then reads values of lanes, which must be in the
 * mask. */
void exchange(unsigned mask, uint64_t value, const char *file, int line);
uint64_t exchanged(int lane);
int lane();
unsigned exchange_mask();

template <typename T> T shuffle(unsigned mask, T value, int source, const char *file, int line)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t word = 0;
    memcpy(&word, &value, sizeof value);
    exchange(mask, word, file, line);
    word = exchanged(source);
    memcpy(&value, &word, sizeof value);
    return value;
}

unsigned ballot(unsigned mask, bool predicate, const char *file, int line);

/* ---- shared memory ---- */

/* The last accesses to two bytes of shared memory. Epochs count the barriers and blocks so far: one before
 * the running block's first says that there was no access. */
struct mark {
    uint32_t write_epoch, read_epoch;
    uint16_t write_warp_epoch, read_warp_epoch;
    int16_t writer, reader, other_reader; /* other_reader: it has read in read_epoch, too; -1: none has */
    bool copying;                         /* an asynchronous copy by the writer is in progress */
};
constexpr size_t MARKED = 2;

void check_read(mark *mark, const char *name, ptrdiff_t index);
void check_write(mark *mark, const char *name, ptrdiff_t index);
[[noreturn]] void out_of_range(const char *name, ptrdiff_t index, size_t count);

/* One element; reading and writing it are checked for races. */
template <typename T> class cell {
    T *at_;
    mark *mark_;
    const char *name_;
    ptrdiff_t index_;

  public:
    cell(T *at, mark *marks, const char *name, ptrdiff_t index)
        : at_(at), mark_(marks), name_(name), index_(index)
    {
    }
    operator T() const
    {
        for (size_t i = 0; i < sizeof(T) / MARKED; i++) check_read(mark_ + i, name_, index_);
        return *at_;
    }
    T operator=(T value)
    {
        for (size_t i = 0; i < sizeof(T) / MARKED; i++) check_write(mark_ + i, name_, index_);
        return *at_ = value;
    }
    T operator=(const cell &other)
    {
        return *this = (T)other;
    }
    T operator+=(T value)
    {
        return *this = (T) * this + value;
    }
    T operator*=(T value)
    {
        return *this = (T) * this * value;
    }
};

struct span;

/* A pointer into shared memory that knows the array's range. */
template <typename T> class pointer {
    T *base_;
    mark *marks_;
    const char *name_;
    ptrdiff_t offset_;
    size_t count_;

  public:
    pointer(T *base, mark *marks, const char *name, size_t count)
        : base_(base), marks_(marks), name_(name), offset_(0), count_(count)
    {
        static_assert(sizeof(T) % MARKED == 0, "marks stand for two bytes");
    }
    cell<T> operator[](ptrdiff_t index) const
    {
        ptrdiff_t at = offset_ + index;
        if (at < 0 || (size_t)at >= count_) out_of_range(name_, at, count_);
        return cell<T>(base_ + at, marks_ + at * (ptrdiff_t)(sizeof(T) / MARKED), name_, at);
    }
    pointer operator+(ptrdiff_t more) const
    {
        pointer p = *this;
        p.offset_ += more;
        return p;
    }
    /* The `bytes` from the first element on, for instructions that access more than one element. */
    struct span span(size_t bytes) const;
};

/* A checked range of shared memory; it is aligned to its size. */
struct span {
    unsigned char *at;
    mark *marks; /* bytes / MARKED */
    size_t bytes;
    const char *name;
    ptrdiff_t index; /* of its first element */
};

[[noreturn]] void misaligned(const char *name, ptrdiff_t index, size_t bytes);

template <typename T> struct span pointer<T>::span(size_t bytes) const {
    ptrdiff_t last = offset_ + (ptrdiff_t)(bytes / sizeof(T)) - 1;
    if (offset_ < 0) out_of_range(name_, offset_, count_);
    if ((size_t)last >= count_) out_of_range(name_, last, count_);
    unsigned char *at = reinterpret_cast<unsigned char *>(base_ + offset_);
    if ((uintptr_t)at % bytes != 0) misaligned(name_, offset_, bytes);
    return {at, marks_ + offset_ *(ptrdiff_t)(sizeof(T) / MARKED), bytes, name_, offset_};
}

template <typename T, size_t COUNT>
struct storage {
    alignas(T) alignas(16) T at[COUNT]; /* as SHARED_ARRAY declares it on a GPU */
    mark marks[COUNT * sizeof(T) / MARKED];
};

/* Called when a thread reaches a static array of shared memory. */
void count_shared(const void *array, size_t bytes);
void dynamic_shared(unsigned char **base, mark **marks, size_t *bytes);

template <typename T> pointer<T> dynamic_pointer(const char *name)
{
    unsigned char *base;
    mark *marks;
    size_t bytes;
    dynamic_shared(&base, &marks, &bytes);
    return pointer<T>(reinterpret_cast<T *>(base), marks, name, bytes / sizeof(T));
}

} // namespace sim

#define __syncthreads()                  sim::sync_threads(__FILE__, __LINE__)
#define __syncwarp()                     sim::sync_warp(0xffffffffu, __FILE__, __LINE__)
#define __shfl_sync(mask, value, source) sim::shuffle(mask, value, (source)&31, __FILE__, __LINE__)
#define __shfl_xor_sync(mask, value, lanes)                                                                  \
    sim::shuffle(mask, value, sim::lane() ^ (lanes), __FILE__, __LINE__)
#define __ballot_sync(mask, predicate) sim::ballot(mask, predicate, __FILE__, __LINE__)
#define __any_sync(mask, predicate)    (sim::ballot(mask, predicate, __FILE__, __LINE__) != 0)
#define __all_sync(mask, predicate)    (sim::ballot(mask, !(predicate), __FILE__, __LINE__) == 0)

/* ---- arithmetic ---- */
/* The approximations of the hardware: exp(x) = 2^(x · log2 e) with the product rounded; a quotient whose
 * divisor is above 2^126 is 0. */
static inline float sim_expf(float x)
{
    return exp2f(x * 1.44269504f);
}
#define __expf sim_expf

static inline float __fdividef(float x, float y)
{
    return fabsf(y) > 0x1p126f && fabsf(y) <= 0x1.fffffep127f && fabsf(x) <= 0x1.fffffep127f ? 0.0f : x / y;
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

template <typename T> T __ldg(const T *p)
{
    return *p;
}

/* Atomic operations race with nothing. */
template <typename T> __attribute__((no_sanitize("thread"))) T atomicAdd(T *p, T value)
{
    T old = *p;
    *p = old + value;
    return old;
}

template <typename T> __attribute__((no_sanitize("thread"))) T atomicMax(T *p, T value)
{
    T old = *p;
    if (value > old) *p = value;
    return old;
}

/* ---- the runtime API ---- */
typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorDevicesUnavailable = 46,
    cudaErrorNoDevice = 100,
    cudaErrorLaunchFailure = 719,
    cudaErrorNotReady = 600,
    cudaErrorNotSupported = 801,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901
} cudaError_t;
typedef struct sim_stream *cudaStream_t;
typedef struct sim_event *cudaEvent_t;
typedef struct sim_pool *cudaMemPool_t;
typedef struct sim_graph *cudaGraph_t, *cudaGraphExec_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4, cudaMemPoolAttrReservedMemCurrent = 5 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum { cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2 };
enum cudaDeviceAttr { cudaDevAttrClockRate = 13, cudaDevAttrKernelExecTimeout = 17 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

struct cudaDeviceProp {
    char name[256];
    struct {
        char bytes[16];
    } uuid;
    size_t totalGlobalMem;
    int major, minor, multiProcessorCount;
    int maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor, regsPerMultiprocessor;
    size_t sharedMemPerMultiprocessor, reservedSharedMemPerBlock;
    int l2CacheSize;
    int pageableMemoryAccess; /* the device reads pageable host memory directly */
};
enum cudaDriverEntryPointQueryResult {
    cudaDriverEntryPointSuccess = 0,
    cudaDriverEntryPointSymbolNotFound = 1
};
enum { cudaEnableDefault = 0 };
enum cudaMemoryType { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeHost = 1 };
struct cudaPointerAttributes {
    enum cudaMemoryType type;
};

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMallocHost(void **out, size_t bytes);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *memory);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep);
cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreate(cudaEvent_t *out);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result);
cudaError_t cudaGetLastError();
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int bytes);
template <typename F> cudaError_t cudaFuncSetAttribute(F *kernel, enum cudaFuncAttribute attribute, int bytes)
{
    return cudaFuncSetAttribute((const void *)kernel, attribute, bytes);
}

#endif
#endif
