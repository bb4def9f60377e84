/* Learning-rate schedules: pure functions of the step. Step s from 0, warmup W, total S, peak lr, floor
 * lr_min. W = 0: no warm-up. S <= W: the run ends inside the warm-up. s > S: the value at S. The last step is
 * S−1: cosine, linear and wsd reach lr_min at S, one step after it, as in PyTorch and transformers. */
#ifndef ANNEAL_CORE_TRAIN_SCHEDULE_H
#define ANNEAL_CORE_TRAIN_SCHEDULE_H

#include <stdint.h>

#include "core/model/config.h"

/* SCHEDULE_CONSTANT         lr
 * SCHEDULE_WARMUP_CONSTANT  lr·(s+1)/W, then lr
 * SCHEDULE_COSINE           warm-up, then lr_min + ½(lr−lr_min)(1+cos(π(s−W)/(S−W)))
 * SCHEDULE_LINEAR           warm-up, then linear from lr to lr_min
 * SCHEDULE_INVERSE_SQRT     lr·min((s+1)/W, sqrt(W/(s+1))); W = 0 counts as 1
 * SCHEDULE_WSD              warm-up, then lr, and in the last D steps lr_min + (lr−lr_min)·d(p) with p =
 * (s−S+D)/D: DECAY_LINEAR 1−p, DECAY_SQRT sqrt(1−p), DECAY_ONE_MINUS_SQRT 1−sqrt(p) (Hu et al., "MiniCPM",
 * 2024; Hägele et al., "Scaling Laws and Compute-Optimal Training Beyond Fixed Training Durations", 2024)
 * SCHEDULE_RISING           lr_min·(lr/lr_min)^(s/(S−1)), without warm-up (Smith, "Cyclical Learning Rates
 * for Training Neural Networks", 2017) */
struct schedule {
    enum schedule_kind kind;
    enum decay_shape shape;
    double lr, lr_min;
    int64_t warmup, total, decay; /* decay: D, at least 1 */
};

/* The schedule of a finished configuration. */
struct schedule schedule_of(const struct config *config);

double schedule_lr(const struct schedule *schedule, int64_t step);

#endif
