/* The real binary with the simulator as its CUDA plugin: --device, the messages when no GPU can be used, and
 * `anneal devices`. */
#include <dirent.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/cuda_sim/simulated_plugin.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* Three steps of one small layer. */
#define TRAIN                                                                                                \
    "train", s->config, "--train.total_steps=3", "--train.warmup_steps=1", "--model.hidden_dim=16",          \
        "--train.seq_len=8"

STAGE_CASE_TEARDOWN(training_on_the_device_is_recorded_as_such, simulated_plugin_forget, struct stage *s)
{
    simulated_plugin_use("good");
    for (int i = 0; i < 2; i++) { /* auto uses a GPU if there is one */
        process_run(0, TRAIN, "--device", i ? "auto" : "cuda", "--progress=none", NULL);
        json_t *runs = stage_runs();
        assert_string_equal(stage_text(json_array_get(runs, 0), "device"), "cuda:0");
        assert_string_equal(stage_text(json_array_get(runs, 0), "status"), "finished");
        assert_string_equal(stage_text(json_array_get(runs, 0), "precision"), "bf16"); /* its best */
    }
}

static void expect_sentence(const char *machine, const char *sentence)
{
    struct stage place, *s = &place;
    stage_open(s, machine);
    simulated_plugin_use(machine);
    process_expect_sentence(process_run(1, TRAIN, "--device", "cuda", "--progress=none", NULL), sentence);
    assert_int_equal(stage_count_runs(), 0);
    /* auto continues on the CPU and reports it once */
    struct process *p = process_run(0, TRAIN, "--device", "auto", "--progress=json", NULL);
    json_t *lines = stage_parse_lines(process_stdout(p));
    assert_int_equal(stage_count_lines(lines, "event"), 1);
    const char *text = stage_text(stage_find_line(lines, "event", 0), "text");
    if (!strstr(text, "training on the CPU: ") || !strstr(text, sentence)) fail_msg("event: %s", text);
    json_t *runs = stage_runs();
    assert_string_equal(stage_text(json_array_get(runs, 0), "device"), "cpu");
    char *devices = process_output("devices", NULL);
    if (!strstr(devices, "cannot be used: ") || !strstr(devices, sentence)) fail_msg("devices: %s", devices);
}

TEST_CASE_WITH(a_missing_driver_is_one_sentence, NULL, simulated_plugin_forget)
{
    expect_sentence("no_driver", "no NVIDIA driver is loaded (install version 580 or newer)");
}

TEST_CASE_WITH(an_old_driver_is_one_sentence, NULL, simulated_plugin_forget)
{
    expect_sentence(
        "old_driver",
        "the NVIDIA driver supports CUDA up to 11.8, this build needs 13.0 (install driver 580 or "
        "newer)");
}

TEST_CASE_WITH(a_device_newer_than_the_driver_compiles_for_is_one_sentence, NULL, simulated_plugin_forget)
{
    expect_sentence("new_device",
                    "the code for CUDA simulator is compiled by the NVIDIA driver, which supports "
                    "CUDA up to 13.0 and needs 13.1 (update the driver)");
}

TEST_CASE_WITH(a_driver_without_a_device_is_one_sentence, NULL, simulated_plugin_forget)
{
    expect_sentence("no_device", "the NVIDIA driver shows no GPU");
}

TEST_CASE_WITH(a_device_too_old_is_one_sentence, NULL, simulated_plugin_forget)
{
    expect_sentence("old_device",
                    "CUDA simulator has compute capability 7.0, this build has code for 8.0 and newer");
}

STAGE_CASE_TEARDOWN(a_missing_plugin_is_named, simulated_plugin_forget, struct stage *s)
{
    setenv("ANNEAL_CUDA_PLUGIN", "/nowhere/anneal_cuda.so", 1);
    process_expect_sentence(process_run(1, TRAIN, "--device", "cuda", "--progress=none", NULL),
                            "the CUDA plugin /nowhere/anneal_cuda.so is missing");
}

STAGE_CASE_TEARDOWN(a_plugin_that_is_none_is_refused, simulated_plugin_forget, struct stage *s)
{
    setenv("ANNEAL_CUDA_PLUGIN", s->config, 1);
    process_expect_sentence(process_run(1, TRAIN, "--device", "cuda", "--progress=none", NULL),
                            "the CUDA plugin cannot be loaded");
    setenv("ANNEAL_CUDA_PLUGIN", "/lib/x86_64-linux-gnu/libm.so.6", 1);
    if (access("/lib/x86_64-linux-gnu/libm.so.6", R_OK) == 0)
        process_expect_sentence(process_run(1, TRAIN, "--device", "cuda", "--progress=none", NULL),
                                "belongs to another build of anneal");
}

STAGE_CASE_TEARDOWN(a_device_without_room_ends_the_run_with_numbers, simulated_plugin_forget, struct stage *s)
{
    simulated_plugin_use("full");
    process_expect_sentence(process_run(1, TRAIN, "--device", "cuda", "--progress=none", NULL), "MiB");
    assert_int_equal(stage_count_runs(), 0);
}

/* In fp32, as the first kernel then belongs to the first step; in bf16 the weights are cast before it. */
STAGE_CASE_TEARDOWN(a_kernel_fault_leaves_a_failed_run_and_a_sentence, simulated_plugin_forget,
                    struct stage *s)
{
    simulated_plugin_use("fault_at:1:embedding_gather");
    process_expect_sentence(
        process_run(1, TRAIN, "--device", "cuda", "--progress=none", NULL),
        "unspecified launch failure (there is no checkpoint to continue from: start it again");
    assert_string_equal(stage_status(), "failed");
}

TEST_CASE_WITH(devices_lists_what_there_is, NULL, simulated_plugin_forget)
{
    simulated_plugin_use("good");
    char *devices = process_output("devices", NULL);
    assert_non_null(strstr(devices, "cpu  "));
    /* of one multiprocessor at 1 GHz */
    if (!strstr(devices,
                "cuda:0   CUDA simulator, 1.0 GiB (1.0 GiB free), compute capability 9.0, driver for "
                "CUDA 13.0, 4.1 TFLOP/s bf16, 2.0 tf32, 0.3 fp32 (by its clock)\n"))
        fail_msg("devices: %s", devices);
    assert_null(strstr(devices, "cannot be used"));
    assert_null(strstr(devices, "--device cuda:N"));
    assert_non_null(strstr(devices, "\nCUPTI    found: "));
}

TEST_CASE_WITH(devices_says_what_traces_lack_without_cupti, NULL, simulated_plugin_forget)
{
    simulated_plugin_use("no_cupti");
    char *devices = process_output("devices", NULL);
    assert_non_null(strstr(devices, "\nCUPTI    libcupti.so.13 not found (install CUPTI"));
    assert_null(strstr(devices, "found: "));
}

/* At full width, though on few tokens. */
STAGE_CASE_TEARDOWN(the_default_preset_trains_on_the_device, simulated_plugin_forget, struct stage *s)
{
    simulated_plugin_use("good");
    char *corpus = kept_format("--data.train=%s", s->corpus);
    process_run(0, "train", corpus, "--data.tokenizer=bytes", "--model.vocab_size=2048",
                "--train.batch_size=1", "--train.seq_len=8", "--train.total_steps=1", "--eval.batches=1",
                "--sample.max_tokens=2", "--device=cuda", "--progress=none", NULL);
    json_t *runs = stage_runs();
    assert_string_equal(stage_text(json_array_get(runs, 0), "device"), "cuda:0");
    assert_string_equal(stage_text(json_array_get(runs, 0), "status"), "finished");
    double loss = stage_real(json_array_get(runs, 0), "final_loss");
    assert_true(loss > 7 && loss < 8.5); /* ln 2048 is 7.6 */
}

STAGE_CASE_TEARDOWN(the_first_device_that_can_be_used_is_taken, simulated_plugin_forget, struct stage *s)
{
    simulated_plugin_use("mixed");
    char *devices = process_output("devices", NULL);
    if (!strstr(devices, "cuda:0   CUDA simulator, 1.0 GiB, compute capability 7.0") ||
        !strstr(devices, "cannot be used: CUDA simulator has compute capability 7.0") ||
        !strstr(devices, "cuda:1   CUDA simulator, 1.0 GiB (1.0 GiB free), compute capability 9.0") ||
        !strstr(devices, "training takes cuda:1 (--device cuda:N chooses another)"))
        fail_msg("devices: %s", devices);
    process_run(0, TRAIN, "--device", "cuda", "--progress=none", NULL);
    json_t *runs = stage_runs();
    assert_string_equal(stage_text(json_array_get(runs, 0), "device"), "cuda:1");
}

/* cuda:N selects device N, even if others could be used. */
STAGE_CASE_TEARDOWN(a_device_is_chosen_by_its_number, simulated_plugin_forget, struct stage *s)
{
    simulated_plugin_use("mixed");
    process_run(0, TRAIN, "--device", "cuda:1", "--progress=none", NULL);
    json_t *runs = stage_runs();
    assert_string_equal(stage_text(json_array_get(runs, 0), "device"), "cuda:1");
    process_expect_sentence(process_run(1, TRAIN, "--device", "cuda:0", "--progress=none", NULL),
                            "--device cuda:0: cuda: CUDA simulator has compute capability 7.0");
    process_expect_sentence(process_run(1, TRAIN, "--device", "cuda:2", "--progress=none", NULL),
                            "there is no GPU 2 (the driver shows 2, counted from 0)");
    process_expect_sentence(process_run(2, TRAIN, "--device", "cuda:", NULL),
                            "--device cuda:: must be auto|cpu|cuda|cuda:N");
    process_expect_sentence(process_run(2, TRAIN, "--device", "cuda:1x", NULL),
                            "--device cuda:1x: must be auto|cpu|cuda|cuda:N");
    assert_int_equal(stage_count_runs(), 1);
}

static int count_files(const char *folder, const char *part)
{
    DIR *dir = opendir(folder);
    int count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) count += strstr(entry->d_name, part) != NULL;
    if (dir) closedir(dir);
    return count;
}

/* The choices are stored in the data folder; those that a damaged file lacks are measured again. */
STAGE_CASE_TEARDOWN(the_chosen_algorithms_are_kept_between_runs, simulated_plugin_forget, struct stage *s)
{
    struct stat before, after;
    char path[8192];
    simulated_plugin_use("good");
    char *folder = kept_format("%s/cuda", getenv("ANNEAL_HOME"));
    process_run(0, TRAIN, "--device", "cuda", "--progress=plain", NULL);
    assert_int_equal(count_files(folder, "gemm4-CUDA-simulator-9.0-1-130100"), 1);
    snprintf(path, sizeof path, "%s/gemm4-CUDA-simulator-9.0-1-130100", folder);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(truncate(path, 300), 0);
    struct process *p = process_run(0, TRAIN, "--device", "cuda", "--progress=plain", NULL);
    assert_null(strstr(process_stderr(p), "warning"));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
}

TEST_MAIN()
