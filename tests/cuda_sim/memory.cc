/* The simulator's device memory and runtime API.
 *
 * Every allocation is a mapping of its own in a reserved range of addresses. A mebibyte before and after it
 * is never accessible, and the bytes between its end and that guard have a pattern (and are poisoned under
 * AddressSanitizer). Fresh memory is all NaN (a big allocation only at its ends). Outside launches, copies
 * and matrix products no page is accessible: host code that reads through a device pointer stops, as on a
 * GPU.
 *
 * */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "tests/cuda_sim/machine.hh"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(at, bytes)   __asan_poison_memory_region(at, bytes)
#define UNPOISON(at, bytes) __asan_unpoison_memory_region(at, bytes)
#define ASAN                1
#else
#define POISON(at, bytes)   (void)0
#define UNPOISON(at, bytes) (void)0
#define ASAN                0
#endif

namespace {

enum { PAGE = 4096, GUARD = 1 << 20, PATTERN = 0xff, FILL = 4 << 20 };

struct allocation {
    unsigned char *at;
    size_t bytes, mapped; /* mapped: in whole pages, without the guard pages */
};

std::vector<allocation> allocations; /* in the order of their addresses */
bool open_now, free_waits = true, reads_host_memory;
uint64_t mallocs, closings;
size_t device_bytes = (size_t)1 << 30;

/* Reserves the addresses of all device memory, once. */
bool reserve()
{
    if (sim::range_begin != NULL) return true;
    void *range = mmap(NULL, sim::RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return false;
    sim::range_begin = (unsigned char *)range;
    if (!ASAN) sim::races_open();
    return true;
}

/* Gives the pages of an allocation back; its addresses stay reserved. */
void unmap(const allocation &a)
{
    UNPOISON(a.at, a.mapped);
    if (!ASAN) sim::races_forget(a.at, a.mapped);
    mmap(a.at, a.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void protect(const allocation &a, bool open)
{
    if (mprotect(a.at, a.mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) sim::fail("mprotect");
}

/* The bytes after the end of the allocation, up to its guard pages. */
void check_pattern(const allocation &a, const char *who)
{
    UNPOISON(a.at + a.bytes, a.mapped - a.bytes);
    for (size_t i = a.bytes; i < a.mapped; i++)
        if (a.at[i] != PATTERN)
            sim::fail("device memory out of range: by the end of %s, byte %zu behind an allocation of %zu "
                      "bytes had been written",
                      who, i - a.bytes, a.bytes);
    POISON(a.at + a.bytes, a.mapped - a.bytes);
}

#if ASAN
void on_report(const char *)
{
    sim::fail("device memory out of range (see the sanitizer's report)");
}
#endif

void on_fault(int, siginfo_t *info, void *)
{
    for (const allocation &a : allocations) {
        unsigned char *at = (unsigned char *)info->si_addr;
        if (at >= a.at - GUARD && at < a.at + a.mapped + GUARD)
            sim::fail(open_now ? "device memory out of range: byte %td of an allocation of %zu bytes"
                               : "the host touched device memory: byte %td of an allocation of %zu bytes",
                      at - a.at, a.bytes);
    }
    sim::fail("a bad address, %p", info->si_addr);
}

cudaError_t fault_or(cudaError_t error, const char *caller = __builtin_FUNCTION())
{
    return sim::faulted(caller) ? sim::sticky_error() : error;
}

} // namespace

unsigned char *sim::range_begin;

namespace sim {

/* Called before every use, as a test's framework may have installed its own handler. */
void catch_faults()
{
#if ASAN
    __asan_set_error_report_callback(on_report);
#endif
    static unsigned char stack[64 << 10];
    stack_t alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    if (sigaltstack(&alternate, NULL) != 0 || sigaction(SIGSEGV, &action, NULL) != 0) fail("sigaction");
}

/* Closing takes longer than most launches of a model, so after the first launches it is done only now and
 * then. */
void memory_open(bool open)
{
    enum { ALWAYS = 500, EVERY = 17 };
    if (!open && ++closings > ALWAYS && closings % EVERY != 0) return;
    if (open_now == open) return;
    open_now = open;
    for (const allocation &a : allocations) protect(a, open);
}

void memory_check(const char *who)
{
    for (const allocation &a : allocations) check_pattern(a, who);
}

void memory_release()
{
    for (const allocation &a : allocations) unmap(a);
    allocations.clear();
}

void memory_expect(const void *memory, size_t bytes, const char *what)
{
    const unsigned char *at = (const unsigned char *)memory;
    for (const allocation &a : allocations)
        if (at >= a.at && at <= a.at + a.bytes && bytes <= (size_t)(a.at + a.bytes - at)) return;
    fail("device memory out of range: %s of %zu bytes at %p does not lie in one allocation", what, bytes,
         memory);
}

void memory_race(ptrdiff_t at, const char *what, const char *who)
{
    const unsigned char *place = range_begin + at;
    for (const allocation &a : allocations)
        if (place >= a.at && place < a.at + a.mapped)
            fail("race on device memory: byte %td of an allocation of %zu bytes: %s %s without a barrier "
                 "between",
                 place - a.at, a.bytes, what, who);
    fail("race on device memory outside of all allocations");
}

} // namespace sim

extern "C" void sim_set_device_memory(uint64_t bytes)
{
    device_bytes = bytes;
}

extern "C" uint64_t sim_device_bytes(void)
{
    uint64_t bytes = 0;
    for (const allocation &a : allocations) bytes += a.bytes;
    return bytes;
}

extern "C" void sim_set_free_waits(bool waits)
{
    free_waits = waits;
}

extern "C" void sim_set_reads_host_memory(bool reads)
{
    reads_host_memory = reads;
}

extern "C" uint64_t sim_mallocs(void)
{
    return mallocs;
}

/* ---- the runtime API ---- */

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = sim::machine() == SIM_MACHINE_NO_DRIVER    ? 0
               : sim::machine() == SIM_MACHINE_OLD_DRIVER ? 11080
                                                          : 13000;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = sim::machine() == SIM_MACHINE_NEW_DEVICE ? 13010 : 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 0;
    enum sim_machine now = sim::machine();
    if (now == SIM_MACHINE_NO_DRIVER || now == SIM_MACHINE_OLD_DRIVER) return cudaErrorInsufficientDriver;
    if (now == SIM_MACHINE_NO_DEVICE) return cudaErrorNoDevice;
    *count = now == SIM_MACHINE_MIXED ? 2 : sim::gpus();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device)
{
    int count;
    if (cudaGetDeviceCount(&count) != cudaSuccess || device < 0 || device >= count)
        return cudaErrorInvalidValue;
    *out = cudaDeviceProp();
    snprintf(out->name, sizeof out->name, "CUDA simulator");
    for (int i = 0; i < 16; i++) out->uuid.bytes[i] = (char)(16 * i + device);
    out->totalGlobalMem = device_bytes;
    enum sim_machine now = sim::machine();
    bool old = now == SIM_MACHINE_OLD_DEVICE || (now == SIM_MACHINE_MIXED && device == 0);
    bool newer = now == SIM_MACHINE_NEW_DEVICE;
    out->major = old ? 7 : newer ? 12 : sim::capability() / 10;
    out->minor = old ? 0 : sim::capability() % 10;
    out->multiProcessorCount = 1; /* like one of an H100 */
    out->maxThreadsPerMultiProcessor = 2048;
    out->maxBlocksPerMultiProcessor = 32;
    out->regsPerMultiprocessor = 65536;
    out->sharedMemPerMultiprocessor = 228 << 10;
    out->reservedSharedMemPerBlock = 1 << 10;
    out->l2CacheSize = 1 << 12; /* small, as it is emptied often */
    out->pageableMemoryAccess = reads_host_memory;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    *value = attribute == cudaDevAttrClockRate ? 1000000 : 0; /* kHz; there is no screen */
    int count;
    return cudaGetDeviceCount(&count) == cudaSuccess && device < count ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaSetDevice(int device)
{
    cudaDeviceProp properties;
    sim::use_gpu(device);
    return fault_or(cudaGetDeviceProperties(&properties, device));
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    size_t used = sim_device_bytes() + sim::pool_idle();
    *total = device_bytes;
    *free_bytes = sim::machine() == SIM_MACHINE_FULL || used > device_bytes ? 0 : device_bytes - used;
    return fault_or(cudaSuccess);
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    *out = NULL;
    mallocs++;
    if (sim::faulted()) return sim::sticky_error();
    if (sim::spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    if (sim::allocation_fails() || bytes > device_bytes) return cudaErrorMemoryAllocation;
    if (sim_device_bytes() + sim::pool_idle() > device_bytes - bytes) return cudaErrorMemoryAllocation;
    if (bytes == 0) return cudaSuccess;
    sim::catch_faults();
    if (!reserve()) return cudaErrorMemoryAllocation;
    size_t mapped = (bytes + PAGE - 1) / PAGE * PAGE, place = 0;
    unsigned char *at = sim::range_begin + GUARD; /* the first gap that is wide enough */
    for (; place < allocations.size() && allocations[place].at < at + mapped + 2 * GUARD; place++)
        at = allocations[place].at + allocations[place].mapped + 2 * GUARD;
    if (at + mapped + GUARD > sim::range_begin + sim::RANGE) return cudaErrorMemoryAllocation;
    allocation a = {at, bytes, mapped};
    protect(a, true);
    UNPOISON(a.at, a.mapped);
    /* only the ends of a big one: untouched pages between them cost nothing */
    if (mapped <= FILL) memset(a.at, PATTERN, mapped);
    if (mapped > FILL) memset(a.at, PATTERN, PAGE), memset(a.at + mapped - PAGE, PATTERN, PAGE);
    POISON(a.at + a.bytes, a.mapped - a.bytes);
    protect(a, open_now);
    allocations.insert(allocations.begin() + (ptrdiff_t)place, a);
    *out = a.at;
    return cudaSuccess;
}

bool sim::memory_free(void *memory)
{
    for (size_t i = 0; i < allocations.size(); i++) {
        allocation a = allocations[i];
        if (a.at != memory) continue;
        protect(a, true);
        check_pattern(a, "its life");
        unmap(a);
        allocations.erase(allocations.begin() + (ptrdiff_t)i);
        return true;
    }
    return false;
}

cudaError_t cudaFree(void *memory)
{
    if (sim::spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    if (free_waits) { /* the runtime waits for the device */
        sim::host_waits();
        sim::drain_all();
    }
    if (memory != NULL && !sim::memory_free(memory)) return cudaErrorInvalidValue;
    return fault_or(cudaSuccess);
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    if (sim::faulted()) return sim::sticky_error();
    sim::memory_expect(memory, bytes, "cudaMemsetAsync");
    sim::queue(stream, [=] {
        if (sim::device_failed()) return;
        sim::work_done(sim::FILL, "", bytes, (double)((bytes + 4095) / 4096));
        sim::memory_open(true);
        memset(memory, value, bytes);
        sim::memory_open(false);
    });
    return cudaSuccess;
}

static void copy_now(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    if (sim::device_failed()) return;
    sim::work_done(kind == cudaMemcpyHostToDevice   ? sim::UPLOAD
                   : kind == cudaMemcpyDeviceToHost ? sim::DOWNLOAD
                                                    : sim::COPY,
                   "", bytes, (double)((bytes + 4095) / 4096));
    sim::memory_open(true);
    memcpy(to, from, bytes);
    sim::memory_open(false);
}

/* Pageable host memory is read before the call returns, unless the device reads it directly, and written
 * before the call returns, after all queued work. Page-locked memory is read and written when the stream
 * reaches the copy. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    bool down = kind == cudaMemcpyDeviceToHost, up = kind == cudaMemcpyHostToDevice;
    bool pageable = (down && !sim::is_pinned(to, bytes)) || (up && !sim::is_pinned(from, bytes));
    if (pageable && sim::spoils_capture(stream)) return cudaErrorStreamCaptureUnsupported;
    if (pageable) sim::host_waits();
    if (down && pageable) sim::drain(stream);
    if (down && (pageable || !sim::late())) sim::download_begins(bytes);
    if (sim::faulted()) return sim::sticky_error();
    if (!down) sim::memory_expect(to, bytes, "the target of cudaMemcpyAsync");
    if (!up) sim::memory_expect(from, bytes, "the source of cudaMemcpyAsync");
    if (up && pageable && sim::late() && !reads_host_memory) {
        const unsigned char *at = (const unsigned char *)from;
        std::vector<unsigned char> staged(at, at + bytes);
        sim::queue(stream, [=] { copy_now(to, staged.data(), bytes, kind); });
    } else if (down && !pageable && sim::late()) {
        sim::queue(stream, [=] {
            sim::download_begins(bytes);
            copy_now(to, from, bytes, kind);
        });
    } else if (down && pageable) {
        copy_now(to, from, bytes, kind);
    } else {
        sim::queue(stream, [=] { copy_now(to, from, bytes, kind); });
    }
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int bytes)
{
    if (sim::faulted()) return sim::sticky_error();
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || bytes < 0 ||
        !sim::allow_shared(kernel, (size_t)bytes))
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

cudaError_t cudaGetLastError()
{
    return sim::last_error();
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorDevicesUnavailable:
        return "CUDA-capable device(s) is/are busy or unavailable";
    case cudaErrorNotReady:
        return "device not ready";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    case cudaErrorNotSupported:
        return "operation not supported";
    case cudaErrorLaunchFailure:
        return "unspecified launch failure";
    }
    return "unknown error";
}
