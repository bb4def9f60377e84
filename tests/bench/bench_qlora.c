/* Training adapters beside a frozen model, of `make bench`: what NF4 costs in time and saves in memory,
 * against the same model in fp32 and bf16; and how fast weights are quantised when they are loaded.
 *
 *     bench_qlora [--section.key=value ...]     default: four layers of the width of Qwen3-0.6B, 512 tokens
 *
 * A step is a forward and backward pass over one batch and the update of the adapters, with random weights
 * and tokens. The variants take turns, so that a busy moment of the machine affects all; of each the fastest
 * counts. With one thread (OMP_NUM_THREADS=1), processor time is measured instead of time. Memory is that of
 * the plan, which is what is allocated, beside the binary and its libraries. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/model/trainable.h"
#include "core/network/network.h"
#include "core/train/optimizer.h"

enum { ROUNDS_MAX = 64, PIECE = 1 << 18, PIECES = 64 };

static const char *const shape[] = {"model.vocab_size=32768",
                                    "model.hidden_dim=1024",
                                    "model.num_layers=4",
                                    "model.num_heads=16",
                                    "model.num_kv_heads=8",
                                    "model.head_dim=128",
                                    "model.qk_norm=true",
                                    "model.max_seq_len=4096",
                                    "model.intermediate_dim=3072",
                                    "train.batch_size=1",
                                    "train.seq_len=512",
                                    "train.precision=fp32",
                                    "lora.rank=16",
                                    "lora.targets=all",
                                    "sample.max_tokens=1",
                                    "checkpoint.background=false"};

/* `against`: the variant whose step it is compared with. */
static struct variant {
    const char *name, *base, *interval;
    int against;
    struct config config;
    struct model model;
    struct plan plan;
    struct network network;
    struct optimizer optimizer;
    double seconds[ROUNDS_MAX];
} variants[] = {{.name = "fp32", .base = "lora.base=fp32", .interval = "0", .against = 1},
                {.name = "bf16", .base = "lora.base=bf16", .interval = "0", .against = 1},
                {.name = "nf4", .base = "lora.base=nf4", .interval = "0", .against = 1},
                {.name = "bf16, recomputed", .base = "lora.base=bf16", .interval = "1", .against = 3},
                {.name = "nf4, recomputed", .base = "lora.base=nf4", .interval = "1", .against = 3}};
enum { VARIANTS = sizeof variants / sizeof *variants };

static const struct backend *backend;
static struct device *device;

static enum status configure(struct variant *v, char **words, int count, struct err *err)
{
    char interval[64];
    enum status status = STATUS_OK;
    snprintf(interval, sizeof interval, "checkpoint.activation_interval=%s", v->interval);
    config_init(&v->config);
    for (size_t i = 0; !status && i < sizeof shape / sizeof *shape; i++)
        status = config_read_word(&v->config, shape[i], err);
    for (int i = 0; !status && i < count; i++) status = config_read_word(&v->config, words[i], err);
    if (!status) status = config_read_word(&v->config, v->base, err);
    if (!status) status = config_read_word(&v->config, interval, err);
    return status ? status : config_finish(&v->config, err);
}

static enum status open_variant(struct variant *v, struct err *err)
{
    const struct config *c = &v->config;
    struct device_info info;
    backend->device_describe(device, &info);
    enum status status = model_init(&v->model, &c->model.sizes, err);
    if (!status) status = trainable_choose(&v->model, c, ELEMENT_FP32, info.mixes_elements, err);
    struct plan_input input = plan_input_of(c, &v->model, backend, device);
    if (!status) status = plan_init(&v->plan, &input, err);
    if (!status) status = network_open(&v->network, backend, device, &v->model, &v->plan, err);
    if (!status) status = network_initialise(&v->network, 1, err);
    v->optimizer = optimizer_of(c);
    if (!status) status = optimizer_lay_ranges(&v->optimizer, &v->network, &c->groups, err);
    return status;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(omp_get_max_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double time_step(struct variant *v, const int32_t *tokens)
{
    int B = (int)v->config.train.batch_size, T = (int)v->config.train.seq_len;
    struct step_control control = {.seed = 1, .loss_scale = 1.0f / (float)(B * T), .lr = 1e-4f};
    double start = now();
    network_clear(&v->network);
    network_train(&v->network, (struct batch_view){tokens, tokens + B * T, NULL, B, T}, 0, control);
    optimizer_step(&v->optimizer, &v->network);
    backend->stream_wait(v->network.stream, NULL);
    return now() - start;
}

static double fastest(const double *seconds, int count)
{
    double least = seconds[0];
    for (int i = 1; i < count; i++) least = seconds[i] < least ? seconds[i] : least;
    return least;
}

/* Elements per second, of pieces as a model is loaded in. */
static double quantising(void)
{
    static float x[PIECE], scales[PIECE / NF4_BLOCK];
    static uint8_t codes[PIECE / 2];
    double seconds[PIECES];
    for (int i = 0; i < PIECE; i++) x[i] = (float)((uint32_t)i * 2654435761u >> 8) / 16777216.0f - 0.5f;
    for (int i = 0; i < PIECES; i++) {
        double start = now();
        nf4_quantise(codes, scales, x, PIECE);
        seconds[i] = now() - start;
    }
    return PIECE / fastest(seconds, PIECES);
}

static enum status measure(int rounds, struct err *err)
{
    int count = (int)(variants[0].config.train.batch_size * variants[0].config.train.seq_len);
    int32_t *tokens = malloc(2 * (size_t)count * sizeof *tokens);
    if (!tokens) return err_no_memory(err, "a batch");
    for (int i = 0; i < 2 * count; i++)
        tokens[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)variants[0].model.config.vocab_size);
    for (int r = -1; r < rounds; r++) /* the first round touches the memory */
        for (int i = 0; i < VARIANTS; i++) {
            double seconds = time_step(&variants[i], tokens);
            if (r >= 0) variants[i].seconds[r] = seconds;
        }
    free(tokens);
    double steps[VARIANTS];
    for (int i = 0; i < VARIANTS; i++) steps[i] = fastest(variants[i].seconds, rounds);
    for (int i = 0; i < VARIANTS; i++) {
        const struct variant *v = &variants[i];
        printf("%-17s %7.1f ms a step %7.0f tokens/s, %.2f x %-17s %8.1f MiB, %8.1f of them frozen\n",
               v->name, steps[i] * 1e3, count / steps[i], steps[v->against] / steps[i],
               variants[v->against].name, (double)v->plan.total_bytes / (1 << 20),
               (double)v->plan.category_bytes[PLAN_FROZEN] / (1 << 20));
    }
    double rate = quantising();
    printf("quantising %.0f MB/s of bf16 weights, %.0f MB/s of fp32\n", rate * 2 / 1e6, rate * 4 / 1e6);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    const char *given = getenv("ANNEAL_BENCH_ROUNDS");
    int rounds = given ? atoi(given) : 7;
    if (rounds < 1 || rounds > ROUNDS_MAX) rounds = 7;
    backend = cpu_backend();
    enum status status = backend->device_open(DEVICE_FIRST, 0, &device, &err);
    for (int i = 0; !status && i < VARIANTS; i++) {
        status = configure(&variants[i], argv + 1, argc - 1, &err);
        if (!status) status = open_variant(&variants[i], &err);
    }
    if (!status) {
        const struct model_config *c = &variants[0].model.config;
        printf(
            "adapters of rank %d; %d layers, hidden %d, feed-forward %d, vocabulary %d; %d x %d tokens; %d "
            "threads\n",
            (int)variants[0].config.lora.rank, c->num_layers, c->hidden_dim, c->intermediate_dim,
            c->vocab_size, (int)variants[0].config.train.batch_size, (int)variants[0].config.train.seq_len,
            omp_get_max_threads());
        status = measure(rounds, &err);
    }
    for (int i = 0; i < VARIANTS; i++) {
        network_close(&variants[i].network);
        plan_release(&variants[i].plan);
        model_release(&variants[i].model);
    }
    if (device) backend->device_close(device);
    if (status) fprintf(stderr, "bench_qlora: %s\n", err.text);
    return status != STATUS_OK;
}
