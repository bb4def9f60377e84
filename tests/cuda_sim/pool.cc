/* The simulator's memory pool, which reports that it grows by whole chunks. Its memory is ordinary device
 * memory (memory.cc), and counted. Freed memory becomes inaccessible at once, so that a later use is a
 * finding, but counts as held by the pool until a trim, as the runtime reports it. */
#include <map>

#include "tests/cuda_sim/machine.hh"

struct sim_pool {
    std::map<void *, size_t> live;
    size_t idle = 0, used = 0;
};

static sim_pool the_pool;
static const size_t CHUNK = (size_t)2 << 20;

size_t sim::pool_idle()
{
    return the_pool.idle;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int device)
{
    *out = &the_pool;
    return device < 0 ? cudaErrorInvalidValue : sim::faulted() ? sim::sticky_error() : cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, enum cudaMemPoolAttr attribute, void *)
{
    return attribute == cudaMemPoolAttrReleaseThreshold ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    if (attribute != cudaMemPoolAttrReservedMemCurrent) return cudaErrorInvalidValue;
    *(uint64_t *)value = (pool->used + pool->idle + CHUNK - 1) / CHUNK * CHUNK;
    return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    if (sim::faulted()) return sim::sticky_error();
    if (pool->idle > keep) pool->idle = keep;
    return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t)
{
    size_t idle = pool->idle;
    pool->idle -= idle < bytes ? idle : bytes;
    cudaError_t error = cudaMalloc(out, bytes);
    if (error != cudaSuccess) {
        pool->idle = idle;
        return error;
    }
    pool->live[*out] = bytes;
    pool->used += bytes;
    return cudaSuccess;
}

/* The memory is freed when the stream reaches the call. */
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    auto found = the_pool.live.find(memory);
    if (found == the_pool.live.end()) return cudaErrorInvalidValue;
    size_t bytes = found->second;
    if (sim::faulted()) return sim::sticky_error();
    the_pool.live.erase(found);
    sim::queue(stream, [=] {
        the_pool.used -= bytes;
        the_pool.idle += bytes;
        if (!sim::device_failed()) sim::memory_free(memory);
    });
    return cudaSuccess;
}
