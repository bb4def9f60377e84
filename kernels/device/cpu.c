/* The CPU table, and its device, memory and streams. Compiled once per instruction set, like every CPU twin;
 * see cpu_select.c for how one is chosen.
 *
 * A call runs to its end before it returns, so waiting is free and nothing can fail later. */
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "kernels/device/cpu.h"
#include "kernels/device/cpu_device.h"
#include "kernels/device/worker.h"
#include "kernels/product.h"

#ifdef CPU_TABLE_BF16
extern const struct backend CPU_TABLE_BF16;

/* The operations of streams in bf16. */
static const struct backend *table_bf16(void)
{
#ifdef CPU_TABLE_BF16_NATIVE
    extern const struct backend CPU_TABLE_BF16_NATIVE;
    if (cpu_has_bf16()) return &CPU_TABLE_BF16_NATIVE;
#endif
    return &CPU_TABLE_BF16;
}
#endif

#if defined(__AVX512F__)
#define ISA_LABEL "AVX-512"
#elif defined(__AVX2__)
#define ISA_LABEL "AVX2"
#elif defined(__x86_64__)
#define ISA_LABEL "SSE2"
#elif defined(__aarch64__)
#define ISA_LABEL "NEON"
#else
#define ISA_LABEL "generic"
#endif

static enum status device_open(int index, int threads, struct device **out, struct err *err)
{
    if (index > 0)
        return err_set(err, STATUS_USAGE, "cpu: there is no CPU %d (all cores are one device, 0)", index);
    if (threads < 0 || threads > CPU_THREADS_MAX)
        return err_set(err, STATUS_USAGE, "cpu: cannot use %d threads (give 1 to %d, or 0 for all cores)",
                       threads, CPU_THREADS_MAX);
    struct cpu_threads found = cpu_threads_look(threads);
    struct device *device = calloc(1, sizeof *device);
    if (device == NULL) return err_no_memory(err, "the CPU's handle");
    device->threads = cpu_threads_choose(&found);
    omp_set_dynamic(false); /* OMP_DYNAMIC starts fewer threads than operations divide their work for */
    *out = device;
    return STATUS_OK;
}

/* "model name : AMD EPYC 9B14" of /proc/cpuinfo; only x86 has this line. */
static void processor_name(char *buf, size_t size)
{
    snprintf(buf, size, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL) return;
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "model name", 10) != 0) continue;
        char *value = strchr(line, ':');
        if (value == NULL) continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        if (*value != '\0') snprintf(buf, size, "%.64s", value);
        break;
    }
    fclose(file);
}

static void device_describe(struct device *device, struct device_info *out)
{
    char processor[65];
    memset(out, 0, sizeof *out);
    processor_name(processor, sizeof processor);
    snprintf(out->name, sizeof out->name, "%s, %d thread%s, %s", processor, device->threads,
             text_plural(device->threads), ISA_LABEL);
    static const char *const products[] = {
        [WAY_FMA] = "", [WAY_DOTS] = ", bf16 by dot products", [WAY_AMX] = ", products by AMX"};
    snprintf(out->computes, sizeof out->computes, "%s%s", ISA_LABEL, products[cpu_product_way()]);
    snprintf(out->short_name, sizeof out->short_name, "cpu");
    out->best = cpu_product_way() == WAY_FMA ? PRECISION_FP32 : PRECISION_BF16;
    out->mixes_elements = true;
    out->available_bytes = memory_available();
    out->total_bytes = memory_total();
}

/* Tensors are read in short pieces far apart (a head's rows, a GEMM's panels); with small pages, looking up
 * addresses takes a tenth of the time or more. */
#define HUGE_PAGE ((size_t)2 << 20)

static enum status mem_alloc(struct device *device, size_t bytes, void **out, struct err *err)
{
    device->allocations++;
    void *memory = NULL;
    size_t unit = bytes < HUGE_PAGE ? 256 : HUGE_PAGE;
    size_t rounded = (bytes + unit - 1) / unit * unit;
    if (rounded >= bytes) memory = aligned_alloc(unit, rounded > 0 ? rounded : unit);
    if (memory == NULL) return err_no_memory(err, "%s (use a smaller model or batch)", TEXT_BYTES(bytes));
#ifdef MADV_HUGEPAGE
    /* optional: without huge pages everything works, but tens of percent slower */
    if (unit == HUGE_PAGE) madvise(memory, rounded, MADV_HUGEPAGE);
#endif
    *out = memory;
    return STATUS_OK;
}

static void mem_free(struct device *device, void *memory)
{
    free(memory);
}

static enum status host_alloc(struct device *device, size_t bytes, void **out, struct err *err)
{
    return mem_alloc(device, bytes, out, err);
}

static void host_free(struct device *device, void *memory)
{
    free(memory);
}

static int64_t allocations(struct device *device)
{
    return device->allocations;
}

/* In pieces that threads share statically. */
void mem_zero(void *memory, size_t bytes, struct stream *stream)
{
    const size_t piece = 65536;
    size_t pieces = (bytes + piece - 1) / piece;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (size_t i = 0; i < pieces; i++)
        memset((char *)memory + i * piece, 0, bytes - i * piece < piece ? bytes - i * piece : piece);
}

void mem_upload(void *device_memory, const void *host, size_t bytes, struct stream *stream)
{
    if (bytes > 0) memcpy(device_memory, host, bytes);
}

void mem_download(void *host, const void *device_memory, size_t bytes, struct stream *stream)
{
    if (bytes > 0) memcpy(host, device_memory, bytes);
}

void mem_download_async(void *host, const void *device_memory, size_t bytes, struct stream *stream)
{
    mem_download(host, device_memory, bytes, stream);
}

void control_set(struct step_control *out, struct step_control value, struct stream *stream)
{
    *out = value;
}

void mem_copy(void *to, const void *from, size_t bytes, struct stream *stream)
{
    const size_t piece = 65536; /* shared as in mem_zero */
    size_t pieces = (bytes + piece - 1) / piece;
#pragma omp parallel for num_threads(stream->threads) schedule(static)
    for (size_t i = 0; i < pieces; i++)
        memcpy((char *)to + i * piece, (const char *)from + i * piece,
               bytes - i * piece < piece ? bytes - i * piece : piece);
}

/* The C library's heap is the pool. */
static enum status pool_alloc(struct device *device, size_t bytes, struct stream *stream, void **out,
                              struct err *err)
{
    enum status status = mem_alloc(device, bytes, out, err);
    if (!status) device->pool_reserved += bytes;
    return status;
}

static void pool_free(struct device *device, void *memory, size_t bytes, struct stream *stream)
{
    device->pool_reserved -= bytes;
    free(memory);
}

static size_t pool_reserved(struct device *device)
{
    return device->pool_reserved;
}

static size_t pool_unit(struct device *device)
{
    return 1;
}

static enum status stream_open(struct device *device, enum precision precision, struct stream **out,
                               struct err *err)
{
    if (precision != PRECISION_FP32 && precision != PRECISION_BF16)
        return err_set(err, STATUS_USAGE, "cpu: computes in fp32 and bf16, not in %s",
                       precision_name(precision));
    struct stream *stream = malloc(sizeof *stream);
    if (stream == NULL) return err_no_memory(err, "a stream's handle");
    *stream =
        (struct stream){.threads = device->threads, .precision = precision, .product_way = cpu_product_way()};
#ifdef CPU_TABLE_BF16
    stream->bf16 = table_bf16();
#endif
    enum status status = mem_alloc(device, (size_t)device->threads * product_bytes(), &stream->products, err);
    if (status) {
        free(stream);
        return status;
    }
    *out = stream;
    return STATUS_OK;
}

static enum status stream_beside(struct device *device, enum precision precision, struct stream **out,
                                 struct err *err)
{
    struct stream *stream = NULL;
    enum status status = stream_open(device, precision, &stream, err);
    if (status) return status;
    stream->threads = 1;
    stream->worker = worker_open();
    if (!stream->worker) {
        free(stream->products);
        free(stream);
        return err_no_memory(err, "the thread of a stream");
    }
    *out = stream;
    return STATUS_OK;
}

static void stream_close(struct stream *stream)
{
    worker_close(stream->worker);
    free(stream->products);
    free(stream);
}

static enum status stream_wait(struct stream *stream, struct err *err)
{
    if (stream->worker) worker_wait(stream->worker, worker_queued(stream->worker));
    return STATUS_OK;
}

/* Calls are synchronous, so a mark is the current time; that of a stream with a thread is also how much it
 * has to do. */
struct event {
    double at; /* seconds of clock_monotonic */
    struct worker *worker;
    uint64_t work;
};

static enum status event_open(struct device *device, struct event **out, struct err *err)
{
    struct event *event = calloc(1, sizeof *event);
    if (event == NULL) return err_no_memory(err, "an event's handle");
    *out = event;
    return STATUS_OK;
}

static void event_record(struct event *event, struct stream *stream)
{
    event->at = clock_monotonic();
    event->worker = stream->worker;
    if (stream->worker) event->work = worker_queued(stream->worker);
}

static bool event_done(struct event *event)
{
    return !event->worker || worker_done(event->worker) >= event->work;
}

static enum status event_wait(struct event *event, struct stream *stream, struct err *err)
{
    if (event->worker) worker_wait(event->worker, event->work);
    return STATUS_OK;
}

static void stream_after(struct stream *stream, struct event *event)
{
    if (event->worker && event->worker != stream->worker) worker_wait(event->worker, event->work);
}

static double event_elapsed(struct event *from, struct event *to)
{
    return (to->at - from->at) * 1e3;
}

/* A recording is the function to call. */
struct graph {
    void (*work)(void *context);
    void *context;
};

static enum status graph_open(struct stream *stream, void (*work)(void *context), void *context,
                              struct graph **out, struct err *err)
{
    struct graph *graph = malloc(sizeof *graph);
    if (graph == NULL) return err_no_memory(err, "a graph's handle");
    *graph = (struct graph){work, context};
    *out = graph;
    return STATUS_OK;
}

static void graph_run(struct graph *graph, struct stream *stream)
{
    graph->work(graph->context);
}

static size_t library_workspace(struct device *device, const struct attention_problem *attention)
{
    return 0;
}

/* ---- slots that have nothing to do ----
 *
 * Calls are complete when they return and run on the host, where spans show everything; the C library manages
 * the heap; products need no scratch and no preparation; handles own nothing. */

/* clang-format off */
#define NOTHING(slot, ...) static void slot(__VA_ARGS__) {}
NOTHING(pool_trim, struct device *device)
NOTHING(range_push, const char *name)
NOTHING(range_pop, void)
NOTHING(workspace_lend, struct stream *stream, void *workspace, size_t bytes)

#define SUCCESS(slot, ...) static enum status slot(__VA_ARGS__) { return STATUS_OK; }
SUCCESS(device_join, struct device *device, const struct world *world, struct err *err)
SUCCESS(stream_check, struct stream *stream, struct err *err)
SUCCESS(activity_begin, struct device *device, struct err *err)
SUCCESS(activity_end, struct device *device, void (*each)(void *context, const struct activity *activity),
        void *context, struct err *err)
SUCCESS(warm, struct stream *stream, const struct warm_work *work, const struct warm_watch *watch,
        struct err *err)

#define FREES(slot, type) static void slot(struct type *handle) { free(handle); }
FREES(device_close, device)
FREES(event_close, event)
FREES(graph_close, graph)
/* clang-format on */

/* ---- the table ---- */

extern const struct backend cpu_table;

#ifdef CPU_TABLE_BF16 /* streams in bf16 have their operations from another table */
#define SLOT_OF(name) name##_in_either
#define OPERATION(name, label, operands_, flops)                                                             \
    static void name##_in_either(PARAMETERS(operands_) struct stream *stream)                                \
    {                                                                                                        \
        if (stream->precision == PRECISION_BF16)                                                             \
            stream->bf16->name(ARGUMENTS(operands_) stream);                                                 \
        else                                                                                                 \
            name(ARGUMENTS(operands_) stream);                                                               \
    }
#include "kernels/operations.def"
#else
#define SLOT_OF(name) name
#endif

const struct backend cpu_table = {.name = "cpu",
#define SLOT(name) .name = name,
                                  BACKEND_SLOTS(SLOT)
#define OPERATION(name, ...) .name = SLOT_OF(name),
#include "kernels/operations.def"
};
