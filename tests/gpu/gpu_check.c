/* make gpu-check: runs the comparisons of tests/cuda_sim on a real GPU, and judges its speed.
 * tests/gpu/check.sh runs this program and other tools for one report.
 *
 *     gpu_check [--shapes N] [--small] [--only WORD] [--no-results] [--no-timing] [--no-torch] [--seconds N]
 *
 * Results, left out with --no-results:
 * 1. Every operation against its CPU twin over N fuzzed shapes (default 100) and two that fill a chip, in
 * fp32 and bf16, each twice for bit-identity. A line an operation with its largest error.
 * 2. A tiny model trained ten steps in fp32, tf32 and bf16 against the CPU's loss curve, twice for
 *    bit-identity.
 * 3. A text through the KV cache, its tokens queued call by call and replayed as a graph, with the CPU's
 *    logits.
 * 4. What CUPTI sees of a kernel and three copies, and when.
 * 5. The sums and copies of several ranks through NCCL: of two GPUs in two processes or, with one GPU, of
 *    one.
 *
 * With --small, for tools that watch this program, no shapes that fill a chip, nor 4 and 5.
 *
 * Speeds, left out with --no-timing:
 * 6. Every operation at sizes that fill the chip, judged by a copy and a matrix product of the same run
 *    (speeds.h).
 * 7. Training steps of the presets (steps.h), judged by the GPU's peak and the plan's memory; the same steps
 *    queued call by call and as graphs, bit for bit the same; the heaviest kernels; and where PyTorch is
 *    installed, speed, memory and 200 losses judged by PyTorch's.
 *
 * --only keeps what has WORD in its name: an operation, "training", "decoding", "activity", "ranks", "speed",
 * "queueing", "kernels", "torch" or a preset. Each line is written as soon as it is known; the last is "N
 * passed, N failed, N skipped". Where no GPU can be used everything is SKIP, with the sentence that says why,
 * and the exit status is 0. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/gpu/activity.h"
#include "tests/gpu/check.h"
#include "tests/gpu/decoding.h"
#include "tests/gpu/op_cases.h"
#include "tests/gpu/ranks.h"
#include "tests/gpu/speeds.h"
#include "tests/gpu/steps.h"
#include "tests/gpu/warming.h"

static const enum precision judged[] = {PRECISION_FP32, PRECISION_TF32, PRECISION_BF16};
static const enum precision trained[] = {PRECISION_FP32, PRECISION_TF32, PRECISION_BF16};
#define COUNT(list) (sizeof(list) / sizeof *(list))

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
    /* aligned, for the kernels of compute capability 9.0, whose rings of tiles are filled again and again */
    {.B = 1, .T = 650, .NH = 4, .NKV = 2, .HS = 128, .C = 512, .F = 1408, .V = 4096, .seed = 1005},
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

/* The CPU as the reference, and the GPU. */
static enum status sides_open(const struct check *check, enum precision precision, struct op_side *cpu,
                              struct op_side *gpu, struct err *err)
{
    enum status status = side_open(cpu, cpu_backend(), PRECISION_FP32, err);
    if (!status && (status = side_open(gpu, check->cuda, precision, err))) op_side_close(cpu);
    return status;
}

static void check_operations(struct check *check, enum precision precision)
{
    struct op_side cpu = {0}, gpu = {0};
    struct err err;
    char name[64];
    enum status status = check->cuda ? sides_open(check, precision, &cpu, &gpu, &err) : STATUS_OK;
    for (const struct op_case *op = op_cases; op->name; op++) {
        if (precision == PRECISION_TF32 && strcmp(op->name, "gemm") != 0) continue; /* else as in fp32 */
        snprintf(name, sizeof name, "%s %s", op->name, precision_name(precision));
        if (!check_begins(check, name)) continue;
        if (status) {
            check_ends(check, name, false, "%s", err.text);
            continue;
        }
        double start = clock_monotonic(), largest = 0;
        bool good = true;
        uint32_t done = 0;
        for (; good && done < check->shapes + (check->large ? COUNT(large_shapes) : 0); done++) {
            struct op_shape shape =
                done < check->shapes ? op_fuzz(done, false) : large_shapes[done - check->shapes];
            shape.precision = precision;
            good = check_shape(op, shape, &cpu, &gpu, &largest);
        }
        check_ends(check, name, good, "%3u shapes, largest relative error %.2g, %.1f s", done, largest,
                   clock_monotonic() - start);
    }
    if (check->cuda && !status) op_side_close(&cpu), op_side_close(&gpu);
}

/* Attention by cuDNN, of shapes that it takes: compiling one takes seconds. */
static void check_cudnn(struct check *check)
{
    enum { SHAPES = 12 };
    static const struct attention_problem any = {.B = 1, .T = 64, .NH = 1, .NKV = 1, .HS = 64};
    const char *name = "attention by cuDNN";
    struct op_side cpu = {0}, gpu = {0};
    const struct op_case *op = op_cases;
    struct err err = {0};
    void *workspace = NULL;
    double largest = 0;
    bool good = true;
    uint32_t done = 0;
    if (!check_begins(check, name)) return;
    enum status status = sides_open(check, PRECISION_BF16, &cpu, &gpu, &err);
    if (status) {
        check_ends(check, name, false, "%s", err.text);
        return;
    }
    status = warm_cudnn(gpu.backend, gpu.device, gpu.stream, any, &workspace, &err);
    gpu.backend->workspace_lend(gpu.stream, NULL, 0);
    if (workspace) gpu.backend->mem_free(gpu.device, workspace);
    while (strcmp(op->name, "attention") != 0) op++;
    gpu.cudnn = true;
    for (uint32_t number = 0; !status && good && done < SHAPES; number++) {
        struct op_shape shape = op_fuzz(number, !check->large);
        shape.precision = PRECISION_BF16;
        shape.skew = 0;
        if (shape.HS % 8 != 0 || shape.T < 2) continue;
        done++;
        good = check_shape(op, shape, &cpu, &gpu, &largest);
    }
    if (status == STATUS_NOT_FOUND)
        check_skips(check, name, "%s", err.text);
    else
        check_ends(check, name, !status && good, "%3u shapes, largest relative error %.2g %s", done, largest,
                   err.text);
    op_side_close(&cpu), op_side_close(&gpu);
}

/* ---- training ---- */

static void check_training(struct check *check, enum precision precision)
{
    double cpu[TRAINING_STEPS], first[TRAINING_STEPS], second[TRAINING_STEPS];
    struct err err = {0};
    char name[64];
    snprintf(name, sizeof name, "training %s", precision_name(precision));
    if (!check_begins(check, name)) return;
    enum status status = training_curve(cpu_backend(), PRECISION_FP32, check->folder, cpu, &err);
    if (!status) status = training_curve(check->cuda, precision, check->folder, first, &err);
    if (!status) status = training_curve(check->cuda, precision, check->folder, second, &err);
    if (status) {
        check_ends(check, name, false, "%s", err.text);
        return;
    }
    double error = training_difference(first, cpu), tolerance = training_tolerance(precision);
    bool same = memcmp(first, second, sizeof first) == 0;
    printf("     CPU ");
    for (int i = 0; i < TRAINING_STEPS; i++) printf(" %.4f", cpu[i]);
    printf("\n     GPU ");
    for (int i = 0; i < TRAINING_STEPS; i++) printf(" %.4f", first[i]);
    printf("\n");
    check_ends(check, name, same && error <= tolerance,
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
    if (!check_begins(check, name)) return;
    if (decode(check, precision, d, &err)) {
        check_ends(check, name, false, "%s", err.text);
    } else {
        double calls = decoding_difference(&d[1], &d[0]), replayed = decoding_difference(&d[2], &d[0]),
               tolerance = decoding_tolerance(precision);
        check_ends(
            check, name, calls <= tolerance && replayed <= tolerance,
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
    if (!check_begins(check, "activity")) return;
    enum status status = activity_look(check->cuda, &sight, &err);
    if (status == STATUS_NOT_FOUND) {
        check_skips(check, "activity", "%s", err.text);
        return;
    }
    if (status) {
        check_ends(check, "activity", false, "%s", err.text);
        return;
    }
    /* ordinary memory may be copied in pieces */
    bool good = sight.kernels == 1 && sight.uploads >= 1 && sight.downloads >= 1 && sight.fills == 1 &&
                sight.upload_bytes == 256 << 10 && sight.in_time && strstr(sight.kernel, "add") &&
                sight.seconds > 0 && sight.seconds <= sight.host_seconds && sight.registers > 0 &&
                sight.occupancy > 0 && sight.occupancy <= 1;
    check_ends(
        check, "activity", good,
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
    if (!check_wanted(check, "ranks")) return;
    enum status status = cuda_plugin_open(&plugin, &err);
    if (!status) status = ranks_look(plugin, n, &sight, &err);
    if (status == STATUS_NOT_FOUND) {
        check_skips(check, "ranks", "%s", err.text);
    } else if (status) {
        check_ends(check, "ranks", false, "%s", err.text);
    } else {
        check_ends(check, "ranks", sight.exact,
                   "world of %d through NCCL%s: sums and copies %s; all reduce of %.0f MiB %.3f ms",
                   sight.ranks, sight.ranks > 1 ? "" : ", for there is one GPU",
                   sight.exact ? "exact" : "NOT exact", (double)n * 4 / 1048576, sight.milliseconds);
    }
}

/* ---- the program ---- */

/* torch_step.py in the folder of this program. */
static const char *script_path(char path[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(name, PATH_MAX - (size_t)(name - path), "torch_step.py");
    return path;
}

static bool parse(struct check *check, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--shapes") == 0 && i + 1 < argc)
            check->shapes = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            check->only = argv[++i];
        else if (strcmp(argv[i], "--small") == 0)
            check->large = false;
        else if (strcmp(argv[i], "--no-results") == 0)
            check->results = false;
        else if (strcmp(argv[i], "--no-timing") == 0)
            check->timing = false;
        else if (strcmp(argv[i], "--no-torch") == 0)
            check->torch = NULL;
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

static void check_results(struct check *check)
{
    for (size_t i = 0; i < COUNT(judged); i++) check_operations(check, judged[i]);
    check_cudnn(check);
    for (size_t i = 0; i < COUNT(trained); i++) check_training(check, trained[i]);
    for (size_t i = 0; i < COUNT(trained); i++) check_decoding(check, trained[i]);
    if (check->large) check_activity(check);
}

int main(int argc, char **argv)
{
    char script[PATH_MAX], folder[] = "/tmp/gpu_check.XXXXXX";
    struct check check = {.shapes = 100,
                          .large = true,
                          .results = true,
                          .timing = true,
                          .torch = script_path(script),
                          .end = INFINITY};
    if (!parse(&check, argc, argv)) {
        fprintf(stderr, "usage: gpu_check [--shapes N] [--small] [--only WORD] [--no-results] [--no-timing] "
                        "[--no-torch] [--seconds N]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* the user sees the progress during minutes of waiting */
    double start = clock_monotonic();
    if (check.results && check.large) check_ranks(&check);
    find_gpu(&check);
    if (check.cuda) check.folder = mkdtemp(folder);
    if (check.results) check_results(&check);
    for (size_t i = 0; i < COUNT(trained) && check.timing; i++) speeds_check(&check, trained[i]);
    if (check.timing) steps_check(&check);
    struct err err;
    if (check.folder && file_remove_tree(check.folder, &err)) printf("     %s\n", err.text);
    if (check.cuda) printf("took %.0f s\n", clock_monotonic() - start);
    printf("%d passed, %d failed, %d skipped\n", check.passed, check.failed, check.skipped);
    return check.failed > 0;
}
