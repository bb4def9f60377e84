/* See steps.h. */
#include "tests/gpu/steps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/train/cluster.h"

/* What a step must reach beside torch.compile's: times as many tokens a second, and of its memory. */
static const double FASTER = 1.2, OF_MEMORY = 0.6;

/* Both train from the same weights on the same batches, but round differently: no two steps have the same
 * losses, means of twenty steps have nearly. */
enum { WINDOW = 20 };
static const double LOSS_APART = 0.005, RATE = 3e-4;

static bool compared_with_torch(const struct training_preset *preset)
{
    return preset->mfu > 0;
}

/* The one that is small enough to train it for long. */
static bool loses_with_torch(const struct training_preset *preset)
{
    return preset->preset == PRESET_GPT2_124M;
}

/* ---- our steps ---- */

/* Says why there is nothing to judge; false where there is something. */
static bool is_missing(struct check *check, const char *name, enum status status, const struct err *err)
{
    if (status == STATUS_NOT_FOUND)
        check_skips(check, name, "%s", err->text);
    else if (status)
        check_ends(check, name, false, "%s", err->text);
    return status != STATUS_OK;
}

/* The peak is that of tensors: what the plan allocates, and what torch's allocator has given out at most. */
static void print_step(const char *who, double ms, double tokens, double peak)
{
    printf("     %-40s %10.3f ms %12.0f tokens/s  peak %s", who, ms, tokens, TEXT_BYTES(peak));
}

static void judge_mfu(struct check *check, const struct training_preset *preset, const char *name,
                      const struct training_speed *speed)
{
    if (preset->mfu > 0 && !(speed->peak_flops > 0))
        check_skips(check, name, "the published peak of this GPU is not known");
    else if (preset->mfu > 0)
        check_ends(check, name, speed->flops >= preset->mfu * speed->peak_flops,
                   "%.1f TFLOP/s, %.1f %% of the published %.1f (at least %.0f %%)", speed->flops * 1e-12,
                   100 * speed->flops / speed->peak_flops, speed->peak_flops * 1e-12, 100 * preset->mfu);
}

/* More than the plan takes what the libraries load, for which `anneal plan` has an allowance. */
static void judge_memory(struct check *check, const char *name, const struct training_speed *speed)
{
    double over = (double)speed->taken_bytes - (double)speed->peak_bytes;
    check_ends(check, name, over <= (double)CLUSTER_OVERHEAD,
               "plan %s, taken of the device %s: %.2f GiB more (at most %.2f)", TEXT_BYTES(speed->peak_bytes),
               TEXT_BYTES(speed->taken_bytes < 0 ? 0 : speed->taken_bytes), over / (1 << 30),
               (double)CLUSTER_OVERHEAD / (1 << 30));
}

void steps_judge(struct check *check, const struct training_preset *preset, enum precision precision,
                 const struct training_speed *speed)
{
    char name[64];
    const char *word = preset_word(preset->preset);
    snprintf(name, sizeof name, "preset %s %s", word, precision_name(precision));
    print_step(name, speed->median_ms, speed->tokens_per_second, (double)speed->peak_bytes);
    printf("  first %.1f ms, tenth %.1f ms, %.1f TFLOP/s\n", speed->first_ms, speed->tenth_ms,
           speed->flops * 1e-12);
    check_ends(check, name, speed->last_loss < speed->first_loss,
               "batch %d x %d, loss %.3f to %.3f in 30 steps", preset->B, preset->T, speed->first_loss,
               speed->last_loss);
    snprintf(name, sizeof name, "memory of preset %s %s", word, precision_name(precision));
    judge_memory(check, name, speed);
    if (precision != PRECISION_BF16) return;
    snprintf(name, sizeof name, "MFU of preset %s", word);
    judge_mfu(check, preset, name, speed);
}

/* Leaves the speed in *speed; false where there is none. */
static bool measure(struct check *check, const struct training_preset *preset, enum precision precision,
                    struct training_speed *speed)
{
    struct err err = {0};
    char name[64];
    snprintf(name, sizeof name, "preset %s %s", preset_word(preset->preset), precision_name(precision));
    if (!check_begins(check, name)) return false;
    if (is_missing(check, name,
                   training_speed_measure(check->cuda, precision, preset, check->folder, speed, &err), &err))
        return false;
    steps_judge(check, preset, precision, speed);
    return true;
}

/* Measures the gain of queueing ahead and of graphs, and checks that they do not change results. */
static void check_ways(struct check *check, const struct training_preset *preset)
{
    struct training_ways ways;
    struct model_config config = model_preset(preset->preset);
    struct err err = {0};
    char name[64];
    snprintf(name, sizeof name, "queueing %s bf16", preset_word(preset->preset));
    if (!check_begins(check, name)) return;
    enum status status = training_ways_measure(check->cuda, PRECISION_BF16, &config, preset->B, preset->T, 30,
                                               check->folder, &ways, &err);
    if (!is_missing(check, name, status, &err))
        check_ends(check, name, ways.same,
                   "call by call %.3f ms, ahead %.3f; graphs %.3f, ahead %.3f: losses %s", ways.ms[WAY_CALLS],
                   ways.ms[WAY_CALLS_AHEAD], ways.ms[WAY_GRAPHS], ways.ms[WAY_GRAPHS_AHEAD],
                   ways.same ? "bit for bit the same" : "NOT the same");
}

/* Lists the kernels that take the most of a step, for a profiler to look at. */
static void list_kernels(struct check *check, const struct training_preset *preset)
{
    enum { LISTED = 10 };
    struct model_config config = model_preset(preset->preset);
    struct err err = {0};
    char name[64];
    snprintf(name, sizeof name, "kernels %s bf16", preset_word(preset->preset));
    if (!check_begins(check, name)) return;
    struct training_kernels *all = malloc(sizeof *all);
    enum status status =
        all ? training_kernels_look(check->cuda, &config, preset->B, preset->T, check->folder, all, &err)
            : err_no_memory(&err, "a list of kernels");
    bool missing = is_missing(check, name, status, &err);
    for (int i = 0; !missing && i < all->count && i < LISTED; i++) {
        const struct kernel_sum *k = &all->sums[i];
        printf("     heaviest %2d: %5.1f %% %8.3f ms %4d calls, %3d registers, %d bytes local, %3.0f %% "
               "occupancy: %s\n",
               i + 1, 100 * k->ms / all->ms, k->ms, k->calls, k->registers, k->local, 100 * k->occupancy,
               k->name);
    }
    if (!missing)
        check_ends(check, name, all->count > 0, "%d kernels, %.3f ms of a step", all->count, all->ms);
    free(all);
}

/* ---- PyTorch's ---- */

void steps_judge_torch(struct check *check, const struct training_preset *preset,
                       const struct training_speed *ours, const struct torch_speed *theirs)
{
    char name[64];
    const char *word = preset_word(preset->preset);
    double speed = ours->tokens_per_second / theirs->tokens_per_second,
           memory = (double)ours->peak_bytes / theirs->peak_bytes;
    snprintf(name, sizeof name, "torch.compile %.12s, %s", theirs->version, word);
    print_step(name, theirs->step_ms, theirs->tokens_per_second, theirs->peak_bytes);
    printf("  (bf16 autocast, fused AdamW, SDPA)\n");
    snprintf(name, sizeof name, "speed of %s by torch.compile", word);
    check_ends(check, name, speed >= FASTER, "%.2f x its tokens/s (at least %.2f)", speed, FASTER);
    snprintf(name, sizeof name, "memory of %s by torch.compile", word);
    check_ends(check, name, memory <= OF_MEMORY, "%.2f x its peak of tensors (at most %.2f)", memory,
               OF_MEMORY);
}

/* The largest relative distance of the means of as many steps; NaN where one is. */
static double losses_apart(const double *ours, const double *theirs)
{
    double largest = 0;
    for (int first = 0; first < STEPS_LOSSES; first += WINDOW) {
        double a = 0, b = 0;
        for (int i = first; i < first + WINDOW; i++) a += ours[i], b += theirs[i];
        double apart = fabs(a - b) / fabs(b);
        if (isnan(apart)) return apart;
        if (apart > largest) largest = apart;
    }
    return largest;
}

void steps_judge_losses(struct check *check, const struct training_preset *preset, const char *stream,
                        const double ours[STEPS_LOSSES], const double theirs[STEPS_LOSSES])
{
    char name[80];
    double apart = losses_apart(ours, theirs);
    printf("     steps             ");
    for (int i = 0; i < STEPS_LOSSES; i += WINDOW) printf(" %7d", i + 1);
    printf("\n     anneal            ");
    for (int i = 0; i < STEPS_LOSSES; i += WINDOW) printf(" %7.4f", ours[i]);
    printf("\n     torch, stream %s", stream);
    for (int i = 0; i < STEPS_LOSSES; i += WINDOW) printf(" %7.4f", theirs[i]);
    printf("\n");
    snprintf(name, sizeof name, "losses of %s, torch's stream %s", preset_word(preset->preset), stream);
    check_ends(
        check, name, apart <= LOSS_APART,
        "%d steps, means of %d differ by at most %.2f %% (at most %.2f %%); the last loss %.4f and %.4f",
        STEPS_LOSSES, WINDOW, 100 * apart, 100 * LOSS_APART, ours[STEPS_LOSSES - 1],
        theirs[STEPS_LOSSES - 1]);
}

/* One process of PyTorch gives speed and losses; another one the losses with its stream in bf16, without
 * compiling, which takes longer than these steps. */
static void compare_losses(struct check *check, const struct training_preset *preset,
                           const struct training_speed *speed, struct torch_run run)
{
    double ours[STEPS_LOSSES], theirs[STEPS_LOSSES];
    struct model_config config = model_preset(preset->preset);
    struct torch_speed torch;
    struct err err = {0};
    char name[64];
    run.data = check->folder;
    run.steps = STEPS_LOSSES;
    snprintf(name, sizeof name, "torch %s", preset_word(preset->preset));
    enum status status = training_losses(check->cuda, &config, preset->B, preset->T, STEPS_LOSSES, RATE,
                                         check->folder, check->folder, ours, &err);
    if (status) check_ends(check, name, false, "%s", err.text);
    for (int bf16 = 0; bf16 < 2 && !status; bf16++) {
        run.bf16_residual = bf16;
        if (bf16) run.mode = "eager";
        run.seconds = check->end - clock_monotonic();
        if (run.seconds <= 0) {
            check_skips(check, name, "--seconds are over");
            return;
        }
        status = torch_train(preset, &run, &torch, theirs, &err);
        if (is_missing(check, name, status, &err)) return;
        if (!bf16) steps_judge_torch(check, preset, speed, &torch);
        steps_judge_losses(check, preset, bf16 ? "bf16" : "fp32", ours, theirs);
    }
}

/* ours: NULL where our steps have not been measured. */
static void compare_with_torch(struct check *check, const struct training_preset *preset,
                               const struct training_speed *ours)
{
    struct torch_run run = {.script = check->torch, .mode = "compile", .steps = 20, .lr = RATE};
    struct training_speed speed;
    struct torch_speed torch;
    struct err err = {0};
    char name[64];
    snprintf(name, sizeof name, "torch %s", preset_word(preset->preset));
    if (!check_begins(check, name)) return;
    enum status status = STATUS_OK;
    if (ours)
        speed = *ours;
    else
        status = training_speed_measure(check->cuda, PRECISION_BF16, preset, check->folder, &speed, &err);
    if (is_missing(check, name, status, &err)) return;
    if (loses_with_torch(preset)) {
        compare_losses(check, preset, &speed, run);
        return;
    }
    run.seconds = check->end - clock_monotonic();
    if (!is_missing(check, name, torch_train(preset, &run, &torch, NULL, &err), &err))
        steps_judge_torch(check, preset, &speed, &torch);
}

/* ---- all ---- */

void steps_check(struct check *check)
{
    struct training_speed speed, bf16[PRESETS];
    bool known[PRESETS] = {false};
    for (int i = 0; i < PRESETS && training_presets[i].B; i++) {
        const struct training_preset *preset = &training_presets[i];
        if (!compared_with_torch(preset)) measure(check, preset, PRECISION_TF32, &speed);
        known[i] = measure(check, preset, PRECISION_BF16, &bf16[i]);
    }
    for (int i = 0; i < 2; i++) /* the small ones: where the host can hold the device up */
        check_ways(check, &training_presets[i]);
    for (int i = 0; i < PRESETS && training_presets[i].B; i++)
        if (loses_with_torch(&training_presets[i])) list_kernels(check, &training_presets[i]);
    for (int i = 0; i < PRESETS && training_presets[i].B && check->torch; i++)
        if (compared_with_torch(&training_presets[i]))
            compare_with_torch(check, &training_presets[i], known[i] ? &bf16[i] : NULL);
}
