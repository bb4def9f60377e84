/* See roofline.h. The numbers are those of `anneal plan`: both come from core/train/cluster.h. */
#include "docs/generator/roofline.h"

#include <stdlib.h>
#include <string.h>

#include "core/train/cluster.h"

static const char *const gpus[] = {"h100", "h200", "a100", "rtx4090"};
enum { GPUS = sizeof gpus / sizeof *gpus };

static const struct shape {
    enum preset preset;
    int B, T;
} shapes[] = {{PRESET_GPT2_124M, 32, 1024}, {PRESET_LLAMA_1_5B, 16, 1024}};

static const char roofline_text[] =
    "Estimates, not measurements. There is nothing to put beside them yet: anneal has not run on a GPU. "
    "The bytes and FLOPs of each operation come from the recorded training step (`kernels/operations.def` "
    "says how they are counted), the times from data sheets: an operation takes as long as its FLOPs at "
    "%.0f %% of the peak of matrix products (attention: %.0f %%; what is not a product: the peak in fp32), "
    "or "
    "its bytes at %.0f %% of what the memory moves, whichever is longer, and at least %.0f microseconds. "
    "A kernel that moves more than it must, or reaches less, is slower than that.\n"
    "`anneal plan` computes the same numbers for any model, batch and GPU; `anneal show RUN --profile` has "
    "the measured times of a run.";

static void fail(const char *what)
{
    fprintf(stderr, "generate: %s\n", what);
    exit(1);
}

static struct cluster_step estimate(const struct shape *shape, struct model *model, const char *gpu)
{
    struct config config;
    struct cluster_step step;
    struct err err;
    config_init(&config);
    config.train.optimizer = OPTIMIZER_ADAMW;
    config.train.batch_size = shape->B;
    config.train.seq_len = shape->T;
    struct cluster cluster = cluster_of(chip_find(gpu), PRECISION_BF16, 1, 1);
    struct plan_input input = {.model = model,
                               .B = shape->B,
                               .T = shape->T,
                               .moments = 2,
                               .precision = PRECISION_BF16,
                               .allocator = ALLOCATOR_ARENA};
    cluster_plan_input(&cluster, &input);
    if (cluster_estimate(&cluster, &config, &input, 1, &step, &err)) fail(err.text);
    return step;
}

enum { CELL = 32 };

static const char *number(char cell[CELL], const char *format, double value)
{
    snprintf(cell, CELL, format, value);
    return cell;
}

static void write_operations(struct writer *w, const struct cluster_step steps[GPUS])
{
    char calls[CELL], bytes[CELL], flops[CELL], ms[GPUS][CELL];
    writer_table(w, "Operation", "Phase", "Calls", "GB", "GFLOP", "H100, ms", "H200, ms", "A100, ms",
                 "RTX 4090, ms", NULL);
    for (int i = 0; i < steps[0].cost_count; i++) {
        const struct cluster_cost *cost = &steps[0].costs[i];
        for (int g = 0; g < GPUS; g++) number(ms[g], "%.3f", 1e3 * steps[g].costs[i].seconds);
        writer_row(w, cost->op, phase_name(cost->phase), number(calls, "%.0f", cost->calls),
                   number(bytes, "%.2f", cost->bytes / 1e9), number(flops, "%.0f", cost->flops / 1e9), ms[0],
                   ms[1], ms[2], ms[3], NULL);
    }
}

static void write_steps(struct writer *w, const struct shape *shape, const struct model *model,
                        const struct cluster_step steps[GPUS])
{
    char peak[CELL], memory[CELL], ms[CELL], rate[CELL], mfu[CELL], plan[CELL + 32];
    writer_table(w, "GPU", "Peak in bf16", "Memory's rate", "Plan", "Step", "Tokens/s", "MFU", NULL);
    for (int g = 0; g < GPUS; g++) {
        const struct chip_sheet *chip = chip_find(gpus[g]);
        double tokens = shape->B * shape->T / steps[g].seconds,
               flops = tokens * model_flops_per_token(model, shape->T);
        snprintf(plan, sizeof plan, "%.1f GiB%s", (double)steps[g].bytes / (1 << 30),
                 steps[g].fits ? "" : ", too much");
        writer_row(w, gpus[g], number(peak, "%.1f TFLOP/s", chip->teraflops[PRECISION_BF16]),
                   number(memory, "%.0f GB/s", chip->bandwidth_gbs), plan,
                   number(ms, "%.1f ms", 1e3 * steps[g].seconds), number(rate, "%.0f", tokens),
                   number(mfu, "%.0f %%", 100 * flops / (chip->teraflops[PRECISION_BF16] * 1e12)), NULL);
    }
}

static void write_shape(struct writer *w, const struct shape *shape)
{
    struct model_config config = model_preset(shape->preset);
    struct model model;
    struct err err;
    struct cluster_step *steps = malloc(GPUS * sizeof *steps);
    char text[400];
    if (!steps) fail("no memory");
    if (model_init(&model, &config, &err)) fail(err.text);
    for (int g = 0; g < GPUS; g++) steps[g] = estimate(shape, &model, gpus[g]);
    writer_heading(w, 1, preset_word(shape->preset));
    snprintf(
        text, sizeof text,
        "A step of %d sequences of %d tokens in bf16, with AdamW, of %.4g million parameters. For one GPU:\n"
        "  anneal plan --model.preset=%s --model.vocab_size=%d --train.batch_size=%d --train.seq_len=%d "
        "--train.optimizer=adamw --gpus 1 --gpu h200 --operations",
        shape->B, shape->T, (double)model.parameters / 1e6, preset_word(shape->preset), config.vocab_size,
        shape->B, shape->T);
    writer_text(w, text);
    write_steps(w, shape, &model, steps);
    write_operations(w, steps);
    model_release(&model);
    free(steps);
}

void roofline_write(struct writer *w)
{
    char text[sizeof roofline_text + 40];
    snprintf(text, sizeof text, roofline_text, 100 * ROOFLINE_PRODUCTS, 100 * ROOFLINE_ATTENTION,
             100 * ROOFLINE_MEMORY, 1e6 * ROOFLINE_STARTING);
    writer_text(w, text);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) write_shape(w, &shapes[i]);
}
