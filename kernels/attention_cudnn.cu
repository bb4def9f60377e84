/* See attention_cudnn.cuh. The graphs are those which cuDNN documents for attention, and compiles into one
 * kernel, or two for the backward pass.
 *
 * Most of cuDNN's backward kernels add up dq in the order in which blocks come to it, so that two runs differ
 * in their last bits. Only those that keep an order are used: `ordered_engines`. Whether they do is tested
 * before they are chosen. */
#include "kernels/attention_cudnn.cuh"

#include <stdlib.h>
#include <string.h>

#include "kernels/attention.cuh"

enum { ALIGN = 256 };

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t row_count(const struct attention_problem *p)
{
    return (size_t)p->B * (size_t)p->T * (size_t)p->NH;
}

/* ---- graphs ---- */

struct attention_graph {
    struct graph g;
    const struct attention_problem *problem;
    struct attention_compiled *out; /* gets the ids */
};

static struct graph_tensor noted(struct attention_graph *a, enum attention_operand operand,
                                 struct graph_tensor tensor)
{
    a->out->ids[operand] = tensor.id;
    return tensor;
}

/* (B,heads,T,HS) in qkv or dqkv, and the same transposed */
static struct graph_tensor heads_in_qkv(struct attention_graph *a, enum attention_operand operand, int heads,
                                        bool transposed)
{
    const struct attention_problem *p = a->problem;
    int64_t row = (int64_t)(p->NH + 2 * p->NKV) * p->HS;
    const int64_t extents[2][4] = {{p->B, heads, p->T, p->HS}, {p->B, heads, p->HS, p->T}},
                  strides[2][4] = {{p->T * row, p->HS, row, 1}, {p->T * row, p->HS, 1, row}};
    return noted(a, operand, graph_memory(&a->g, DNN_BF16, extents[transposed], strides[transposed]));
}

/* (B,NH,T,HS) in out or dout */
static struct graph_tensor heads_in_out(struct attention_graph *a, enum attention_operand operand)
{
    const struct attention_problem *p = a->problem;
    int64_t row = (int64_t)p->NH * p->HS;
    const int64_t extents[4] = {p->B, p->NH, p->T, p->HS}, strides[4] = {p->T * row, p->HS, row, 1};
    return noted(a, operand, graph_memory(&a->g, DNN_BF16, extents, strides));
}

/* (B,NH,T,`width`) in fp32, row by row */
static struct graph_tensor per_row(struct attention_graph *a, enum attention_operand operand, int width)
{
    const struct attention_problem *p = a->problem;
    const int64_t extents[4] = {p->B, p->NH, p->T, width},
                  strides[4] = {(int64_t)p->NH * p->T * width, (int64_t)p->T * width, width, 1};
    return noted(a, operand, graph_memory(&a->g, DNN_FP32, extents, strides));
}

/* The scores that a row sees; all others become the least. */
static struct graph_tensor masked(struct attention_graph *a, const struct graph_tensor &scores)
{
    struct graph *g = &a->g;
    struct graph_tensor least = noted(a, ATTENTION_LEAST, graph_scalar(g, DNN_FP32)),
                        row = graph_index(g, scores, 2), column = graph_index(g, scores, 3),
                        sees = graph_pointwise(g, DNN_NOT_LESS, row, &column, DNN_BOOLEAN),
                        seen = graph_select(g, sees, scores, least);
    if (a->problem->window <= 0 || a->problem->window >= a->problem->T) return seen;
    struct graph_tensor window = noted(a, ATTENTION_WINDOW, graph_scalar(g, DNN_INT32));
    row = graph_index(g, seen, 2), column = graph_index(g, seen, 3);
    struct graph_tensor end = graph_pointwise(g, DNN_ADD, column, &window, DNN_INT32),
                        within = graph_pointwise(g, DNN_GREATER, end, &row, DNN_BOOLEAN);
    return graph_select(g, within, seen, least);
}

static void describe_forward(struct attention_graph *a)
{
    struct graph *g = &a->g;
    const struct attention_problem *p = a->problem;
    struct graph_tensor q = heads_in_qkv(a, ATTENTION_Q, p->NH, false),
                        k = heads_in_qkv(a, ATTENTION_K, p->NKV, true),
                        v = heads_in_qkv(a, ATTENTION_V, p->NKV, false), out = heads_in_out(a, ATTENTION_OUT),
                        lse = per_row(a, ATTENTION_LSE, 1),
                        scale = noted(a, ATTENTION_SCALE, graph_scalar(g, DNN_FP32)),
                        scores = graph_matmul(g, q, k),
                        seen = masked(a, graph_pointwise(g, DNN_MUL, scores, &scale)),
                        top = graph_reduce(g, DNN_REDUCE_MAX, seen),
                        below = graph_pointwise(g, DNN_SUB, seen, &top),
                        weights = graph_pointwise(g, DNN_EXP, below),
                        total = graph_reduce(g, DNN_REDUCE_ADD, weights),
                        logarithm = graph_pointwise(g, DNN_LOG, total);
    graph_pointwise(g, DNN_ADD, top, &logarithm, DNN_FP32, &lse);
    struct graph_tensor probabilities = graph_pointwise(g, DNN_DIV, weights, &total, DNN_BF16);
    graph_matmul(g, probabilities, v, DNN_BF16, &out);
}

/* to = the transpose of w (B,NH,T,T) times x, which is summed over the query heads of a group */
static void sum_over_rows(struct attention_graph *a, const struct graph_tensor &w,
                          const struct graph_tensor &x, const struct graph_tensor &to)
{
    struct graph_tensor turned = graph_transpose(&a->g, w, DNN_BF16);
    if (a->problem->NH == a->problem->NKV) {
        graph_matmul(&a->g, turned, x, DNN_BF16, &to);
        return;
    }
    struct graph_tensor each = graph_matmul(&a->g, turned, x, DNN_BF16);
    graph_reduce(&a->g, DNN_REDUCE_ADD, each, &to);
}

/* partial: dq is added up in fp32 in memory. */
static void describe_backward(struct attention_graph *a, bool partial)
{
    struct graph *g = &a->g;
    const struct attention_problem *p = a->problem;
    struct graph_tensor q = heads_in_qkv(a, ATTENTION_Q, p->NH, false),
                        k = heads_in_qkv(a, ATTENTION_K, p->NKV, true),
                        v = heads_in_qkv(a, ATTENTION_V, p->NKV, true), out = heads_in_out(a, ATTENTION_OUT),
                        dout = heads_in_out(a, ATTENTION_DOUT),
                        dq = heads_in_qkv(a, ATTENTION_DQ, p->NH, false),
                        dk = heads_in_qkv(a, ATTENTION_DK, p->NKV, false),
                        dv = heads_in_qkv(a, ATTENTION_DV, p->NKV, false), lse = per_row(a, ATTENTION_LSE, 1),
                        products = per_row(a, ATTENTION_PRODUCTS, 1),
                        scale = noted(a, ATTENTION_SCALE, graph_scalar(g, DNN_FP32)),
                        one = noted(a, ATTENTION_ONE, graph_scalar(g, DNN_FP32));

    struct graph_tensor both = graph_pointwise(g, DNN_MUL, dout, &out),
                        sums = graph_reduce(g, DNN_REDUCE_ADD, both);
    graph_pointwise(g, DNN_MUL, sums, &one, DNN_FP32, &products);

    struct graph_tensor scores = graph_matmul(g, q, k), scaled = graph_pointwise(g, DNN_MUL, scores, &scale),
                        below = graph_pointwise(g, DNN_SUB, scaled, &lse),
                        weights = graph_pointwise(g, DNN_EXP, masked(a, below));
    sum_over_rows(a, weights, dout, dv);

    struct graph_tensor dweights = graph_matmul(g, dout, v),
                        centred = graph_pointwise(g, DNN_SUB, dweights, &products),
                        dscores = graph_pointwise(g, DNN_MUL, centred, &weights),
                        ds = graph_pointwise(g, DNN_MUL, dscores, &scale, partial ? DNN_FP32 : DNN_BF16);
    sum_over_rows(a, ds, q, dk);
    struct graph_tensor rows_of_k = graph_transpose(g, k, DNN_BF16);
    if (!partial) {
        graph_matmul(g, ds, rows_of_k, DNN_BF16, &dq);
        return;
    }
    struct graph_tensor sum = per_row(a, ATTENTION_PARTIAL, p->HS);
    graph_matmul(g, ds, rows_of_k, DNN_FP32, &sum);
    graph_pointwise(g, DNN_IDENTITY, sum, NULL, DNN_BF16, &dq);
}

/* ---- compiling ---- */

/* cuDNN's backward engines that add up dq in a fixed order, with the settings that make them do so. From
 * NVIDIA's own front end (github.com/NVIDIA/cudnn-frontend). */
static const struct ordered {
    int oldest, major; /* version of cuDNN; compute capability */
    bool partial;
    struct graph_engine engine;
} ordered_engines[] = {
    {92500,
     9,
     true,
     {6,
      {{DNN_KNOB_STAGES, 4},
       {DNN_KNOB_KERNEL, 2},
       {DNN_KNOB_CLUSTER_M, 0},
       {DNN_KNOB_STREAM_K, 0},
       {DNN_KNOB_TILE_M, 2},
       {DNN_KNOB_TILE_N, 1}},
      6}},
    {92300,
     10,
     false,
     {5,
      {{DNN_KNOB_STAGES, 2},
       {DNN_KNOB_KERNEL, 2},
       {DNN_KNOB_CLUSTER_M, 0},
       {DNN_KNOB_STREAM_K, 0},
       {DNN_KNOB_TILE_M, 3},
       {DNN_KNOB_TILE_N, 2}},
      6}},
    {91900, 10, false, {5, {{DNN_KNOB_STAGES, 2}, {DNN_KNOB_KERNEL, 31}}, 2}},
};

/* NULL: there is none. The first that fits is the newest. */
static const struct ordered *ordered_engine(int version, int major)
{
    for (const struct ordered &o : ordered_engines)
        if (version >= o.oldest && major == o.major) return &o;
    return NULL;
}

enum status attention_compile(const struct cudnn *cudnn, int major, int minor,
                              const struct attention_problem *problem, struct attention_compiled *out,
                              struct err *err)
{
    const struct ordered *ordered = ordered_engine(cudnn->version, major);
    memset(out, 0, sizeof *out);
    if (problem->HS % 8 != 0 || problem->HS > (problem->backward ? 128 : HEAD_MAX))
        return err_set(err, STATUS_NOT_FOUND, "cuDNN has no attention for model.head_dim = %d", problem->HS);
    if (problem->backward && ordered == NULL)
        return err_set(err, STATUS_NOT_FOUND,
                       "cuDNN %d.%d has no backward pass in a fixed order for compute capability %d.%d",
                       cudnn->version / 10000, cudnn->version / 100 % 100, major, minor);
    struct attention_graph *a = (struct attention_graph *)calloc(1, sizeof *a);
    if (a == NULL) return err_no_memory(err, "the graph of an attention");
    a->g.cudnn = cudnn, a->problem = problem, a->out = out;
    if (problem->backward)
        describe_backward(a, ordered->partial);
    else
        describe_forward(a);
    out->problem = *problem;
    enum status status = graph_compile(&a->g, problem->backward ? &ordered->engine : NULL, &out->plan, err);
    free(a);
    size_t rows = row_count(problem);
    if (out->ids[ATTENTION_PRODUCTS]) out->workspace += aligned(rows * sizeof(float));
    if (out->ids[ATTENTION_PARTIAL]) out->workspace += aligned(rows * (size_t)problem->HS * sizeof(float));
    out->workspace += (size_t)out->plan.workspace;
    return status;
}

/* ---- running ---- */

static void run(struct attention_library *library, const struct attention_compiled *c,
                void *at[ATTENTION_OPERANDS], struct stream *stream, unsigned char *workspace)
{
    const struct attention_problem *p = &c->problem;
    float scale = (float)(1.0 / sqrt((double)p->HS)), least = -INFINITY, one = 1;
    int32_t window = p->window;
    int64_t ids[ATTENTION_OPERANDS];
    void *pointers[ATTENTION_OPERANDS];
    size_t rows = row_count(p);
    int count = 0;
    at[ATTENTION_SCALE] = &scale, at[ATTENTION_LEAST] = &least, at[ATTENTION_ONE] = &one;
    at[ATTENTION_WINDOW] = &window;
    if (c->ids[ATTENTION_PRODUCTS]) {
        at[ATTENTION_PRODUCTS] = workspace;
        workspace += aligned(rows * sizeof(float));
    }
    if (c->ids[ATTENTION_PARTIAL]) {
        at[ATTENTION_PARTIAL] = workspace;
        workspace += aligned(rows * (size_t)p->HS * sizeof(float));
    }
    for (int i = 0; i < ATTENTION_OPERANDS; i++) {
        if (c->ids[i] == 0) continue;
        ids[count] = c->ids[i];
        pointers[count++] = at[i];
    }
    int code = graph_plan_run(&library->cudnn, &c->plan, ids, pointers, count, workspace, stream);
    if (code != DNN_SUCCESS)
        stream_library_failed(stream, "attention by cuDNN", library->cudnn.call.cudnnGetErrorString(code),
                              false, false);
}

static void place_qkv(void *at[ATTENTION_OPERANDS], const struct attention_problem *p, const void *qkv,
                      enum attention_operand q)
{
    unsigned char *from = (unsigned char *)qkv;
    size_t head = (size_t)p->HS * sizeof(bf16);
    at[q] = from;
    at[q + 1] = from + (size_t)p->NH * head;
    at[q + 2] = from + (size_t)(p->NH + p->NKV) * head;
}

static void place_forward(void *at[ATTENTION_OPERANDS], const struct attention_problem *p, void *out,
                          float *lse, const void *qkv)
{
    place_qkv(at, p, qkv, ATTENTION_Q);
    at[ATTENTION_OUT] = out;
    at[ATTENTION_LSE] = lse;
}

static void place_backward(void *at[ATTENTION_OPERANDS], const struct attention_problem *p, void *dqkv,
                           const void *dout, const void *out, const float *lse, const void *qkv)
{
    place_forward(at, p, (void *)out, (float *)lse, qkv);
    place_qkv(at, p, dqkv, ATTENTION_DQ);
    at[ATTENTION_DOUT] = (void *)dout;
}

/* The compiled attention of this problem; NULL: our own kernels compute it, because they were chosen or the
 * stream was lent too little scratch. */
static const struct attention_compiled *chosen(const struct attention_problem *problem,
                                               const struct stream *stream)
{
    const struct attention_library *library = stream->device->attention;
    for (int i = 0; library != NULL && i < library->count; i++)
        if (attention_problem_same(&library->compiled[i].problem, problem))
            return library->compiled[i].workspace <= stream->workspace_bytes ? &library->compiled[i] : NULL;
    return NULL;
}

bool attention_cudnn_forward(void *out, float *lse, const void *qkv, const struct attention_problem *problem,
                             struct stream *stream)
{
    void *at[ATTENTION_OPERANDS] = {};
    const struct attention_compiled *c = chosen(problem, stream);
    if (c == NULL || !aligned16(out) || !aligned16(lse) || !aligned16(qkv)) return false;
    if (!stream_usable(stream)) return true;
    place_forward(at, problem, out, lse, qkv);
    run(stream->device->attention, c, at, stream, (unsigned char *)stream->workspace);
    return true;
}

bool attention_cudnn_backward(void *dqkv, const void *dout, const void *out, const float *lse,
                              const void *qkv, const struct attention_problem *problem, struct stream *stream)
{
    void *at[ATTENTION_OPERANDS] = {};
    const struct attention_compiled *c = chosen(problem, stream);
    if (c == NULL || !aligned16(dqkv) || !aligned16(dout) || !aligned16(out) || !aligned16(lse) ||
        !aligned16(qkv))
        return false;
    if (!stream_usable(stream)) return true;
    place_backward(at, problem, dqkv, dout, out, lse, qkv);
    run(stream->device->attention, c, at, stream, (unsigned char *)stream->workspace);
    return true;
}

/* ---- the library ---- */

enum status attention_cudnn_open(struct device *device, struct err *err)
{
    if (device->attention != NULL) return STATUS_OK;
    struct attention_library *library = (struct attention_library *)calloc(1, sizeof *library);
    if (library == NULL) return err_no_memory(err, "cuDNN");
    enum status status = cudnn_load(&library->cudnn, err);
    if (!status) status = cudnn_connect(&library->cudnn, err);
    if (status)
        free(library);
    else
        device->attention = library;
    return status;
}

void attention_cudnn_take(struct device *device, const struct attention_compiled *compiled)
{
    struct attention_library *library = device->attention;
    library->compiled[library->count++] = *compiled;
}

void attention_cudnn_return(struct device *device)
{
    device->attention->count--;
}

void attention_cudnn_release(struct device *device)
{
    struct attention_library *library = device->attention;
    while (library != NULL && library->count > 0)
        graph_plan_release(&library->cudnn, &library->compiled[--library->count].plan);
}

int attention_cudnn_version(const struct device *device)
{
    const struct attention_library *library = device->attention;
    return library != NULL && library->count > 0 ? library->cudnn.version : 0;
}

void attention_cudnn_close(struct device *device)
{
    if (device->attention == NULL) return;
    if (!device->lost) {
        attention_cudnn_release(device);
        cudnn_close(&device->attention->cudnn);
    }
    free(device->attention);
    device->attention = NULL;
}

size_t attention_workspace_bound(int major, int version, const struct attention_problem *problem)
{
    const struct ordered *ordered = ordered_engine(version, major);
    size_t rows = row_count(problem), wide = rows * (size_t)problem->HS * sizeof(float);
    size_t bytes = aligned(rows * sizeof(float)) + rows + ((size_t)64 << 10);
    if (ordered == NULL) return bytes;
    if (ordered->partial) bytes += aligned(wide);
    if (problem->NH != problem->NKV) bytes += 2 * wide;
    return bytes;
}

size_t attention_cudnn_workspace(struct device *device, const struct attention_problem *problem)
{
    struct err err;
    if (attention_cudnn_open(device, &err)) return 0;
    return attention_workspace_bound(device->properties.major, device->attention->cudnn.version, problem);
}
