/* See health.h. */
#include "core/train/health.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/sort.h"
#include "core/base/text.h"

enum {
    FINITE_STEPS = 16,   /* that end a non-finite incident */
    SPIKE_KNOWN = 32,    /* losses needed before one is judged */
    CALM_STEPS = 8,      /* that end a spike */
    NEW_LEVEL = 64,      /* steps after which a spike is the new level */
    FALL_AGAIN = 4,      /* times plateau_delta: a fall that may end a plateau */
    FALLING_GROUPS = 8,  /* in a row with such a fall that end a plateau */
    CALM_SPEED = 32,     /* that end a low throughput */
    NEW_SPEED = 256,     /* steps after which a low throughput is the new speed */
    FIRST_STEPS = 8,     /* that do not count for the speed */
    INCIDENT_SECONDS = 5 /* of training before a slow machine is reported */
};
#define FAR_UP          2.0    /* times the first loss */
#define FAR_UNKNOWING   1.5    /* times the loss of guessing */
#define DEVIATION       1.4826 /* standard deviations of a Gaussian in its median absolute deviation */
#define LEAST_DEVIATION 0.01   /* of the median */

static void report(struct health *h, int64_t step, const char *level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void report(struct health *h, int64_t step, const char *level, const char *format, ...)
{
    struct health_event *event = &h->events[h->event_count++];
    event->step = step;
    event->level = level;
    event->diverged = false;
    TEXT_FORMAT(event->text, format);
}

/* The median of n values, n from 1 to HEALTH_WINDOW, none of them NaN. */
static double median(const double *values, int n)
{
    double v[HEALTH_WINDOW];
    memcpy(v, values, (size_t)n * sizeof *v);
    sort_doubles(v, (size_t)n);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* ---- numbers that are not finite ---- */

/* The consequence, in the words of the event. */
static const char *level_of(const struct health *h)
{
    return h->limits.on_nan == ON_NAN_STOP ? "error" : "warning";
}

static const char *then_of(const struct health *h)
{
    return h->limits.on_nan == ON_NAN_STOP ? "; the run ends here, because health.on_nan = stop" : "";
}

/* The remedy that an event names. begins: no update has been made yet, so it is not the learning rate. */
static const char *remedy_of(bool begins, bool skipped)
{
    if (begins) return "look at the weights that the run begins with";
    return skipped ? "lower train.learning_rate or train.max_grad_norm" : "lower train.learning_rate";
}

static void judge_finite(struct health *h, const struct step_record *s)
{
    bool skipped = s->clip_scale == 0;
    const char *then = skipped && h->limits.on_nan == ON_NAN_SKIP ? "; 100 in a row end the run" : then_of(h);
    if (isfinite(s->loss) && isfinite(s->grad_norm)) {
        if (++h->finite_steps >= FINITE_STEPS) h->not_finite = false;
        return;
    }
    h->finite_steps = 0;
    if (h->not_finite) return;
    h->not_finite = true;
    report(h, s->step, level_of(h),
           "step %" PRId64 ": the %s not finite%s%s (%s, or look at the data of this step)", s->step,
           skipped ? "gradient norm is" : "loss is", skipped ? ", the update was skipped" : "", then,
           remedy_of(s->step == 0 && !isfinite(s->loss), skipped));
}

void health_judge_evaluation(struct health *h, int64_t step, double val_loss)
{
    bool reported = h->not_finite || h->not_finite_evaluation;
    h->event_count = 0;
    h->not_finite_evaluation = !isfinite(val_loss);
    if (!h->not_finite_evaluation || reported) return;
    report(h, step, level_of(h),
           "the validation loss after %" PRId64 " steps is not finite%s (%s, or look at the validation data)",
           step, then_of(h), remedy_of(step == 0, false));
}

/* ---- the loss ---- */

/* Computes the usual loss and a deviation from it. Returns the number of losses that they come from; 0: too
 * few are known. */
static int find_level(const struct loss_level *l, double *middle, double *deviation)
{
    int n = l->count < HEALTH_WINDOW ? (int)l->count : HEALTH_WINDOW;
    double away[HEALTH_WINDOW];
    if (n < SPIKE_KNOWN) return 0;
    *middle = median(l->losses, n);
    for (int i = 0; i < n; i++) away[i] = fabs(l->losses[i] - *middle);
    *deviation = fmax(DEVIATION * median(away, n), LEAST_DEVIATION * fabs(*middle));
    return n;
}

/* During a spike the window is frozen, so that a spike does not count as normal. */
static void judge_spike(struct health *h, const struct step_record *s)
{
    struct loss_level *l = h->level;
    bool skips = h->limits.on_spike == ON_SPIKE_SKIP, skipped = s->clip_scale == 0 && isfinite(s->grad_norm);
    double middle, deviation;
    if (h->limits.loss_spike <= 0 || !isfinite(s->loss)) return;
    int n = find_level(l, &middle, &deviation);
    double deviations = n ? (s->loss - middle) / deviation : 0;
    bool high = skips ? n && skipped : deviations > h->limits.loss_spike, begins = high && !l->spike_steps;
    if (begins) {
        report(h, s->step, "warning",
               "step %" PRId64 ": the loss rose to %.4g, %.1f deviations above %.4g, the median of the "
               "%d steps before%s (look at the data of this step; if it stays high, lower "
               "train.learning_rate and continue from an earlier checkpoint)",
               s->step, s->loss, deviations, middle, n, skipped ? ", the update was skipped" : "");
        l->calm_steps = 0;
    }
    if (!begins && !l->spike_steps) {
        l->losses[l->count++ % HEALTH_WINDOW] = s->loss;
        return;
    }
    l->calm_steps = deviations < h->limits.loss_spike / 2 ? l->calm_steps + 1 : 0;
    if (l->calm_steps >= CALM_STEPS) {
        l->spike_steps = 0;
    } else if (++l->spike_steps >= NEW_LEVEL) {
        l->spike_steps = 0;
        l->count = 0;
        l->limit = 0;
    }
}

static void limit_loss(struct health *h)
{
    double middle, deviation;
    h->level->previous_limit = h->level->limit;
    h->level->limit = 0;
    if (h->limits.on_spike == ON_SPIKE_SKIP && find_level(h->level, &middle, &deviation))
        h->level->limit = middle + h->limits.loss_spike * deviation;
}

static void judge_divergence(struct health *h, const struct step_record *s)
{
    if (h->limits.loss_spike <= 0 || h->guess <= 0 || !isfinite(s->loss)) return;
    if (!h->begun) h->first_loss = s->loss;
    h->begun = true;
    if (s->loss <= fmax(FAR_UP * h->first_loss, FAR_UNKNOWING * h->guess)) {
        if (++h->sound_steps >= CALM_STEPS) h->diverged = false;
        return;
    }
    h->sound_steps = 0;
    if (h->diverged || h->level->spike_steps) return;
    h->diverged = true;
    report(h, s->step, "warning",
           "step %" PRId64 ": training diverges: the loss is %.4g, it began with %.4g, and guessing gives "
           "%.4g (lower train.learning_rate, raise train.warmup_steps, or set train.max_grad_norm)",
           s->step, s->loss, h->first_loss, h->guess);
    h->events[h->event_count - 1].diverged = true;
}

/* Groups [from, from + n) of the ring, oldest first. */
static double median_of_groups(const struct health *h, int from, int n)
{
    double means[HEALTH_GROUPS];
    for (int i = 0; i < n; i++) means[i] = h->groups[(h->group_count + from + i) % HEALTH_GROUPS];
    return median(means, n);
}

/* The standard error of the difference between the two halves' medians, estimated from differences of
 * adjacent groups, so that trends over many groups do not count as noise. */
static double error_of_fall(const struct health *h)
{
    double steps[HEALTH_GROUPS - 1];
    for (int i = 0; i < HEALTH_GROUPS - 1; i++)
        steps[i] = fabs(h->groups[(h->group_count + i + 1) % HEALTH_GROUPS] -
                        h->groups[(h->group_count + i) % HEALTH_GROUPS]);
    double deviation = DEVIATION * median(steps, HEALTH_GROUPS - 1) / M_SQRT2;
    return deviation * sqrt(M_PI / 2) * sqrt(2.0 / (HEALTH_GROUPS / 2)); /* of a median of Gaussians */
}

static void judge_plateau(struct health *h, const struct step_record *s)
{
    int64_t size = h->limits.plateau_steps / HEALTH_GROUPS;
    if (size < 1 || !isfinite(s->loss)) return;
    if (h->group_steps == 0) h->first_step = s->step;
    h->group_sum += s->loss;
    if (++h->group_steps < size) return;
    int64_t at = h->group_count++ % HEALTH_GROUPS;
    h->groups[at] = h->group_sum / (double)size;
    h->group_began[at] = h->first_step;
    h->group_steps = 0;
    h->group_sum = 0;
    if (h->group_count < HEALTH_GROUPS) return;
    double older = median_of_groups(h, 0, HEALTH_GROUPS / 2),
           newer = median_of_groups(h, HEALTH_GROUPS / 2, HEALTH_GROUPS / 2);
    double least = h->limits.plateau_delta * fabs(older), fallen = older - newer;
    double error = error_of_fall(h);
    /* a slow fall crosses the limit repeatedly by chance: only a lasting one counts */
    h->falling = fallen >= FALL_AGAIN * least + 2 * error ? h->falling + 1 : 0;
    if (h->flat && h->falling >= FALLING_GROUPS) h->flat = false;
    if (h->flat || fallen + error >= least) return;
    h->flat = true;
    int64_t since = h->group_began[h->group_count % HEALTH_GROUPS];
    report(h, since, "warning",
           "the loss has not fallen since step %" PRId64 ": %s then, %s by step %" PRId64
           " (change train.learning_rate, stop, or train a larger model; where the loss is still noisy, "
           "raise health.plateau_steps)",
           since, TEXT_LOSS(older), TEXT_LOSS(newer), s->step);
}

/* ---- the machine ---- */

static void judge_throughput(struct health *h, const struct step_record *s)
{
    double drop = h->limits.throughput_drop;
    if (drop <= 0 || h->seen <= FIRST_STEPS || !isfinite(s->tokens_per_sec)) return;
    double leaving = h->recent[h->recent_count % HEALTH_RECENT];
    bool full = h->recent_count >= HEALTH_RECENT;
    h->recent[h->recent_count++ % HEALTH_RECENT] = s->tokens_per_sec;
    if (h->speed_count < HEALTH_WINDOW) {
        if (full) h->speeds[h->speed_count++] = leaving;
        return;
    }
    double usual = median(h->speeds, HEALTH_WINDOW), now = median(h->recent, HEALTH_RECENT);
    bool low = now < (1 - (h->slow ? drop / 2 : drop)) * usual;
    h->calm_speed = low ? 0 : h->calm_speed + 1;
    if (!low && !h->slow) {
        h->speeds[h->speed_count++ % HEALTH_WINDOW] = leaving; /* frozen during an incident */
        h->slow_steps = 0;
        return;
    }
    if (h->calm_speed >= CALM_SPEED || ++h->slow_steps > NEW_SPEED) {
        if (h->slow_steps > NEW_SPEED) h->speed_count = h->recent_count = 0;
        h->slow_steps = 0;
        h->slow = false;
        return;
    }
    if (h->slow_steps == 1) {
        h->slow_since = s->step - HEALTH_RECENT / 2; /* from here on half of the median's steps are slow */
        h->slow_seconds = 0;
    }
    h->slow_seconds += s->step_ms * 1e-3;
    if (h->slow || h->slow_seconds < INCIDENT_SECONDS) return;
    h->slow = true;
    report(h, h->slow_since, "warning",
           "throughput fell by %.0f %% since step %" PRId64 ": %s tokens/s, usually %s (look for other "
           "work on this machine, and for throttling in the device's metrics)",
           100 * (1 - now / usual), h->slow_since, TEXT_SHORT(now), TEXT_SHORT(usual));
}

static void judge_starvation(struct health *h, const struct step_record *s, double waited)
{
    double limit = h->limits.starvation, waits = 0, seconds = 0;
    if (limit <= 0 || h->seen <= FIRST_STEPS) return;
    int64_t at = h->wait_count++ % HEALTH_WAITS;
    h->waits[at] = waited;
    h->times[at] = s->step_ms * 1e-3;
    if (h->wait_count < HEALTH_WAITS) return;
    for (int i = 0; i < HEALTH_WAITS; i++) {
        waits += h->waits[i];
        seconds += h->times[i];
    }
    if (!(waits > (h->starving ? limit / 2 : limit) * seconds)) {
        h->starving = false;
        h->starving_since = 0;
        return;
    }
    if (!h->starving_since) { /* step 0 never counts */
        h->starving_since = s->step;
        h->starving_seconds = 0;
    }
    h->starving_seconds += s->step_ms * 1e-3;
    if (h->starving || h->starving_seconds < INCIDENT_SECONDS) return;
    h->starving = true;
    report(h, h->starving_since, "warning",
           "training has been waiting for its data since step %" PRId64
           ": %.0f %% of the time of the last %d steps "
           "(keep train.async = true, prepare the data as a token file with `%s data prepare`, or "
           "move it to a faster disk)",
           h->starving_since, 100 * waits / seconds, HEALTH_WAITS, TEXT_PROGRAM);
}

void health_judge(struct health *h, const struct step_record *s, double waited)
{
    h->event_count = 0;
    h->seen++;
    judge_finite(h, s);
    judge_spike(h, s);
    limit_loss(h);
    judge_divergence(h, s);
    judge_plateau(h, s);
    judge_throughput(h, s);
    judge_starvation(h, s, waited);
}
