/* Replaces `new`, so that the simulator's own heap use (a launch is a std::function, a block's threads are
 * fibers) does not count as an allocation of training: the product's device code calls only malloc. `new`
 * bypasses the counting functions (see core/base/heap.h), so `--check-allocations` means the same here as on
 * a GPU. */
#include <features.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <cstddef>
#include <new>

extern "C" void *__libc_malloc(size_t bytes);
extern "C" void __libc_free(void *memory);

void *operator new(size_t bytes)
{
    void *memory = __libc_malloc(bytes ? bytes : 1);
    if (!memory) throw std::bad_alloc();
    return memory;
}

void operator delete(void *memory) noexcept
{
    __libc_free(memory);
}

void operator delete(void *memory, size_t) noexcept
{
    __libc_free(memory);
}

#endif
