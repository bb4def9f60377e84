/* Whether a run fits into a GPU that others use: with memory already reserved, with processes in the queue,
 * and with the page-locked memory that the run needs on its host. */
#include <jansson.h>
#include <signal.h>

#include "core/memory/fit.h"
#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/core/train/story.h"
#include "tests/cuda_sim/simulated_plugin.h"
#include "tests/cuda_sim/simulator.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/recommended.h"
#include "tests/tui/command/stage.h"
#include "tui/command/fit_report.h"

extern const struct cuda_plugin cuda_plugin;

enum { MIB = 1 << 20, CONTEXT = 20 * MIB };

/* A fifth of the simulator's 1 GiB may be used, 204.8 MiB; each of these runs takes 55, most of it the
 * products' workspace, and a context of 20. */
#define SMALL                                                                                                \
    "--device=cuda", "--memory.reserve=0.8", "--model.vocab_size=40000", "--model.max_seq_len=64",           \
        "--train.seq_len=8", "--train.batch_size=1", "--eval.batches=1", "--eval.every=0",                   \
        "--sample.every=0"

static void gpu_info(struct device_info *info)
{
    struct device *device;
    sim_set_machine(SIM_MACHINE_GOOD);
    assert_int_equal(cuda_plugin.table->device_open(DEVICE_FIRST, 0, &device, NULL), STATUS_OK);
    cuda_plugin.table->device_describe(device, info);
    cuda_plugin.table->device_close(device);
}

/* Opens a stage where a run has measured the memory of a context on the GPU. */
static void open_stage(struct stage *s, const char *name)
{
    struct device_info gpu;
    gpu_info(&gpu);
    stage_open(s, name);
    char *folder = kept_format("%s/cuda", s->home);
    overhead_keep(folder, &gpu, CONTEXT);
    simulated_plugin_use("good");
}

static struct process *start_holder(const struct stage *s)
{
    struct process *holder = process_start("train", s->config, SMALL, "--train.total_steps=1000000",
                                           "--name=holder", "--progress=json", NULL);
    process_wait_lines(holder, 3); /* it trains */
    return holder;
}

static json_t *fit_of(const struct stage *s)
{
    json_t *json = stage_json(process_output("estimate", s->config, SMALL, "--fit", "--json", NULL)),
           *fit = json_incref(json_object_get(json, "fit"));
    return fit;
}

TEST_CASE_WITH(what_fits_next_to_a_run_on_the_gpu_starts_there, NULL, simulated_plugin_forget)
{
    struct stage s;
    open_stage(&s, "beside");
    json_t *alone = fit_of(&s);
    struct process *holder = start_holder(&s);
    json_t *beside = fit_of(&s);
    int64_t memory = stage_int(beside, "memory_bytes");
    /* a fifth of the GPU's memory, all of which the simulator reports as free */
    assert_int_equal(stage_int(alone, "memory_bytes"),
                     ((int64_t)1 << 30) - (int64_t)((double)(1 << 30) * 0.8));
    assert_in_range(stage_int(alone, "memory_bytes") - memory, CONTEXT + 50 * MIB, CONTEXT + 60 * MIB);
    assert_int_equal(stage_int(beside, "beside_bytes"), CONTEXT);
    assert_int_equal(stage_int(beside, "margin_bytes"), fit_margin(memory));
    assert_int_equal(stage_int(beside, "plan_bytes"), memory - CONTEXT - fit_margin(memory));
    char *text = process_output("estimate", s.config, SMALL, "--fit", NULL);
    char *batch = recommended_command(text, "train.batch_size"),
         *length = recommended_command(text, "train.seq_len");
    assert_int_equal(recommended_run(batch, "--dry-run"), 0);
    assert_int_equal(recommended_run(length, "--train.total_steps=1 --progress=none"), 0);
    assert_int_equal(recommended_run(batch, "--model.vocab_size=100000 --dry-run"),
                     1); /* it is really full */
    json_decref(alone);
    json_decref(beside);
    process_close(holder);
}

/* A short command passes the queue: it fits into the memory that the training run leaves. */
TEST_CASE_WITH(who_waits_for_the_gpu_is_seen_and_comes_first, NULL, simulated_plugin_forget)
{
    struct stage s;
    open_stage(&s, "queue");
    process_run(0, "train", s.config, "--device=cuda", "--train.total_steps=1", "--name=trained",
                "--progress=none", NULL);
    struct process *holder = start_holder(&s);
    struct process *waiting = process_start("train", s.config, SMALL, "--model.vocab_size=200000",
                                            "--name=patient", "--wait", "--progress=none", NULL);
    process_wait_text(waiting, "anneal: waiting: cuda:0: ");
    char *devices = NULL;
    do { /* it reports the wait before it is in the queue */
        devices = process_output("devices", NULL);
    } while (!strstr(devices, " requested by "));
    char *words =
        kept_format(" requested by patient (starting), process %d, for ", (int)process_pid(waiting));
    if (!strstr(devices, words) || !strstr(devices, ", no. 1 in the queue")) fail_msg("%s", devices);
    json_t *fit = fit_of(&s);
    assert_int_equal(json_array_size(json_object_get(fit, "waiting")), 1);
    assert_true(stage_int(fit, "waiting_bytes") > 100 * MIB);
    assert_int_equal(stage_int(fit, "batch_size"), 0); /* with all of them running nothing fits */
    json_decref(fit);
    process_expect_sentence(process_run(1, "train", s.config, SMALL, "--progress=none", NULL),
                            "cuda:0: patient (starting) (process ");
    process_run(0, "generate", "trained", "--device=cuda", "--max-tokens=1", NULL);
    process_close(waiting);
    process_close(holder);
}

/* ---- the host ---- */

/* The simulated GPU has room for anything, so only the host's memory can be too small. */
static void boundless(struct device *device, struct device_info *out)
{
    cuda_plugin.table->device_describe(device, out);
    out->total_bytes = (int64_t)1 << 60;
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define HUGE_MODEL "model.vocab_size=16777216", "model.hidden_dim=65536"

/* 4 TiB of weights, and three times as much in the snapshot that checkpoints are written from. */
TEST_CASE(page_locked_memory_that_the_host_has_not_is_reported_before_anything_is_allocated)
{
    struct session s;
    struct err err = {0};
    struct backend backend = *cuda_plugin.table;
    sim_set_machine(SIM_MACHINE_GOOD);
    backend.device_describe = boundless;
    session_open(&s, "host", &backend, WORDS(HUGE_MODEL), 900);
    assert_int_equal(session_try(&s, &err), STATUS_BUSY);
    if (!strstr(err.text, "training on cuda:0 needs 12.0 TiB of host memory, but ")) fail_msg("%s", err.text);
    assert_non_null(strstr(err.text, "or set checkpoint.background = false)"));
    assert_int_equal(sim_device_bytes(), 0);
    session_close(&s);
    session_open(&s, "no-snapshot", &backend, WORDS(HUGE_MODEL, "checkpoint.background=false"), 900);
    err = (struct err){0};
    assert_int_equal(session_try(&s, &err), STATUS_NO_MEMORY); /* the simulator has 1 GiB */
    assert_null(strstr(err.text, "of host memory"));
    session_close(&s);
}

TEST_MAIN()
