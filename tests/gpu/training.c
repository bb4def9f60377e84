/* See training.h. */
#include "tests/gpu/training.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/philox.h"
#include "core/base/text.h"
#include "core/model/model.h"
#include "core/network/network.h"
#include "core/network/plan.h"
#include "core/train/optimizer.h"
#include "core/train/replay.h"
#include "tests/gpu/warming.h"

/* A model on a device, with one batch. */
struct bench {
    const struct backend *backend;
    struct device *device;
    struct model model;
    struct plan plan;
    struct network net;
    int32_t *inputs, *targets; /* (B,T) */
    int B, T;
    float dropout;
    double lr;
    int range_count; /* of the optimizer's table */
    int64_t free;    /* memory of the device before anything but the context was allocated */
    double peak_flops;
};

static void bench_close(struct bench *bench)
{
    free(bench->inputs), free(bench->targets);
    network_close(&bench->net);
    if (bench->device) bench->backend->device_close(bench->device);
    plan_release(&bench->plan);
    model_release(&bench->model);
}

/* The target is a function of its input, so ten steps learn something of it. */
static void write_batch(struct bench *bench)
{
    int V = bench->model.config.vocab_size;
    for (int i = 0; i < bench->B * bench->T; i++) {
        bench->inputs[i] = (int32_t)(philox4x32_10((uint32_t)i, 0, 0, 0, 1, 2).word[0] % (uint32_t)V);
        bench->targets[i] = (bench->inputs[i] * 7 + 3) % V;
    }
}

/* As the trainer does it, before the large allocations. */
static enum status bench_warm(struct bench *bench, const char *folder, struct err *err)
{
    struct warm_work work = {.products = bench->plan.products,
                             .attentions = bench->plan.attentions,
                             .product_count = bench->plan.product_count,
                             .attention_count = bench->plan.attention_count};
    struct stream *stream;
    enum status status =
        bench->backend->stream_open(bench->device, bench->plan.input.precision, &stream, err);
    if (status) return status;
    status = warm_up(bench->backend, bench->device, stream, &work, folder, err);
    bench->backend->stream_close(stream);
    return status;
}

static enum status look_at_device(struct bench *bench, struct err *err)
{
    struct device_info info;
    size_t bytes = bench->plan.total_bytes;
    bench->backend->device_describe(bench->device, &info);
    bench->free = info.available_bytes;
    bench->peak_flops = info.peak_flops[bench->plan.input.precision];
    if (info.available_bytes == 0 || bytes <= (size_t)info.available_bytes) return STATUS_OK;
    return err_set(err, STATUS_NOT_FOUND, "it takes %s of memory, of which this device has %s free",
                   TEXT_BYTES(bytes), TEXT_BYTES(info.available_bytes));
}

static enum status bench_open(struct bench *bench, const struct backend *backend, enum precision precision,
                              const struct model_config *config, int B, int T, const char *folder,
                              struct err *err)
{
    *bench = (struct bench){.backend = backend, .B = B, .T = T};
    size_t rows = (size_t)B * (size_t)T;
    enum status status = model_init(&bench->model, config, err);
    struct plan_input input = {.model = &bench->model, .B = B, .T = T, .moments = 2, .precision = precision};
    if (!status) status = backend->device_open(DEVICE_FIRST, 0, &bench->device, err);
    if (!status) input.library_workspace = backend->library_workspace(bench->device, NULL);
    if (!status) status = plan_init(&bench->plan, &input, err);
    if (!status) status = look_at_device(bench, err);
    if (!status) status = bench_warm(bench, folder, err);
    if (!status) status = network_open(&bench->net, backend, bench->device, &bench->model, &bench->plan, err);
    if (!status && (!(bench->inputs = malloc(rows * sizeof(int32_t))) ||
                    !(bench->targets = malloc(rows * sizeof(int32_t)))))
        status = err_set(err, STATUS_NO_MEMORY, "no memory for %zu tokens", rows);
    if (!status) {
        write_batch(bench);
        struct optimizer optimizer = {.defaults.weight_decay = 0.1};
        status = network_initialise(&bench->net, 1, err);
        if (!status) status = optimizer_lay_ranges(&optimizer, &bench->net, NULL, err);
        bench->range_count = optimizer.range_count;
    }
    if (status) bench_close(bench);
    return status;
}

static struct optimizer adamw(int range_count)
{
    return (struct optimizer){.kind = OPTIMIZER_ADAMW,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .eps = 1e-8,
                              .max_grad_norm = 1,
                              .range_count = range_count,
                              .elementwise_count = range_count};
}

/* One step; *loss is the mean before the update. */
static enum status bench_step(struct bench *bench, int step, double *loss, struct err *err)
{
    const struct backend *backend = bench->backend;
    struct network *net = &bench->net;
    struct optimizer optimizer = adamw(bench->range_count);
    struct step_control control = {
        .seed = 5, .step = (uint32_t)step, .loss_scale = 1.0f / (float)(bench->B * bench->T)};
    struct step_result result;
    int B = bench->B, T = bench->T, rows = B * T;
    network_clear(net);
    network_train(net, (struct batch_view){bench->inputs, bench->targets, NULL, B, T}, bench->dropout,
                  control);
    network_control(net, (struct step_control){.lr = (float)bench->lr});
    optimizer_step(&optimizer, net);
    network_result(net, &result);
    *loss = result.loss_sum / rows;
    return backend->stream_wait(net->stream, err);
}

/* ---- the curve ---- */

enum { CURVE_B = 2, CURVE_T = 65, CURVE_LAYERS = 2 };

enum status training_curve(const struct backend *backend, enum precision precision, const char *folder,
                           double losses[TRAINING_STEPS], struct err *err)
{
    const struct model_config config = {.vocab_size = 61,
                                        .hidden_dim = 48,
                                        .num_layers = CURVE_LAYERS,
                                        .num_heads = 4,
                                        .num_kv_heads = 2,
                                        .head_dim = 32,
                                        .intermediate_dim = 80,
                                        .max_seq_len = CURVE_T,
                                        .rope_base = 10000,
                                        .norm_eps = 1e-5,
                                        .qk_norm = true,
                                        .qkv_bias = true};
    struct bench bench;
    enum status status = bench_open(&bench, backend, precision, &config, CURVE_B, CURVE_T, folder, err);
    if (status) return status;
    bench.dropout = 0.1f;
    bench.lr = 3e-3;
    for (int step = 0; !status && step < TRAINING_STEPS; step++)
        status = bench_step(&bench, step, &losses[step], err);
    bench_close(&bench);
    return status;
}

/* fp32: ten steps carry the rounding of sums (1e-5 an operation) into the weights, see
 * tests/cuda_sim/test_training.c.
 *
 * The others: on its way to the loss a value is rounded once for each tensor that it passes through: in a
 * layer the norm, qkv, rotated qkv, attention, projection, stream, norm, gate and up, their product,
 * projection, stream; and embedding, last norm, logits. Each rounding is off by at most the unit roundoff u
 * (2^-9 in bf16, 2^-11 where only the operands of products are rounded, tf32), independently of the others:
 * √roundings · u of a logit, and no more of the loss, which averages over all tokens. */
double training_tolerance(enum precision precision)
{
    double roundings = 11 * CURVE_LAYERS + 3;
    if (precision == PRECISION_FP32) return 2e-5;
    return sqrt(roundings) * (precision == PRECISION_BF16 ? 0x1p-9 : 0x1p-11);
}

double training_difference(const double curve[TRAINING_STEPS], const double reference[TRAINING_STEPS])
{
    double largest = 0;
    for (int i = 0; i < TRAINING_STEPS; i++) {
        double error = fabs(curve[i] - reference[i]) / fabs(reference[i]);
        if (!(error <= largest)) largest = error;
        if (isnan(error)) return error;
    }
    return largest;
}

/* ---- presets ---- */

const struct training_preset training_presets[] = {
    {PRESET_TINY, 16, 256, 0}, {PRESET_GPT2_124M, 32, 1024, 0.55}, {PRESET_LLAMA_1_5B, 16, 1024, 0.6}, {0}};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum status training_speed_measure(const struct backend *backend, enum precision precision,
                                   const struct training_preset *preset, const char *folder,
                                   struct training_speed *out, struct err *err)
{
    enum { WARM_UP = 10, TIMED = 20 };
    struct bench bench;
    struct model_config config = model_preset(preset->preset);
    double ms[WARM_UP + TIMED], loss = 0;
    enum status status = bench_open(&bench, backend, precision, &config, preset->B, preset->T, folder, err);
    if (status) return status;
    bench.lr = 1e-3;
    *out = (struct training_speed){.peak_bytes = bench.plan.total_bytes};
    for (int step = 0; !status && step < WARM_UP + TIMED; step++) {
        double start = clock_monotonic();
        status = bench_step(&bench, step, &loss, err);
        ms[step] = (clock_monotonic() - start) * 1e3;
        if (step == 0) out->first_loss = loss;
    }
    if (!status) {
        double rows = (double)preset->B * preset->T;
        struct device_info info;
        backend->device_describe(bench.device, &info);
        out->taken_bytes = bench.free - info.available_bytes;
        out->peak_flops = bench.peak_flops;
        out->last_loss = loss;
        out->first_ms = ms[0];
        out->tenth_ms = ms[9];
        qsort(ms + WARM_UP, TIMED, sizeof *ms, by_size);
        out->median_ms = ms[WARM_UP + TIMED / 2];
        out->tokens_per_second = rows / out->median_ms * 1e3;
        out->flops = out->tokens_per_second * model_flops_per_token(&bench.model, preset->T);
    }
    bench_close(&bench);
    return status;
}

/* ---- the same training in another program ---- */

static enum status write_file(const char *folder, const char *name, const char *mode, const void *data,
                              size_t bytes, struct err *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return err_set(err, STATUS_IO, "the path of %s is too long", folder);
    FILE *file = fopen(path, mode);
    bool good = file && fwrite(data, 1, bytes, file) == bytes;
    if (file && fclose(file) != 0) good = false;
    return good ? STATUS_OK : err_set(err, STATUS_IO, "cannot write %s: %s", path, strerror(errno));
}

static enum status write_weights(struct bench *bench, const char *data, struct err *err)
{
    const struct model *model = &bench->model;
    size_t bytes = model->elements * sizeof(float), used = 0, room = model->param_count * 200;
    float *weights = malloc(bytes);
    char *index = malloc(room);
    enum status status = STATUS_OK;
    if (!weights || !index) status = err_no_memory(err, "the first weights");
    if (!status) {
        bench->backend->mem_download(weights, bench->net.weights, bytes, bench->net.stream);
        status = write_file(data, "weights.f32", "wb", weights, bytes, err);
    }
    for (size_t i = 0; i < model->param_count && !status; i++) {
        const struct param *p = &model->params[i];
        used += (size_t)snprintf(index + used, room - used, "%s %zu %zu\n", p->name, p->offset, p->count);
    }
    if (!status) status = write_file(data, "weights.txt", "wb", index, used, err);
    free(weights), free(index);
    return status;
}

/* Three tokens in four are a function of the one before, so that two hundred steps learn something. */
static void write_chain(struct bench *bench, int step)
{
    enum { WORDS = 1024 };
    int V = bench->model.config.vocab_size, words = V < WORDS ? V : WORDS;
    for (int i = 0, token = step % words; i < bench->B * bench->T; i++) {
        struct philox_block random = philox4x32_10((uint32_t)i, (uint32_t)step, 0, 0, 3, 4);
        bench->inputs[i] = token;
        token = random.word[0] % 4 ? (token * 7 + 3) % words : (int)(random.word[1] % (uint32_t)words);
        bench->targets[i] = token;
    }
}

enum status training_losses(const struct backend *backend, const struct model_config *config, int B, int T,
                            int steps, double lr, const char *data, const char *folder, double *losses,
                            struct err *err)
{
    struct bench bench;
    size_t bytes = (size_t)B * (size_t)T * sizeof(int32_t);
    enum status status = bench_open(&bench, backend, PRECISION_BF16, config, B, T, folder, err);
    if (status) return status;
    bench.lr = lr;
    status = write_weights(&bench, data, err);
    for (int step = 0; !status && step < steps; step++) {
        write_chain(&bench, step);
        status = write_file(data, "batches.i32", step ? "ab" : "wb", bench.inputs, bytes, err);
        if (!status) status = write_file(data, "batches.i32", "ab", bench.targets, bytes, err);
        if (!status) status = bench_step(&bench, step, &losses[step], err);
    }
    bench_close(&bench);
    return status;
}

/* ---- the kernels of a step ---- */

static void add_kernel(void *context, const struct activity *a)
{
    struct training_kernels *all = context;
    struct kernel_sum *sum = all->sums;
    if (a->kind != ACTIVITY_KERNEL) return;
    all->ms += (double)a->duration_ns * 1e-6;
    while (sum < all->sums + all->count && strncmp(sum->name, a->name, sizeof sum->name - 1) != 0) sum++;
    if (sum == all->sums + KERNEL_SUMS_MAX) return;
    if (sum == all->sums + all->count) {
        all->count++;
        snprintf(sum->name, sizeof sum->name, "%s", a->name);
        sum->registers = a->launch.registers;
        sum->local = a->launch.local;
        sum->occupancy = a->occupancy.share;
    }
    sum->calls++;
    sum->ms += (double)a->duration_ns * 1e-6;
}

static int longest_first(const void *a, const void *b)
{
    const struct kernel_sum *x = a, *y = b;
    return (x->ms < y->ms) - (x->ms > y->ms);
}

enum status training_kernels_look(const struct backend *backend, const struct model_config *config, int B,
                                  int T, const char *folder, struct training_kernels *out, struct err *err)
{
    enum { BEFORE = 3 };
    struct bench bench;
    double loss;
    *out = (struct training_kernels){0};
    enum status status = bench_open(&bench, backend, PRECISION_BF16, config, B, T, folder, err);
    if (status) return status;
    bench.lr = 1e-4;
    for (int step = 0; step < BEFORE && !status; step++) status = bench_step(&bench, step, &loss, err);
    enum status begun = status ? status : backend->activity_begin(bench.device, err);
    if (!status) status = bench_step(&bench, BEFORE, &loss, begun ? NULL : err);
    if (!begun) {
        enum status ended = backend->activity_end(bench.device, add_kernel, out, status ? NULL : err);
        if (!status) status = ended;
    }
    qsort(out->sums, (size_t)out->count, sizeof *out->sums, longest_first);
    bench_close(&bench);
    return status ? status : begun;
}

/* ---- ways of queueing ---- */

enum { UNTIMED_STEPS = 10 };

struct pipeline {
    struct bench bench;
    struct optimizer optimizer;
    struct replay replay;
    struct stream *copies;
    struct event *arrived[2], *consumed[2], *landed[PLAN_FLIGHTS];
};

static void pipeline_close(struct pipeline *p)
{
    const struct backend *be = p->bench.backend;
    if (p->copies) be->stream_close(p->copies);
    if (p->bench.net.stream) be->stream_wait(p->bench.net.stream, NULL);
    replay_close(&p->replay);
    for (int i = 0; i < 2; i++) {
        if (p->arrived[i]) be->event_close(p->arrived[i]);
        if (p->consumed[i]) be->event_close(p->consumed[i]);
        if (p->landed[i]) be->event_close(p->landed[i]);
    }
    bench_close(&p->bench);
}

/* The replay points into the pipeline, which must stay where it is. */
static enum status pipeline_open(struct pipeline *p, const struct backend *be, enum precision precision,
                                 const struct model_config *config, int B, int T, bool graphs,
                                 const char *folder, struct err *err)
{
    *p = (struct pipeline){0};
    enum status status = bench_open(&p->bench, be, precision, config, B, T, folder, err);
    if (status) return status;
    p->optimizer = adamw(p->bench.range_count);
    status = be->stream_open(p->bench.device, precision, &p->copies, err);
    if (!status)
        status =
            replay_open(&p->replay, &p->bench.net, &p->optimizer, graphs ? REPLAY_ON : REPLAY_OFF, 0.1f, err);
    for (int i = 0; i < 2 && !status; i++) {
        status = be->event_open(p->bench.device, &p->arrived[i], err);
        if (!status) status = be->event_open(p->bench.device, &p->consumed[i], err);
        if (!status) status = be->event_open(p->bench.device, &p->landed[i], err);
    }
    if (status) pipeline_close(p);
    return status;
}

/* The tokens of this step, another batch each time, to the place they are computed from. */
static void send_batch(struct pipeline *p, int step)
{
    const struct backend *be = p->bench.backend;
    struct network *net = &p->bench.net;
    int place = step % 2, V = p->bench.model.config.vocab_size, rows = p->bench.B * p->bench.T;
    int32_t *host = (int32_t *)network_at(net, BUFFER_HOST_BATCHES, 0) + 2 * place * rows;
    be->event_wait(p->arrived[place], p->copies, NULL);
    for (int i = 0; i < rows; i++) {
        host[i] = (p->bench.inputs[i] + step) % V;
        host[rows + i] = (host[i] * 7 + 3) % V;
    }
    be->stream_after(p->copies, p->consumed[place]);
    be->mem_upload(network_batch(net, place), host, 2 * (size_t)rows * sizeof *host, p->copies);
    be->event_record(p->arrived[place], p->copies);
    be->stream_after(net->stream, p->arrived[place]);
}

static enum status pipeline_step(struct pipeline *p, int step, struct err *err)
{
    const struct backend *be = p->bench.backend;
    struct network *net = &p->bench.net;
    enum status status = replay_prepare(&p->replay, err);
    bool graph = p->replay.update != NULL;
    int at = step % PLAN_FLIGHTS;
    if (status) return status;
    network_clear(net);
    send_batch(p, step);
    float loss_scale = 1.0f / (float)(p->bench.B * p->bench.T);
    network_control(
        net, (struct step_control){.seed = 5, .step = (uint32_t)step, .loss_scale = loss_scale, .lr = 1e-3f});
    replay_micro_batch(&p->replay, step % 2, graph);
    be->event_record(p->consumed[step % 2], net->stream);
    replay_update(&p->replay, graph);
    struct step_result *results = network_at(net, BUFFER_HOST_RESULTS, 0);
    be->mem_download_async(&results[at], network_at(net, BUFFER_RESULT, 0), sizeof *results, net->stream);
    be->event_record(p->landed[at], net->stream);
    return be->stream_check(net->stream, err);
}

static enum status pipeline_result(struct pipeline *p, int step, double *loss, struct err *err)
{
    struct network *net = &p->bench.net;
    const struct step_result *results = network_at(net, BUFFER_HOST_RESULTS, 0);
    enum status status = p->bench.backend->event_wait(p->landed[step % PLAN_FLIGHTS], net->stream, err);
    if (!status) *loss = results[step % PLAN_FLIGHTS].loss_sum;
    return status;
}

static enum status run_way(struct pipeline *p, bool ahead, int steps, double *losses, double *ms,
                           struct err *err)
{
    enum status status = STATUS_OK;
    double start = 0;
    int reported = 0;
    for (int step = 0; step < steps && !status; step++) {
        int behind = ahead && step != UNTIMED_STEPS ? 1 : 0; /* the time begins with nothing under way */
        for (; reported < step - behind && !status; reported++)
            status = pipeline_result(p, reported, &losses[reported], err);
        if (step == UNTIMED_STEPS) start = clock_monotonic();
        if (!status) status = pipeline_step(p, step, err);
    }
    for (; reported < steps && !status; reported++)
        status = pipeline_result(p, reported, &losses[reported], err);
    *ms = (clock_monotonic() - start) * 1e3 / (steps - UNTIMED_STEPS);
    return status;
}

enum status training_ways_measure(const struct backend *backend, enum precision precision,
                                  const struct model_config *config, int B, int T, int steps,
                                  const char *folder, struct training_ways *out, struct err *err)
{
    enum status status = STATUS_OK;
    double *first = malloc((size_t)steps * sizeof *first), *losses = malloc((size_t)steps * sizeof *losses);
    *out = (struct training_ways){.same = true};
    if (!first || !losses) status = err_set(err, STATUS_NO_MEMORY, "no memory for %d losses", steps);
    for (int way = 0; way < TRAINING_WAYS && !status; way++) {
        struct pipeline p;
        bool graphs = way == WAY_GRAPHS || way == WAY_GRAPHS_AHEAD,
             ahead = way == WAY_CALLS_AHEAD || way == WAY_GRAPHS_AHEAD;
        status = pipeline_open(&p, backend, precision, config, B, T, graphs, folder, err);
        if (status) break;
        status = run_way(&p, ahead, steps, way == 0 ? first : losses, &out->ms[way], err);
        if (!status && way > 0) out->same &= memcmp(losses, first, (size_t)steps * sizeof *first) == 0;
        pipeline_close(&p);
    }
    free(first), free(losses);
    return status;
}
