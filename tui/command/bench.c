/* anneal bench: measures a training step on this machine and its fastest matrix product. Real network and
 * optimizer, random tokens, nothing recorded. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "core/base/clock.h"
#include "core/base/half.h"
#include "core/base/philox.h"
#include "core/base/sort.h"
#include "core/model/config.h"
#include "core/model/trainable.h"
#include "core/train/optimizer.h"
#include "tui/command/command.h"
#include "tui/command/output.h"
#include "tui/session/memory_share.h"

enum { STEPS = 15, WARM_UP = 2, GEMM_SIZE = 2048 };

struct bench {
    struct config config;
    struct model model;
    struct plan plan;
    struct device *device;
    struct device_info info;
    struct network network;
    struct memory_share share;
    int rounds; /* measured steps, up to STEPS */
    struct optimizer optimizer;
    int32_t *tokens; /* (B, T+1): inputs, and targets one further */
    void *operands;  /* (3, GEMM_SIZE, GEMM_SIZE): two factors and their product, in the run's precision */
    double first_loss, last_loss;
    int64_t peak_bytes; /* the process's peak memory after training steps, before `operands` exists */
    double step_seconds[STEPS], gemm_flops[STEPS];
};

static enum element bench_element(const struct bench *b)
{
    return precision_element(b->plan.input.precision);
}

static size_t operand_bytes(const struct bench *b)
{
    return element_bytes(bench_element(b)) * GEMM_SIZE * GEMM_SIZE;
}

static enum status open_bench(struct bench *b, struct err *err)
{
    const struct config *c = &b->config;
    const struct backend *backend = cpu_backend();
    size_t N = (size_t)(c->train.batch_size * c->train.seq_len);
    enum status status = model_init(&b->model, &c->model.sizes, err);
    struct plan_input input = {0};
    if (!status) status = backend->device_open(DEVICE_FIRST, (int)c->train.threads, &b->device, err);
    if (status) return status;
    backend->device_describe(b->device, &b->info);
    enum precision precision = plan_precision(c->train.precision, b->info.best);
    status = trainable_choose(&b->model, c, precision_element(precision), b->info.mixes_elements, err);
    if (!status) input = plan_input_of(c, &b->model, backend, b->device);
    input.micro_batches = 1;
    input.snapshot = 0; /* nothing is saved */
    if (!status) status = plan_init(&b->plan, &input, err);
    struct memory_wish wish = {.holder = "bench",
                               .backend = backend,
                               .device = b->device,
                               .reserve = c->memory.reserve,
                               .bytes = (int64_t)(b->plan.total_bytes + 3 * operand_bytes(b))};
    if (!status) status = memory_share_take(&b->share, &wish, err);
    if (!status) status = network_open(&b->network, backend, b->device, &b->model, &b->plan, err);
    if (status) return status;
    b->tokens = malloc((N + 1) * sizeof *b->tokens);
    if (!b->tokens) return err_no_memory(err, "a bench");
    memory_share_used(&b->share, "bench", b->share.bytes);
    b->optimizer = optimizer_of(c);
    status = network_initialise(&b->network, 1, err);
    if (!status) status = optimizer_lay_ranges(&b->optimizer, &b->network, &c->groups, err);
    for (size_t i = 0; i <= N; i++)
        b->tokens[i] = (int32_t)(philox4x32_10((uint32_t)i, 0, 0, 0, 1, 2).word[0] %
                                 (uint32_t)b->model.config.vocab_size);
    return status;
}

static enum status open_operands(struct bench *b, struct err *err)
{
    size_t count = 3 * (size_t)GEMM_SIZE * GEMM_SIZE;
    enum status status = cpu_backend()->mem_alloc(b->device, 3 * operand_bytes(b), &b->operands, err);
    for (size_t i = 0; !status && i < count; i++) {
        float value = 0.01f * (float)(i % 17);
        if (bench_element(b) == ELEMENT_BF16)
            ((uint16_t *)b->operands)[i] = bf16_of_float(value);
        else
            ((float *)b->operands)[i] = value;
    }
    return status;
}

static void close_bench(struct bench *b)
{
    network_close(&b->network);
    memory_share_release(&b->share);
    if (b->device) {
        cpu_backend()->mem_free(b->device, b->operands);
        cpu_backend()->device_close(b->device);
    }
    plan_release(&b->plan);
    model_release(&b->model);
    free(b->tokens);
}

static double time_step(struct bench *b)
{
    const struct config *c = &b->config;
    struct network *net = &b->network;
    struct step_result result;
    int B = (int)c->train.batch_size, T = (int)c->train.seq_len;
    double start = clock_monotonic();
    network_clear(net);
    struct step_control control = {.loss_scale = 1.0f / (float)(B * T), .lr = (float)c->train.learning_rate};
    network_train(net, (struct batch_view){b->tokens, b->tokens + 1, NULL, B, T}, 0, control);
    optimizer_step(&b->optimizer, net);
    network_result(net, &result);
    b->last_loss = result.loss_sum / (double)(B * T);
    return clock_monotonic() - start;
}

/* The second of two products: the first brings back operands that a step has pushed out of caches and tables
 * of pages. */
static double time_gemm(struct bench *b)
{
    int n = GEMM_SIZE;
    double start = 0;
    struct matrix m[3];
    for (size_t i = 0; i < 3; i++)
        m[i] = matrix_view((char *)b->operands + i * operand_bytes(b), bench_element(b), n);
    for (int i = 0; i < 2; i++) {
        start = clock_monotonic();
        cpu_backend()->gemm(m[2], m[0], m[1], n, n, n, false, false, false, 1, b->network.stream);
    }
    return 2.0 * n * n * n / (clock_monotonic() - start);
}

static double sorted_median(double *values, int count)
{
    sort_doubles(values, (size_t)count);
    return values[count / 2];
}

static enum status print_result(struct bench *b, bool json, struct err *err)
{
    const struct config *c = &b->config;
    double tokens = (double)(c->train.batch_size * c->train.seq_len),
           seconds = sorted_median(b->step_seconds, b->rounds);
    double gemm = sorted_median(b->gemm_flops, b->rounds),
           flops = model_flops_per_token(&b->model, (double)c->train.seq_len) * tokens / seconds;
    struct output out;
    output_begin(&out, json);
    output_text(&out, "device", b->info.name);
    output_text(&out, "computes", b->info.computes);
    output_line(&out, "model", "%s, %s, batch %" PRId64 " x %" PRId64, preset_word(c->model.preset),
                optimizer_kind_word(c->train.optimizer), c->train.batch_size, c->train.seq_len);
    OUTPUT_MEMBERS(&out, "precision", precision_name(b->plan.input.precision), "parameters",
                   b->model.parameters, "step_ms", seconds * 1e3, "step_ms_min", b->step_seconds[0] * 1e3,
                   "step_ms_max", b->step_seconds[b->rounds - 1] * 1e3, "tokens_per_sec", tokens / seconds);
    OUTPUT_MEMBERS(&out, "gflops", flops / 1e9, "gemm_gflops", gemm / 1e9, "share_of_gemm", flops / gemm,
                   "first_loss", b->first_loss, "last_loss", b->last_loss, "planned_bytes",
                   (int64_t)b->plan.total_bytes, "peak_rss_bytes", b->peak_bytes);
    return output_end(&out, err);
}

struct options {
    int64_t rounds;
    bool json;
};

static enum status run_step(const void *options, const struct words *words, struct err *err)
{
    const struct options *o = options;
    struct bench *b = calloc(1, sizeof *b);
    struct rusage usage;
    enum status status = STATUS_OK;
    if (!b) return err_no_memory(err, "a bench");
    config_init(&b->config);
    b->rounds = (int)o->rounds;
    config_read_word(&b->config, "model.preset=tiny", NULL);
    config_read_word(&b->config, "data.tokenizer=", NULL); /* random tokens of the preset's vocabulary */
    config_read_word(&b->config, "train.precision=fp32", NULL);
    config_read_word(&b->config, "train.optimizer=lion", NULL);
    for (int i = 0; !status && i < words->setting_count; i++)
        status = config_read_word(&b->config, words->settings[i], err);
    if (!status) status = config_finish(&b->config, err);
    if (!status) status = open_bench(b, err);
    for (int i = 0; !status && i < WARM_UP; i++) {
        time_step(b);
        if (i == 0) b->first_loss = b->last_loss;
    }
    getrusage(RUSAGE_SELF, &usage);
    b->peak_bytes = (int64_t)usage.ru_maxrss * 1024;
    if (!status) status = open_operands(b, err);
    if (!status) time_gemm(b);
    for (int i = 0; !status && i < b->rounds; i++) {
        b->step_seconds[i] = time_step(b);
        b->gemm_flops[i] = time_gemm(b);
    }
    if (!status) status = print_result(b, o->json, err);
    close_bench(b);
    free(b);
    return status;
}

static const struct options defaults = {.rounds = STEPS};

static const struct option_spec options[] = {
    OPTION("rounds", OPTION_WHOLE, AT(rounds), "N", "number of measured rounds (default 15)", .least = 1,
           .most = STEPS),
    JSON_OPTION,
    {0},
};

static const struct command bench_step = COMMAND(
    "bench step", "", 0, 0, options, "compare training steps with a large matrix product", run_step, defaults,
    .settings = true,
    .about =
        "Times training steps on one batch of random tokens and, in turns, a large matrix product of the "
        "same precision. Prints the median of each, the fastest and the slowest step, and which share of the "
        "product's speed a step reaches, with the FLOPs that a run's mfu counts; then the loss of the first "
        "and the last step, and the peak memory without that product. The default is preset tiny (10.8 M "
        "parameters), fp32, batch 16 x 256, Lion.");

static const struct command *const subcommands[] = {&bench_step, NULL};

const struct command command_bench = {
    .line = {.name = "bench", .words = "step"},
    .summary = "compare a training step with this machine's matrix product",
    .subcommands = subcommands,
};
