/* make gpu-check: the comparisons of tests/cuda_sim on the GPU itself. Every operation against its CPU twin
 * over fuzzed shapes, each twice for bit-identity; then ten training steps of a tiny model on both.
 *
 *     gpu_check [SHAPES]      shapes an operation (default 200)
 *
 * A line an operation with the largest error; closes with "N passed, N failed, N skipped". Where no GPU can
 * be used everything is SKIP, with the sentence that says why, and the exit status is 0. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"
#include "core/model.h"
#include "core/network.h"
#include "core/optimizer.h"
#include "core/plan.h"
#include "kernels/cuda_plugin.h"
#include "tests/gpu/op_cases.h"

enum { STEPS = 10, B = 2, T = 65 };

static int passed, failed, skipped;

/* ---- operations ---- */

/* One shape; returns false after printing what is wrong. *largest: error over tolerance, where that is not 0.
 */
static bool check_shape(const struct op_case *op, struct op_shape s, const struct op_side *cpu,
                        const struct op_side *gpu, double *largest)
{
    struct op_outcome want, got, again;
    bool good = true;
    op->run(cpu, s, &want);
    op->run(gpu, s, &got);
    op->run(gpu, s, &again);
    if (got.status) {
        printf("     %s, shape %u: %s\n", op->name, s.seed, got.err.text);
        good = false;
    }
    for (int i = 0; good && i < want.count; i++) {
        double error = op_error(&got, &want, i), tolerance = want.outputs[i].tolerance;
        long long apart = (long long)op_difference(&got, &again, i);
        if (!(error <= tolerance))
            printf("     %s %s, shape %u: relative error %.3g over %.3g\n", op->name, want.outputs[i].name,
                   s.seed, error, tolerance);
        if (apart >= 0)
            printf("     %s %s, shape %u: run twice, element %lld differs\n", op->name, want.outputs[i].name,
                   s.seed, apart);
        good = error <= tolerance && apart < 0;
        if (error > *largest) *largest = error;
    }
    op_outcome_release(&want), op_outcome_release(&got), op_outcome_release(&again);
    return good;
}

static void check_operation(const struct op_case *op, uint32_t shapes, const struct op_side *cpu,
                            const struct op_side *gpu)
{
    double largest = 0;
    bool good = true;
    for (uint32_t i = 0; good && i < shapes; i++)
        good = check_shape(op, op_fuzz(i, false), cpu, gpu, &largest);
    printf("%-4s %-28s %u shapes, largest relative error %.2g\n", good ? "ok" : "FAIL", op->name, shapes,
           largest);
    good ? passed++ : failed++;
}

/* ---- training ---- */

static const struct model_config tiny = {.vocab_size = 61,
                                         .hidden_dim = 48,
                                         .num_layers = 2,
                                         .num_heads = 4,
                                         .num_kv_heads = 2,
                                         .head_dim = 16,
                                         .intermediate_dim = 80,
                                         .max_seq_len = T,
                                         .rope_base = 10000,
                                         .norm_eps = 1e-5};

static enum status train(const struct backend *backend, double losses[STEPS], struct err *err)
{
    struct model model = {0};
    struct plan plan = {0};
    struct network net = {0};
    struct device *device = NULL;
    float *weights = NULL;
    struct optimizer optimizer = {OPTIMIZER_ADAMW, 0.9, 0.95, 1e-8, 0.1, 1.0};
    int32_t inputs[B * T], targets[B * T];
    enum status status = model_init(&model, &tiny, err);
    if (!status) status = backend->device_open(1, &device, err);
    struct plan_input input = {.model = &model, .B = B, .T = T, .moments = 2};
    if (!status) input.gemm_workspace = backend->gemm_workspace(device);
    if (!status) status = plan_init(&plan, &input, err);
    if (!status) status = network_open(&net, backend, device, &model, &plan, err);
    if (!status && !(weights = malloc(model.elements * sizeof *weights)))
        status = err_set(err, STATUS_NO_MEMORY, "no memory for %zu weights", model.elements);
    if (status) goto out;
    model_initialise(&model, 1, weights);
    backend->mem_upload(net.weights, weights, model.elements * sizeof *weights, net.stream);
    for (int i = 0; i < B * T; i++) {
        inputs[i] = (int32_t)(philox4x32_10((uint32_t)i, 0, 0, 0, 1, 2).word[0] % 61);
        targets[i] = (inputs[i] * 7 + 3) % 61;
    }
    for (int step = 0; !status && step < STEPS; step++) {
        struct network_dropout dropout = {0.1f, 5, (uint32_t)step, 0};
        struct clip_state clip;
        backend->mem_zero(net.gradients, model.elements * sizeof *net.gradients, net.stream);
        network_forward(&net, inputs, B, T, dropout);
        network_backward(&net, targets, B, T, 1.0f / (B * T), dropout);
        losses[step] = network_loss_sum(&net) / (B * T);
        optimizer_step(&optimizer, &net, 3e-3, step, &clip);
        status = backend->stream_wait(net.stream, err);
    }
out:
    free(weights);
    network_close(&net);
    if (device) backend->device_close(device);
    plan_release(&plan);
    model_release(&model);
    return status;
}

static void check_training(const struct backend *cuda)
{
    double cpu[STEPS], first[STEPS], second[STEPS], largest = 0;
    struct err err = {0};
    enum status status = train(cpu_backend(), cpu, &err);
    if (!status) status = train(cuda, first, &err);
    if (!status) status = train(cuda, second, &err);
    bool same = !status && memcmp(first, second, sizeof first) == 0;
    for (int i = 0; !status && i < STEPS; i++) {
        double error = fabs(first[i] - cpu[i]) / cpu[i];
        if (!(error <= largest)) largest = error;
    }
    bool good = !status && same && largest <= 2e-5; /* see tests/cuda_sim/test_training.c */
    if (status) printf("     training: %s\n", err.text);
    if (!status && !same) printf("     training: two runs differ\n");
    printf("%-4s %-28s %d steps, largest relative error of the loss %.2g\n", good ? "ok" : "FAIL", "training",
           STEPS, largest);
    good ? passed++ : failed++;
}

int main(int argc, char **argv)
{
    const struct backend *cuda = NULL;
    struct op_side cpu, gpu;
    struct device_info info;
    struct err err = {0};
    uint32_t shapes = argc > 1 ? (uint32_t)atoi(argv[1]) : 200;
    int checks = 1;
    for (const struct op_case *op = op_cases; op->name; op++) checks++;
    enum status status = cuda_backend_open(&cuda, &err);
    if (!status) status = op_side_open(&gpu, cuda, &err);
    if (status) {
        printf("SKIP %s\n", err.text);
        skipped = checks;
    } else if (op_side_open(&cpu, cpu_backend(), &err)) {
        fprintf(stderr, "gpu_check: %s\n", err.text);
        return 1;
    } else {
        cuda->device_describe(gpu.device, &info);
        printf("on %s\n", info.name);
        for (const struct op_case *op = op_cases; op->name; op++) check_operation(op, shapes, &cpu, &gpu);
        check_training(cuda);
        op_side_close(&cpu);
        op_side_close(&gpu);
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0;
}
