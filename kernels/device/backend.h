/* The backend: one flat table of functions per device. The network, the planner and the trainer in core/ are
 * written once against this table and never mention a device.
 *
 * Always: every slot is filled; work is ordered by the stream it is given; nothing allocates once
 * device_open and the first call of each slot have returned; results are deterministic on one device and
 * build. Each operation is listed in kernels/operations.def with its contract (formula, shapes, what
 * accumulates, what may alias).
 *
 * Shapes: B sequences, T tokens a sequence, N = B·T rows, C hidden width, NH query heads, NKV key/value
 * heads, HS head width, F feed-forward width, V vocabulary. Tensors are row-major.
 *
 * Element types: a tensor given as `void *` holds elements of the stream's precision, fp32 or bf16; one given
 * as `float *` is fp32 in every precision: statistics, losses, parameter gradients, moments, master weights.
 * Sums are accumulated in fp32 or wider, whatever the elements are. */
#ifndef ANNEAL_KERNELS_DEVICE_BACKEND_H
#define ANNEAL_KERNELS_DEVICE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "kernels/partition.h"

/* How a stream computes. TF32: fp32 elements, but matrix products may round their operands to 10 bits of
 * mantissa. BF16: bf16 elements. */
enum precision { PRECISION_FP32, PRECISION_TF32, PRECISION_BF16, PRECISIONS };

static inline const char *precision_name(enum precision precision)
{
    static const char *const names[PRECISIONS] = {"fp32", "tf32", "bf16"};
    return names[precision];
}

/* Bytes of an element: 4 or 2. */
static inline size_t precision_bytes(enum precision precision)
{
    return precision == PRECISION_BF16 ? 2 : 4;
}

/* As what numbers lie in memory. */
enum element { ELEMENT_FP32, ELEMENT_BF16 };

static inline size_t element_bytes(enum element element)
{
    return element == ELEMENT_BF16 ? 2 : 4;
}

/* Of the tensors of a stream that computes in this precision. */
static inline enum element precision_element(enum precision precision)
{
    return precision == PRECISION_BF16 ? ELEMENT_BF16 : ELEMENT_FP32;
}

/* An operand of a matrix product: rows of elements, each row `stride` elements behind the one before, in
 * memory of the device. Nobody reads or writes what lies between the end of a row and the next one, so a
 * view can be a range of columns. */
struct matrix {
    void *at;
    enum element element;
    int stride;
};

static inline struct matrix matrix_view(const void *at, enum element element, int stride)
{
    struct matrix view = {(void *)at, element, stride};
    return view;
}

struct device; /* opaque: one opened device; holds its thread count, handles, scratch */
struct stream; /* opaque: an ordered queue of work on a device */
struct graph;  /* opaque: recorded work of a stream, to be queued again as one piece */
struct event;  /* opaque: a mark between two pieces of a stream's work */

/* A device's description of itself, for `anneal devices`, the run's record and the workbench's header. */
struct device_info {
    char name[96];           /* "AMD EPYC 9B14, 2 threads, AVX-512" */
    char computes[80];       /* with what its numbers are computed: "2 threads, AVX-512, OpenBLAS SkylakeX" */
    char short_name[16];     /* "cpu", "cuda:0": the `device` column of runs */
    char uuid[48];           /* "GPU-…", the same for every process of the host; "": a CPU */
    int64_t available_bytes; /* of it, what may still be taken; 0: unknown */
    int64_t total_bytes;     /* memory of the device */
    /* operations a second, two for a multiply-add, of matrix products in each precision, by what is known of
     * the chip; 0: unknown, or the device does not compute in it */
    double peak_flops[PRECISIONS];
    enum precision best; /* what to train in, unless told */
    bool has_display;    /* a screen hangs on it: others draw with its memory */
    int max_head_dim;    /* the widest head that its attention knows; 0: any */
};

/* One matrix product, as the slot gemm is called for it: all but where its operands lie. */
struct gemm_layout {
    enum element element;
    int stride;
};
struct gemm_shape {
    int M, N, K;
    bool transpose_a, transpose_b, accumulate;
    struct gemm_layout out, a, b;
};

static inline bool gemm_shape_same(const struct gemm_shape *a, const struct gemm_shape *b)
{
    return a->M == b->M && a->N == b->N && a->K == b->K && a->transpose_a == b->transpose_a &&
           a->transpose_b == b->transpose_b && a->accumulate == b->accumulate &&
           a->out.element == b->out.element && a->out.stride == b->out.stride &&
           a->a.element == b->a.element && a->a.stride == b->a.stride && a->b.element == b->b.element &&
           a->b.stride == b->b.stride;
}

/* The observer of warming up, and where warming up keeps its findings. */
struct warm_watch {
    const char *folder; /* for choices that the next process should make again; NULL: they are not kept */
    void *context;
    bool (*progress)(void *context, int done, int total); /* matrix products; false asks to stop */
    void (*warning)(void *context, const char *sentence); /* something is odd, and warming goes on */
    /* device memory to try products on, 256-aligned; the caller of warm takes it back when that returns */
    enum status (*scratch)(void *context, size_t bytes, void **out, struct err *err);
};

/* Device-resident: what differs from step to step. Operations read it from there, so that work which was
 * recorded once (struct graph) is right for every step. */
struct step_control {
    uint64_t seed;              /* of dropout */
    uint32_t step, micro_batch; /* likewise */
    float loss_scale; /* of the loss whose gradients the step adds up: 1 / labels that count, in all of it */
    float lr;
    float rate, root; /* worked out by adamw_step, from lr and the updates so far */
};

/* Identifies one dropout mask; the mask is a pure function of the control's seed, step and micro_batch, of
 * layer and site, and of the element's index. */
struct dropout_site {
    const struct step_control *control; /* device memory */
    uint16_t layer;                     /* 0 for the embedding */
    uint16_t site;                      /* 0 embedding, 1 attention output projection, 2 down projection */
};

/* Device-resident result of clip_norm, read by the optimizers: no host round trip. */
struct clip_state {
    float norm;  /* L2 norm over all gradients */
    float scale; /* min(1, max_norm / (norm + 1e-6)); 1 when max_norm <= 0; 0 when the norm is not finite */
    int64_t updates; /* how often the scale was not 0, this time included: the t of AdamW's corrections */
};

/* How the optimizers update a stretch of the flat arena: elements from the end of the range before, or 0, up
 * to `end`. A sorted table of these lies in device memory; its last range ends at n. */
struct update_range {
    size_t end;
    float lr_scale;     /* times the step's learning rate */
    float weight_decay; /* decoupled, times the scaled learning rate */
};

/* The corrections 1 - beta^t are computed in double, on the device. */
struct optimizer_params {
    double beta1, beta2;
    float eps;
};

enum activity_kind { ACTIVITY_KERNEL, ACTIVITY_UPLOAD, ACTIVITY_DOWNLOAD, ACTIVITY_COPY, ACTIVITY_FILL };

/* Something that a device did, as its own tools saw it. */
struct activity {
    const char *name; /* of a kernel, as the source has it; "upload", "fill", …; borrowed for the call */
    enum activity_kind kind;
    int64_t start_ns; /* since activity_begin returned */
    int64_t duration_ns;
    int stream;    /* what has the same number ran one after the other */
    int64_t bytes; /* moved by a copy or fill; 0 for a kernel */
};

/* The parameters of a slot, from its operands in operations.def: lists of them are walked by two macros that
 * call each other in turn. */
#define PARAMETERS(operands)         OPERANDS_END(PARAMETER_A operands)
#define OPERANDS_END(...)            OPERANDS_ENDED(__VA_ARGS__)
#define OPERANDS_ENDED(...)          __VA_ARGS__##_END
#define PARAMETER_A(kind, name, ...) PARAMETER_##kind(name##_, __VA_ARGS__) PARAMETER_B
#define PARAMETER_B(kind, name, ...) PARAMETER_##kind(name##_, __VA_ARGS__) PARAMETER_A
#define PARAMETER_A_END
#define PARAMETER_B_END
#define PARAMETER_READ(name, type, ...)    const type *name,
#define PARAMETER_WRITTEN(name, type, ...) type *name,
#define PARAMETER_ADDED(name, type, ...)   type *name,
#define PARAMETER_STORED(name, type, ...)  type *name,
#define PARAMETER_MATRIX(name, ...)        struct matrix name,
#define PARAMETER_SCRATCH(name, ...)       void *name,
#define PARAMETER_SITE(name, ...)          struct dropout_site name,
#define PARAMETER_COUNT(name, type)        type name,
#define PARAMETER_VALUE(name, type)        type name,

enum { DEVICE_FIRST = -1 }; /* the first that can be used */

struct backend {
    const char *name; /* "cpu", "cuda" */
    bool queues;      /* a call returns before its work is done; false: each runs to its end */

    /* --- device and memory --- */
    /* The device with this number, from 0, or DEVICE_FIRST; STATUS_USAGE where there is none with it.
     * threads: of a CPU, 0: all cores. All calls come from the thread that opened it. */
    enum status (*device_open)(int index, int threads, struct device **out, struct err *err);
    /* A device that has failed for good is left to the end of the process: closing it, and freeing and
     * closing what belongs to it, frees the host's memory and does not touch the device again. */
    void (*device_close)(struct device *device);
    void (*device_describe)(struct device *device, struct device_info *out);
    enum status (*mem_alloc)(struct device *device, size_t bytes, void **out,
                             struct err *err); /* 256-aligned */
    void (*mem_free)(struct device *device, void *memory);
    /* from the device's pool, 256-aligned: for work queued on the stream from here on; pool_free gives it
     * back after what is queued there. A stream NULL: for users that wait for the device */
    enum status (*pool_alloc)(struct device *device, size_t bytes, struct stream *stream, void **out,
                              struct err *err);
    void (*pool_free)(struct device *device, void *memory, size_t bytes, struct stream *stream);
    size_t (*pool_reserved)(struct device *device); /* bytes that the pool holds, in use or not */
    void (*pool_trim)(struct device *device);       /* gives back what is not in use */
    /* by how many bytes, or a multiple of them, the pool grows for a request that finds no room in it:
     * measured, where the device does not say; 1: by what is asked for */
    size_t (*pool_unit)(struct device *device);
    /* host memory that copies need not stage: page-locked on CUDA; 256-aligned */
    enum status (*host_alloc)(struct device *device, size_t bytes, void **out, struct err *err);
    void (*host_free)(struct device *device, void *memory);
    /* How often, ever and by any thread, the device has been asked for memory: by mem_alloc, pool_alloc,
     * host_alloc, and graph_open where a graph lies in it. */
    int64_t (*allocations)(struct device *device);

    /* --- streams --- */
    /* fails for a precision that the device does not compute in */
    enum status (*stream_open)(struct device *device, enum precision precision, struct stream **out,
                               struct err *err);
    void (*stream_close)(struct stream *stream);
    /* Until idle; reports the stream's first fault, after which nothing more was run on it. STATUS_DEVICE:
     * the device has failed and is lost to this process, with everything in its memory; or it cannot do what
     * was asked, so that the work is another device's. STATUS_NO_MEMORY: it had no memory left to launch
     * something; what was done before that stands, and another stream of the device may read it. */
    enum status (*stream_wait)(struct stream *stream, struct err *err);
    /* the same of what is known by now; does not wait */
    enum status (*stream_check)(struct stream *stream, struct err *err);

    /* what is queued from here on waits until the event, as last recorded, has happened */
    void (*stream_after)(struct stream *stream, struct event *event);

    /* --- events: how long the device worked between two marks --- */
    enum status (*event_open)(struct device *device, struct event **out, struct err *err);
    void (*event_close)(struct event *event);
    /* marks the work so far; an earlier mark of this event is forgotten */
    void (*event_record)(struct event *event, struct stream *stream);
    /* milliseconds from one mark to a later one of the same stream; waits for the later one. NaN where the
     * stream failed */
    double (*event_elapsed)(struct event *from, struct event *to);
    /* whether there is nothing to wait for: the device has come to the mark, none was made, or it failed */
    bool (*event_done)(struct event *event);
    /* Until the device has come to the mark, which was made on this stream. STATUS_OK: it has, whatever
     * became of later work; else the stream's fault, as stream_wait reports it. */
    enum status (*event_wait)(struct event *event, struct stream *stream, struct err *err);

    /* --- graphs: a stream's work recorded once and queued again as one piece --- */
    /* Keeps what `work` queues on the stream without running it; work may not wait, use ordinary host memory,
     * or touch another stream. STATUS_FAILED: this cannot be recorded; nothing ran and the stream is as
     * before. */
    enum status (*graph_open)(struct stream *stream, void (*work)(void *context), void *context,
                              struct graph **out, struct err *err);
    void (*graph_run)(struct graph *graph, struct stream *stream); /* queues it; `context` must live on */
    void (*graph_close)(struct graph *graph);                      /* NULL is harmless */

    /* --- what the device did, for the trace of a step; one recording in a process at a time --- */
    /* Records from here on. STATUS_NOT_FOUND: this machine lacks what that takes, and the sentence names it.
     * A device whose calls run on the host records nothing and does not fail: there is no more to see. */
    enum status (*activity_begin)(struct device *device, struct err *err);
    /* After waiting for the streams: gives what was recorded to `each`, in no order, and frees it. Harmless
     * without activity_begin. Fails where something is missing; the rest has been given. */
    enum status (*activity_end)(struct device *device,
                                void (*each)(void *context, const struct activity *activity), void *context,
                                struct err *err);
    /* A named range on this thread, for the vendor's tools; nested. Nothing where none listens. */
    void (*range_push)(const char *name);
    void (*range_pop)(void);

    /* --- matrix products --- */
    /* bytes of scratch that products would like to have; 0: none needed */
    size_t (*gemm_workspace)(struct device *device);
    /* From now on the stream's products may use `workspace` (256-aligned); the lender keeps it, and takes it
     * back by lending NULL and 0 or by closing the stream. Without any, products that need scratch are done
     * in another way. */
    void (*gemm_lend)(struct stream *stream, void *workspace, size_t bytes);
    /* Before the large allocations of a training: loads code and chooses how each of these products is done
     * in this stream's precision, with gemm_workspace bytes and operands at multiples of 16 bytes, so that
     * the first step finds nothing left to do. Replaces what an earlier call prepared. Fails where scratch
     * for the largest product does not fit, where a product cannot be done, or when the watch says stop
     * (STATUS_INTERRUPTED). A CPU has nothing to do and reports nothing. */
    enum status (*gemm_warm)(struct stream *stream, const struct gemm_shape *shapes, int count,
                             const struct warm_watch *watch, struct err *err);

    /* --- operations: what a pass calls --- */
#define OPERATION(name, label, operands, flops) void (*name)(PARAMETERS(operands) struct stream * stream);
#include "kernels/operations.def"
};

/* The slots that are functions, but for the operations; SLOT(name) for each, in order. */
/* clang-format off */
#define BACKEND_SLOTS(SLOT)                                                                               \
    SLOT(device_open) SLOT(device_close) SLOT(device_describe)                                            \
    SLOT(mem_alloc) SLOT(mem_free)                                                                        \
    SLOT(pool_alloc) SLOT(pool_free) SLOT(pool_reserved) SLOT(pool_trim) SLOT(pool_unit)                  \
    SLOT(host_alloc) SLOT(host_free) SLOT(allocations)                                                    \
    SLOT(stream_open) SLOT(stream_close) SLOT(stream_wait) SLOT(stream_check) SLOT(stream_after)          \
    SLOT(event_open) SLOT(event_close) SLOT(event_record) SLOT(event_elapsed) SLOT(event_done)            \
    SLOT(event_wait) SLOT(graph_open) SLOT(graph_run) SLOT(graph_close)                                   \
    SLOT(activity_begin) SLOT(activity_end) SLOT(range_push) SLOT(range_pop)                              \
    SLOT(gemm_workspace) SLOT(gemm_lend) SLOT(gemm_warm)
/* clang-format on */

/* The CPU table, compiled for the best instruction set this processor has. Never fails. */
const struct backend *cpu_backend(void);

#endif
