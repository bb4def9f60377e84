/* The speed of generating, of `make bench`: prompts and next tokens of a model that does not fit the caches,
 * with random weights in fp32 and in bf16, against what this machine can do at most.
 *
 *     bench_generate [--json] [PRESET fp32|bf16|nf4]           without both: small and medium, each way
 *     bench_generate --write FOLDER PRESET fp32|bf16           the same model as a folder, for others
 *
 * A next token reads all weights and the cache of its sequence once: its bound is those bytes over the speed
 * at which the same threads read memory. A prompt is bound by the FLOPs of its products and attention over
 * the speed of a large product in the precision that it is computed in: with weights in bf16 the device's
 * best, as `anneal generate` does. Each measurement alternates with that of its bound, so that a busy
 * moment of the machine affects both; of each the fastest counts. With one thread (OMP_NUM_THREADS=1),
 * processor time is measured instead of time, so that other programs matter less. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/model/hugging_face.h"
#include "core/model/safetensors.h"
#include "core/network/network.h"

enum { PROMPT = 512, TOKENS = 64, PROMPTS = 7, SQUARE = 2048, SAMPLES_MAX = 64 };

struct bench {
    const struct backend *backend;
    struct device *device;
    struct model model;
    struct plan plan;
    struct network network;
    enum element element;     /* of matrices */
    enum precision precision; /* of computing */
    int32_t tokens[PROMPT];
    float *logits, *operands; /* (V); (3, SQUARE, SQUARE) */
    uint64_t read;            /* the result of reading all weights, so that it has a purpose */
};

/* ---- the model ---- */

static bool freeze(const void *context, const struct param *p, enum element *element)
{
    const struct bench *b = context;
    *element = !p->cols                                                  ? precision_element(b->precision)
               : element_is_nf4(b->element) && !strstr(p->name, "_proj") ? ELEMENT_BF16
                                                                         : b->element;
    return true;
}

static enum status open_bench(struct bench *b, enum preset preset, enum element element, struct err *err)
{
    struct model_config config = model_preset(preset);
    struct device_info info;
    *b = (struct bench){.backend = cpu_backend(), .element = element};
    enum status status = model_init(&b->model, &config, err);
    if (!status) status = b->backend->device_open(DEVICE_FIRST, 0, &b->device, err);
    if (status) return status;
    b->backend->device_describe(b->device, &info);
    if (element == ELEMENT_BF16) b->precision = info.best;
    model_freeze(&b->model, freeze, b);
    struct plan_input input = {.model = &b->model,
                               .B = 1,
                               .T = PROMPT,
                               .precision = b->precision,
                               .cache_slots = 1,
                               .cache_length = PROMPT + TOKENS};
    plan_input_for(&input, b->backend, b->device);
    if (!status) status = plan_init(&b->plan, &input, err);
    if (!status) status = network_open(&b->network, b->backend, b->device, &b->model, &b->plan, err);
    if (!status) status = network_initialise(&b->network, 1, err);
    b->logits = malloc((size_t)config.vocab_size * sizeof *b->logits);
    b->operands = calloc(3ul * SQUARE * SQUARE, sizeof *b->operands);
    if (!b->logits || !b->operands) return err_no_memory(err, "a product of %d rows", SQUARE);
    for (size_t i = 0; i < 2ul * SQUARE * SQUARE; i++) b->operands[i] = (float)(i % 7) - 3;
    for (int i = 0; i < PROMPT; i++)
        b->tokens[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)config.vocab_size);
    return status;
}

static void close_bench(struct bench *b)
{
    network_close(&b->network);
    if (b->device) b->backend->device_close(b->device);
    plan_release(&b->plan);
    model_release(&b->model);
    free(b->logits);
    free(b->operands);
}

static enum status write_model(const struct bench *b, const char *folder, struct err *err)
{
    char path[PATH_MAX];
    struct safetensor *tensors = calloc(b->model.param_count, sizeof *tensors);
    if (!tensors) return err_no_memory(err, "the tensors' descriptions");
    for (size_t i = 0; i < b->model.param_count; i++) {
        const struct param *p = &b->model.params[i];
        tensors[i] = (struct safetensor){.name = p->name,
                                         .dtype = p->element == ELEMENT_BF16 ? "BF16" : "F32",
                                         .shape = {p->rows, p->cols},
                                         .dims = p->cols ? 2 : 1,
                                         .data = (unsigned char *)b->network.frozen + p->offset,
                                         .bytes = param_bytes(p)};
    }
    enum status status = file_make_folders(folder, err);
    if (!status) status = file_format_path(path, sizeof path, err, "%s/config.json", folder);
    if (!status) status = hugging_face_write_config(&b->model.config, &b->model.classes, path, err);
    if (!status) status = file_format_path(path, sizeof path, err, "%s/model.safetensors", folder);
    if (!status)
        status = safetensors_write(path, tensors, b->model.param_count, safetensors_fetch_host, NULL, err);
    free(tensors);
    return status;
}

/* ---- times ---- */

static double now(void)
{
    struct timespec spent;
    if (omp_get_max_threads() > 1) return clock_monotonic();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (double)spent.tv_sec + (double)spent.tv_nsec * 1e-9;
}

static double fastest(const double *seconds, int n)
{
    double least = seconds[0];
    for (int i = 1; i < n; i++) least = fmin(least, seconds[i]);
    return least;
}

typedef uint64_t line __attribute__((vector_size(64)));

/* With the widest loads of the processor: narrow ones keep fewer cache lines in flight. */
#ifdef __x86_64__
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static uint64_t
read_lines(const line *lines, size_t count)
{
    line x[4] = {{0}};
    for (size_t i = 0; i + 4 <= count; i += 4)
        for (size_t j = 0; j < 4; j++) x[j] ^= lines[i + j];
    x[0] ^= x[1] ^ x[2] ^ x[3];
    return x[0][0] ^ x[0][1] ^ x[0][2] ^ x[0][3] ^ x[0][4] ^ x[0][5] ^ x[0][6] ^ x[0][7];
}

/* Reads the weights with all threads, in the order in which they lie in memory. */
static double time_reading(struct bench *b)
{
    const line *lines = b->network.frozen;
    size_t count = b->model.frozen_bytes / sizeof *lines;
    uint64_t all = 0;
    double start = now();
#pragma omp parallel reduction(^ : all)
    {
        size_t part = (size_t)omp_get_thread_num(), parts = (size_t)omp_get_num_threads();
        size_t from = count * part / parts;
        all ^= read_lines(lines + from, count * (part + 1) / parts - from);
    }
    b->read ^= all;
    return now() - start;
}

static double time_product(const struct bench *b)
{
    struct matrix m[3];
    for (size_t i = 0; i < 3; i++)
        m[i] = matrix_view(b->operands + i * SQUARE * SQUARE, precision_element(b->precision), SQUARE);
    double start = now();
    b->backend->gemm(m[2], m[0], m[1], SQUARE, SQUARE, SQUARE, false, false, false, 1, b->network.stream);
    return now() - start;
}

static double time_prompt(struct bench *b)
{
    double start = now();
    network_truncate(&b->network, 0, 0);
    network_logits(&b->network, network_append(&b->network, 0, b->tokens, PROMPT), 1, b->logits);
    return now() - start;
}

static double time_token(struct bench *b)
{
    double start = now();
    int best = 0, V = b->model.config.vocab_size;
    for (int i = 1; i < V; i++)
        if (b->logits[i] > b->logits[best]) best = i;
    int32_t token = best, slot = 0;
    network_append_rows(&b->network, &token, &slot, 1);
    network_logits(&b->network, 0, 1, b->logits);
    return now() - start;
}

/* ---- bounds ---- */

/* The bytes that a token reads: all weights, of the embedding one row unless it is the head, and the cached
 * keys and values of the middle of the measurement. */
static double token_bytes(const struct bench *b)
{
    const struct model_config *c = &b->model.config;
    double bytes = 2.0 * (double)precision_bytes(b->precision) * c->num_layers * c->num_kv_heads *
                   c->head_dim * (PROMPT + TOKENS / 2);
    for (size_t i = 0; i < b->model.param_count; i++)
        if (c->tie_weights || &b->model.params[i] != b->model.embed)
            bytes += (double)param_bytes(&b->model.params[i]);
    return bytes;
}

/* Of the layers for all tokens, the causal half of attention, and the head for the last token. */
static double prompt_flops(const struct bench *b)
{
    const struct model_config *c = &b->model.config;
    double layers = 0, head = 2.0 * c->vocab_size * c->hidden_dim;
    for (size_t i = 0; i < b->model.param_count; i++)
        if (b->model.params[i].cols && strstr(b->model.params[i].name, ".layers."))
            layers += 2.0 * (double)b->model.params[i].count;
    return layers * PROMPT + head +
           2.0 * c->num_layers * c->num_heads * c->head_dim * PROMPT * (PROMPT + 1.0);
}

static void measure(struct bench *b, const char *preset, bool json)
{
    double prompt[PROMPTS], product[PROMPTS], token[TOKENS], reading[TOKENS];
    time_prompt(b), time_product(b), time_reading(b); /* the first touch */
    for (int i = 0; i < PROMPTS; i++) prompt[i] = time_prompt(b), product[i] = time_product(b);
    for (int i = 0; i < TOKENS; i++) token[i] = time_token(b), reading[i] = time_reading(b);
    double prefill = PROMPT / fastest(prompt, PROMPTS), decode = 1 / fastest(token, TOKENS),
           flops = 2.0 * SQUARE * SQUARE * SQUARE / fastest(product, PROMPTS),
           bandwidth = (double)b->model.frozen_bytes / fastest(reading, TOKENS),
           prefill_bound = PROMPT * flops / prompt_flops(b), decode_bound = bandwidth / token_bytes(b);
    const char *element = element_is_nf4(b->element) ? "nf4" : b->element == ELEMENT_BF16 ? "bf16" : "fp32";
    if (json)
        printf("{\"who\": \"anneal\", \"preset\": \"%s\", \"weights\": \"%s\", \"prefill\": %.1f, "
               "\"decode\": %.2f, "
               "\"prefill_bound\": %.1f, \"decode_bound\": %.2f, \"gemm_gflops\": %.1f, \"read_gb_per_sec\": "
               "%.2f}\n",
               preset, element, prefill, decode, prefill_bound, decode_bound, flops / 1e9, bandwidth / 1e9);
    else
        printf("%-7s %s  prefill %7.0f tokens/s, %2.0f %% of %6.0f (%.0f GFLOP/s)   decode %6.1f tokens/s, "
               "%2.0f %% of "
               "%6.1f (%.1f GB/s, %.0f MB a token)\n",
               preset, element, prefill, 100 * prefill / prefill_bound, prefill_bound, flops / 1e9, decode,
               100 * decode / decode_bound, decode_bound, bandwidth / 1e9, token_bytes(b) / 1e6);
    fflush(stdout);
}

static enum status run(enum preset preset, enum element element, bool json, const char *folder,
                       struct err *err)
{
    struct bench b;
    enum status status = open_bench(&b, preset, element, err);
    if (!status && folder)
        status = write_model(&b, folder, err);
    else if (!status)
        measure(&b, preset_word(preset), json);
    close_bench(&b);
    return status;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    enum status status = STATUS_OK;
    bool json = argc > 1 && strcmp(argv[1], "--json") == 0,
         write = argc > 2 && strcmp(argv[1], "--write") == 0;
    const char *folder = write ? argv[2] : NULL;
    char **words = argv + 1 + json + 2 * write;
    if (argc - (words - argv) == 2) {
        enum preset preset = strcmp(words[0], "medium") == 0  ? PRESET_MEDIUM
                             : strcmp(words[0], "small") == 0 ? PRESET_SMALL
                                                              : PRESET_TINY;
        enum element element = strcmp(words[1], "bf16") == 0  ? ELEMENT_BF16
                               : strcmp(words[1], "nf4") == 0 ? ELEMENT_NF4_NESTED
                                                              : ELEMENT_FP32;
        status = run(preset, element, json, folder, &err);
    } else {
        if (!json)
            printf("a prompt of %d tokens, then %d more; %d threads\n", PROMPT, TOKENS,
                   omp_get_max_threads());
        for (int i = 0; !status && i < 4; i++)
            status = run(i / 2 ? PRESET_MEDIUM : PRESET_SMALL, i % 2 ? ELEMENT_BF16 : ELEMENT_FP32, json,
                         NULL, &err);
    }
    if (status) fprintf(stderr, "bench_generate: %s\n", err.text);
    return status != STATUS_OK;
}
