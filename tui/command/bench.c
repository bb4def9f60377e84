/* anneal bench: what a training step costs on this machine, beside the best its matrix product can do. Real
 * network and optimizer, random tokens, nothing recorded. */
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/philox.h"
#include "core/base/text.h"
#include "core/model/config.h"
#include "core/train/optimizer.h"
#include "tui/command/command.h"
#include "tui/command/commands.h"
#include "tui/session/interrupt.h"
#include "tui/session/memory_share.h"

static const char help[] = "usage: anneal bench step [--rounds N] [--json] [--section.key=value ...]\n"
                           "\n"
                           "Times training steps on random tokens and a large matrix product, in turns, and "
                           "prints the median of each: what\n"
                           "share of the machine's matrix product a step reaches, counting 6 FLOPs a "
                           "parameter and token. The default is\n"
                           "preset tiny (10.8 M parameters), fp32, batch 16 x 256, Lion.\n"
                           "\n"
                           "  --rounds N   steps that count, 1 to 15 (default 15)\n"
                           "  --json       one JSON object\n";

enum { STEPS = 15, WARM_UP = 2, GEMM_SIZE = 2048 };

struct bench {
    struct config config;
    struct model model;
    struct plan plan;
    struct device *device;
    struct device_info info;
    struct network network;
    struct memory_share share;
    int rounds;                 /* steps that count, up to STEPS */
    int range_count;            /* of the optimizer's table */
    int32_t *tokens;            /* (B, T+1): inputs, and targets one further */
    float *a, *b, *c;           /* (GEMM_SIZE, GEMM_SIZE), of the allocator */
    struct allocator *operands; /* theirs: the network's may be an arena of its plan's size */
    double step_seconds[STEPS], gemm_flops[STEPS];
};

/* The network's, and the operands of the product. */
static enum status reserve(struct bench *b, struct err *err)
{
    char home[PATH_MAX];
    struct memory_wish wish = {.home = file_anneal_home(home, sizeof home, NULL) ? NULL : home,
                               .holder = "bench",
                               .backend = cpu_backend(),
                               .device = b->device,
                               .reserve = b->config.memory.reserve,
                               .bytes = (int64_t)b->plan.total_bytes +
                                        3 * (int64_t)sizeof(float) * GEMM_SIZE * GEMM_SIZE};
    return memory_share_take(&b->share, &wish, err);
}

static enum status open_bench(struct bench *b, struct err *err)
{
    const struct config *c = &b->config;
    const struct backend *backend = cpu_backend();
    size_t n = (size_t)GEMM_SIZE * GEMM_SIZE, N = (size_t)(c->train.batch_size * c->train.seq_len);
    enum status status = model_init(&b->model, &c->model.sizes, err);
    int moments = optimizer_moments(c->train.optimizer);
    if (!status) status = backend->device_open((int)c->train.threads, &b->device, err);
    struct plan_input input = {.model = &b->model,
                               .B = (int)c->train.batch_size,
                               .T = (int)c->train.seq_len,
                               .moments = moments,
                               .activation_interval = (int)c->checkpoint.activation_interval,
                               .loss = c->train.loss,
                               .host_counts = true};
    input.allocator = c->memory.allocator;
    if (!status && input.allocator == ALLOCATOR_POOL) input.pool_unit = backend->pool_unit(b->device);
    if (!status) input.gemm_workspace = backend->gemm_workspace(b->device);
    if (!status) status = plan_init(&b->plan, &input, err);
    if (!status) status = reserve(b, err);
    if (!status) status = network_open(&b->network, backend, b->device, &b->model, &b->plan, err);
    if (status) return status;
    backend->device_describe(b->device, &b->info);
    b->tokens = malloc((N + 1) * sizeof *b->tokens);
    struct allocator_options options = {
        .kind = ALLOCATOR_BASIC, .backend = backend, .device = b->device, .report = stderr};
    status = allocator_open(&options, &b->operands, err);
    float **operands[] = {&b->a, &b->b, &b->c};
    for (int i = 0; !status && i < 3; i++)
        status = allocator_alloc_f32(allocator_root(b->operands), "operands of the product", n, NULL,
                                     operands[i], err);
    if (status) return status;
    if (!b->tokens) return err_set(err, STATUS_NO_MEMORY, "bench: no memory");
    memory_share_used(&b->share, "bench", b->share.bytes);
    model_initialise(&b->model, 1, b->network.weights);
    struct optimizer optimizer = {0};
    status = optimizer_lay_ranges(&optimizer, &b->network, &c->groups, c->train.weight_decay, err);
    b->range_count = optimizer.range_count;
    for (size_t i = 0; i < n; i++) b->a[i] = b->b[i] = 0.01f * (float)(i % 17);
    for (size_t i = 0; i <= N; i++)
        b->tokens[i] = (int32_t)(philox4x32_10((uint32_t)i, 0, 0, 0, 1, 2).word[0] %
                                 (uint32_t)b->model.config.vocab_size);
    return status;
}

static void close_bench(struct bench *b)
{
    if (b->operands) allocator_scope_end(allocator_root(b->operands));
    allocator_close(b->operands);
    network_close(&b->network);
    memory_share_release(&b->share);
    if (b->device) cpu_backend()->device_close(b->device);
    plan_release(&b->plan);
    model_release(&b->model);
    free(b->tokens);
}

static double time_step(struct bench *b)
{
    const struct config *c = &b->config;
    struct network *net = &b->network;
    struct optimizer optimizer = {c->train.optimizer, c->train.beta1,         c->train.beta2,
                                  c->train.adam_eps,  c->train.max_grad_norm, b->range_count};
    struct step_result result;
    int B = (int)c->train.batch_size, T = (int)c->train.seq_len;
    double start = clock_monotonic();
    network_clear(net);
    network_forward(net, b->tokens, B, T, (struct network_dropout){0});
    network_backward(net, b->tokens + 1, B, T, 1.0f / (float)(B * T), (struct network_dropout){0});
    network_control(net, (struct step_control){.lr = (float)c->train.learning_rate});
    optimizer_step(&optimizer, net);
    network_result(net, &result);
    return clock_monotonic() - start;
}

static double time_gemm(struct bench *b)
{
    int n = GEMM_SIZE;
    double start = clock_monotonic();
    cpu_backend()->gemm(matrix_view(b->c, ELEMENT_FP32, n), matrix_view(b->a, ELEMENT_FP32, n),
                        matrix_view(b->b, ELEMENT_FP32, n), n, n, n, false, false, false, b->network.stream);
    return 2.0 * n * n * n / (clock_monotonic() - start);
}

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

static void print_result(struct bench *b, bool json)
{
    const struct config *c = &b->config;
    double tokens = (double)(c->train.batch_size * c->train.seq_len),
           seconds = median(b->step_seconds, b->rounds);
    double gemm = median(b->gemm_flops, b->rounds),
           flops = 6.0 * (double)b->model.parameters * tokens / seconds;
    struct rusage usage;
    char planned[32], peak[32], parameters[32];
    getrusage(RUSAGE_SELF, &usage);
    int64_t bytes = (int64_t)usage.ru_maxrss * 1024;
    if (json) {
        json_t *out = json_pack("{s:s s:I s:f s:f s:f s:f s:f s:I s:I}", "device", b->info.name, "parameters",
                                (json_int_t)b->model.parameters, "step_ms", seconds * 1e3, "tokens_per_sec",
                                tokens / seconds, "gflops", flops / 1e9, "gemm_gflops", gemm / 1e9,
                                "share_of_gemm", flops / gemm, "planned_bytes",
                                (json_int_t)b->plan.total_bytes, "peak_rss_bytes", (json_int_t)bytes);
        if (out) json_dumpf(out, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
        putchar('\n');
        json_decref(out);
        return;
    }
    printf("device          %s\n", b->info.name);
    printf("model           %s, %s parameters, %s, batch %" PRId64 " x %" PRId64 "\n",
           preset_word(c->model.preset),
           text_format_count((double)b->model.parameters, parameters, sizeof parameters),
           optimizer_kind_word(c->train.optimizer), c->train.batch_size, c->train.seq_len);
    printf("step            %.1f ms, %.0f tokens/s (median of %d)\n", seconds * 1e3, tokens / seconds,
           b->rounds);
    printf("6 N tokens      %.1f GFLOP/s = %.1f %% of the matrix product's %.1f GFLOP/s (%d cubed)\n",
           flops / 1e9, 100 * flops / gemm, gemm / 1e9, GEMM_SIZE);
    printf("memory          %s planned, %s peak of the process (48 MiB of it for the matrix product)\n",
           text_format_bytes(b->plan.total_bytes, planned, sizeof planned),
           text_format_bytes((uint64_t)bytes, peak, sizeof peak));
}

static enum status parse_rounds(const char *text, int *out, struct err *err)
{
    int64_t value;
    if (!text_parse_int(text, &value) || value < 1 || value > STEPS)
        return err_set(err, STATUS_USAGE, "--rounds \"%.20s\": must be a whole number from 1 to %d", text,
                       STEPS);
    *out = (int)value;
    return STATUS_OK;
}

/* The words after "step". */
static enum status read_words(struct bench *b, int argc, char **argv, bool *json, struct err *err)
{
    enum status status = STATUS_OK;
    for (int i = 2; !status && i < argc; i++)
        if (strcmp(argv[i], "--json") == 0)
            *json = true;
        else if (strcmp(argv[i], "--rounds") == 0)
            status = parse_rounds(i + 1 < argc ? argv[++i] : "", &b->rounds, err);
        else if (strncmp(argv[i], "--rounds=", 9) == 0)
            status = parse_rounds(argv[i] + 9, &b->rounds, err);
        else if (argv[i][0] == '-' && !strchr(argv[i], '.'))
            status = err_set(err, STATUS_USAGE, "unknown option %.80s", argv[i]);
        else
            status = config_read_word(&b->config, argv[i], err);
    return status;
}

int command_bench(int argc, char **argv)
{
    struct bench *b = calloc(1, sizeof *b);
    struct err err = {0};
    bool json = false;
    enum status status = b ? STATUS_OK : err_set(&err, STATUS_NO_MEMORY, "bench: no memory");
    bool asked = false;
    for (int i = 1; i < argc; i++)
        asked = asked || strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
    if (asked || argc < 2 || strcmp(argv[1], "step") != 0) {
        free(b);
        if (!asked) return command_usage("bench", "which benchmark? There is one: step");
        fputs(help, stdout);
        return 0;
    }
    interrupt_catch();
    if (!status) config_init(&b->config);
    if (!status) b->rounds = STEPS;
    if (!status) status = config_read_word(&b->config, "model.preset=tiny", &err);
    if (!status) status = config_read_word(&b->config, "train.optimizer=lion", &err);
    if (!status) status = read_words(b, argc, argv, &json, &err);
    if (status == STATUS_USAGE) {
        free(b);
        return command_usage("bench", err.text);
    }
    if (!status) status = config_finish(&b->config, &err);
    if (!status) status = open_bench(b, &err);
    for (int i = -WARM_UP; !status && i < b->rounds; i++) {
        double seconds = time_step(b), flops = time_gemm(b);
        if (i >= 0) b->step_seconds[i] = seconds;
        if (i >= 0) b->gemm_flops[i] = flops;
        if (interrupt_requested()) status = err_set(&err, STATUS_INTERRUPTED, "bench: interrupted");
    }
    if (!status) print_result(b, json);
    if (b) close_bench(b);
    free(b);
    return status ? command_fail(&err) : 0;
}
