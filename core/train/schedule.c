/* See schedule.h. */
#include "core/train/schedule.h"

#include <math.h>

struct schedule schedule_of(const struct config *config)
{
    int64_t decay = config->train.decay_steps ? config->train.decay_steps : config->train.total_steps / 5;
    return (struct schedule){.kind = config->train.schedule,
                             .lr = config->train.learning_rate,
                             .lr_min = config->train.learning_rate * config->train.min_lr_factor,
                             .warmup = config->train.warmup_steps,
                             .total = config->train.total_steps,
                             .shape = config->train.decay_shape,
                             .decay = decay > 0 ? decay : 1};
}

static double decay_share(enum decay_shape shape, double progress)
{
    if (shape == DECAY_SQRT) return sqrt(1 - progress);
    return 1 - (shape == DECAY_LINEAR ? progress : sqrt(progress));
}

double schedule_lr(const struct schedule *schedule, int64_t step)
{
    double lr = schedule->lr, s = (double)(step > schedule->total ? schedule->total : step);
    double W = (double)schedule->warmup, S = (double)schedule->total;
    if (schedule->kind == SCHEDULE_CONSTANT) return lr;
    if (schedule->kind == SCHEDULE_RISING)
        return s + 1 < S ? lr * pow(schedule->lr_min / lr, 1 - s / (S - 1)) : lr;
    if (schedule->kind == SCHEDULE_INVERSE_SQRT) {
        if (W < 1) W = 1;
        return lr * fmin((s + 1) / W, sqrt(W / (s + 1)));
    }
    if (s < W) return lr * (s + 1) / W;
    if (schedule->kind == SCHEDULE_WARMUP_CONSTANT) return lr;
    if (schedule->kind == SCHEDULE_WSD) {
        double D = (double)schedule->decay;
        return s < S - D ? lr
                         : schedule->lr_min +
                               (lr - schedule->lr_min) * decay_share(schedule->shape, (s - S + D) / D);
    }
    double progress = S > W ? (s - W) / (S - W) : 1;
    double share = schedule->kind == SCHEDULE_COSINE ? 0.5 * (1 + cos(M_PI * progress)) : 1 - progress;
    return schedule->lr_min + (lr - schedule->lr_min) * share;
}
