/* Several ranks, each with a GPU: the real binary and mpirun, the simulator as the GPUs, and a stand-in for
 * NCCL between the processes. Skipped where there is no MPI. */
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/cuda_sim/simulated_plugin.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* The library is in the folder of the tests, one below the binary's. */
static int set_up(void **state)
{
    const char *binary = getenv("ANNEAL_BINARY");
    int failed = stage_setup(state);
    simulated_plugin_use("good");
    setenv("LD_LIBRARY_PATH",
           kept_format("%.*s/tests/cuda_sim/stand_in", (int)(strrchr(binary, '/') - binary), binary), 1);
    setenv("ANNEAL_SIM_GPUS", "4", 1);
    return failed;
}

static int forget(void **state)
{
    unsetenv("LD_LIBRARY_PATH");
    unsetenv("ANNEAL_SIM_GPUS");
    unsetenv("ANNEAL_SIM_NCCL");
    return simulated_plugin_forget(state);
}

#define TEST(name, parameter) TEST_CASE_ON(name, set_up, forget, parameter)

#define FP32 "--train.precision=fp32"
#define BF16 "--train.precision=bf16"

/* Nine rows in three micro-batches, which two ranks do not divide; dropout and clipping. */
#define SMALL                                                                                                \
    "--model.hidden_dim=16", "--model.num_layers=2", "--train.seq_len=12", "--train.batch_size=3",           \
        "--train.accumulation_steps=3", "--train.dropout=0.1", "--train.max_grad_norm=0.5",                  \
        "--train.schedule=constant", "--eval.batches=1", "--eval.every=0", "--sample.every=0",               \
        "--checkpoint.every=0", "--profile.every=0", "--progress=none"

static struct process *run(int status, const char *const *words)
{
    return process_expect_within(400, status, process_open(&(struct process_options){.arguments = words}));
}

#define RUN(status, ...) run(status, (const char *const[]){__VA_ARGS__, NULL})

static void train(const struct stage *s, const char *name, const char *device, const char *ranks,
                  const char *precision, const char *other)
{
    RUN(0, "train", s->config, "--name", name, "--device", device, "--ranks", ranks, SMALL, precision,
        "--train.total_steps=5", other);
}

TEST(any_number_of_gpus_trains_what_one_and_a_cpu_train, struct stage *s)
{
    stage_need_mpi();
    train(s, "cpu", "cpu", "1", FP32, NULL);
    train(s, "one", "cuda", "1", FP32, NULL);
    train(s, "two", "cuda", "2", FP32, NULL);
    train(s, "three", "cuda", "3", FP32, NULL);
    history_expect_alike("one", "cpu", 2e-5);
    history_expect_alike("one", "two", 2e-5);
    history_expect_alike("one", "three", 2e-5);
    train(s, "one-bf16", "cuda", "1", BF16, NULL);
    train(s, "two-bf16", "cuda", "2", BF16, NULL);
    history_expect_alike("one-bf16", "two-bf16", 2e-4);
}

/* Streams that carry out work in the least expected order that the events allow: as late as possible, or what
 * ranks exchange as early as possible. */
TEST(neither_slices_nor_overlap_nor_the_order_of_streams_change_a_bit, struct stage *s)
{
    static const struct {
        const char *key, *streams;
    } ways[] = {{"--world.overlap=false", "now"},
                {"--world.shard=off", "now"},
                {NULL, "late"},
                {NULL, "exchanges_first"}};
    stage_need_mpi();
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const char *precision = bf16 ? BF16 : FP32, *first = kept_format("plain-%d", bf16);
        train(s, first, "cuda", "3", precision, NULL);
        for (size_t i = (size_t)bf16; i < sizeof ways / sizeof *ways; i++) {
            const char *name = kept_format("way-%d-%zu", bf16, i);
            setenv("ANNEAL_SIM_STREAMS", ways[i].streams, 1);
            train(s, name, "cuda", "3", precision, ways[i].key);
            unsetenv("ANNEAL_SIM_STREAMS");
            history_expect_same(first, name);
        }
    }
}

static void go_on(const char *name, const char *device, const char *ranks, const char *steps)
{
    RUN(0, "resume", name, "--device", device, "--ranks", ranks, steps, "--progress=none");
}

TEST(a_run_goes_on_with_any_number_of_gpus_and_on_a_cpu, struct stage *s)
{
    stage_need_mpi();
    train(s, "whole", "cuda", "2", FP32, "--train.total_steps=11");
    train(s, "same", "cuda", "2", FP32, "--train.total_steps=4");
    go_on("same", "cuda", "2", "--train.total_steps=11");
    history_expect_same("whole", "same");
    train(s, "other", "cuda", "3", FP32, "--train.total_steps=3");
    go_on("other", "cuda", "1", "--train.total_steps=5");
    go_on("other", "cpu", "2", "--train.total_steps=8");
    go_on("other", "cuda", "2", "--train.total_steps=11");
    history_expect_alike("whole", "other", 2e-5);
    train(s, "whole-bf16", "cuda", "2", BF16, "--train.total_steps=7");
    train(s, "same-bf16", "cuda", "2", BF16, "--train.total_steps=4");
    go_on("same-bf16", "cuda", "2", "--train.total_steps=7");
    history_expect_same("whole-bf16", "same-bf16");
    train(s, "other-bf16", "cuda", "1", BF16, "--train.total_steps=4");
    go_on("other-bf16", "cuda", "3", "--train.total_steps=7");
    history_expect_alike("whole-bf16", "other-bf16", 2e-4);
}

/* The moments come from rank 0 through page-locked memory, which a late stream reads late. */
TEST(a_resumed_rank_has_all_its_moments_however_late_they_are_copied, struct stage *s)
{
    stage_need_mpi();
    train(s, "whole", "cuda", "2", FP32, NULL);
    train(s, "late", "cuda", "2", FP32, "--train.total_steps=3");
    setenv("ANNEAL_SIM_STREAMS", "late", 1);
    go_on("late", "cuda", "2", "--train.total_steps=5");
    unsetenv("ANNEAL_SIM_STREAMS");
    history_expect_same("whole", "late");
}

TEST(devices_says_whether_several_gpus_can_train_together, struct stage *s)
{
    for (int there = 1; there >= 0; there--) {
        setenv("ANNEAL_SIM_NCCL", there ? "good" : "old", 1);
        char *devices = process_output("devices", NULL);
        if (!strstr(devices,
                    there ? "\nNCCL     found: " : "\nNCCL     libnccl.so.2 is older than NCCL 2.18"))
            fail_msg("devices: %s", devices);
    }
}

/* Each rank sends the gradients of the others' slices, and its weights to the others: at least as much as all
 * parameters, in a world of two. */
TEST(each_rank_has_its_gpu_and_reports_its_exchanges, struct stage *s)
{
    stage_need_mpi();
    RUN(0, "train", s->config, SMALL, FP32, "--train.total_steps=6", "--profile.every=1",
        "--profile.warmup_steps=1", "--device=cuda", "--ranks=2");
    stage_expect(s,
                 "select count(distinct rank) = 2 and count(distinct device) = 2 and min(device) = 'cuda:0'"
                 " and max(device) = 'cuda:1' from ranks",
                 "1");
    stage_expect(s, "select min(step_ms) > 0 and min(wait_ms) > 0 from ranks", "1");
    stage_expect(s,
                 "select min(sent_bytes) > 4 * parameters and max(sent_bytes) < 8 * parameters"
                 " from ranks, runs",
                 "1");
    stage_expect(s, "select count(*) > 0 and min(bytes) > 0 from layer_profile where op = 'reduce gradients'",
                 "1");
    stage_expect(s, "select count(*) > 0 from layer_profile where op = 'gather weights'", "1");
}

static void lose(const struct stage *s, const char *sentence)
{
    struct process *p =
        RUN(1, "train", s->config, SMALL, FP32, "--train.total_steps=100000", "--device=cuda", "--ranks=3");
    process_expect_said_once(p, sentence);
    process_expect_said_once(p, "all ranks end");
    assert_string_equal(stage_status(), "crashed");
}

TEST(a_gpu_or_connection_that_fails_ends_all_ranks, struct stage *s)
{
    stage_need_mpi();
    setenv("ANNEAL_SIM_NCCL", "lost_at:100:1", 1);
    lose(s, ": cuda:1: NCCL lost its connection to another rank: remote process exited");
    unsetenv("ANNEAL_SIM_NCCL");
    setenv("ANNEAL_SIM_GPUS", "3:2", 1);
    setenv("ANNEAL_SIM_MACHINE", "fault_at:1000", 1);
    lose(s, ": cuda:2: ");
    setenv("ANNEAL_SIM_MACHINE", "no_room_at:100:rmsnorm", 1); /* the device is not lost, the step is */
    lose(s, "out of memory");
}

static void refuse(const struct stage *s, int status, const char *device, const char *sentence)
{
    process_expect_said_once(RUN(status, "train", s->config, SMALL, "--device", device, "--ranks=3"),
                             sentence);
    assert_int_equal(stage_count_runs(), 0);
}

TEST(what_is_missing_is_said_once_and_leaves_no_run, struct stage *s)
{
    stage_need_mpi();
    refuse(s, 2, "cuda:1", "each rank takes a GPU of its own");
    setenv("ANNEAL_SIM_GPUS", "2", 1);
    refuse(s, 2, "cuda", "ranks 0 and 2 would share a GPU of ");
    setenv("ANNEAL_SIM_GPUS", "3", 1);
    setenv("ANNEAL_SIM_NCCL", "old", 1);
    refuse(s, 1, "auto", "libnccl.so.2 is older than NCCL 2.18");
    stage_write(stage_path(s, "libnccl.so.2"), "none", 4);
    setenv("LD_LIBRARY_PATH", s->folder, 1);
    refuse(s, 1, "cuda", "several ranks on GPUs need NVIDIA's library NCCL: ");
}

TEST_MAIN()
