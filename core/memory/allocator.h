/* The owner of device memory: every byte has a tag, is counted, and is given back.
 *
 * One interface, four strategies:
 *
 *     basic     every request goes to the device
 *     pool      the device's own stream-ordered pool (CUDA: cudaMallocAsync); trimmed, and asked again, when
 *               the device is full
 *     arena     one block taken at the start; requests follow each other in it, and when the last is freed it
 *               is empty again. What is freed in it may be given again whatever is queued on its
 *               stream: for memory whose users wait before they free it
 *     caching   blocks are split, merged and kept for the next request, in the order of their stream;
 *               trimmed when the device is full
 *
 * Memory is asked for in a scope and freed with it, on every way out of a function; the allocator's own scope
 * lasts as long as it does. Sizes that overflow and a full device are errors that name the tag, and the table
 * of tags goes to the listener. One thread at a time.
 *
 * Memory belongs to the stream it was asked for: work queued there after allocator_alloc may use it, and what
 * was queued there before its scope ends still may. A stream NULL is for memory whose users wait for the
 * device before they free it. A stream must outlive its memory. */
#ifndef ANNEAL_CORE_MEMORY_ALLOCATOR_H
#define ANNEAL_CORE_MEMORY_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/err.h"
#include "core/model/choices.h"
#include "kernels/device/backend.h"

struct allocator; /* opaque */

/* Receives a text, a line at a time. */
struct allocator_listener {
    void (*line)(void *context, const char *line); /* borrowed for the call; NULL: nobody listens */
    void *context;
};

struct allocator_options {
    enum allocator_kind kind;
    const struct backend *backend;  /* borrowed */
    struct device *device;          /* borrowed */
    size_t arena_bytes;             /* arena: its size, each request rounded up to 256 */
    FILE *report;                   /* where leaks are named; NULL: nowhere */
    struct allocator_listener full; /* receives the table when there is no room; the sentence of the error has
                                       what is live of it, as far as a line holds that */
};

/* The memory of one tag, or all of it, in bytes. */
struct allocator_usage {
    char tag[32];       /* "" for the sum */
    int64_t live, peak; /* as asked for: now, and the most there ever was */
    int64_t reserved;   /* live with rounding; of the sum: what the device has given */
    int64_t count;      /* allocations */
};

/* One lifetime: its memory is freed together. */
struct allocator_scope {
    struct allocator *allocator; /* borrowed */
};

/* The memory that this strategy takes of a device for `count` requests of these sizes in this order, without
 * a stream and before any is freed: to the byte, but of the pool only a bound, as each request is taken to
 * have it grow by whole units. pool_unit: of the device (backend->pool_unit), for the pool alone. */
enum status allocator_rehearse(enum allocator_kind kind, size_t pool_unit, const size_t *sizes, int count,
                               size_t *out, struct err *err);

enum status allocator_open(const struct allocator_options *options, struct allocator **out, struct err *err);
/* Frees everything. What is still live is named in the report and counted; NULL is harmless. */
int64_t allocator_close(struct allocator *allocator);

/* The scope that lasts as long as the allocator. */
struct allocator_scope *allocator_root(struct allocator *allocator);
void allocator_scope_begin(struct allocator_scope *scope, struct allocator *allocator);
/* Frees what the scope still holds. Harmless on a zeroed struct, and twice. */
void allocator_scope_end(struct allocator_scope *scope);

/* `bytes` bytes aligned to 256, not cleared; 0 bytes are as good as 1. `tag` is copied, up to 31 bytes. */
enum status allocator_alloc(struct allocator_scope *scope, const char *tag, size_t bytes,
                            struct stream *stream, void **out, struct err *err);
/* Host memory from which copies to the device run by themselves (CUDA: pinned). */
enum status allocator_alloc_host(struct allocator_scope *scope, const char *tag, size_t bytes, void **out,
                                 struct err *err);

/* Gives back to the device what is reserved and unused, after waiting for the streams. Returns the bytes. */
size_t allocator_trim(struct allocator *allocator);

/* The table of tags, with their sum, as of now. The listener must not call the allocator. */
void allocator_tell(const struct allocator *allocator, const struct allocator_listener *listener);

void allocator_sum(const struct allocator *allocator, struct allocator_usage *out);
/* The tags in the order they first came; returns how many of them `out` holds. */
int allocator_tags(const struct allocator *allocator, struct allocator_usage *out, int max);

#endif
