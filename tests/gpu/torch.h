/* The same training step in PyTorch, for gpu-check: runs tests/gpu/torch_step.py, which is in the program's
 * folder, in a process of its own. */
#ifndef ANNEAL_TESTS_GPU_TORCH_H
#define ANNEAL_TESTS_GPU_TORCH_H

#include "core/base/err.h"
#include "tests/gpu/training.h"

struct torch_speed {
    double step_ms, tokens_per_second, first_loss, last_loss;
    double peak_bytes; /* torch.cuda.max_memory_allocated */
    char version[32];
};

/* mode: "eager" or "compile"; seconds: the time it has at most, if that is less than two minutes.
 * ANNEAL_BENCH_PYTHON names the interpreter (default python3). STATUS_NOT_FOUND: no Python, or none with
 * PyTorch that sees a GPU; STATUS_FAILED: it ran and did not come to an end. */
enum status torch_speed_measure(const struct training_preset *preset, const char *mode, double seconds,
                                struct torch_speed *out, struct err *err);

#endif
