/* Training without the trainer: the network and the optimizer of core/ on any device, for gpu-check. A tiny
 * model's loss curve, to compare devices and precisions; a preset's steps, timed. Stands on libc alone.
 *
 * folder: stores the algorithms of matrix products, so that the next training rounds the same; NULL: not
 * stored. */
#ifndef ANNEAL_TESTS_GPU_TRAINING_H
#define ANNEAL_TESTS_GPU_TRAINING_H

#include "core/model/model.h"
#include "kernels/device/backend.h"

enum { TRAINING_STEPS = 10 };

/* Mean losses of the steps of a model of two layers with everything a Qwen and a Llama have (grouped heads,
 * QK-norm, biases, dropout), from the same weights on the same batch. */
enum status training_curve(const struct backend *backend, enum precision precision, const char *folder,
                           double losses[TRAINING_STEPS], struct err *err);

/* How far a curve may be from the CPU's in fp32, relative to each loss. */
double training_tolerance(enum precision precision);

/* ‖·‖∞ of the relative differences; NaN where one is. */
double training_difference(const double curve[TRAINING_STEPS], const double reference[TRAINING_STEPS]);

struct training_preset {
    enum preset preset;
    int B, T;   /* B = 0 ends the list */
    double mfu; /* the least that a step in bf16 must reach; 0: any */
};
extern const struct training_preset training_presets[];

struct training_speed {
    double first_ms, tenth_ms, median_ms; /* a whole step, with AdamW and clipping; median of 20 after 10 */
    double tokens_per_second, flops;      /* flops: by model_flops_per_token, a second */
    double peak_flops;                    /* published, of the device; 0: unknown */
    size_t peak_bytes;                    /* of the device: the plan, to the byte */
    int64_t taken_bytes; /* by which the device's free memory was less at the end; libraries count, and other
                          * processes */
    double first_loss, last_loss;
};

/* STATUS_NOT_FOUND: the device has too little memory for the preset. */
enum status training_speed_measure(const struct backend *backend, enum precision precision,
                                   const struct training_preset *preset, const char *folder,
                                   struct training_speed *out, struct err *err);

/* The losses of `steps` steps in bf16, each on a batch of its own. Writes to `data`, a folder, what another
 * program needs to train the same: weights.f32 with the first weights, weights.txt with a line "name offset
 * count" for each parameter, and batches.i32, (steps, 2, B, T) int32 inputs and targets. */
enum status training_losses(const struct backend *backend, const struct model_config *config, int B, int T,
                            int steps, double lr, const char *data, const char *folder, double *losses,
                            struct err *err);

/* The kernels of one step in bf16 by name, the longest first. */
enum { KERNEL_SUMS_MAX = 96 };
struct training_kernels {
    struct kernel_sum {
        char name[160];
        double ms;
        int calls, registers, local; /* local: bytes of a thread; these two of one call */
        double occupancy;            /* likewise; 0: unknown */
    } sums[KERNEL_SUMS_MAX];
    int count;
    double ms; /* of all kernels */
};

/* STATUS_NOT_FOUND: CUPTI is missing or used by another tool; the step has run all the same. */
enum status training_kernels_look(const struct backend *backend, const struct model_config *config, int B,
                                  int T, const char *folder, struct training_kernels *out, struct err *err);

/* How steps are queued: call by call or as graphs; the next one after the result of the one before, or ahead
 * of it. In all of them batches come from page-locked memory over a stream of their own, as in
 * core/train/feed.c.
 */
enum training_way { WAY_CALLS, WAY_CALLS_AHEAD, WAY_GRAPHS, WAY_GRAPHS_AHEAD, TRAINING_WAYS };

struct training_ways {
    double ms[TRAINING_WAYS]; /* a step, the mean of all but the first ten */
    bool same;                /* the losses of every step, whatever the way, bit for bit */
};

/* Runs the same `steps` steps (more than ten), each with dropout and its own batch, in every way.
 * STATUS_FAILED, with the reason: the device does not record graphs. */
enum status training_ways_measure(const struct backend *backend, enum precision precision,
                                  const struct model_config *config, int B, int T, int steps,
                                  const char *folder, struct training_ways *out, struct err *err);

#endif
