/* See plan.h. Sizes come from the list, lifetimes from a record of the passes, places from both. */
#include "core/network/plan.h"

#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/data_format.h"
#include "core/network/record.h"
#include "kernels/optimizers.h"

/* STEP_CALLS_BESIDE: calls of a profiled step outside of the passes: batches, update, result. */
enum { ALIGN = 256, STEP_CALLS_BESIDE = 8 };

/* More than any machine has, and small enough that sums are exact. */
static const double BYTES_MAX = (double)((size_t)1 << 57);

static size_t pad(size_t bytes)
{
    return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* A GPU's fast products and loads need rows that begin on boundaries of 16 bytes, and a vocabulary may be
 * odd. So a row of logits takes whole lines of 128 bytes there, also in bf16. */
static int logits_stride(const struct plan_input *in)
{
    int V = in->model->head.rows;
    return in->host_counts || V > INT_MAX - 63 ? V : (V + 63) / 64 * 64;
}

/* Each chunk reads and writes the (V, C) gradient once, so few large chunks move less memory. On a CPU only
 * the logits grow beyond 512 rows: at most 64 MiB of logits, measured with tests/bench/bench_kernels. A GPU
 * multiplies 100 times as fast, but moves memory only 50 times as fast: 4,096 rows, at most 512 MiB. At least
 * 64 rows. Without training there is no such gradient, and 64 rows are enough. */
static int loss_chunk_rows(const struct plan_input *in)
{
    size_t N = (size_t)in->B * (size_t)in->T, V = (size_t)in->model->head.rows;
    size_t bytes = (size_t)(in->host_counts ? 64 : 512) << 20, most = in->host_counts ? 512 : 4096;
    size_t rows = bytes / (V * precision_bytes(in->precision)) / 64 * 64;
    if (rows > most) rows = most;
    if (rows < 64 || in->moments == 0) rows = 64;
    if (in->loss_chunk > 0) rows = (size_t)in->loss_chunk;
    return (int)(rows < N ? rows : N);
}

int plan_batch_parts(const struct plan_input *in)
{
    return in->packed ? 3 : 2;
}

size_t plan_device_bytes(const struct plan *plan)
{
    size_t bytes = 0;
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (!plan_category_is_host((enum plan_category)i)) bytes += plan->category_bytes[i];
    return bytes;
}

enum status plan_reserved(const struct plan *plan, size_t *out, struct err *err)
{
    size_t sizes[PLAN_CATEGORIES], device = plan_device_bytes(plan);
    int count = 0;
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (!plan_category_is_host((enum plan_category)i)) sizes[count++] = plan->category_bytes[i];
    enum status status =
        allocator_rehearse(plan->input.allocator, plan->input.pool_unit, sizes, count, out, err);
    *out += plan->total_bytes - device;
    return status;
}

/* ---- sizes ---- */

/* Bytes of a moment of so many elements. */
static double moment_size(const struct plan_input *in, double elements)
{
    return elements < BYTES_MAX ? (double)plan_moment_bytes(in, MOMENT_FIRST, (size_t)elements) : BYTES_MAX;
}

/* Computes the size of every buffer for `chunk` rows of logits and `scratch` bytes. Returns their total over
 * all layers, as a double: it may exceed size_t. */
static double measure(struct plan *plan, int chunk, size_t scratch)
{
    typedef double wide; /* exact up to 2^53; larger plans are rejected */
    const struct plan_input *in = &plan->input;
    const struct model_config *c = &in->model->config;
    wide B = in->B, T = in->T, N = B * T, C = c->hidden_dim, F = c->intermediate_dim,
         V = in->model->head.rows, NH = c->num_heads, NKV = c->num_kv_heads, HS = c->head_dim,
         Q = (NH + 2 * NKV) * HS, slots = in->cache_slots, S = slots > 0 ? in->cache_length : 0,
         P = (wide)in->model->elements, slice = (wide)plan_slice_most(in),
         copied = !in->gathered   ? slice
                  : in->rank == 0 ? P
                                  : 0,
         received = in->shard ? (wide)reduce_slices_workspace(plan_piece(in), (size_t)slice, in->ranks) : 0,
         own = in->shard ? slice : P, E = (wide)in->model->elementwise, second = own < E ? own : E,
         orthogonal = in->moments > 0 ? (wide)in->model->orthogonal : 0,
         side = in->moments > 0 ? (wide)in->model->orthogonal_side : 0, FB = (wide)in->model->frozen_bytes,
         e = (wide)precision_bytes(in->precision), f32 = sizeof(float), i32 = sizeof(int32_t),
         f64 = sizeof(double), all = 0;
    int moments = in->moments, host_batches = plan->host_batch_count, parts = plan_batch_parts(in);
    size_t largest = in->model->nf4_largest;
    bool training = moments > 0, qk_norm = c->qk_norm, first = in->rank == 0;
    wide inner = NH * HS > F ? NH * HS : F, widest = C > inner ? C : inner; /* inputs of a projection */
    const wide sizes[BUFFERS] = {
#define BUFFER(id, name, kind, category, bytes) (wide)(bytes),
#include "core/network/buffers.def"
    };
    for (int b = 0; b < BUFFERS; b++) {
        plan->bytes[b] = sizes[b] < BYTES_MAX ? (size_t)sizes[b] : 0;
        enum buffer_kind kind = buffer_facts[b].kind;
        all += sizes[b] * (kind == BUFFER_LAYER || kind == BUFFER_EACH ? c->num_layers + 1 : 1);
    }
    return all;
}

/* ---- places ---- */

static bool collide(const struct placement *a, const struct placement *b)
{
    return (a->conflicts >> b->number & 1) && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* Equal sizes keep their order. */
static int largest_first(const void *a, const void *b)
{
    const struct placement *x = *(struct placement *const *)a, *y = *(struct placement *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

/* Finds the lowest offset without a conflict with the placements before. The offset only moves up, past what
 * is in its way, so no gap is missed. */
static void place(struct placement *const *before, size_t count, struct placement *next)
{
    next->offset = 0;
    for (size_t i = 0; i < count;) {
        bool moves = collide(before[i], next);
        if (moves) next->offset = before[i]->offset + before[i]->bytes;
        i = moves ? 0 : i + 1;
    }
}

size_t placement_solve(struct placement *at, size_t count)
{
    struct placement *order[BUFFERS];
    size_t height = 0;
    for (size_t i = 0; i < count; i++) order[i] = &at[i];
    qsort(order, count, sizeof(struct placement *), largest_first);
    for (size_t i = 0; i < count; i++) {
        place(order, i, order[i]);
        if (order[i]->offset + order[i]->bytes > height) height = order[i]->offset + order[i]->bytes;
    }
    return height;
}

/* Records the place of this buffer for layers `from` to `to`. */
static void put(struct plan *plan, int b, const char *name, enum plan_category category, int from, int to,
                size_t offset)
{
    int layer = from == to && from < plan->input.model->config.num_layers ? from : -1;
    assert(plan->buffer_count < plan->buffer_capacity);
    plan->buffers[plan->buffer_count++] =
        (struct plan_buffer){name, (enum buffer)b, category, layer, plan->bytes[b], offset};
    for (int l = from; l <= to; l++) plan->places[l * BUFFERS + b] = (struct buffer_place){category, offset};
}

/* Places the buffer after all others of its category. */
static void put_behind(struct plan *plan, int b, const char *name, int from, int to)
{
    enum plan_category category = buffer_facts[b].category;
    put(plan, b, name, category, from, to, plan->category_bytes[category]);
    plan->category_bytes[category] += pad(plan->bytes[b]);
}

static void place_own(struct plan *plan)
{
    for (int b = 0; b < BUFFERS; b++)
        if (buffer_facts[b].kind == BUFFER_OWN && plan->bytes[b])
            put_behind(plan, b, buffer_facts[b].name, 0, plan->input.model->config.num_layers);
}

static void place_each(struct plan *plan)
{
    for (int l = 0; l < plan->input.model->config.num_layers; l++)
        for (int b = 0; b < BUFFERS; b++)
            if (buffer_facts[b].kind == BUFFER_EACH && plan->bytes[b])
                put_behind(plan, b, buffer_facts[b].name, l, l);
}

/* Whether this buffer is placed in the workspace, where it may overlap others. */
static bool is_shared(const struct plan *plan, int b)
{
    enum buffer_kind kind = buffer_facts[b].kind;
    if (!plan->bytes[b]) return false;
    if (kind == BUFFER_LAYER) return plan_recomputes(plan, 0) && !plan_saves(plan, (enum buffer)b, 0);
    return kind == BUFFER_SHARED;
}

/* The workspace bytes of the shared buffers, from their sizes and lifetimes. Fills `at`. */
static size_t solve_shared(const struct plan *plan, struct placement at[BUFFERS], size_t *count)
{
    *count = 0;
    for (int b = 0; b < BUFFERS; b++)
        if (is_shared(plan, b))
            at[(*count)++] = (struct placement){pad(plan->bytes[b]), plan->conflicts[b], b, 0};
    return placement_solve(at, *count);
}

static void place_shared(struct plan *plan)
{
    struct placement at[BUFFERS];
    size_t count, base = plan->category_bytes[PLAN_WORKSPACE];
    plan->category_bytes[PLAN_WORKSPACE] += solve_shared(plan, at, &count);
    for (size_t i = 0; i < count; i++) {
        const struct buffer_fact *f = &buffer_facts[at[i].number];
        put(plan, at[i].number, f->kind == BUFFER_LAYER ? f->shared_name : f->name, PLAN_WORKSPACE, 0,
            plan->input.model->config.num_layers, base + at[i].offset);
    }
}

/* Places the activations that layers save, layer by layer; after the last layer, its output. */
static void place_saved(struct plan *plan)
{
    int L = plan->input.model->config.num_layers;
    for (int l = 0; l <= L; l++)
        for (int b = 0; b < BUFFERS; b++) {
            const char *name = b == BUFFER_X ? "residual stream out" : "final norm rstd";
            if (plan->bytes[b] && plan_saves(plan, (enum buffer)b, l))
                put_behind(plan, b, l < L ? buffer_facts[b].name : name, l, l);
        }
}

/* Buffers that the plan does not have get the place of those that replace them. */
static void place_aliases(struct plan *plan)
{
    for (int i = 0; i < BUFFERS * (plan->input.model->config.num_layers + 1); i++) {
        int b = i % BUFFERS, other = (int)plan_alias(plan, (enum buffer)b);
        if (other != b)
            plan->places[i] = plan->places[i - b + other];
        else if (!plan->bytes[b])
            plan->places[i].category = buffer_facts[b].category;
    }
}

/* ---- lifetimes ---- */

/* Records the passes for `chunk` rows of logits; from the record follow sizes and lifetimes. */
static enum status record_with(struct plan *plan, struct record *record, int chunk, struct err *err)
{
    plan->loss_chunk = chunk;
    measure(plan, chunk, 1);
    enum status status = record_init(record, plan, err);
    if (status) return status;
    if (*record->problem) fprintf(stderr, "%s\n", record->problem);
    assert(!*record->problem);
    measure(plan, chunk, record->scratch_bytes);
    record_conflicts(record, plan->conflicts);
    return STATUS_OK;
}

/* Decides whether the loss computes the logits in chunks of rows or all at once. By default all at once, if
 * that makes the workspace no larger, as the logits fit where the backward pass has its buffers: chunks would
 * then save no memory and only read the head's gradient more often. */
static enum status record_passes(struct plan *plan, struct record *record, struct err *err)
{
    const struct plan_input *in = &plan->input;
    int N = in->B * in->T, chunk = loss_chunk_rows(in);
    if (in->loss != PLAN_LOSS_AUTO || in->loss_chunk > 0 || chunk == N)
        return record_with(plan, record, in->loss == PLAN_LOSS_PLAIN ? N : chunk, err);
    enum status status = record_with(plan, record, chunk, err);
    if (status) return status;
    struct placement at[BUFFERS];
    size_t count, height = solve_shared(plan, at, &count);
    record_release(record);
    status = record_with(plan, record, N, err);
    if (status || solve_shared(plan, at, &count) <= height) return status;
    record_release(record);
    return record_with(plan, record, chunk, err);
}

bool plan_cudnn(const struct plan_input *input)
{
    return input->attention != ATTENTION_OWN && input->precision == PRECISION_BF16 && input->moments > 0 &&
           !input->packed;
}

/* Keeps the results of the record other than lifetimes. */
static enum status keep(struct plan *plan, const struct record *record, struct err *err)
{
    plan->products = arena_alloc_array(&plan->arena, record->product_count, sizeof *plan->products);
    if (!plan->products) return err_no_memory(err, "a list of products");
    memcpy(plan->products, record->products, record->product_count * sizeof *plan->products);
    plan->product_count = (int)record->product_count;
    plan->attention_count = plan_cudnn(&plan->input) ? record->attention_count : 0;
    plan->attentions = arena_alloc_array(&plan->arena, plan->attention_count, sizeof *plan->attentions);
    if (!plan->attentions) return err_no_memory(err, "a list of attentions");
    memcpy(plan->attentions, record->attentions, plan->attention_count * sizeof *plan->attentions);
    plan->recomputed_flops = record->flops[PHASE_RECOMPUTE];
    plan->step_calls[1] = record->labelled[PHASE_OPTIMIZER] + STEP_CALLS_BESIDE;
    for (int phase = PHASE_FORWARD; phase < PHASE_OPTIMIZER; phase++)
        plan->step_calls[0] += record->labelled[phase];
    return STATUS_OK;
}

/* ---- inputs of a plan ---- */

void plan_input_for(struct plan_input *input, const struct backend *backend, struct device *device)
{
    const struct model_config *m = &input->model->config;
    struct attention_problem attention = {input->B,    input->T, m->num_heads,    m->num_kv_heads,
                                          m->head_dim, 0,        .backward = true};
    struct device_info info;
    backend->device_describe(device, &info);
    input->host_counts = info.uuid[0] == '\0';
    input->library_workspace = backend->library_workspace(device, plan_cudnn(input) ? &attention : NULL);
    if (input->allocator == ALLOCATOR_POOL) input->pool_unit = backend->pool_unit(device);
}

enum precision plan_precision(enum precision_choice choice, enum precision best)
{
    _Static_assert(CHOOSE_FP32 - 1 == (int)PRECISION_FP32 && PRECISION_CHOICES - 1 == (int)PRECISIONS,
                   "the words of train.precision are auto and the precisions");
    return choice == CHOOSE_BEST ? best : (enum precision)(choice - 1);
}

/* A token stands for at least one byte of the prompt, but for those that a tokenizer adds at the ends, or a
 * chat template, which may have a system message of its own. */
int plan_sample_length(const struct config *c)
{
    int added = format_traits(c->data.format)->answers ? 256 : 16;
    int64_t tokens = (int64_t)strlen(c->sample.prompt) + added + c->sample.max_tokens;
    return (int)(tokens < c->train.seq_len ? tokens : c->train.seq_len);
}

struct plan_input plan_input_of(const struct config *c, const struct model *model,
                                const struct backend *backend, struct device *device)
{
#define MOMENTS(KIND, name, moments, beta2, flops) [OPTIMIZER_##KIND] = moments,
    static const int moments_of[OPTIMIZERS] = {OPTIMIZER_LIST(MOMENTS)};
    struct device_info info;
    int moments = moments_of[c->train.optimizer];
    bool full = c->checkpoint.contents == CONTENTS_FULL; /* a snapshot holds the same as a checkpoint */
    backend->device_describe(device, &info);
    struct plan_input input = {.model = model,
                               .B = (int)c->train.batch_size,
                               .T = (int)c->train.seq_len,
                               .micro_batches = (int)config_micro_batches_most(c),
                               .packed = format_traits(c->data.format)->packed ||
                                         c->data.documents == DOCUMENTS_PACKED,
                               .moments = moments,
                               .moments_8bit = c->train.moments == MOMENTS_8BIT,
                               .averages = c->train.ema_decay > 0,
                               .cache_slots = format_traits(c->data.format)->writes_text, /* for samples */
                               .cache_length = plan_sample_length(c),
                               .precision = plan_precision(c->train.precision, info.best),
                               .activation_interval = (int)c->checkpoint.activation_interval,
                               .loss = c->train.loss,
                               .loss_chunk = c->train.loss_chunk,
                               .attention = c->kernels.attention,
                               .allocator = c->memory.allocator,
                               .snapshot = c->checkpoint.background ? 1 + full * moments : 0};
    plan_input_for(&input, backend, device);
    return input;
}

/* A step's sequences are cut into as many parts as there are ranks; the longest one decides. */
void plan_input_share(struct plan_input *input, const struct config *c, int rank, int ranks)
{
    int64_t all = c->train.batch_size * config_micro_batches_most(c), most = (all + ranks - 1) / ranks;
    if (ranks <= 1) return;
    if (input->B > most) input->B = (int)most;
    input->micro_batches = (int)((most + input->B - 1) / input->B);
    input->rank = rank;
    input->ranks = ranks;
    input->shard = c->world.shard != SHARD_OFF;
    input->gathered = c->checkpoint.layout == LAYOUT_GATHERED;
    if (input->gathered && !input->snapshot)
        input->snapshot = c->checkpoint.contents == CONTENTS_FULL ? 1 + input->moments : 1;
}

/* ---- the plan ---- */

enum status plan_init(struct plan *plan, const struct plan_input *input, struct err *err)
{
    const struct model *model = input->model;
    int L = model->config.num_layers, each = input->micro_batches > 0 ? input->micro_batches : 1;
    *plan = (struct plan){.input = *input, .buffer_capacity = (size_t)(L + 2) * BUFFERS};
    plan->logits_stride = logits_stride(input);
    plan->host_batch_count =
        each < PLAN_HOST_BATCHES_MAX / PLAN_FLIGHTS ? PLAN_FLIGHTS * each : PLAN_HOST_BATCHES_MAX;
    if ((double)input->B * input->T > INT_MAX || measure(plan, input->B * input->T, 1) > BYTES_MAX)
        return err_set(
            err, STATUS_USAGE,
            "%d sequences of %d tokens over a vocabulary of %d are more than can be planned (use a "
            "smaller train.batch_size, train.seq_len or model.vocab_size)",
            input->B, input->T, model->config.vocab_size);
    plan->buffers = arena_alloc_array(&plan->arena, plan->buffer_capacity, sizeof *plan->buffers);
    plan->places = arena_alloc_array(&plan->arena, (size_t)(L + 1) * BUFFERS, sizeof *plan->places);
    struct record record = {0};
    enum status status = STATUS_OK;
    if (!plan->buffers || !plan->places) status = err_no_memory(err, "a plan of %d layers", L);
    if (!status) status = record_passes(plan, &record, err);
    if (!status) status = keep(plan, &record, err);
    record_release(&record);
    if (status) {
        plan_release(plan);
        return status;
    }
    place_own(plan);
    place_each(plan);
    place_shared(plan);
    place_saved(plan);
    place_aliases(plan);
    for (int i = 0; i < PLAN_CATEGORIES; i++)
        if (input->host_counts || !plan_category_is_host((enum plan_category)i))
            plan->total_bytes += plan->category_bytes[i];
    return STATUS_OK;
}

void plan_release(struct plan *plan)
{
    arena_release(&plan->arena);
    *plan = (struct plan){0};
}
