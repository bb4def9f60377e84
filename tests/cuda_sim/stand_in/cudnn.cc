/* Stands in for cuDNN: libcudnn.so.9 with the functions that kernels/device/cudnn.h declares. A graph is
 * computed operation by operation, as NVIDIA documents each, on the host and in fp32; what a graph keeps in
 * bf16 is rounded. A descriptor lacks nothing when it is finalized, and takes no attribute afterwards.
 *
 * Of a graph's two recommended engines the first can never be compiled. $ANNEAL_SIM_CUDNN has these words:
 *     old             the library is of an older version
 *     newest          it is of version 9.26
 *     slow            its kernels take ten times as long as ours; else a tenth
 *     wrong           a row sees the key after it, too
 *     unsteady        every second run differs in the last bits
 *     refuses         nothing runs */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <memory>
#include <vector>

extern "C" {
#include "kernels/device/cudnn.h"
}
#include "tests/cuda_sim/simulator.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

struct cudnnContext {
    struct sim_stream *stream;
};

namespace {

constexpr int BAD_PARAMETER = 2000, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000;

struct node;
using pointer = std::shared_ptr<node>;

struct attribute {
    int type;
    std::vector<unsigned char> bytes;
    std::vector<pointer> nodes; /* of descriptors */
};

struct node {
    int type;
    bool final = false;
    std::map<int, attribute> attributes;

    bool has(int name) const
    {
        return attributes.count(name) > 0;
    }
    template <typename T> T value(int name, int i = 0) const
    {
        T out = {};
        if (has(name)) memcpy(&out, attributes.at(name).bytes.data() + (size_t)i * sizeof out, sizeof out);
        return out;
    }
    pointer child(int name, size_t i = 0) const
    {
        return has(name) && i < attributes.at(name).nodes.size() ? attributes.at(name).nodes[i] : nullptr;
    }
};

decltype(&sim_queue_work) queue_work;
int runs;

bool wished(const char *word)
{
    const char *wish = getenv("ANNEAL_SIM_CUDNN");
    return wish != NULL && strstr(wish, word) != NULL;
}

pointer &of(dnn_descriptor d)
{
    return *(pointer *)d;
}

/* ---- descriptors ---- */

size_t width_of(int type)
{
    switch (type) {
    case DNN_IS_BOOLEAN:
    case DNN_IS_CHAR:
        return 1;
    case DNN_IS_INT64:
    case DNN_IS_POINTER:
    case DNN_IS_HANDLE:
    case DNN_IS_DESCRIPTOR:
        return 8;
    default:
        return 4;
    }
}

/* What a descriptor of this type must have. */
std::vector<int> needed(int type)
{
    switch (type) {
    case DNN_TENSOR:
        return {DNN_TENSOR_TYPE, DNN_TENSOR_EXTENTS, DNN_TENSOR_STRIDES, DNN_TENSOR_ALIGNMENT, DNN_TENSOR_ID};
    case DNN_POINTWISE:
        return {DNN_POINTWISE_MODE, DNN_POINTWISE_COMPUTE};
    case DNN_MATMUL:
        return {DNN_MATMUL_COMPUTE};
    case DNN_REDUCTION:
        return {DNN_REDUCTION_OPERATOR, DNN_REDUCTION_COMPUTE};
    case DNN_DO_POINTWISE:
        return {DNN_DO_POINTWISE_KIND, DNN_DO_POINTWISE_X, DNN_DO_POINTWISE_Y};
    case DNN_DO_MATMUL:
        return {DNN_DO_MATMUL_KIND, DNN_DO_MATMUL_A, DNN_DO_MATMUL_B, DNN_DO_MATMUL_C};
    case DNN_DO_REDUCTION:
        return {DNN_DO_REDUCTION_KIND, DNN_DO_REDUCTION_X, DNN_DO_REDUCTION_Y};
    case DNN_DO_RESHAPE:
        return {DNN_DO_RESHAPE_X, DNN_DO_RESHAPE_Y};
    case DNN_GRAPH:
        return {DNN_GRAPH_OPERATIONS, DNN_GRAPH_HANDLE};
    case DNN_HEURISTICS:
        return {DNN_HEURISTICS_GRAPH, DNN_HEURISTICS_MODE};
    case DNN_ENGINE:
        return {DNN_ENGINE_GRAPH, DNN_ENGINE_INDEX};
    case DNN_KNOB_CHOICE:
        return {DNN_KNOB_TYPE, DNN_KNOB_VALUE};
    case DNN_ENGINE_CONFIG:
        return {DNN_CONFIG_ENGINE};
    case DNN_PLAN:
        return {DNN_PLAN_CONFIG, DNN_PLAN_HANDLE};
    case DNN_VARIANT_PACK:
        return {DNN_PACK_IDS, DNN_PACK_POINTERS, DNN_PACK_WORKSPACE};
    default:
        return {};
    }
}

const node &graph_of(const node &plan)
{
    return *plan.child(DNN_PLAN_CONFIG)->child(DNN_CONFIG_ENGINE)->child(DNN_ENGINE_GRAPH);
}

/* ---- computing ---- */

struct tensor {
    int type;
    int64_t extents[4], strides[4];
    unsigned char *memory;

    explicit tensor(const node &n, unsigned char *at) : type(n.value<int>(DNN_TENSOR_TYPE)), memory(at)
    {
        for (int i = 0; i < 4; i++) {
            extents[i] = n.value<int64_t>(DNN_TENSOR_EXTENTS, i);
            strides[i] = n.value<int64_t>(DNN_TENSOR_STRIDES, i);
        }
    }
    size_t width() const
    {
        return type == DNN_BF16 ? 2 : type == DNN_BOOLEAN ? 1 : 4;
    }
    size_t bytes() const
    {
        int64_t last = 0;
        for (int i = 0; i < 4; i++) last += (extents[i] - 1) * strides[i];
        return (size_t)(last + 1) * width();
    }
    /* Of a dimension that is shorter in this tensor than in the result, neighbours share an element. */
    unsigned char *at(const int64_t index[4], const int64_t of[4]) const
    {
        int64_t offset = 0;
        for (int i = 0; i < 4; i++) offset += index[i] / (of[i] / extents[i]) * strides[i];
        return memory + (size_t)offset * width();
    }
    float get(const int64_t index[4], const int64_t of[4]) const
    {
        const unsigned char *from = at(index, of);
        uint32_t bits = 0;
        float x;
        int32_t n;
        if (type == DNN_BOOLEAN) return *from;
        memcpy(&bits, from, width());
        if (type == DNN_BF16) bits <<= 16;
        if (type == DNN_INT32) return memcpy(&n, from, 4), (float)n;
        return memcpy(&x, &bits, 4), x;
    }
    void put(const int64_t index[4], float x) const
    {
        unsigned char *to = at(index, extents);
        uint32_t bits;
        int32_t n = (int32_t)x;
        memcpy(&bits, &x, 4);
        if (type == DNN_BOOLEAN)
            *to = x != 0;
        else if (type == DNN_INT32)
            memcpy(to, &n, 4);
        else if (type == DNN_BF16)
            bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, memcpy(to, &bits, 2);
        else
            memcpy(to, &bits, 4);
    }
};

template <typename Work> void each(const int64_t extents[4], Work work)
{
    int64_t i[4];
    for (i[0] = 0; i[0] < extents[0]; i[0]++)
        for (i[1] = 0; i[1] < extents[1]; i[1]++)
            for (i[2] = 0; i[2] < extents[2]; i[2]++)
                for (i[3] = 0; i[3] < extents[3]; i[3]++) work(i);
}

/* A run of a plan: operands by id, and what exists between operations. */
struct execution {
    pointer plan;
    std::map<int64_t, unsigned char *> operands;
    std::map<int64_t, std::vector<unsigned char>> scalars, between;
    std::vector<sim_range> ranges;

    tensor operator()(const pointer &p)
    {
        int64_t id = p->value<int64_t>(DNN_TENSOR_ID);
        if (!p->value<bool>(DNN_TENSOR_VIRTUAL)) return tensor(*p, operands.at(id));
        tensor t(*p, NULL);
        std::vector<unsigned char> &memory = between[id];
        if (memory.empty()) memory.assign(t.bytes(), 0xff); /* NaN, until it is written */
        t.memory = memory.data();
        return t;
    }
};

float pointwise(int mode, float x, float b, float t)
{
    switch (mode) {
    case DNN_ADD:
        return x + b;
    case DNN_MUL:
        return x * b;
    case DNN_DIV:
        return x / b;
    case DNN_SUB:
        return x - b;
    case DNN_EXP:
        return expf(x);
    case DNN_LOG:
        return logf(x);
    case DNN_IDENTITY:
        return x;
    case DNN_GREATER:
        return x > b;
    case DNN_NOT_LESS:
        return wished("wrong") ? x >= b - 1 : x >= b;
    case DNN_SELECT:
        return t != 0 ? x : b;
    default:
        return NAN;
    }
}

void do_pointwise(execution &e, const node &o)
{
    const node &kind = *o.child(DNN_DO_POINTWISE_KIND);
    int mode = kind.value<int>(DNN_POINTWISE_MODE);
    pointer b = o.child(DNN_DO_POINTWISE_B), t = o.child(DNN_DO_POINTWISE_T);
    tensor x = e(o.child(DNN_DO_POINTWISE_X)), y = e(o.child(DNN_DO_POINTWISE_Y)), second = b ? e(b) : x,
           third = t ? e(t) : x;
    int64_t axis = kind.value<int64_t>(DNN_POINTWISE_AXIS);
    each(y.extents, [&](const int64_t i[4]) {
        y.put(i, mode == DNN_INDEX ? (float)i[axis]
                                   : pointwise(mode, x.get(i, y.extents), second.get(i, y.extents),
                                               third.get(i, y.extents)));
    });
}

void do_matmul(execution &e, const node &o)
{
    tensor a = e(o.child(DNN_DO_MATMUL_A)), b = e(o.child(DNN_DO_MATMUL_B)), c = e(o.child(DNN_DO_MATMUL_C));
    const int64_t of_a[4] = {c.extents[0], c.extents[1], a.extents[2], a.extents[3]},
                  of_b[4] = {c.extents[0], c.extents[1], b.extents[2], b.extents[3]};
    each(c.extents, [&](const int64_t i[4]) {
        float sum = 0;
        for (int64_t k = 0; k < a.extents[3]; k++) {
            const int64_t left[4] = {i[0], i[1], i[2], k}, right[4] = {i[0], i[1], k, i[3]};
            sum += a.get(left, of_a) * b.get(right, of_b);
        }
        c.put(i, sum);
    });
}

void do_reduction(execution &e, const node &o)
{
    tensor x = e(o.child(DNN_DO_REDUCTION_X)), y = e(o.child(DNN_DO_REDUCTION_Y));
    bool most = o.child(DNN_DO_REDUCTION_KIND)->value<int>(DNN_REDUCTION_OPERATOR) == DNN_REDUCE_MAX;
    each(y.extents, [&](const int64_t i[4]) {
        float out = most ? -INFINITY : 0;
        int64_t part[4], from[4];
        for (int d = 0; d < 4; d++) part[d] = x.extents[d] / y.extents[d];
        each(part, [&](const int64_t j[4]) {
            for (int d = 0; d < 4; d++) from[d] = i[d] * part[d] + j[d];
            float value = x.get(from, x.extents);
            out = most ? fmaxf(out, value) : out + value;
        });
        y.put(i, out);
    });
}

void do_reshape(execution &e, const node &o)
{
    tensor x = e(o.child(DNN_DO_RESHAPE_X)), y = e(o.child(DNN_DO_RESHAPE_Y));
    each(y.extents, [&](const int64_t i[4]) {
        const int64_t from[4] = {i[0], i[1], i[3], i[2]};
        y.put(i, x.get(from, x.extents));
    });
}

void compute(void *context)
{
    execution e = *(execution *)context;
    for (const auto &scalar : e.scalars) e.operands[scalar.first] = (unsigned char *)scalar.second.data();
    for (const pointer &o : graph_of(*e.plan).attributes.at(DNN_GRAPH_OPERATIONS).nodes) {
        if (o->type == DNN_DO_POINTWISE) do_pointwise(e, *o);
        if (o->type == DNN_DO_MATMUL) do_matmul(e, *o);
        if (o->type == DNN_DO_REDUCTION) do_reduction(e, *o);
        if (o->type == DNN_DO_RESHAPE) do_reshape(e, *o);
    }
    if (!wished("unsteady") || runs++ % 2 == 0) return;
    for (const pointer &o : graph_of(*e.plan).attributes.at(DNN_GRAPH_OPERATIONS).nodes)
        for (int name : {DNN_DO_POINTWISE_Y, DNN_DO_MATMUL_C, DNN_DO_REDUCTION_Y})
            if (o->has(name) && !o->child(name)->value<bool>(DNN_TENSOR_VIRTUAL))
                e(o->child(name)).memory[0] ^= 1;
}

/* Finds the operands of a graph in the pack, once each. */
bool gather(execution &e, const node &n, const std::map<int64_t, unsigned char *> &given)
{
    for (const auto &a : n.attributes)
        for (const pointer &p : a.second.nodes) {
            if (p->type != DNN_TENSOR && !gather(e, *p, given)) return false;
            if (p->type != DNN_TENSOR || p->value<bool>(DNN_TENSOR_VIRTUAL)) continue;
            int64_t id = p->value<int64_t>(DNN_TENSOR_ID);
            if (e.operands.count(id) || e.scalars.count(id)) continue;
            auto found = given.find(id);
            if (found == given.end() || found->second == NULL) return false;
            tensor t(*p, found->second);
            if (p->value<bool>(DNN_TENSOR_BY_VALUE)) {
                e.scalars[id].assign(t.memory, t.memory + t.width());
                continue;
            }
            if ((uintptr_t)t.memory % 16 != 0) return false;
            e.operands[id] = t.memory;
            e.ranges.push_back({t.memory, t.bytes()});
        }
    return true;
}

} // namespace

/* ---- the functions ---- */

EXPORTED size_t cudnnGetVersion()
{
    return wished("old") ? 91002 : wished("newest") ? 92600 : 91900;
}

EXPORTED const char *cudnnGetErrorString(int code)
{
    return code == BAD_PARAMETER   ? "CUDNN_STATUS_BAD_PARAM"
           : code == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                   : "CUDNN_STATUS_EXECUTION_FAILED";
}

/* The simulator is in memory already: as plugin, or as part of the program. */
EXPORTED int cudnnCreate(dnn_handle *out)
{
    const char *name = getenv("ANNEAL_CUDA_PLUGIN");
    void *plugin = name != NULL ? dlopen(name, RTLD_NOW | RTLD_NOLOAD) : NULL;
    queue_work = (decltype(&sim_queue_work))dlsym(plugin != NULL ? plugin : RTLD_DEFAULT, "sim_queue_work");
    if (queue_work == NULL) return EXECUTION_FAILED;
    *out = new cudnnContext();
    return DNN_SUCCESS;
}

EXPORTED int cudnnDestroy(dnn_handle handle)
{
    delete handle;
    return DNN_SUCCESS;
}

EXPORTED int cudnnSetStream(dnn_handle handle, void *stream)
{
    handle->stream = (struct sim_stream *)stream;
    return DNN_SUCCESS;
}

EXPORTED int cudnnBackendCreateDescriptor(int type, dnn_descriptor *out)
{
    pointer n = std::make_shared<node>();
    n->type = type;
    *out = new pointer(n);
    return DNN_SUCCESS;
}

EXPORTED int cudnnBackendDestroyDescriptor(dnn_descriptor d)
{
    delete (pointer *)d;
    return DNN_SUCCESS;
}

EXPORTED int cudnnBackendSetAttribute(dnn_descriptor d, int name, int type, int64_t count, const void *from)
{
    node &n = *of(d);
    if (n.final || count < 1 || from == NULL) return BAD_PARAMETER;
    attribute &a = n.attributes[name];
    a = {type, {}, {}};
    a.bytes.assign((const unsigned char *)from, (const unsigned char *)from + (size_t)count * width_of(type));
    for (int64_t i = 0; type == DNN_IS_DESCRIPTOR && i < count; i++) {
        dnn_descriptor each = ((const dnn_descriptor *)from)[i];
        if (each == NULL || !of(each)->final) return BAD_PARAMETER;
        a.nodes.push_back(of(each));
    }
    return DNN_SUCCESS;
}

EXPORTED int cudnnBackendFinalize(dnn_descriptor d)
{
    node &n = *of(d);
    for (int name : needed(n.type))
        if (!n.has(name)) return BAD_PARAMETER;
    if (n.type == DNN_PLAN &&
        n.child(DNN_PLAN_CONFIG)->child(DNN_CONFIG_ENGINE)->value<int64_t>(DNN_ENGINE_INDEX) == 0)
        return NOT_SUPPORTED;
    n.final = true;
    return DNN_SUCCESS;
}

EXPORTED int cudnnBackendGetAttribute(dnn_descriptor const d, int name, int, int64_t room, int64_t *count,
                                      void *to)
{
    node &n = *of(d);
    if (!n.final) return BAD_PARAMETER;
    *count = 1;
    if (n.type == DNN_PLAN && name == DNN_PLAN_WORKSPACE) return *(int64_t *)to = 512, DNN_SUCCESS;
    if (n.type != DNN_HEURISTICS || name != DNN_HEURISTICS_RESULTS || room < 2) return BAD_PARAMETER;
    *count = 2;
    for (int64_t i = 0; i < 2; i++) {
        node &config = *of(((dnn_descriptor *)to)[i]);
        pointer engine = std::make_shared<node>();
        engine->type = DNN_ENGINE;
        engine->final = config.final = true;
        engine->attributes[DNN_ENGINE_GRAPH] = n.attributes.at(DNN_HEURISTICS_GRAPH);
        engine->attributes[DNN_ENGINE_INDEX] = {DNN_IS_INT64, std::vector<unsigned char>(8), {}};
        engine->attributes[DNN_ENGINE_INDEX].bytes[0] = (unsigned char)i;
        config.attributes[DNN_CONFIG_ENGINE] = {DNN_IS_DESCRIPTOR, {}, {engine}};
    }
    return DNN_SUCCESS;
}

/* The runs are kept: a recorded one may be replayed as long as the process lives. */
EXPORTED int cudnnBackendExecute(dnn_handle handle, dnn_descriptor plan, dnn_descriptor pack)
{
    static std::vector<std::unique_ptr<execution>> executions;
    std::map<int64_t, unsigned char *> given;
    const node &p = *of(pack);
    if (!p.final || !of(plan)->final || wished("refuses")) return EXECUTION_FAILED;
    size_t count = p.attributes.at(DNN_PACK_IDS).bytes.size() / 8;
    if (p.attributes.at(DNN_PACK_POINTERS).bytes.size() / 8 != count) return BAD_PARAMETER;
    for (size_t i = 0; i < count; i++)
        given[p.value<int64_t>(DNN_PACK_IDS, (int)i)] = p.value<unsigned char *>(DNN_PACK_POINTERS, (int)i);
    auto e = std::make_unique<execution>();
    e->plan = of(plan);
    if (!gather(*e, graph_of(*e->plan), given)) return BAD_PARAMETER;
    e->ranges.push_back({p.value<unsigned char *>(DNN_PACK_WORKSPACE), 512});
    std::swap(e->ranges.front(), e->ranges.back());
    queue_work(handle->stream, "cudnn", e->ranges.data(), (int)e->ranges.size(), wished("slow") ? 1e6 : 0.01,
               compute, e.get());
    executions.push_back(std::move(e));
    return DNN_SUCCESS;
}
