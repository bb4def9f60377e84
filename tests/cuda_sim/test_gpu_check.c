/* The parts of gpu-check that compute numbers, on the simulated device, so
 * that this code has run at least once before it reaches a GPU. */
#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/cuda_sim/simulator.h"
#include "tests/gpu/activity.h"
#include "tests/gpu/decoding.h"
#include "tests/gpu/op_speed.h"
#include "tests/gpu/ranks.h"
#include "tests/gpu/speeds.h"
#include "tests/gpu/steps.h"

extern const struct cuda_plugin cuda_plugin;

static const struct op_speed_sizes little = {.B = 2,
                                             .T = 9,
                                             .NH = 4,
                                             .NKV = 2,
                                             .HS = 16,
                                             .C = 64,
                                             .F = 48,
                                             .V = 101,
                                             .rows = 5,
                                             .square = 40,
                                             .n = 3000,
                                             .calls = 2};

TEST_CASE(every_operation_is_timed_and_says_its_work)
{
    static const enum precision precisions[] = {PRECISION_FP32, PRECISION_BF16};
    struct err err = {0};
    for (int i = 0; i < 2; i++) {
        struct op_bench *bench;
        assert_int_equal(op_bench_open(cuda_plugin.table, precisions[i], &little, &bench, &err), STATUS_OK);
        for (const struct op_speed_case *op = op_speed_cases; op->name; op++) {
            double ms = NAN;
            struct op_work work = {0};
            if (op_bench_time(bench, op, &ms, &work, &err)) fail_msg("%s: %s", op->name, err.text);
            if (!(ms > 0 && ms < 10)) fail_msg("%s: took %g ms of the simulator's time", op->name, ms);
            if (!(work.bytes > 0 && work.flops >= 0)) fail_msg("%s: moves %g bytes", op->name, work.bytes);
            if (strstr(op->name, "gemm") && !(work.flops > 0)) fail_msg("%s: computes nothing", op->name);
        }
        op_bench_close(bench);
    }
    assert_int_equal(sim_device_bytes(), 0);
    assert_int_equal(sim_events(), 0);
}

TEST_CASE(a_kernel_and_its_copies_are_seen)
{
    struct activity_sight sight;
    struct err err = {0};
    sim_set_cupti(false, 0);
    assert_int_equal(activity_look(cuda_plugin.table, &sight, &err), STATUS_NOT_FOUND);
    sim_set_cupti(true, 0);
    if (activity_look(cuda_plugin.table, &sight, &err)) fail_msg("%s", err.text);
    assert_true(sight.kernels == 1 && sight.uploads == 1 && sight.downloads == 1 && sight.fills == 1);
    assert_int_equal(sight.upload_bytes, 256 << 10);
    assert_non_null(strstr(sight.kernel, "add"));
    assert_true(sight.seconds > 0);
    assert_int_equal(sim_device_bytes(), 0);
}

static const struct op_speed_case *find(const char *name)
{
    for (const struct op_speed_case *op = op_speed_cases; op->name; op++)
        if (strcmp(op->name, name) == 0) return op;
    fail_msg("no operation \"%s\" is timed", name);
    return NULL;
}

static struct op_work work_of(const char *name, const struct op_speed_sizes *sizes)
{
    struct op_bench *bench;
    struct err err = {0};
    struct op_work work = {0};
    double ms;
    assert_int_equal(op_bench_open(cpu_backend(), PRECISION_FP32, sizes, &bench, &err), STATUS_OK);
    assert_int_equal(op_bench_time(bench, find(name), &ms, &work, &err), STATUS_OK);
    op_bench_close(bench);
    return work;
}

/* Computed by hand for the small sizes: N 18, C 64, F 48, Q 128, 3,000 parameters. */
TEST_CASE(the_work_is_what_the_contract_moves)
{
    assert_true(work_of("add", &little).bytes == 3 * 4 * 18 * 64);
    assert_true(work_of("swiglu_backward", &little).bytes == 6 * 4 * 18 * 48);
    assert_true(work_of("rope", &little).bytes == 2 * 4 * 18 * 6 * 16);
    assert_true(work_of("adamw", &little).bytes == 7 * 4 * 3000);
    assert_true(work_of("gemm: down", &little).flops == 2.0 * 18 * 64 * 48);
    assert_true(work_of("gemm: down", &little).bytes == 4 * (18 * 48 + 48 * 64 + 18 * 64));
    /* two products of each of the T (T+1) / 2 pairs of 2 sequences and 4 heads */
    assert_true(work_of("attention_forward", &little).flops == 2 * 2.0 * 2 * 4 * 45 * 16);
    assert_true(work_of("attention_forward: window", &little).flops == 2 * 2.0 * 2 * 4 * 17 * 16);
    assert_true(work_of("attention_cached: window", &little).bytes == 4 * 2 * (2 * 2 * 2 * 16 + 2 * 4 * 16));
    /* rows 4 to 8 of one sequence see 5 to 9 keys */
    assert_true(work_of("attention_cached: prompt", &little).flops == 2 * 2.0 * 4 * 35 * 16);
}

TEST_CASE(a_fault_is_the_sentence_not_a_speed)
{
    struct op_bench *bench;
    struct err err = {0};
    double ms = 0;
    struct op_work work;
    assert_int_equal(op_bench_open(cuda_plugin.table, PRECISION_FP32, &little, &bench, &err), STATUS_OK);
    sim_set_machine(SIM_MACHINE_LAUNCH_FAULT);
    assert_int_equal(op_bench_time(bench, find("add"), &ms, &work, &err), STATUS_DEVICE);
    assert_non_null(strstr(err.text, "unspecified launch failure"));
    assert_true(ms == 0);
    op_bench_close(bench); /* which does not touch the memory of the failed device */
    sim_set_machine(SIM_MACHINE_GOOD);
}

TEST_CASE(operands_that_do_not_fit_are_refused_and_leave_nothing)
{
    struct op_bench *bench;
    struct err err = {0};
    sim_set_machine(SIM_MACHINE_FULL);
    assert_int_equal(op_bench_open(cuda_plugin.table, PRECISION_FP32, &little, &bench, &err),
                     STATUS_NO_MEMORY);
    sim_set_machine(SIM_MACHINE_GOOD);
    assert_int_equal(sim_device_bytes(), 0);
    assert_int_equal(sim_events(), 0);
}

TEST_CASE(the_curve_in_each_precision_is_the_cpus_and_another_one_is_not)
{
    double cpu[TRAINING_STEPS], cuda[TRAINING_STEPS];
    struct err err = {0};
    assert_int_equal(training_curve(cpu_backend(), PRECISION_FP32, NULL, cpu, &err), STATUS_OK);
    assert_true(cpu[TRAINING_STEPS - 1] < 0.8 * cpu[0]);
    for (int p = 0; p < PRECISIONS; p++) {
        enum precision precision = (enum precision)p;
        if (training_curve(cuda_plugin.table, precision, NULL, cuda, &err)) fail_msg("%s", err.text);
        double apart = training_difference(cuda, cpu);
        if (!(apart <= training_tolerance(precision)))
            fail_msg("%s: %g from the CPU's curve", precision_name(precision), apart);
        /* one step late is no rounding */
        memmove(cuda + 1, cuda, sizeof cuda - sizeof *cuda);
        assert_true(training_difference(cuda, cpu) > training_tolerance(precision));
    }
    cuda[3] = NAN;
    assert_false(training_difference(cuda, cpu) <= 1);
}

TEST_CASE(a_text_has_the_cpus_logits_and_another_one_has_not)
{
    struct err err = {0};
    struct model_config config = decoding_model();
    for (int p = 0; p < PRECISIONS; p++) {
        struct decoding cpu, cuda;
        enum precision precision = (enum precision)p;
        uint64_t replays = sim_graph_launches();
        if (decoding_run(cpu_backend(), PRECISION_FP32, &config, false, &cpu, &err)) fail_msg("%s", err.text);
        if (decoding_run(cuda_plugin.table, precision, &config, p != PRECISION_TF32, &cuda, &err))
            fail_msg("%s", err.text);
        assert_int_equal(sim_graph_launches() > replays, p != PRECISION_TF32);
        double apart = decoding_difference(&cuda, &cpu);
        if (!(apart <= decoding_tolerance(precision)))
            fail_msg("%s: %g from the CPU's logits", precision_name(precision), apart);
        /* one token late is no rounding */
        memmove(cuda.logits + config.vocab_size, cuda.logits,
                (cuda.count - (size_t)config.vocab_size) * sizeof *cuda.logits);
        assert_true(decoding_difference(&cuda, &cpu) > decoding_tolerance(precision));
        cuda.logits[3] = NAN;
        assert_false(decoding_difference(&cuda, &cpu) <= 1);
        decoding_release(&cpu), decoding_release(&cuda);
    }
}

TEST_CASE(a_presets_steps_are_timed)
{
    const struct training_preset preset = {PRESET_TINY, 1, 4, 0};
    struct training_speed speed;
    struct err err = {0};
    assert_int_equal(training_speed_measure(cpu_backend(), PRECISION_FP32, &preset, NULL, &speed, &err),
                     STATUS_OK);
    assert_true(speed.first_ms > 0 && speed.tenth_ms > 0 && speed.median_ms > 0);
    assert_true(fabs(speed.tokens_per_second * speed.median_ms - 4e3) < 1);
    assert_true(speed.peak_bytes > 10815744u * 16); /* weights, gradients, two moments */
    assert_true(speed.last_loss < speed.first_loss);
}

/* ---- what is judged can fail ---- */

static const struct speed_rates measured = {.copy = 3e12, .gemm = 700e12, .peak = 989e12};

/* Judges this share of what the rates allow; returns whether it failed. */
static bool fails_at(const char *name, enum precision precision, struct op_work work, double bound_ms,
                     double share)
{
    struct check check = {0};
    speeds_judge(&check, find(name), precision, bound_ms / share, &work, &measured);
    assert_int_equal(check.passed + check.failed, 1);
    return check.failed;
}

TEST_CASE(an_operation_that_is_slow_fails)
{
    /* 3 GB at the copy's rate, 700 GFLOP at the product's */
    const struct op_work moves = {.bytes = 3e9}, computes = {.bytes = 1e6, .flops = 700e9};
    for (const struct op_speed_case *op = op_speed_cases; op->name; op++) {
        if (!(op->least > 0)) continue;
        if (!fails_at(op->name, PRECISION_BF16, moves, 1, op->least - 0.02)) fail_msg("%s passes", op->name);
        if (fails_at(op->name, PRECISION_BF16, moves, 1, op->least + 0.02)) fail_msg("%s fails", op->name);
    }
    assert_true(fails_at("gemm: qkv", PRECISION_TF32, computes, 1, 0.65));
    assert_false(fails_at("gemm: qkv", PRECISION_TF32, computes, 1, 0.75));
    /* attention is not measured by what a product reaches, but by what it is estimated to reach */
    assert_true(fails_at("attention_forward", PRECISION_BF16, computes, 1, 0.35));
    assert_false(fails_at("attention_forward", PRECISION_BF16, computes, 1, 0.45));
    assert_true(fails_at("add", PRECISION_BF16, moves, NAN, 1));
    struct check check = {0};
    speeds_judge(&check, find("add"), PRECISION_FP32, 1000, &moves, &measured);
    assert_int_equal(check.passed + check.failed, 0);
}

TEST_CASE(a_product_below_the_published_peak_fails)
{
    struct check check = {0};
    struct speed_rates rates = measured;
    speeds_judge_gemm(&check, PRECISION_BF16, &rates);
    assert_int_equal(check.passed, 1);
    rates.gemm = 500e12;
    speeds_judge_gemm(&check, PRECISION_BF16, &rates);
    assert_int_equal(check.failed, 1);
    rates.peak = 0;
    speeds_judge_gemm(&check, PRECISION_BF16, &rates);
    assert_int_equal(check.skipped, 1);
}

static const struct training_preset judged = {PRESET_GPT2_124M, 32, 1024, 0.55};
static const struct training_speed good_step = {.median_ms = 50,
                                                .tokens_per_second = 655360,
                                                .flops = 560e12,
                                                .peak_flops = 989e12,
                                                .peak_bytes = (size_t)10 << 30,
                                                .taken_bytes = (int64_t)11 << 30,
                                                .first_loss = 11,
                                                .last_loss = 9};

static struct check judge_step(struct training_speed speed)
{
    struct check check = {0};
    steps_judge(&check, &judged, PRECISION_BF16, &speed);
    return check;
}

TEST_CASE(a_step_that_is_slow_or_takes_more_memory_or_learns_nothing_fails)
{
    struct training_speed slow = good_step, large = good_step, dull = good_step, unknown = good_step;
    struct check check = judge_step(good_step);
    assert_true(check.passed == 3 && check.failed == 0);
    slow.flops = 540e12;
    large.taken_bytes = (int64_t)12 << 30;
    dull.last_loss = NAN;
    assert_int_equal(judge_step(slow).failed, 1);
    assert_int_equal(judge_step(large).failed, 1);
    assert_int_equal(judge_step(dull).failed, 1);
    unknown.peak_flops = 0;
    check = judge_step(unknown);
    assert_true(check.failed == 0 && check.skipped == 1);
}

TEST_CASE(a_step_that_pytorch_beats_fails)
{
    struct torch_speed theirs = {
        .step_ms = 61, .tokens_per_second = 537180, .peak_bytes = 20e9, .version = "2.9"};
    struct check check = {0};
    steps_judge_torch(&check, &judged, &good_step, &theirs);
    assert_true(check.passed == 2 && check.failed == 0);
    theirs.tokens_per_second = 560000;
    theirs.peak_bytes = 15e9;
    steps_judge_torch(&check, &judged, &good_step, &theirs);
    assert_int_equal(check.failed, 2);
}

TEST_CASE(losses_that_part_from_pytorchs_fail)
{
    double ours[STEPS_LOSSES], theirs[STEPS_LOSSES];
    struct check check = {0};
    for (int i = 0; i < STEPS_LOSSES; i++) {
        theirs[i] = 3 + 8 * exp(-i / 40.0);
        ours[i] = theirs[i] + (i % 2 ? 0.05 : -0.05); /* rounding goes both ways */
    }
    steps_judge_losses(&check, &judged, "fp32", ours, theirs);
    assert_true(check.passed == 1 && check.failed == 0);
    for (int i = STEPS_LOSSES - 20; i < STEPS_LOSSES; i++) ours[i] *= 1.01;
    steps_judge_losses(&check, &judged, "fp32", ours, theirs);
    assert_int_equal(check.failed, 1);
    ours[0] = NAN;
    steps_judge_losses(&check, &judged, "fp32", ours, theirs);
    assert_int_equal(check.failed, 2);
}

/* ---- PyTorch, as a script that says what it was asked ---- */

/* Makes the text a program, and PyTorch's Python. */
static void stand_in_python(const char *folder, const char *text)
{
    char path[PATH_MAX];
    struct err err;
    snprintf(path, sizeof path, "%s/python", folder);
    if (file_write_atomic(path, text, strlen(text), &err)) fail_msg("%s", err.text);
    assert_int_equal(chmod(path, 0700), 0);
    setenv("ANNEAL_BENCH_PYTHON", path, 1);
}

TEST_CASE(pytorch_reports_its_losses_or_why_there_are_none)
{
    char folder[] = "/tmp/test_gpu_check.XXXXXX";
    double losses[2] = {0};
    struct torch_speed speed = {0};
    struct torch_run run = {.script = "torch_step.py", .mode = "compile", .steps = 2, .lr = 1, .seconds = 60};
    struct err err = {0};
    assert_non_null(mkdtemp(folder));
    run.data = folder;
    stand_in_python(folder, "#!/bin/sh\nprintf '4.5\\n4.25\\n' >\"${0%/*}/losses.txt\"\n"
                            "echo '{\"torch\": \"2.9\", \"step_ms\": 61.5, \"tokens_per_sec\": 5e5, "
                            "\"peak_bytes\": 7000000}'\n");
    if (torch_train(&judged, &run, &speed, losses, &err)) fail_msg("%s", err.text);
    assert_true(losses[0] == 4.5 && losses[1] == 4.25 && speed.step_ms == 61.5 && speed.peak_bytes == 7e6);
    run.steps = 3; /* one of them is missing */
    assert_int_equal(torch_train(&judged, &run, &speed, losses, &err), STATUS_FAILED);
    stand_in_python(folder, "#!/bin/sh\necho '{\"mode\": \"compile\", \"skip\": \"no PyTorch here\"}'\n");
    assert_int_equal(torch_train(&judged, &run, &speed, NULL, &err), STATUS_NOT_FOUND);
    assert_string_equal(err.text, "no PyTorch here");
    stand_in_python(folder, "#!/bin/sh\nexit 3\n");
    assert_int_equal(torch_train(&judged, &run, &speed, NULL, &err), STATUS_FAILED);
    setenv("ANNEAL_BENCH_PYTHON", "no-such-python", 1);
    assert_int_equal(torch_train(&judged, &run, &speed, NULL, &err), STATUS_NOT_FOUND);
    unsetenv("ANNEAL_BENCH_PYTHON");
    assert_int_equal(file_remove_tree(folder, &err), STATUS_OK);
}

static const struct model_config minute = {.vocab_size = 31,
                                           .hidden_dim = 16,
                                           .num_layers = 1,
                                           .num_heads = 2,
                                           .num_kv_heads = 1,
                                           .head_dim = 8,
                                           .intermediate_dim = 24,
                                           .max_seq_len = 9,
                                           .rope_base = 10000,
                                           .norm_eps = 1e-5};

TEST_CASE(every_way_of_queueing_computes_the_same)
{
    struct training_ways ways;
    struct err err = {0};
    uint64_t graphs = sim_graph_launches();
    sim_set_late(true);
    if (training_ways_measure(cuda_plugin.table, PRECISION_BF16, &minute, 2, 9, 12, NULL, &ways, &err))
        fail_msg("%s", err.text);
    sim_set_late(false);
    assert_true(ways.same);
    /* a pass and an update a step but for the first, twice */
    assert_int_equal(sim_graph_launches() - graphs, 2 * 2 * 11);
    for (int way = 0; way < TRAINING_WAYS; way++) assert_true(ways.ms[way] > 0);
    assert_int_equal(sim_device_bytes(), 0);
    assert_int_equal(sim_events(), 0);
    assert_int_equal(sim_graphs(), 0);
}

TEST_CASE(losses_come_with_all_that_another_program_needs)
{
    enum { B = 2, T = 9, STEPS = 30 };
    char folder[] = "/tmp/test_gpu_check.XXXXXX", path[PATH_MAX];
    double losses[STEPS];
    struct err err = {0};
    struct stat file;
    assert_non_null(mkdtemp(folder));
    if (training_losses(cuda_plugin.table, &minute, B, T, STEPS, 3e-2, folder, NULL, losses, &err))
        fail_msg("%s", err.text);
    assert_true(losses[STEPS - 1] < 0.9 * losses[0]);
    snprintf(path, sizeof path, "%s/batches.i32", folder);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_size, STEPS * 2 * B * T * 4);
    snprintf(path, sizeof path, "%s/weights.txt", folder);
    struct file_map names;
    static const char key[] = "\nmodel.layers.0.self_attn.k_proj.weight ";
    assert_int_equal(file_map_open(path, &names, &err), STATUS_OK);
    assert_non_null(memmem(names.data, names.size, key, strlen(key)));
    file_map_close(&names);
    assert_int_equal(file_remove_tree(folder, &err), STATUS_OK);
}

TEST_CASE(the_heaviest_kernels_of_a_step_are_listed)
{
    static struct training_kernels kernels;
    struct err err = {0};
    sim_set_cupti(true, 0);
    if (training_kernels_look(cuda_plugin.table, &minute, 2, 9, NULL, &kernels, &err))
        fail_msg("%s", err.text);
    assert_in_range(kernels.count, 10, KERNEL_SUMS_MAX);
    double ms = 0;
    for (int i = 0; i < kernels.count; i++) {
        ms += kernels.sums[i].ms;
        assert_true(kernels.sums[i].calls > 0 && *kernels.sums[i].name);
        assert_true(i == 0 || kernels.sums[i].ms <= kernels.sums[i - 1].ms);
    }
    assert_true(fabs(ms / kernels.ms - 1) < 1e-9);
    assert_int_equal(sim_device_bytes(), 0);
}

TEST_CASE(gpus_exchange_in_a_world_of_two_and_of_one)
{
    struct ranks_sight sight = {0};
    struct err err = {0};
    char path[PATH_MAX];
    /* under its name from now on: a sanitizer's dlopen ignores where this program asks to look */
    assert_int_equal(file_of_program("stand_in/libnccl.so.2", path, sizeof path, &err), STATUS_OK);
    assert_non_null(dlopen(path, RTLD_NOW));
    for (int gpus = 1; gpus <= 3; gpus++) {
        sim_set_gpus(gpus);
        if (ranks_look(&cuda_plugin, 70001, &sight, &err)) fail_msg("%s", err.text);
        assert_int_equal(sight.ranks, gpus > 1 ? 2 : 1);
        assert_true(sight.exact);
        assert_true(sight.milliseconds > 0);
    }
    setenv("ANNEAL_SIM_NCCL", "old", 1);
    assert_int_equal(ranks_look(&cuda_plugin, 70001, &sight, &err), STATUS_NOT_FOUND);
    unsetenv("ANNEAL_SIM_NCCL");
    sim_set_gpus(1);
}

TEST_MAIN()
