/* The same training step in PyTorch, for gpu-check: runs tests/gpu/torch_step.py in a process of its own. */
#ifndef ANNEAL_TESTS_GPU_TORCH_H
#define ANNEAL_TESTS_GPU_TORCH_H

#include "core/base/err.h"
#include "tests/gpu/training.h"

struct torch_speed {
    double step_ms, tokens_per_second, first_loss, last_loss;
    double peak_bytes; /* torch.cuda.max_memory_allocated */
    char version[32];
};

/* How PyTorch is to train. */
struct torch_run {
    const char *script; /* path of torch_step.py */
    const char *mode;   /* "eager" or "compile" */
    bool bf16_residual; /* the stream between the layers in bf16, as ours; autocast leaves it in fp32 */
    const char *data;   /* folder that training_losses wrote; NULL: random weights, one batch */
    int steps;          /* timed, or with `data` all of them */
    double lr,
        seconds; /* seconds: the time that it has at most, if that is less than MOST_SECONDS of torch.c */
};

/* ANNEAL_BENCH_PYTHON names the interpreter (default python3). STATUS_NOT_FOUND: no Python, or none with
 * PyTorch that sees a GPU; STATUS_FAILED: it ran and did not come to an end. `losses` (steps), with `data`;
 * else NULL. */
enum status torch_train(const struct training_preset *preset, const struct torch_run *run,
                        struct torch_speed *out, double *losses, struct err *err);

#endif
