/* See cudnn_graph.cuh. */
#include "kernels/cudnn_graph.cuh"

#include <dlfcn.h>
#include <string.h>

/* The oldest version with which the graphs of attention have been compiled. */
enum { OLDEST = 91900 };

#ifdef ANNEAL_CUDA_SIM
constexpr int OPENING = RTLD_NOW | RTLD_NOLOAD; /* a test has loaded the one that there is */
#else
constexpr int OPENING = RTLD_NOW | RTLD_LOCAL;
#endif

/* ---- the library ---- */

static const char *why()
{
    const char *text = dlerror();
    return text != NULL ? text : "libcudnn.so.9 is not loaded";
}

/* Looks in the plugin's and the loader's search paths. The library stays open: it has threads. */
enum status cudnn_load(struct cudnn *out, struct err *err)
{
    bool found = true;
    memset(out, 0, sizeof *out);
    void *library = dlopen("libcudnn.so.9", OPENING);
    if (library == NULL)
        return err_set(err, STATUS_NOT_FOUND,
                       "NVIDIA's library cuDNN is missing: %s (install it: libcudnn9-cuda-13 of NVIDIA's "
                       "repository, or nvidia-cudnn-cu13 with pip, and name its folder in LD_LIBRARY_PATH)",
                       why());
#define FIND(name, arguments)                                                                                \
    out->call.name = reinterpret_cast<decltype(out->call.name)>(dlsym(library, #name));                      \
    found = found && out->call.name != NULL;
    DNN_FUNCTIONS(FIND)
    FIND(cudnnGetVersion, )
    FIND(cudnnGetErrorString, )
#undef FIND
    if (found) out->version = (int)out->call.cudnnGetVersion();
    if (found && out->version >= OLDEST) return STATUS_OK;
    return err_set(err, STATUS_NOT_FOUND, "libcudnn.so.9 is older than cuDNN 9.19 (install a newer one)");
}

enum status cudnn_find(struct err *err)
{
    struct cudnn cudnn;
    return cudnn_load(&cudnn, err);
}

static enum status refused(const struct cudnn *cudnn, const char *what, int code, struct err *err)
{
    return err_set(err, STATUS_NOT_FOUND, "cuDNN %d.%d: %s: %s", cudnn->version / 10000,
                   cudnn->version / 100 % 100, what, cudnn->call.cudnnGetErrorString(code));
}

enum status cudnn_connect(struct cudnn *cudnn, struct err *err)
{
    int code = cudnn->call.cudnnCreate(&cudnn->handle);
    return code == DNN_SUCCESS ? STATUS_OK : refused(cudnn, "it does not open the device", code, err);
}

enum status cudnn_imagine(struct cudnn *cudnn, const char *json, struct err *err)
{
    int code = cudnn->call.cudnnBackendCreateDescriptor(DNN_DEVICE, &cudnn->absent);
    if (code == DNN_SUCCESS)
        code = cudnn->call.cudnnBackendSetAttribute(cudnn->absent, DNN_DEVICE_JSON, DNN_IS_CHAR,
                                                    (int64_t)strlen(json) + 1, json);
    if (code == DNN_SUCCESS) code = cudnn->call.cudnnBackendFinalize(cudnn->absent);
    return code == DNN_SUCCESS ? STATUS_OK : refused(cudnn, "a device's description", code, err);
}

void cudnn_close(struct cudnn *cudnn)
{
    if (cudnn->absent != NULL) cudnn->call.cudnnBackendDestroyDescriptor(cudnn->absent);
    if (cudnn->handle != NULL) cudnn->call.cudnnDestroy(cudnn->handle);
    cudnn->absent = NULL, cudnn->handle = NULL;
}

/* ---- descriptors ---- */

static void keep_code(struct graph *g, const char *what, int code)
{
    if (code == DNN_SUCCESS || g->failure != NULL) return;
    g->code = code;
    g->failure = what;
}

/* A descriptor that the graph owns; NULL after a failure. */
static dnn_descriptor create(struct graph *g, int type, const char *what)
{
    dnn_descriptor d = NULL;
    if (g->failure != NULL) return NULL;
    keep_code(g, what, g->cudnn->call.cudnnBackendCreateDescriptor(type, &d));
    if (g->failure == NULL && g->descriptor_count < GRAPH_DESCRIPTORS_MAX)
        g->descriptors[g->descriptor_count++] = d;
    return d;
}

static void set(struct graph *g, dnn_descriptor d, int name, int type, int64_t count, const void *elements)
{
    if (g->failure == NULL)
        keep_code(g, "an attribute", g->cudnn->call.cudnnBackendSetAttribute(d, name, type, count, elements));
}

static void set_number(struct graph *g, dnn_descriptor d, int name, int64_t number)
{
    set(g, d, name, DNN_IS_INT64, 1, &number);
}

/* For attributes that are one of an enumeration's values. */
static void set_word(struct graph *g, dnn_descriptor d, int name, int type, int word)
{
    set(g, d, name, type, 1, &word);
}

static void set_descriptor(struct graph *g, dnn_descriptor d, int name, dnn_descriptor value)
{
    set(g, d, name, DNN_IS_DESCRIPTOR, 1, &value);
}

static void finalize(struct graph *g, dnn_descriptor d, const char *what)
{
    if (g->failure == NULL) keep_code(g, what, g->cudnn->call.cudnnBackendFinalize(d));
}

/* ---- tensors ---- */

enum place { IN_MEMORY, ON_HOST, BETWEEN };

static struct graph_tensor tensor_of(struct graph *g, int type, enum place place, const int64_t extents[4],
                                     const int64_t strides[4])
{
    struct graph_tensor t = {};
    t.at = create(g, DNN_TENSOR, "a tensor");
    t.type = type;
    memcpy(t.extents, extents, sizeof t.extents);
    memcpy(t.strides, strides, sizeof t.strides);
    int64_t id = ++g->tensors;
    bool between = place == BETWEEN, by_value = place == ON_HOST;
    set_word(g, t.at, DNN_TENSOR_TYPE, DNN_IS_DATA_TYPE, type);
    set(g, t.at, DNN_TENSOR_EXTENTS, DNN_IS_INT64, 4, extents);
    set(g, t.at, DNN_TENSOR_STRIDES, DNN_IS_INT64, 4, strides);
    set_number(g, t.at, DNN_TENSOR_ALIGNMENT, 16);
    set_number(g, t.at, DNN_TENSOR_ID, id);
    set(g, t.at, DNN_TENSOR_VIRTUAL, DNN_IS_BOOLEAN, 1, &between);
    if (by_value) set(g, t.at, DNN_TENSOR_BY_VALUE, DNN_IS_BOOLEAN, 1, &by_value);
    finalize(g, t.at, "a tensor");
    t.id = between ? 0 : id;
    return t;
}

struct graph_tensor graph_memory(struct graph *g, int type, const int64_t extents[4],
                                 const int64_t strides[4])
{
    return tensor_of(g, type, IN_MEMORY, extents, strides);
}

struct graph_tensor graph_scalar(struct graph *g, int type)
{
    const int64_t one[4] = {1, 1, 1, 1};
    return tensor_of(g, type, ON_HOST, one, one);
}

/* `to`, or a new one between operations, row by row. */
static struct graph_tensor result(struct graph *g, const struct graph_tensor *to, int type, int64_t a,
                                  int64_t b, int64_t c, int64_t d)
{
    const int64_t extents[4] = {a, b, c, d}, strides[4] = {b * c * d, c * d, d, 1};
    return to != NULL ? *to : tensor_of(g, type, BETWEEN, extents, strides);
}

/* ---- operations ---- */

static void add(struct graph *g, dnn_descriptor operation, const char *what)
{
    finalize(g, operation, what);
    if (g->operation_count < GRAPH_OPERATIONS_MAX) g->operations[g->operation_count++] = operation;
}

/* A pointwise operation computes in fp32, or of integers and truth values in the type of its result. */
static void pointwise(struct graph *g, int mode, const struct graph_tensor &x, const struct graph_tensor *b,
                      const struct graph_tensor *t, const struct graph_tensor &y, int64_t axis)
{
    dnn_descriptor kind = create(g, DNN_POINTWISE, "a pointwise operation");
    set_word(g, kind, DNN_POINTWISE_MODE, DNN_IS_POINTWISE_MODE, mode);
    set_word(g, kind, DNN_POINTWISE_COMPUTE, DNN_IS_DATA_TYPE, y.type == DNN_BF16 ? DNN_FP32 : y.type);
    if (axis >= 0) set_number(g, kind, DNN_POINTWISE_AXIS, axis);
    finalize(g, kind, "a pointwise operation");
    dnn_descriptor operation = create(g, DNN_DO_POINTWISE, "a pointwise operation");
    set_descriptor(g, operation, DNN_DO_POINTWISE_KIND, kind);
    set_descriptor(g, operation, DNN_DO_POINTWISE_X, x.at);
    if (b != NULL) set_descriptor(g, operation, DNN_DO_POINTWISE_B, b->at);
    if (t != NULL) set_descriptor(g, operation, DNN_DO_POINTWISE_T, t->at);
    set_descriptor(g, operation, DNN_DO_POINTWISE_Y, y.at);
    add(g, operation, "a pointwise operation");
}

struct graph_tensor graph_pointwise(struct graph *g, int mode, const struct graph_tensor &x,
                                    const struct graph_tensor *y, int type, const struct graph_tensor *to)
{
    struct graph_tensor out = result(g, to, type, x.extents[0], x.extents[1], x.extents[2], x.extents[3]);
    pointwise(g, mode, x, y, NULL, out, -1);
    return out;
}

struct graph_tensor graph_index(struct graph *g, const struct graph_tensor &like, int64_t axis)
{
    const int64_t *n = like.extents;
    struct graph_tensor out = result(g, NULL, DNN_INT32, n[0], n[1], n[2], n[3]);
    pointwise(g, DNN_INDEX, like, NULL, NULL, out, axis);
    return out;
}

struct graph_tensor graph_select(struct graph *g, const struct graph_tensor &where,
                                 const struct graph_tensor &x, const struct graph_tensor &y)
{
    const int64_t *n = x.extents;
    struct graph_tensor out = result(g, NULL, DNN_FP32, n[0], n[1], n[2], n[3]);
    pointwise(g, DNN_SELECT, x, &y, &where, out, -1);
    return out;
}

struct graph_tensor graph_matmul(struct graph *g, const struct graph_tensor &a, const struct graph_tensor &b,
                                 int type, const struct graph_tensor *to)
{
    struct graph_tensor out = result(g, to, type, a.extents[0], a.extents[1], a.extents[2], b.extents[3]);
    dnn_descriptor kind = create(g, DNN_MATMUL, "a product"),
                   operation = create(g, DNN_DO_MATMUL, "a product");
    set_word(g, kind, DNN_MATMUL_COMPUTE, DNN_IS_DATA_TYPE, DNN_FP32);
    finalize(g, kind, "a product");
    set_descriptor(g, operation, DNN_DO_MATMUL_KIND, kind);
    set_descriptor(g, operation, DNN_DO_MATMUL_A, a.at);
    set_descriptor(g, operation, DNN_DO_MATMUL_B, b.at);
    set_descriptor(g, operation, DNN_DO_MATMUL_C, out.at);
    add(g, operation, "a product");
    return out;
}

struct graph_tensor graph_reduce(struct graph *g, int op, const struct graph_tensor &x,
                                 const struct graph_tensor *to)
{
    struct graph_tensor out = result(g, to, DNN_FP32, x.extents[0], x.extents[1], x.extents[2], 1);
    dnn_descriptor kind = create(g, DNN_REDUCTION, "a reduction"),
                   operation = create(g, DNN_DO_REDUCTION, "a reduction");
    set_word(g, kind, DNN_REDUCTION_COMPUTE, DNN_IS_DATA_TYPE, DNN_FP32);
    set_word(g, kind, DNN_REDUCTION_OPERATOR, DNN_IS_REDUCTION_OPERATOR, op);
    finalize(g, kind, "a reduction");
    set_descriptor(g, operation, DNN_DO_REDUCTION_KIND, kind);
    set_descriptor(g, operation, DNN_DO_REDUCTION_X, x.at);
    set_descriptor(g, operation, DNN_DO_REDUCTION_Y, out.at);
    add(g, operation, "a reduction");
    return out;
}

struct graph_tensor graph_transpose(struct graph *g, const struct graph_tensor &x, int type)
{
    const int64_t extents[4] = {x.extents[0], x.extents[1], x.extents[3], x.extents[2]},
                  strides[4] = {x.strides[0], x.strides[1], x.strides[3], x.strides[2]};
    struct graph_tensor out = tensor_of(g, type, BETWEEN, extents, strides);
    dnn_descriptor operation = create(g, DNN_DO_RESHAPE, "a transpose");
    set_descriptor(g, operation, DNN_DO_RESHAPE_X, x.at);
    set_descriptor(g, operation, DNN_DO_RESHAPE_Y, out.at);
    add(g, operation, "a transpose");
    return out;
}

/* ---- compiling ---- */

static void set_device(struct graph *g, dnn_descriptor d, int name)
{
    if (g->cudnn->absent != NULL) set_descriptor(g, d, name, g->cudnn->absent);
}

static dnn_descriptor configured(struct graph *g, dnn_descriptor whole, const struct graph_engine *engine)
{
    dnn_descriptor e = create(g, DNN_ENGINE, "an engine"), knobs[6] = {};
    set_descriptor(g, e, DNN_ENGINE_GRAPH, whole);
    set_number(g, e, DNN_ENGINE_INDEX, engine->number);
    set_device(g, e, DNN_ENGINE_DEVICE);
    finalize(g, e, "its engine");
    for (int i = 0; i < engine->knob_count; i++) {
        knobs[i] = create(g, DNN_KNOB_CHOICE, "a setting");
        set_word(g, knobs[i], DNN_KNOB_TYPE, DNN_IS_KNOB_TYPE, (int)engine->knobs[i][0]);
        set_number(g, knobs[i], DNN_KNOB_VALUE, engine->knobs[i][1]);
        finalize(g, knobs[i], "a setting");
    }
    dnn_descriptor config = create(g, DNN_ENGINE_CONFIG, "an engine");
    set_descriptor(g, config, DNN_CONFIG_ENGINE, e);
    if (engine->knob_count > 0)
        set(g, config, DNN_CONFIG_KNOBS, DNN_IS_DESCRIPTOR, engine->knob_count, knobs);
    finalize(g, config, "its engine's settings");
    return config;
}

/* Compiles with one configuration; `out` is the caller's. Fails without a trace in the graph: another
 * configuration may do. */
static int compile(struct graph *g, dnn_descriptor config, struct graph_plan *out)
{
    const struct cudnn *cudnn = g->cudnn;
    int64_t count = 0;
    int code = cudnn->call.cudnnBackendCreateDescriptor(DNN_PLAN, &out->plan);
    if (code == DNN_SUCCESS)
        code =
            cudnn->call.cudnnBackendSetAttribute(out->plan, DNN_PLAN_CONFIG, DNN_IS_DESCRIPTOR, 1, &config);
    if (code == DNN_SUCCESS && cudnn->absent != NULL)
        code = cudnn->call.cudnnBackendSetAttribute(out->plan, DNN_PLAN_DEVICE, DNN_IS_DESCRIPTOR, 1,
                                                    &cudnn->absent);
    else if (code == DNN_SUCCESS)
        code = cudnn->call.cudnnBackendSetAttribute(out->plan, DNN_PLAN_HANDLE, DNN_IS_HANDLE, 1,
                                                    &cudnn->handle);
    if (code == DNN_SUCCESS) code = cudnn->call.cudnnBackendFinalize(out->plan);
    if (code == DNN_SUCCESS)
        code = cudnn->call.cudnnBackendGetAttribute(out->plan, DNN_PLAN_WORKSPACE, DNN_IS_INT64, 1, &count,
                                                    &out->workspace);
    if (code != DNN_SUCCESS) graph_plan_release(cudnn, out);
    return code;
}

static void compile_recommended(struct graph *g, dnn_descriptor whole, struct graph_plan *out)
{
    enum { OFFERED = 8 };
    dnn_descriptor configs[OFFERED];
    int64_t count = 0;
    dnn_descriptor heuristics = create(g, DNN_HEURISTICS, "its engines");
    set_descriptor(g, heuristics, DNN_HEURISTICS_GRAPH, whole);
    set_word(g, heuristics, DNN_HEURISTICS_MODE, DNN_IS_HEURISTICS_MODE, DNN_HEURISTICS_A);
    set_device(g, heuristics, DNN_HEURISTICS_DEVICE);
    finalize(g, heuristics, "its engines");
    for (int i = 0; i < OFFERED; i++) configs[i] = create(g, DNN_ENGINE_CONFIG, "an engine");
    if (g->failure == NULL)
        keep_code(g, "its engines",
                  g->cudnn->call.cudnnBackendGetAttribute(heuristics, DNN_HEURISTICS_RESULTS,
                                                          DNN_IS_DESCRIPTOR, OFFERED, &count, configs));
    int code = DNN_SUCCESS;
    for (int64_t i = 0; i < count && g->failure == NULL; i++) {
        code = compile(g, configs[i], out);
        if (code == DNN_SUCCESS) return;
    }
    if (g->failure == NULL) g->failure = "no engine takes it", g->code = code;
}

enum status graph_compile(struct graph *g, const struct graph_engine *engine, struct graph_plan *out,
                          struct err *err)
{
    memset(out, 0, sizeof *out);
    dnn_descriptor whole = create(g, DNN_GRAPH, "the graph");
    set(g, whole, DNN_GRAPH_OPERATIONS, DNN_IS_DESCRIPTOR, g->operation_count, g->operations);
    if (g->cudnn->handle != NULL) set(g, whole, DNN_GRAPH_HANDLE, DNN_IS_HANDLE, 1, &g->cudnn->handle);
    finalize(g, whole, "the graph");
    if (engine == NULL) {
        compile_recommended(g, whole, out);
    } else {
        dnn_descriptor config = configured(g, whole, engine);
        if (g->failure == NULL) keep_code(g, "its kernel", compile(g, config, out));
    }
    for (int i = g->descriptor_count - 1; i >= 0; i--)
        g->cudnn->call.cudnnBackendDestroyDescriptor(g->descriptors[i]);
    g->descriptor_count = g->operation_count = 0;
    if (g->failure == NULL) return STATUS_OK;
    return refused(g->cudnn, g->failure, g->code, err);
}

void graph_plan_release(const struct cudnn *cudnn, struct graph_plan *plan)
{
    if (plan->plan != NULL) cudnn->call.cudnnBackendDestroyDescriptor(plan->plan);
    plan->plan = NULL;
}

int graph_plan_run(const struct cudnn *cudnn, const struct graph_plan *plan, const int64_t *ids,
                   void *const *at, int count, void *workspace, struct stream *stream)
{
    dnn_descriptor pack = NULL;
    int code = cudnn->call.cudnnSetStream(cudnn->handle, stream->queue);
    if (code == DNN_SUCCESS) code = cudnn->call.cudnnBackendCreateDescriptor(DNN_VARIANT_PACK, &pack);
    if (code == DNN_SUCCESS)
        code = cudnn->call.cudnnBackendSetAttribute(pack, DNN_PACK_IDS, DNN_IS_INT64, count, ids);
    if (code == DNN_SUCCESS)
        code = cudnn->call.cudnnBackendSetAttribute(pack, DNN_PACK_POINTERS, DNN_IS_POINTER, count, at);
    if (code == DNN_SUCCESS)
        code = cudnn->call.cudnnBackendSetAttribute(pack, DNN_PACK_WORKSPACE, DNN_IS_POINTER, 1, &workspace);
    if (code == DNN_SUCCESS) code = cudnn->call.cudnnBackendFinalize(pack);
    if (code == DNN_SUCCESS) code = cudnn->call.cudnnBackendExecute(cudnn->handle, plan->plan, pack);
    if (pack != NULL) cudnn->call.cudnnBackendDestroyDescriptor(pack);
    return code;
}
