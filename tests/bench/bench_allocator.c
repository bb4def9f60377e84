/* The cost of an allocation: the four strategies compared with malloc, on a GPU with cudaMalloc (the strategy
 * `basic`). The trace resembles temporaries in training: 64 live blocks of 1 KiB to 16 MiB; in turn one is
 * freed and one allocated. Nothing touches the memory, so there are no page faults. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/philox.h"
#include "core/base/text.h"
#include "core/memory/allocator.h"
#include "kernels/device/cuda_plugin.h"

enum { LIVE = 64, OPERATIONS = 100000, GPU_OPERATIONS = 5000, ROUNDS = 5 };

/* A size whose logarithm is uniform. */
static size_t block_bytes(uint32_t i)
{
    struct philox_block r = philox4x32_10(i, 0, 0, 0, 0x62656E63u, 0);
    size_t power = (size_t)1 << (10 + r.word[0] % 14);
    return power + r.word[1] % power;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median of ROUNDS runs of `trace`, in nanoseconds an operation. */
static double median(double (*trace)(void *context, int operations), void *context, int operations)
{
    double seconds[ROUNDS];
    trace(context, operations); /* warms up: caches are filled */
    for (int i = 0; i < ROUNDS; i++) seconds[i] = trace(context, operations);
    qsort(seconds, ROUNDS, sizeof *seconds, by_size);
    return seconds[ROUNDS / 2] / operations * 1e9;
}

static double malloc_trace(void *context, int operations)
{
    static void *live[LIVE];
    (void)context;
    double start = clock_monotonic();
    for (int i = 0; i < operations; i++) {
        free(live[i % LIVE]);
        live[i % LIVE] = malloc(block_bytes((uint32_t)i));
    }
    double seconds = clock_monotonic() - start;
    for (int i = 0; i < LIVE; i++) free(live[i]), live[i] = NULL;
    return seconds;
}

struct target {
    struct allocator *allocator;
    struct stream *stream;
};

/* An arena is emptied when a round of LIVE blocks is over: that is how it is used. */
static double arena_trace(void *context, int operations)
{
    struct target *t = context;
    struct allocator_scope scope;
    double start = clock_monotonic();
    for (int i = 0; i < operations;) {
        allocator_scope_begin(&scope, t->allocator);
        for (int k = 0; k < LIVE && i < operations; k++, i++) {
            void *memory;
            if (allocator_alloc(&scope, "block", block_bytes((uint32_t)i), t->stream, &memory, NULL)) exit(1);
        }
        allocator_scope_end(&scope);
    }
    return clock_monotonic() - start;
}

static double trace(void *context, int operations)
{
    struct target *t = context;
    struct allocator_scope live[LIVE] = {{NULL}};
    void *memory;
    double start = clock_monotonic();
    for (int i = 0; i < operations; i++) {
        struct allocator_scope *scope = &live[i % LIVE];
        struct err err;
        allocator_scope_end(scope);
        allocator_scope_begin(scope, t->allocator);
        if (allocator_alloc(scope, "block", block_bytes((uint32_t)i), t->stream, &memory, &err)) {
            fprintf(stderr, "bench_allocator: %s\n", err.text);
            exit(1);
        }
    }
    double seconds = clock_monotonic() - start;
    for (int i = 0; i < LIVE; i++) allocator_scope_end(&live[i]);
    return seconds;
}

static void measure(const struct backend *backend, int operations)
{
    struct device *device = NULL;
    struct target t;
    struct device_info info;
    struct err err;
    char reserved[32], peak[32];
    if (backend->device_open(DEVICE_FIRST, 1, &device, &err) ||
        backend->stream_open(device, PRECISION_FP32, &t.stream, &err)) {
        fprintf(stderr, "bench_allocator: %s\n", err.text);
        exit(1);
    }
    backend->device_describe(device, &info);
    printf("%s\n", info.name);
    if (backend == cpu_backend())
        printf("  %-8s %10.0f ns a free and an allocation\n", "malloc",
               median(malloc_trace, NULL, operations));
    for (int kind = 0; kind < ALLOCATOR_KINDS; kind++) {
        struct allocator_options options = {.kind = (enum allocator_kind)kind,
                                            .backend = backend,
                                            .device = device,
                                            .arena_bytes = (size_t)1 << 30,
                                            .report = stderr};
        struct allocator_usage sum;
        if (allocator_open(&options, &t.allocator, &err)) {
            fprintf(stderr, "bench_allocator: %s\n", err.text);
            exit(1);
        }
        double nanoseconds = median(kind == ALLOCATOR_ARENA ? arena_trace : trace, &t, operations);
        allocator_sum(t.allocator, &sum);
        printf("  %-8s %10.0f ns a free and an allocation, %s reserved, %s live at the peak\n",
               allocator_kind_word((enum allocator_kind)kind), nanoseconds,
               text_format_bytes((uint64_t)sum.reserved, reserved, sizeof reserved),
               text_format_bytes((uint64_t)sum.peak, peak, sizeof peak));
        fflush(stdout);
        allocator_close(t.allocator);
    }
    backend->stream_close(t.stream);
    backend->device_close(device);
}

int main(void)
{
    const struct backend *cuda;
    struct err err;
    measure(cpu_backend(), OPERATIONS);
    if (cuda_backend_open(&cuda, &err))
        printf("SKIP the GPU: %s\n", err.text);
    else
        measure(cuda, GPU_OPERATIONS);
    return 0;
}
