/* The backend: one flat table of functions per device. The network, the planner and the trainer in core/ are
 * written once against this table and never mention a device.
 *
 * Every slot is filled; work is ordered by its stream; nothing allocates after device_open and the first call
 * of each slot; results are deterministic on one device and build. kernels/operations.def lists each
 * operation with its contract (formula, shapes, accumulation, aliasing).
 *
 * Shapes: B sequences, T tokens per sequence, N = B·T rows, C hidden width, NH query heads, NKV key/value
 * heads, HS head width, F feed-forward width, V vocabulary. Tensors are row-major.
 *
 * Element types: a tensor given as `void *` holds elements of the stream's precision, fp32 or bf16; one given
 * as `float *` is fp32 in every precision: statistics, losses, parameter gradients, moments, master weights.
 * Sums are accumulated in fp32 or wider, for all element types. */
#ifndef ANNEAL_KERNELS_DEVICE_BACKEND_H
#define ANNEAL_KERNELS_DEVICE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "kernels/nf4.h"
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

/* The type of numbers in memory. NF4, with its scales as they are or nested, stores frozen weights: they are
 * dequantised before they are operands. */
enum element { ELEMENT_FP32, ELEMENT_BF16, ELEMENT_NF4, ELEMENT_NF4_NESTED };

/* Of a type that operands have. */
static inline size_t element_bytes(enum element element)
{
    return element == ELEMENT_BF16 ? 2 : 4;
}

static inline bool element_is_nf4(enum element element)
{
    return element == ELEMENT_NF4 || element == ELEMENT_NF4_NESTED;
}

/* The bytes of a tensor of n elements of any type. */
static inline size_t element_storage(enum element element, size_t n)
{
    return element_is_nf4(element) ? nf4_bytes(n, element == ELEMENT_NF4_NESTED) : n * element_bytes(element);
}

/* The elements of tensors in a stream of this precision. */
static inline enum element precision_element(enum precision precision)
{
    return precision == PRECISION_BF16 ? ELEMENT_BF16 : ELEMENT_FP32;
}

/* An operand of a matrix product: rows of elements in device memory, each `stride` elements after the
 * previous one. Gaps between rows are neither read nor written, so a view can be a range of columns. */
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

/* The part of a view that begins at this row and column. */
static inline struct matrix matrix_part(struct matrix view, int row, int column)
{
    size_t at = (size_t)row * (size_t)view.stride + (size_t)column;
    view.at = (char *)view.at + at * element_bytes(view.element);
    return view;
}

/* The most rows that gemm_few_rows multiplies; with more, computing takes longer than reading. */
enum { FEW_ROWS_MAX = 16 };

struct world;  /* kernels/device/world.h */
struct device; /* opaque: one opened device; holds its thread count, handles, scratch */
struct stream; /* opaque: an ordered queue of work on a device */
struct graph;  /* opaque: recorded work of a stream, which can be queued again as one unit */
struct event;  /* opaque: a mark between two pieces of a stream's work */

/* A device's description of itself, for `anneal devices`, the run's record and the workbench's header. */
struct device_info {
    char name[96];       /* "AMD EPYC 9B14, 2 threads, AVX-512" */
    char computes[80];   /* all that the last bits of results depend on: "AVX-512, bf16 by dot products" */
    char short_name[16]; /* "cpu", "cuda:0": the `device` column of runs */
    char uuid[48];       /* "GPU-…", the same for every process of the host; "": a CPU */
    int64_t available_bytes; /* still free; 0: unknown */
    int64_t total_bytes;     /* memory of the device */
    /* operations per second of matrix products in each precision, two per multiply-add, from the published
     * peaks of the chip; 0: unknown, or the device does not compute in this precision */
    double peak_flops[PRECISIONS];
    enum precision best; /* the default precision for training */
    bool has_display;    /* drives a screen, so that other programs use its memory */
    int max_head_dim;    /* the widest head that its attention supports; 0: any */
    bool mixes_elements; /* in fp32 it computes with matrices of weights in bf16, too */
};

/* A matrix product as passed to the slot gemm, without the addresses of its operands. */
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

/* An attention as passed to one of its two slots, without the addresses of its operands and without
 * positions: every batch row is one sequence. */
struct attention_problem {
    int B, T, NH, NKV, HS, window;
    bool backward;
};

static inline bool attention_problem_same(const struct attention_problem *a,
                                          const struct attention_problem *b)
{
    return a->B == b->B && a->T == b->T && a->NH == b->NH && a->NKV == b->NKV && a->HS == b->HS &&
           a->window == b->window && a->backward == b->backward;
}

/* The work of a training for which a device chooses an algorithm before it begins; each kind is listed once.
 * cudnn: NVIDIA's library cuDNN computes every attention that it can; else only where it is faster. */
struct warm_work {
    const struct gemm_shape *products;
    const struct attention_problem *attentions;
    int product_count, attention_count;
    bool cudnn;
};

/* Receives the progress of warming up, and says where to store the choices made. */
struct warm_watch {
    const char *folder; /* stores choices, so that the next process makes the same; NULL: not stored */
    void *context;
    bool (*progress)(void *context, int done, int total); /* of the work; false asks to stop */
    void (*warning)(void *context,
                    const char *sentence); /* reports a problem that does not end the warming */
    /* device memory for the trials, 256-aligned; the caller of `warm` frees it after that returns */
    enum status (*scratch)(void *context, size_t bytes, void **out, struct err *err);
};

/* In device memory: the values that differ from step to step. Operations read them from there, so that
 * recorded work (struct graph) is correct for every step. */
struct step_control {
    uint64_t seed;              /* for dropout */
    uint32_t step, micro_batch; /* likewise; of the first row */
    uint32_t row, rows;         /* likewise: that row's place in its micro-batch, and how many rows that has;
                                 * rows 0: all rows are those of one, from the first on */
    float loss_scale;           /* 1 / (labels that count in the whole step) */
    float z_loss;               /* of cross_entropy_fused; 0: off */
    float lr;
    float rate, root;  /* computed by adamw_step from lr and the updates so far */
    double loss_limit; /* clip_norm skips the update where the step's sum of losses is above it; 0: never */
};

/* Identifies one dropout mask, a pure function of the control's seed, step and micro_batch, of layer and
 * site, and of the element's index. */
struct dropout_site {
    const struct step_control *control; /* device memory */
    uint16_t layer;                     /* 0 for the embedding */
    uint16_t site;                      /* 0 embedding, 1 attention output projection, 2 down projection */
    size_t width;                       /* elements of a row of the batch: tokens times the width of each */
};

/* In device memory: the result of clip_norm, read by the optimizers: no host round trip. */
struct clip_state {
    float norm;      /* L2 norm over all gradients */
    float scale;     /* min(1, max_norm / (norm + 1e-6)); 1 when max_norm <= 0; 0: the update is skipped */
    int64_t updates; /* number of updates with a scale other than 0, this one included: AdamW's t */
};

/* How the optimizers update a range of the flat arena: elements from the previous range's end, or 0, up to
 * `end`. A sorted table of ranges is in device memory; the last one ends at n. */
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

/* How a kernel was launched, and what it takes of the device. */
struct kernel_launch {
    int grid[3], block[3];             /* blocks, and threads of a block, along x, y and z */
    int registers;                     /* of a thread, 32 bits each */
    int static_shared, dynamic_shared; /* bytes of a block */
    int local;                         /* bytes of a thread in device memory: what registers do not hold */
};

/* How well a launch can fill the device: see kernels/device/occupancy.h. */
struct occupancy {
    double share;      /* of a multiprocessor's warps that its blocks can fill; 0: unknown */
    double waves;      /* the grid, in units of all the blocks that the device holds at a time */
    const char *limit; /* why no more blocks fit: "threads", "registers", "shared memory" or "blocks" */
};

/* Something that a device did, as recorded by its own tools. */
struct activity {
    const char *name; /* a kernel's name in the source; "upload", "fill", …; borrowed for the call */
    enum activity_kind kind;
    int64_t start_ns; /* since activity_begin returned */
    int64_t duration_ns;
    int stream;                  /* activities of one stream do not overlap */
    int64_t bytes;               /* moved by a copy or fill; 0 for a kernel */
    struct kernel_launch launch; /* of a kernel; grid[0] is 0: unknown */
    struct occupancy occupancy;
};

/* The parameters of a slot, from its operands in operations.def, and the same as arguments of a call: two
 * macros that call each other walk the list of operands. */
#define PARAMETERS(operands)         OPERANDS_END(PARAMETER_A operands)
#define OPERANDS_END(...)            OPERANDS_ENDED(__VA_ARGS__)
#define OPERANDS_ENDED(...)          __VA_ARGS__##_END
#define PARAMETER_A(kind, name, ...) PARAMETER_##kind(name##_, __VA_ARGS__) PARAMETER_B
#define PARAMETER_B(kind, name, ...) PARAMETER_##kind(name##_, __VA_ARGS__) PARAMETER_A
#define ARGUMENTS(operands)          OPERANDS_END(ARGUMENT_A operands)
#define ARGUMENT_A(kind, name, ...)  name##_, ARGUMENT_B
#define ARGUMENT_B(kind, name, ...)  name##_, ARGUMENT_A
#define ARGUMENT_A_END
#define ARGUMENT_B_END
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

enum { DEVICE_FIRST = -1 }; /* the first usable device */

struct backend {
    const char *name; /* "cpu", "cuda" */
    bool queues;      /* a call returns before its work is done; false: each runs to its end */

    /* --- device and memory --- */
    /* Opens the device with this number, from 0, or DEVICE_FIRST; STATUS_USAGE if there is none. threads: of
     * a CPU; 0: all cores. All calls must come from the thread that opened it. */
    enum status (*device_open)(int index, int threads, struct device **out, struct err *err);
    /* After a permanent failure, closing the device, and freeing or closing anything of it, frees only host
     * memory; the rest is left to the end of the process. */
    void (*device_close)(struct device *device);
    void (*device_describe)(struct device *device, struct device_info *out);
    /* From now on the collectives exchange with the devices of the world's other ranks, which all call this
     * together; the world outlives the device. All succeed or all fail. STATUS_NOT_FOUND: a library is
     * missing. After success a failure of one of its streams ends all ranks (world_also_watch), which would
     * wait for it. A CPU needs no preparation. */
    enum status (*device_join)(struct device *device, const struct world *world, struct err *err);
    enum status (*mem_alloc)(struct device *device, size_t bytes, void **out,
                             struct err *err); /* 256-aligned */
    void (*mem_free)(struct device *device, void *memory);
    /* from the device's pool, 256-aligned, for work queued on the stream afterwards; pool_free returns it
     * after the work queued so far. stream NULL: for users that wait for the device */
    enum status (*pool_alloc)(struct device *device, size_t bytes, struct stream *stream, void **out,
                              struct err *err);
    void (*pool_free)(struct device *device, void *memory, size_t bytes, struct stream *stream);
    size_t (*pool_reserved)(struct device *device); /* bytes that the pool holds, in use or not */
    void (*pool_trim)(struct device *device);       /* returns unused memory to the device */
    /* the pool grows by this many bytes, or a multiple, for a request that does not fit: measured if the
     * device does not document it; 1: by the size of the request */
    size_t (*pool_unit)(struct device *device);
    /* host memory for direct copies: page-locked on CUDA; 256-aligned */
    enum status (*host_alloc)(struct device *device, size_t bytes, void **out, struct err *err);
    void (*host_free)(struct device *device, void *memory);
    /* How often any thread has asked the device for memory so far: by mem_alloc, pool_alloc, host_alloc, and
     * by graph_open if the graph takes memory. */
    int64_t (*allocations)(struct device *device);

    /* --- streams --- */
    /* fails for an unsupported precision */
    enum status (*stream_open)(struct device *device, enum precision precision, struct stream **out,
                               struct err *err);
    /* the same for work that runs beside that of other streams: collectives; on a CPU in a thread */
    enum status (*stream_beside)(struct device *device, enum precision precision, struct stream **out,
                                 struct err *err);
    void (*stream_close)(struct stream *stream);
    /* Waits until the stream is idle; returns its first fault, after which nothing ran on it. STATUS_DEVICE:
     * the device has failed, and its memory is lost to this process; or it cannot do this work, but another
     * device may. STATUS_NO_MEMORY: a launch found no memory; earlier work is valid, and another stream of
     * the device may read it. */
    enum status (*stream_wait)(struct stream *stream, struct err *err);
    /* the same without waiting */
    enum status (*stream_check)(struct stream *stream, struct err *err);

    /* work queued from now on waits for the event as last recorded */
    void (*stream_after)(struct stream *stream, struct event *event);

    /* --- events: the device's time between two marks --- */
    enum status (*event_open)(struct device *device, struct event **out, struct err *err);
    void (*event_close)(struct event *event);
    /* marks the work so far, and replaces an earlier mark of this event */
    void (*event_record)(struct event *event, struct stream *stream);
    /* milliseconds between two marks of one stream; waits for the later one. NaN if the stream failed */
    double (*event_elapsed)(struct event *from, struct event *to);
    /* whether there is nothing to wait for: the mark is reached or was never made, or the device failed */
    bool (*event_done)(struct event *event);
    /* Waits for the mark, which was made on this stream. STATUS_OK: it is reached, whatever happened to later
     * work; else the stream's fault, as from stream_wait. */
    enum status (*event_wait)(struct event *event, struct stream *stream, struct err *err);

    /* --- graphs: a stream's work, recorded once and queued again as one unit --- */
    /* Records the work that `work` queues on the stream without running it; work may not wait, use ordinary
     * host memory, or touch another stream. STATUS_FAILED: it cannot be recorded; nothing ran and the stream
     * is unchanged. */
    enum status (*graph_open)(struct stream *stream, void (*work)(void *context), void *context,
                              struct graph **out, struct err *err);
    void (*graph_run)(struct graph *graph, struct stream *stream); /* `context` must still exist */
    void (*graph_close)(struct graph *graph);                      /* NULL is harmless */

    /* --- the device's activity, for the trace of a step; one recording per process at a time --- */
    /* Starts recording. STATUS_NOT_FOUND: a library is missing, which the error names. A device whose calls
     * run on the host records nothing and succeeds. */
    enum status (*activity_begin)(struct device *device, struct err *err);
    /* Call after waiting for the streams: passes the records to `each`, in no order, and frees them. Harmless
     * without activity_begin. Fails if records are missing, after passing the others. */
    enum status (*activity_end)(struct device *device,
                                void (*each)(void *context, const struct activity *activity), void *context,
                                struct err *err);
    /* A named range on this thread, for the vendor's tools; nested. No effect without a tool. */
    void (*range_push)(const char *name);
    void (*range_pop)(void);

    /* --- libraries of the device's vendor: for matrix products, and attention of a training --- */
    /* Bytes of scratch that they need for fast products, and with `attention`, a backward one, for any that
     * cuDNN may compute; 0: none. */
    size_t (*library_workspace)(struct device *device, const struct attention_problem *attention);
    /* Lets the stream's libraries use `workspace` (256-aligned) from now on. The caller owns it, and takes it
     * back by lending NULL and 0 or by closing the stream. Without it, products that need scratch use another
     * algorithm, and attention our own kernels. */
    void (*workspace_lend)(struct stream *stream, void *workspace, size_t bytes);
    /* Before the large allocations of a training: loads code and chooses how each part of the work is
     * computed in this stream's precision, with library_workspace bytes and operands at multiples of 16
     * bytes, so that the first step has nothing left to prepare. Replaces earlier preparations. Fails if
     * scratch for the largest operands does not fit, if a product is not supported, if cuDNN is asked for and
     * missing, or if the watch stops it (STATUS_INTERRUPTED). On a CPU it does nothing. */
    enum status (*warm)(struct stream *stream, const struct warm_work *work, const struct warm_watch *watch,
                        struct err *err);

    /* --- operations: what a pass calls --- */
#define OPERATION(name, label, operands, flops) void (*name)(PARAMETERS(operands) struct stream * stream);
#include "kernels/operations.def"
};

/* All function slots except operations: SLOT(name) for each, in order. */
/* clang-format off */
#define BACKEND_SLOTS(SLOT)                                                                               \
    SLOT(device_open) SLOT(device_close) SLOT(device_describe) SLOT(device_join)                          \
    SLOT(mem_alloc) SLOT(mem_free)                                                                        \
    SLOT(pool_alloc) SLOT(pool_free) SLOT(pool_reserved) SLOT(pool_trim) SLOT(pool_unit)                  \
    SLOT(host_alloc) SLOT(host_free) SLOT(allocations)                                                    \
    SLOT(stream_open) SLOT(stream_beside) SLOT(stream_close) SLOT(stream_wait) SLOT(stream_check) SLOT(stream_after)          \
    SLOT(event_open) SLOT(event_close) SLOT(event_record) SLOT(event_elapsed) SLOT(event_done)            \
    SLOT(event_wait) SLOT(graph_open) SLOT(graph_run) SLOT(graph_close)                                   \
    SLOT(activity_begin) SLOT(activity_end) SLOT(range_push) SLOT(range_pop)                              \
    SLOT(library_workspace) SLOT(workspace_lend) SLOT(warm)
/* clang-format on */

/* The CPU table, compiled for the best instruction set this processor has. Never fails. */
const struct backend *cpu_backend(void);

#endif
