/* See rationed.h. */
#include "tests/core/memory/rationed.h"
#include "tests/cmocka.h"

#include <pthread.h>
#include <sys/mman.h>
/* cmocka wants four of the above first */

static struct ration ration;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct backend *cpu; /* kept, as detecting the processor takes long in a virtual machine */

/* A header before each block. Large blocks are pages from the system, which cost nothing until they are
 * touched. */
enum { HEADER = 4096, MAPPED_FROM = 1 << 20 };

struct header {
    size_t bytes;
    bool pool;
};

static enum status give(struct device *device, size_t bytes, bool pool, void **out, struct err *err)
{
    void *memory = NULL;
    pthread_mutex_lock(&lock);
    ration.calls++;
    bool enough = bytes <= ration.limit && ration.used <= ration.limit - bytes;
    if (enough) ration.used += bytes;
    if (enough && pool) ration.pool += bytes;
    if (ration.used > ration.peak) ration.peak = ration.used;
    pthread_mutex_unlock(&lock);
    if (!enough) return err_set(err, STATUS_NO_MEMORY, "the device is full");
    if (bytes < MAPPED_FROM)
        assert_int_equal(cpu->mem_alloc(device, bytes + HEADER, &memory, err), STATUS_OK);
    else
        memory = mmap(NULL, bytes + HEADER, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != NULL && memory != MAP_FAILED);
    *(struct header *)memory = (struct header){bytes, pool};
    *out = (unsigned char *)memory + HEADER;
    return STATUS_OK;
}

static void take_back(struct device *device, void *memory)
{
    struct header *header = (struct header *)(void *)((unsigned char *)memory - HEADER);
    size_t bytes = header->bytes;
    pthread_mutex_lock(&lock);
    ration.used -= bytes;
    if (header->pool) ration.pool -= bytes;
    pthread_mutex_unlock(&lock);
    if (bytes < MAPPED_FROM)
        cpu->mem_free(device, header);
    else
        munmap(header, bytes + HEADER);
}

static enum status rationed_alloc(struct device *device, size_t bytes, void **out, struct err *err)
{
    return give(device, bytes, false, out, err);
}

static enum status rationed_pool_alloc(struct device *device, size_t bytes, struct stream *stream, void **out,
                                       struct err *err)
{
    (void)stream;
    return give(device, bytes, true, out, err);
}

static void rationed_pool_free(struct device *device, void *memory, size_t bytes, struct stream *stream)
{
    (void)bytes;
    (void)stream;
    take_back(device, memory);
}

static size_t rationed_pool_reserved(struct device *device)
{
    (void)device;
    return rationed_now().pool;
}

struct ration rationed_now(void)
{
    pthread_mutex_lock(&lock);
    struct ration now = ration;
    pthread_mutex_unlock(&lock);
    return now;
}

void rationed_open(struct rationed *r, enum allocator_kind kind, size_t limit, FILE *report)
{
    struct err err = {0};
    if (!cpu) cpu = cpu_backend();
    r->backend = *cpu;
    r->backend.mem_alloc = rationed_alloc;
    r->backend.mem_free = take_back;
    r->backend.pool_alloc = rationed_pool_alloc;
    r->backend.pool_free = rationed_pool_free;
    r->backend.pool_reserved = rationed_pool_reserved;
    ration = (struct ration){.limit = limit};
    assert_int_equal(r->backend.device_open(DEVICE_FIRST, 1, &r->device, &err), STATUS_OK);
    for (int i = 0; i < RATIONED_STREAMS; i++)
        assert_int_equal(r->backend.stream_open(r->device, PRECISION_FP32, &r->streams[i], &err), STATUS_OK);
    struct allocator_options options = {
        .kind = kind, .backend = &r->backend, .device = r->device, .arena_bytes = limit, .report = report};
    assert_int_equal(allocator_open(&options, &r->allocator, &err), STATUS_OK);
}

int64_t rationed_close(struct rationed *r)
{
    int64_t leaks = allocator_close(r->allocator);
    assert_int_equal(rationed_now().used, 0);
    for (int i = 0; i < RATIONED_STREAMS; i++) r->backend.stream_close(r->streams[i]);
    r->backend.device_close(r->device);
    return leaks;
}
