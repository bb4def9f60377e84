/* The cost of profiling on the CPU: training steps of a medium and of a tiny model, in turn with and without
 * profiling, on one thread, in processor time of the process, so that other processes matter little; and the
 * cost of a mark alone. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/train/optimizer.h"
#include "core/train/profiler.h"

enum { LOOP = 2000000 };

struct bench {
    const char *name;
    int C, L, NH, F, V, B, T, pairs;
};

struct desk {
    const struct backend *backend;
    struct device *device;
    struct model model;
    struct plan plan;
    struct network network;
    struct profiler *profiler;
    struct optimizer optimizer;
    int32_t *tokens; /* (B·T + 1) */
    int64_t steps;
    int rows, marks; /* of the newest profiled step */
};

static void check(enum status status, const struct err *err)
{
    if (!status) return;
    fprintf(stderr, "bench_profiler: %s\n", err->text);
    exit(1);
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void desk_open(struct desk *d, const struct bench *b)
{
    struct err err = {0};
    struct model_config config = model_preset(PRESET_SHAKESPEARE);
    *d = (struct desk){.backend = cpu_backend(),
                       .optimizer = {.kind = OPTIMIZER_ADAMW,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .eps = 1e-8,
                                     .max_grad_norm = 1,
                                     .defaults.weight_decay = 0.1}};
    config.hidden_dim = b->C;
    config.num_layers = b->L;
    config.num_heads = config.num_kv_heads = b->NH;
    config.head_dim = b->C / b->NH;
    config.intermediate_dim = b->F;
    config.vocab_size = b->V;
    check(model_init(&d->model, &config, &err), &err);
    check(d->backend->device_open(DEVICE_FIRST, 1, &d->device, &err), &err);
    struct plan_input input = {.model = &d->model, .B = b->B, .T = b->T, .moments = 2};
    check(plan_init(&d->plan, &input, &err), &err);
    check(network_open(&d->network, d->backend, d->device, &d->model, &d->plan, &err), &err);
    network_initialise(&d->network, 1, NULL);
    network_weights_written(&d->network);
    check(optimizer_lay_ranges(&d->optimizer, &d->network, NULL, &err), &err);
    int64_t rows = d->plan.step_calls[0] + d->plan.step_calls[1];
    struct profiler_options options = {d->backend, d->device, 1, 0, rows, rows, NULL, 0};
    check(profiler_open(&options, &d->profiler, &err), &err);
    d->tokens = malloc(((size_t)b->B * (size_t)b->T + 1) * sizeof *d->tokens);
    if (!d->tokens) exit(1);
    for (int i = 0; i <= b->B * b->T; i++)
        d->tokens[i] = (int32_t)((unsigned)i * 2654435761u % (unsigned)b->V);
}

static void desk_close(struct desk *d)
{
    free(d->tokens);
    profiler_close(d->profiler);
    network_close(&d->network);
    plan_release(&d->plan);
    d->backend->device_close(d->device);
    model_release(&d->model);
}

/* As in the trainer; returns the processor time of it, in seconds. */
static double step(struct desk *d, const struct bench *b, bool profiled)
{
    struct network *net = &d->network;
    struct step_result result;
    double start = cpu_seconds();
    struct profiler *profiling =
        profiled ? profiler_begin(d->profiler, d->steps, net->stream, net, false) : NULL;
    network_clear(net);
    struct step_control control = {.loss_scale = 1.0f / (float)(b->B * b->T), .lr = 1e-4f};
    network_train(net, (struct batch_view){d->tokens, d->tokens + 1, NULL, b->B, b->T}, 0, control);
    optimizer_step(&d->optimizer, net);
    network_result(net, &result);
    profiler_end(profiling);
    if (profiled) {
        profiler_collect(d->profiler, d->steps, 1, &d->rows);
        profiler_spans(d->profiler, &d->marks);
    }
    d->steps++;
    return cpu_seconds() - start;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Nanoseconds of a mark in a profiled step. */
static double mark_nanoseconds(struct desk *d)
{
    int64_t room = d->plan.step_calls[0];
    int count;
    double start = cpu_seconds();
    for (int i = 0; i < LOOP; i++) {
        if (i % room == 0) {
            profiler_collect(d->profiler, d->steps, 1, &count);
            profiler_begin(d->profiler, ++d->steps, d->network.stream, NULL, false);
        }
        profiler_mark(d->profiler, PHASE_FORWARD, 0, "gemm qkv", 1, 1);
    }
    double seconds = cpu_seconds() - start;
    profiler_end(d->profiler);
    profiler_collect(d->profiler, d->steps, 1, &count);
    return seconds / LOOP * 1e9;
}

static void measure(const struct bench *b)
{
    struct desk d;
    double *plain = calloc((size_t)b->pairs, sizeof *plain), *more = calloc((size_t)b->pairs, sizeof *more);
    if (!plain || !more) exit(1);
    desk_open(&d, b);
    for (int i = 0; i < 10; i++) step(&d, b, i % 2);
    for (int i = 0; i < b->pairs; i++) { /* which of the two comes first changes, too */
        double first = step(&d, b, i % 2), second = step(&d, b, i % 2 == 0);
        plain[i] = i % 2 ? second : first;
        more[i] = (i % 2 ? first : second) / plain[i] - 1;
    }
    qsort(plain, (size_t)b->pairs, sizeof *plain, by_size);
    qsort(more, (size_t)b->pairs, sizeof *more, by_size);
    double seconds = plain[b->pairs / 2], on = mark_nanoseconds(&d);
    printf("%s: C %d, L %d, V %d, %d x %d tokens\n", b->name, b->C, b->L, b->V, b->B, b->T);
    printf("  a step takes %.2f ms of the processor and marks %d operations in %d rows\n", seconds * 1e3,
           d.marks, d.rows);
    printf("  profiled, with its rows collected: %+.2f %% (median of %d pairs; quartiles %+.2f and %+.2f)\n",
           more[b->pairs / 2] * 100, b->pairs, more[b->pairs / 4] * 100, more[b->pairs * 3 / 4] * 100);
    printf("  a mark by itself: %.1f ns, of the step %.3f %%\n", on, on * d.marks / seconds * 1e-7);
    fflush(stdout);
    desk_close(&d);
    free(plain);
    free(more);
}

int main(void)
{
    static const struct bench benches[] = {
        {"middling", 256, 4, 4, 688, 2048, 4, 64, 101},
        {"tiny", 64, 2, 2, 172, 256, 2, 32, 1001},
    };
    for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) measure(&benches[i]);
    return 0;
}
