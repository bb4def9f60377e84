/* make gpu-check: runs the comparisons of tests/cuda_sim on a real GPU, and measures its speed.
 *
 *     gpu_check [--shapes N] [--only WORD] [--no-timing] [--no-torch] [--seconds N]
 *
 * 1. Every operation against its CPU twin over N fuzzed shapes (default 100) and two that fill a chip, in
 * fp32 and bf16, each twice for bit-identity. A line an operation with its largest error.
 * 2. A tiny model trained ten steps in fp32, tf32 and bf16 against the CPU's loss curve, twice for
 *    bit-identity.
 * 3. A text through the KV cache, its tokens queued call by call and replayed as a graph, with the CPU's
 *    logits.
 * 4. What CUPTI sees of a kernel and three copies, and when.
 * 5. The sums and copies of several ranks through NCCL: of two GPUs in two processes or, with one GPU, of
 * one.
 * 6. Every operation timed at sizes that fill the chip, compared with a copy and a matrix product measured in
 *    the same run; training steps of the presets, first, tenth and median; the same steps queued call by call
 *    and as graphs, each waited for and ahead, bit for bit the same; and where PyTorch is installed, its
 *    steps.
 *
 * --only keeps what has WORD in its name: an operation, "training", "decoding", "activity", "ranks", "speed",
 * "queueing" or a preset. Each line is written as soon as it is known; the last is "N passed, N failed, N
 * skipped". Where no GPU can be used everything is SKIP, with the sentence that says why, and the exit status
 * is 0. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/gpu/activity.h"
#include "tests/gpu/decoding.h"
#include "tests/gpu/op_cases.h"
#include "tests/gpu/op_speed.h"
#include "tests/gpu/ranks.h"
#include "tests/gpu/torch.h"
#include "tests/gpu/training.h"

struct check {
    const struct backend *cuda; /* NULL: every check is skipped */
    uint32_t shapes;
    const char *only;   /* NULL: all */
    const char *folder; /* of this run alone, for the algorithms of matrix products */
    bool timing, torch;
    double end; /* of clock_monotonic: nothing begins after it */
    int passed, failed, skipped;
};

static const enum precision judged[] = {PRECISION_FP32, PRECISION_TF32, PRECISION_BF16};
static const enum precision trained[] = {PRECISION_FP32, PRECISION_TF32, PRECISION_BF16};
#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool wanted(const struct check *check, const char *name)
{
    return !check->only || strstr(name, check->only);
}

static bool late(const struct check *check, const char *name)
{
    bool late = clock_monotonic() >= check->end;
    if (late) printf("SKIP %s: --seconds are over\n", name);
    return late;
}

/* Whether to run the check of this name: not if --only excludes it; without a GPU or time left it is
 * skipped. */
static bool begins(struct check *check, const char *name)
{
    if (!wanted(check, name)) return false;
    bool now = check->cuda && !late(check, name);
    check->skipped += !now;
    return now;
}

__attribute__((format(printf, 4, 5))) static void ends(struct check *check, const char *name, bool good,
                                                       const char *format, ...)
{
    va_list arguments;
    printf("%-4s %-32s ", good ? "ok" : "FAIL", name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    good ? check->passed++ : check->failed++;
}

/* ---- operations ---- */

/* One shape; returns false after printing what is wrong. *largest: the largest relative error so far. */
static bool check_shape(const struct op_case *op, struct op_shape s, const struct op_side *cpu,
                        const struct op_side *gpu, double *largest)
{
    struct op_outcome want, got, again;
    bool good = true;
    op->run(cpu, s, &want);
    op->run(gpu, s, &got);
    op->run(gpu, s, &again);
    if (got.status) printf("     %s: %s\n", op->name, got.err.text);
    good = !got.status;
    for (int i = 0; good && i < want.count; i++) {
        double error = op_error(&got, &want, i), tolerance = want.outputs[i].tolerance;
        long long apart = (long long)op_difference(&got, &again, i);
        if (!(error <= tolerance))
            printf("     %s: relative error %.3g over %.3g\n", want.outputs[i].name, error, tolerance);
        if (apart >= 0) printf("     %s: run twice, element %lld differs\n", want.outputs[i].name, apart);
        good = error <= tolerance && apart < 0;
        if (error > *largest) *largest = error;
    }
    if (!good)
        printf("     at B %d T %d NH %d NKV %d HS %d C %d F %d V %d window %d seed %u skew %d\n", s.B, s.T,
               s.NH, s.NKV, s.HS, s.C, s.F, s.V, s.window, s.seed, s.skew);
    op_outcome_release(&want), op_outcome_release(&got), op_outcome_release(&again);
    return good;
}

/* Of the size of a real layer: offsets beyond what the fuzz reaches, many blocks, aligned and not. */
static const struct op_shape large_shapes[] = {
    {.B = 2, .T = 512, .NH = 8, .NKV = 2, .HS = 64, .C = 1024, .F = 2816, .V = 32000, .seed = 1001},
    {.B = 1,
     .T = 777,
     .NH = 4,
     .NKV = 4,
     .HS = 128,
     .C = 1031,
     .F = 1409,
     .V = 32003,
     .window = 300,
     .seed = 1004,
     .skew = 1},
};

/* As op_side_open, with all cores. */
static enum status side_open(struct op_side *side, const struct backend *backend, enum precision precision,
                             struct err *err)
{
    *side = (struct op_side){.backend = backend, .precision = precision};
    enum status status = backend->device_open(DEVICE_FIRST, 0, &side->device, err);
    if (status) return status;
    status = backend->stream_open(side->device, precision, &side->stream, err);
    if (status) backend->device_close(side->device);
    return status;
}

static void check_operations(struct check *check, enum precision precision)
{
    struct op_side cpu = {0}, gpu = {0};
    struct err err;
    char name[64];
    enum status status = STATUS_OK;
    if (check->cuda) {
        status = side_open(&cpu, cpu_backend(), PRECISION_FP32, &err);
        if (!status && (status = side_open(&gpu, check->cuda, precision, &err))) op_side_close(&cpu);
    }
    for (const struct op_case *op = op_cases; op->name; op++) {
        if (precision == PRECISION_TF32 && strcmp(op->name, "gemm") != 0) continue; /* else as in fp32 */
        snprintf(name, sizeof name, "%s %s", op->name, precision_name(precision));
        if (!begins(check, name)) continue;
        if (status) {
            ends(check, name, false, "%s", err.text);
            continue;
        }
        double start = clock_monotonic(), largest = 0;
        bool good = true;
        uint32_t done = 0;
        for (; good && done < check->shapes + COUNT(large_shapes); done++) {
            struct op_shape shape =
                done < check->shapes ? op_fuzz(done, false) : large_shapes[done - check->shapes];
            shape.precision = precision;
            good = check_shape(op, shape, &cpu, &gpu, &largest);
        }
        ends(check, name, good, "%3u shapes, largest relative error %.2g, %.1f s", done, largest,
             clock_monotonic() - start);
    }
    if (check->cuda && !status) op_side_close(&cpu), op_side_close(&gpu);
}

/* ---- training ---- */

static void check_training(struct check *check, enum precision precision)
{
    double cpu[TRAINING_STEPS], first[TRAINING_STEPS], second[TRAINING_STEPS];
    struct err err = {0};
    char name[64];
    snprintf(name, sizeof name, "training %s", precision_name(precision));
    if (!begins(check, name)) return;
    enum status status = training_curve(cpu_backend(), PRECISION_FP32, check->folder, cpu, &err);
    if (!status) status = training_curve(check->cuda, precision, check->folder, first, &err);
    if (!status) status = training_curve(check->cuda, precision, check->folder, second, &err);
    if (status) {
        ends(check, name, false, "%s", err.text);
        return;
    }
    double error = training_difference(first, cpu), tolerance = training_tolerance(precision);
    bool same = memcmp(first, second, sizeof first) == 0;
    printf("     CPU ");
    for (int i = 0; i < TRAINING_STEPS; i++) printf(" %.4f", cpu[i]);
    printf("\n     GPU ");
    for (int i = 0; i < TRAINING_STEPS; i++) printf(" %.4f", first[i]);
    printf("\n");
    ends(check, name, same && error <= tolerance,
         "%d steps, largest relative difference of the loss %.2g (at most %.2g), run twice %s",
         TRAINING_STEPS, error, tolerance, same ? "bit for bit the same" : "NOT the same");
}

/* ---- writing text ---- */

static enum status decode(struct check *check, enum precision precision, struct decoding d[3],
                          struct err *err)
{
    struct model_config config = decoding_model();
    enum status status = decoding_run(cpu_backend(), PRECISION_FP32, &config, false, &d[0], err);
    for (int i = 1; i < 3 && !status; i++)
        status = decoding_run(check->cuda, precision, &config, i == 2, &d[i], err);
    return status;
}

static void check_decoding(struct check *check, enum precision precision)
{
    struct decoding d[3] = {{0}}; /* the CPU's, call by call, replayed */
    struct err err = {0};
    char name[64];
    snprintf(name, sizeof name, "decoding %s", precision_name(precision));
    if (!begins(check, name)) return;
    if (decode(check, precision, d, &err)) {
        ends(check, name, false, "%s", err.text);
    } else {
        double calls = decoding_difference(&d[1], &d[0]), replayed = decoding_difference(&d[2], &d[0]),
               tolerance = decoding_tolerance(precision);
        ends(check, name, calls <= tolerance && replayed <= tolerance,
             "logits of %d tokens: relative difference %.2g, replayed as a graph %.2g (at most %.2g); %.3f "
             "and "
             "%.3f ms a token",
             DECODING_TEXT, calls, replayed, tolerance, d[1].ms, d[2].ms);
    }
    for (int i = 0; i < 3; i++) decoding_release(&d[i]);
}

/* ---- the activity that traces need ---- */

static void check_activity(struct check *check)
{
    struct activity_sight sight;
    struct err err = {0};
    if (!begins(check, "activity")) return;
    enum status status = activity_look(check->cuda, &sight, &err);
    if (status == STATUS_NOT_FOUND) {
        printf("SKIP activity: %s\n", err.text);
        check->skipped++;
        return;
    }
    if (status) {
        ends(check, "activity", false, "%s", err.text);
        return;
    }
    /* ordinary memory may be copied in pieces */
    bool good = sight.kernels == 1 && sight.uploads >= 1 && sight.downloads >= 1 && sight.fills == 1 &&
                sight.upload_bytes == 256 << 10 && sight.in_time && strstr(sight.kernel, "add") &&
                sight.seconds > 0 && sight.seconds <= sight.host_seconds && sight.registers > 0 &&
                sight.occupancy > 0 && sight.occupancy <= 1;
    ends(check, "activity", good,
         "%d kernel of %d registers and %.0f %% occupancy, %d upload, %d download, %d fill, %.3f of %.3f ms, "
         "%s the time asked; %.60s",
         sight.kernels, sight.registers, 100 * sight.occupancy, sight.uploads, sight.downloads, sight.fills,
         sight.seconds * 1e3, sight.host_seconds * 1e3, sight.in_time ? "in" : "NOT in", sight.kernel);
}

/* ---- ranks ---- */

/* Comes first: a process that uses its GPUs already cannot start the processes of ranks. */
static void check_ranks(struct check *check)
{
    const size_t n = (size_t)1 << 24;
    const struct cuda_plugin *plugin;
    struct ranks_sight sight;
    struct err err = {0};
    if (!wanted(check, "ranks")) return;
    enum status status = cuda_plugin_open(&plugin, &err);
    if (!status) status = ranks_look(plugin, n, &sight, &err);
    if (status == STATUS_NOT_FOUND) {
        printf("SKIP ranks: %s\n", err.text);
        check->skipped++;
    } else if (status) {
        ends(check, "ranks", false, "%s", err.text);
    } else {
        ends(check, "ranks", sight.exact,
             "world of %d through NCCL%s: sums and copies %s; all reduce of %.0f MiB %.3f ms", sight.ranks,
             sight.ranks > 1 ? "" : ", for there is one GPU", sight.exact ? "exact" : "NOT exact",
             (double)n * 4 / 1048576, sight.milliseconds);
    }
}

/* ---- speed ---- */

/* Only these differ in tf32 from fp32. */
static bool is_product(const struct op_speed_case *op)
{
    return strstr(op->name, "gemm") != NULL;
}

/* Returns the copy's bytes a second and the product's flops in rates[]. */
static enum status measure_references(struct op_bench *bench, double rates[2], struct err *err)
{
    enum status status = STATUS_OK;
    for (int i = OP_SPEED_COPY; i <= OP_SPEED_GEMM && !status; i++) {
        double ms;
        struct op_work work;
        status = op_bench_time(bench, &op_speed_cases[i], &ms, &work, err);
        rates[i] = (i == OP_SPEED_COPY ? work.bytes : work.flops) / ms * 1e3;
    }
    return status;
}

static void check_speed(struct check *check, enum precision precision)
{
    struct op_bench *bench = NULL;
    struct err err = {0};
    double rates[2] = {0};
    char name[64];
    int timed = 0;
    snprintf(name, sizeof name, "speed %s", precision_name(precision));
    bool some = wanted(check, name);
    for (const struct op_speed_case *op = op_speed_cases; op->name; op++) some |= wanted(check, op->name);
    if (!some) return;
    if (!check->cuda || late(check, name)) {
        check->skipped++;
        return;
    }
    enum status status = op_bench_open(check->cuda, precision, &op_speed_large, &bench, &err);
    if (!status) status = measure_references(bench, rates, &err);
    if (!status)
        printf("     measured in %s: a copy %.0f GB/s (read and written), a large gemm %.1f TFLOP/s\n",
               precision_name(precision), rates[OP_SPEED_COPY] * 1e-9, rates[OP_SPEED_GEMM] * 1e-12);
    for (const struct op_speed_case *op = op_speed_cases + OP_SPEED_GEMM + 1; op->name && !status; op++) {
        double ms;
        struct op_work work;
        if (!wanted(check, name) && !wanted(check, op->name)) continue;
        if (precision == PRECISION_TF32 && !is_product(op)) continue;
        status = op_bench_time(bench, op, &ms, &work, &err);
        if (status) break;
        timed++;
        printf("     %-28s %s %9.4f ms ", op->name, precision_name(precision), ms);
        if (work.flops > 0)
            printf("%8.1f TFLOP/s %4.0f %% of the gemm\n", work.flops / ms * 1e-9,
                   100 * work.flops / ms * 1e3 / rates[OP_SPEED_GEMM]);
        else
            printf("%8.0f GB/s    %4.0f %% of the copy\n", work.bytes / ms * 1e-6,
                   100 * work.bytes / ms * 1e3 / rates[OP_SPEED_COPY]);
    }
    if (status)
        ends(check, name, false, "%s", err.text);
    else
        ends(check, name, true, "%d operations timed", timed);
    op_bench_close(bench);
}

/* The peak is that of tensors: what the plan allocates, and what torch's allocator has given out at most. */
static void print_step(const char *who, double ms, double tokens, double peak)
{
    char bytes[32];
    printf("     %-24s %10.3f ms %12.0f tokens/s  peak %s", who, ms, tokens,
           text_format_bytes((uint64_t)peak, bytes, sizeof bytes));
}

static void compare_with_torch(const struct check *check, const struct training_preset *preset,
                               const struct training_speed *ours)
{
    static const char *const modes[] = {"eager", "compile"};
    for (size_t i = 0; i < COUNT(modes); i++) {
        struct torch_speed theirs;
        struct err err = {0};
        char who[64];
        snprintf(who, sizeof who, "torch %s, %s", modes[i], preset_word(preset->preset));
        if (late(check, who)) continue;
        enum status status =
            torch_speed_measure(preset, modes[i], check->end - clock_monotonic(), &theirs, &err);
        if (status) {
            printf("SKIP %s: %s\n", who, err.text);
            continue;
        }
        snprintf(who, sizeof who, "torch %.12s %s", theirs.version, modes[i]);
        print_step(who, theirs.step_ms, theirs.tokens_per_second, theirs.peak_bytes);
        printf("  (bf16 autocast, fused AdamW, SDPA)\n");
        printf("     %s bf16, anneal / torch %s: %.2f x tokens/s, %.2f x peak memory of tensors\n",
               preset_word(preset->preset), modes[i], ours->tokens_per_second / theirs.tokens_per_second,
               (double)ours->peak_bytes / theirs.peak_bytes);
    }
}

/* Leaves the speed in *speed; false where there is none. */
static bool check_preset(struct check *check, const struct training_preset *preset, enum precision precision,
                         struct training_speed *speed)
{
    struct err err = {0};
    char name[64];
    snprintf(name, sizeof name, "preset %s %s", preset_word(preset->preset), precision_name(precision));
    if (!begins(check, name)) return false;
    enum status status = training_speed_measure(check->cuda, precision, preset, check->folder, speed, &err);
    if (status) {
        ends(check, name, false, "%s", err.text);
        return false;
    }
    print_step(name, speed->median_ms, speed->tokens_per_second, (double)speed->peak_bytes);
    printf("  first %.1f ms, tenth %.1f ms, %.1f TFLOP/s\n", speed->first_ms, speed->tenth_ms,
           speed->flops * 1e-12);
    ends(check, name, speed->last_loss < speed->first_loss, "batch %d x %d, loss %.3f to %.3f in 30 steps",
         preset->B, preset->T, speed->first_loss, speed->last_loss);
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
    if (!begins(check, name)) return;
    enum status status = training_ways_measure(check->cuda, PRECISION_BF16, &config, preset->B, preset->T, 30,
                                               check->folder, &ways, &err);
    if (status) {
        ends(check, name, false, "%s", err.text);
        return;
    }
    ends(check, name, ways.same, "call by call %.3f ms, ahead %.3f; graphs %.3f, ahead %.3f: losses %s",
         ways.ms[WAY_CALLS], ways.ms[WAY_CALLS_AHEAD], ways.ms[WAY_GRAPHS], ways.ms[WAY_GRAPHS_AHEAD],
         ways.same ? "bit for bit the same" : "NOT the same");
}

static void check_presets(struct check *check)
{
    struct training_speed speed, bf16[PRESETS];
    bool known[PRESETS];
    for (int i = 0; i < PRESETS && training_presets[i].B; i++) {
        check_preset(check, &training_presets[i], PRECISION_TF32, &speed);
        known[i] = check_preset(check, &training_presets[i], PRECISION_BF16, &bf16[i]);
    }
    for (int i = 0; i < 2; i++) /* the small ones: where the host can hold the device up */
        check_ways(check, &training_presets[i]);
    for (int i = 0; i < PRESETS && training_presets[i].B && check->torch; i++)
        if (known[i]) compare_with_torch(check, &training_presets[i], &bf16[i]);
}

/* ---- the program ---- */

static bool parse(struct check *check, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--shapes") == 0 && i + 1 < argc)
            check->shapes = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            check->only = argv[++i];
        else if (strcmp(argv[i], "--no-timing") == 0)
            check->timing = false;
        else if (strcmp(argv[i], "--no-torch") == 0)
            check->torch = false;
        else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            check->end = clock_monotonic() + strtod(argv[++i], NULL);
        else
            return false;
    }
    return true;
}

/* Opens the table, and the device once for its name. */
static void find_gpu(struct check *check)
{
    struct device *device = NULL;
    struct device_info info;
    struct err err = {0};
    char total[32];
    const struct backend *cuda = NULL;
    enum status status = cuda_backend_open(&cuda, &err);
    if (!status) status = cuda->device_open(DEVICE_FIRST, 0, &device, &err);
    if (status) {
        printf("SKIP %s\n", err.text);
        return;
    }
    cuda->device_describe(device, &info);
    cuda->device_close(device);
    printf("on %s, %s\n", info.name, text_format_bytes((uint64_t)info.total_bytes, total, sizeof total));
    check->cuda = cuda;
}

int main(int argc, char **argv)
{
    struct check check = {.shapes = 100, .timing = true, .torch = true, .end = INFINITY};
    if (!parse(&check, argc, argv)) {
        fprintf(stderr,
                "usage: gpu_check [--shapes N] [--only WORD] [--no-timing] [--no-torch] [--seconds N]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* the user sees the progress during minutes of waiting */
    double start = clock_monotonic();
    check_ranks(&check);
    find_gpu(&check);
    char folder[] = "/tmp/gpu_check.XXXXXX";
    if (check.cuda) check.folder = mkdtemp(folder);
    for (size_t i = 0; i < COUNT(judged); i++) check_operations(&check, judged[i]);
    for (size_t i = 0; i < COUNT(trained); i++) check_training(&check, trained[i]);
    for (size_t i = 0; i < COUNT(trained); i++) check_decoding(&check, trained[i]);
    check_activity(&check);
    for (size_t i = 0; i < COUNT(trained) && check.timing; i++) check_speed(&check, trained[i]);
    if (check.timing) check_presets(&check);
    struct err err;
    if (check.folder && file_remove_tree(check.folder, &err)) printf("     %s\n", err.text);
    if (check.cuda) printf("took %.0f s\n", clock_monotonic() - start);
    printf("%d passed, %d failed, %d skipped\n", check.passed, check.failed, check.skipped);
    return check.failed > 0;
}
