/* Shared by the CUDA twins: the device and stream behind the opaque handles of backend.h, the launch macro,
 * shared memory, reductions over warps and blocks. Private to the .cu files; tensors' elements: element.cuh.
 *
 * The order of every reduction depends on the shape alone, so results are deterministic; there are no float
 * atomics. After the first fault of a stream nothing more is launched on it, and stream_wait reports that
 * fault; after a sticky fault no call touches the device again. Blocks are one-dimensional and a multiple of
 * 32 threads.
 *
 * The same files compile as C++ for tests/cuda_sim, where shared memory is an object that checks each access:
 * hence SHARED_ARRAY, SHARED_DYNAMIC and shared_pointer instead of __shared__ and plain pointers. */
#ifndef ANNEAL_KERNELS_CUDA_DEVICE_CUH
#define ANNEAL_KERNELS_CUDA_DEVICE_CUH

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <type_traits>

extern "C" {
#include "core/base/err.h"
#include "kernels/device/backend.h"
}

struct gemm_cache;        /* gemm.cu */
struct peers;             /* cuda_peers.cu */
struct attention_library; /* attention_cudnn.cu */

struct device {
    int index;
    cudaDeviceProp properties;
    struct device_info info; /* as it was last described */
    cublasLtHandle_t blas;
    struct gemm_cache *gemm;             /* prepared matrix products, for all streams; one thread at a time */
    struct attention_library *attention; /* NULL: cuDNN was not opened */
    cudaMemPool_t pool;
    struct peers *peers; /* the devices of other ranks; NULL: it has not joined a world */
    int64_t allocations; /* so far, by all threads: see allocations() */
    bool lost;           /* has failed permanently: no call may touch it */
    char why[160];       /* CUDA's first error; "": unknown */
};

extern "C" const struct backend cuda_table;

struct stream {
    struct device *device;
    enum precision precision;
    cudaStream_t queue;
    void *workspace; /* of libraries, lent; NULL: none */
    size_t workspace_bytes;
    const char *fault_at; /* the first failure, a literal; NULL: none */
    char fault[160];      /* its reason */
    bool full;            /* the only failure was a lack of memory: the device is not lost */
};

/* The functions of the table. */
#define SLOT(name) std::remove_pointer_t<decltype(backend::name)> name;
BACKEND_SLOTS(SLOT)
#undef SLOT
#define OPERATION(name, label, operands, flops) void name(PARAMETERS(operands) struct stream *stream);
#include "kernels/operations.def"

enum status activity_find(struct err *err); /* cuda_plugin's find_cupti */
enum status peers_find(struct err *err);    /* its find_nccl */
enum status pool_open(struct device *device, struct err *err);
/* Fills err for a failed call of CUDA; the device is lost, unless it only had no memory. */
enum status device_refused(struct device *device, const char *what, cudaError_t error, struct err *err);
enum status device_lost(const struct device *device, struct err *err); /* the error of a lost device */
void allocations_count(struct device *device); /* counts an allocation made by CUDA itself */
/* Removes a fault that was not one of the device. */
void stream_forget(struct stream *stream);

/* Keeps the first fault only: later ones follow from it. The device is lost. */
void stream_fault(struct stream *stream, const char *at, const char *why);
/* For failures after which CUDA works: nothing more runs on the stream, but the device is not lost. full: it
 * only had no memory. */
void stream_decline(struct stream *stream, const char *at, const char *why, bool full);
/* Sets the fault of a vendor's library that did not do its work: the device is lost only if it says so
 * itself. refused: the library does not take this work; full: it had no memory. */
void stream_library_failed(struct stream *stream, const char *at, const char *why, bool refused, bool full);
/* Sets the fault of a failed launch: the device is lost, unless it only had no memory for the launch. */
void stream_refused(struct stream *stream, const char *at, cudaError_t error);

/* Call before every use of CUDA for the stream: false once it has failed, or another part of the device,
 * which then sets its fault, too. */
static inline bool stream_usable(struct stream *stream)
{
    if (stream->fault_at == NULL && stream->device->lost)
        stream_fault(stream, "an earlier call",
                     stream->device->why[0] != '\0' ? stream->device->why : "the device is lost");
    return stream->fault_at == NULL;
}

/* Call after a use of CUDA for the stream; `at` names it. */
static inline void stream_called(struct stream *stream, const char *at, cudaError_t error)
{
    if (error != cudaSuccess) stream_fault(stream, at, cudaGetErrorString(error));
}

/* The exchanges with other ranks' devices between _begin and _end are one piece of the stream's work. All
 * ranks make the same exchanges in the same order. Without effect before device_join. `type`: of
 * kernels/device/nccl.h. */
void peers_begin(struct stream *stream);
void peers_end(struct stream *stream);
/* `sums`: on rank `owner`, x (n) becomes Σ of all ranks' x; elsewhere it stays. Else x everywhere becomes
 * that of rank `owner`. */
void peers_exchange(void *x, size_t n, int type, bool sums, int owner, struct stream *stream);
void peers_close(struct device *device);
/* A stream has failed. The others would wait for this rank, so the watching thread ends all ranks, and
 * _await_end does not return; unless that failure is forgotten at once. */
void peers_failed(struct device *device, const char *at, const char *why);
void peers_forget(struct device *device);
void peers_await_end(const struct device *device);

enum status gemm_cache_open(struct device *device, struct err *err);
void gemm_cache_close(struct device *device);

/* LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...): a template with commas in parentheses. */
#ifdef ANNEAL_CUDA_SIM
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                               \
    do {                                                                                                     \
        if (stream_usable(stream)) {                                                                         \
            sim::kernel_of<(kernel)>::launch(#kernel, (stream)->queue, dim3(grid), dim3(block),              \
                                             (shared_bytes), __VA_ARGS__);                                   \
            launch_check(stream, #kernel);                                                                   \
        }                                                                                                    \
    } while (0)
#define SHARED_ARRAY(type, name, count)                                                                      \
    static sim::storage<type, (count)> name##_storage;                                                       \
    sim::count_shared(name##_storage.at, sizeof name##_storage.at);                                          \
    sim::pointer<type> name(name##_storage.at, name##_storage.marks, #name, (count))
#define SHARED_DYNAMIC(type, name) sim::pointer<type> name = sim::dynamic_pointer<type>(#name)
template <typename T> using shared_pointer = sim::pointer<T>;
#else
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                               \
    do {                                                                                                     \
        if (stream_usable(stream)) {                                                                         \
            (kernel)<<<(grid), (block), (shared_bytes), (stream)->queue>>>(__VA_ARGS__);                     \
            launch_check(stream, #kernel);                                                                   \
        }                                                                                                    \
    } while (0)
#define SHARED_ARRAY(type, name, count) __shared__ __align__(16) type name[count]
#define SHARED_DYNAMIC(type, name)                                                                           \
    extern __shared__ float4 dynamic_shared_memory[];                                                        \
    type *name = reinterpret_cast<type *>(dynamic_shared_memory)
template <typename T> using shared_pointer = T *;
#endif

/* Each .cu file is a module, which the CUDA runtime loads at the first use of a kernel in it. For
 * cuda_modules.cu, which loads all of them beforehand, every file that includes this one puts the address of
 * one kernel into the plugin's section "anneal_modules". */
#ifndef ANNEAL_CUDA_SIM
static __global__ void module_mark()
{
}
__attribute__((section("anneal_modules"), used)) static const void *module_anchor = (const void *)module_mark;
#endif
void modules_load();

static inline void launch_check(struct stream *stream, const char *kernel)
{
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) stream_refused(stream, kernel, error);
}

/* Shared memory that every GPU from compute capability 8.0 on allows per block: 8.6, 8.9 and 12.x allow the
 * least. */
constexpr size_t SHARED_MOST = 99 << 10;

/* The widest head that the kernels take. */
constexpr int HEAD_MAX = 256;

static inline bool head_width_ok(int HS, struct stream *stream)
{
    if (HS <= HEAD_MAX) return true;
    stream_decline(stream, "attention", "the GPU's kernel takes model.head_dim up to 256", false);
    return false;
}

/* Call before the launch of a kernel with more than 48 KiB of dynamic shared memory. */
template <typename F> static inline void allow_shared(struct stream *stream, F *kernel, size_t bytes)
{
    if (!stream_usable(stream)) return;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess)
        stream_refused(stream, "a kernel, or the shared memory of the next one,", error);
}

/* Blocks of `threads` for n elements, one thread each. n >= 1, below 2^31 · threads. */
static inline unsigned block_count(size_t n, unsigned threads)
{
    return (unsigned)((n + threads - 1) / threads);
}

/* Threads for a row of n elements, at least four elements each: 32 to 256. */
static inline unsigned row_threads(int n, int each)
{
    unsigned warp = 32u * (unsigned)(each < 4 ? 4 : each), threads = ((unsigned)n + warp - 1) / warp * 32;
    return threads < 32 ? 32 : threads > 256 ? 256 : threads;
}

/* Lanes that share a row of `pieces`, one piece each at a time: a power of two up to 32. */
static inline int row_lanes(int pieces)
{
    int lanes = 1;
    while (lanes < 32 && lanes < pieces) lanes *= 2;
    return lanes;
}

static inline bool aligned16(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

/* ---- reductions; every lane gets the result, the order is fixed ---- */

struct add_up {
    template <typename T> __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};

struct greater {
    __device__ float operator()(float a, float b) const
    {
        return fmaxf(a, b);
    }
};

/* Over groups of LANES neighbouring lanes of a warp; LANES is a power of two. */
template <int LANES, typename Op, typename T> __device__ static inline T lanes_reduce(T x)
{
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) x = Op()(x, __shfl_xor_sync(0xffffffffu, x, lanes));
    return x;
}

template <int LANES = 32, typename T> __device__ static inline T warp_sum(T x)
{
    return lanes_reduce<LANES, add_up>(x);
}

/* The same for `lanes`, a power of two up to 32. */
template <typename T> __device__ static inline T lanes_sum(T x, int lanes)
{
    for (lanes /= 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

template <int LANES = 32> __device__ static inline float warp_max(float x)
{
    return lanes_reduce<LANES, greater>(x);
}

/* Over a block of at most 1,024 threads, for every thread. All of them must call it. */
template <typename Op, typename T> __device__ static inline T block_reduce(T x)
{
    SHARED_ARRAY(T, block_partial, 32);
    x = lanes_reduce<32, Op>(x);
    if (blockDim.x == 32) return x;
    if (threadIdx.x % 32 == 0) block_partial[threadIdx.x / 32] = x;
    __syncthreads();
    T total = block_partial[0];
    for (unsigned w = 1; w < blockDim.x / 32; w++) total = Op()(total, (T)block_partial[w]);
    __syncthreads();
    return total;
}

template <typename T> __device__ static inline T block_sum(T x)
{
    return block_reduce<add_up>(x);
}

__device__ static inline float block_max(float x)
{
    return block_reduce<greater>(x);
}

#endif
