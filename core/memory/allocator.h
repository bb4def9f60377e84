/* The owner of device memory: every byte has a tag, is counted, and is freed.
 *
 * One interface, four strategies:
 *
 *     basic     every request goes to the device
 *     pool      the device's own stream-ordered pool (CUDA: cudaMallocAsync); when the device is full, it
 *               is trimmed and the request retried
 *     arena     one block taken at the start, filled in the order of the requests, empty again when the
 *               last one is freed. It reuses freed memory without regard to work queued on its stream:
 *               for memory whose users wait before they free it
 *     caching   blocks are split, merged and kept for the next request, in the order of their stream;
 *               trimmed when the device is full
 *
 * Sizes are in bytes: the product allocates whole arenas, and core/network/buffers.def has the type and
 * number of the elements in them. Memory is allocated in a scope and freed with it, on every path out of a
 * function; the allocator's own scope lasts until it closes. Sizes that overflow and a full device are errors
 * that name the tag, and the listener receives the table of tags. One thread at a time.
 *
 * Memory belongs to the stream of its request: work queued there after allocator_alloc may use it, and so may
 * work that was queued there before its scope ends. A NULL stream is for memory whose users wait for the
 * device before they free it. A stream must outlive its memory. */
#ifndef ANNEAL_CORE_MEMORY_ALLOCATOR_H
#define ANNEAL_CORE_MEMORY_ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/err.h"
#include "core/model/choices.h"
#include "kernels/device/backend.h"

struct allocator; /* opaque */

/* Receives a text line by line. */
struct allocator_listener {
    void (*line)(void *context, const char *line); /* `line` is borrowed for the call; NULL: ignored */
    void *context;
};

struct allocator_options {
    enum allocator_kind kind;
    const struct backend *backend; /* borrowed */
    struct device *device;         /* borrowed */
    size_t arena_bytes;            /* arena: its size, each request rounded up to 256 */
    FILE *report;                  /* where leaks are reported; NULL: nowhere */
    struct allocator_listener
        full; /* receives the table when memory runs out; the error lists its live bytes */
};

/* The memory of one tag, or all of it, in bytes. */
struct allocator_usage {
    char tag[32];       /* "" for the sum */
    int64_t live, peak; /* as requested: now, and the maximum so far */
    int64_t reserved;   /* live, rounded up; in the sum: bytes taken from the device */
    int64_t count;      /* allocations */
};

/* One lifetime: its memory is freed together. */
struct allocator_scope {
    struct allocator *allocator; /* borrowed */
};

/* The device memory that this strategy takes for `count` requests of these sizes in this order, without a
 * stream and before any is freed: exact to the byte, but for the pool an upper bound, as if it grew by whole
 * units for each request. pool_unit: of the device (backend->pool_unit), for the pool alone. */
enum status allocator_rehearse(enum allocator_kind kind, size_t pool_unit, const size_t *sizes, int count,
                               size_t *out, struct err *err);

enum status allocator_open(const struct allocator_options *options, struct allocator **out, struct err *err);
/* Frees everything. Reports what is still live; returns how many allocations that is. NULL is harmless. */
int64_t allocator_close(struct allocator *allocator);

/* The scope that lasts as long as the allocator. */
struct allocator_scope *allocator_root(struct allocator *allocator);
void allocator_scope_begin(struct allocator_scope *scope, struct allocator *allocator);
/* Frees what the scope still holds. Harmless on a zeroed struct, and twice. */
void allocator_scope_end(struct allocator_scope *scope);

/* `bytes` bytes aligned to 256, not cleared; 0 bytes count as 1. `tag` is copied, up to 31 bytes. */
enum status allocator_alloc(struct allocator_scope *scope, const char *tag, size_t bytes,
                            struct stream *stream, void **out, struct err *err);
/* Host memory for asynchronous copies to the device (CUDA: pinned). */
enum status allocator_alloc_host(struct allocator_scope *scope, const char *tag, size_t bytes, void **out,
                                 struct err *err);

/* Waits for the streams, then returns unused reserved memory to the device. Returns the bytes. */
size_t allocator_trim(struct allocator *allocator);

/* Sends the current table of tags, with their sum, to the listener, which must not call the allocator. */
void allocator_report(const struct allocator *allocator, const struct allocator_listener *listener);

void allocator_sum(const struct allocator *allocator, struct allocator_usage *out);
/* The tags in the order of their first use; returns how many are in `out`. */
int allocator_tags(const struct allocator *allocator, struct allocator_usage *out, int max);

#endif
