/* A traced step on the simulated device: every kernel and copy that CUPTI reports is in the trace with its
 * name and time; a machine without CUPTI trains and reports that it is missing; Nsight's ranges are
 * balanced. */
#include <math.h>

#include "kernels/device/cuda_plugin.h"
#include "tests/cmocka.h"
#include "tests/core/train/story.h"
#include "tests/core/train/trace_reader.h"
#include "tests/cuda_sim/simulator.h"

extern const struct cuda_plugin cuda_plugin;

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct trace_reading reading; /* large for the stack */

static uint64_t launches_before, products_before;
static long launched; /* kernels and products of the step after the third */

static void count_launches(struct story *story)
{
    if (story->done == 3) {
        launches_before = sim_launches();
        products_before = sim_products();
    }
    if (story->done == 4)
        launched = (long)(sim_launches() - launches_before + sim_products() - products_before);
}

static void train(struct session *s, const char *name, const char *const *words)
{
    session_open(s, name, cuda_plugin.table, words, 900);
    s->story.on_step = count_launches;
    session_start(s, false);
    assert_int_equal(session_run(s), TRAIN_FINISHED);
}

static void read_step(const struct session *s, int step)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/step-%d.json", s->traces, step);
    trace_read(path, &reading);
}

/* First: a process that has found CUPTI keeps it. */
TEST_CASE(without_cupti_the_trace_has_the_operations_and_says_what_is_missing)
{
    struct session s;
    sim_set_cupti(false, 0);
    train(&s, "no-cupti", WORDS("train.total_steps=4", "profile.trace_step=2"));
    sim_set_cupti(true, 0);
    assert_int_equal(s.story.event_count, 1);
    assert_string_equal(s.story.last_level, "warning");
    assert_non_null(strstr(s.story.last_event,
                           "written to traces/step-2.json; cuda: no kernels in the trace: "
                           "libcupti.so.13 not found (install CUPTI"));
    read_step(&s, 2);
    assert_non_null(trace_find(&reading, "layer 1"));
    assert_int_equal(trace_count(&reading, "kernel"), 0);
    session_close(&s);
}

/* The simulator says 40 registers of every kernel: 48 warps of the 64 of its multiprocessor. */
static void expect_launches(void)
{
    bool adamw = false, shares = false;
    for (int i = 0; i < reading.count; i++) {
        const struct trace_event *e = &reading.events[i];
        if (strcmp(e->category, "kernel") != 0) continue;
        assert_true(e->registers == 40 && e->blocks >= 1 && e->threads >= 1);
        assert_true(e->occupancy > 0 && e->occupancy <= 75 && e->waves > 0);
        shares |= e->static_shared + e->dynamic_shared > 0;
        if (!strstr(e->name, "optimizer_update<")) continue;
        adamw = true;
        assert_true(e->threads == 256 && e->occupancy == 75 && e->waves == e->blocks / 6);
        assert_string_equal(e->limit, "registers");
    }
    assert_true(adamw && shares);
}

static void expect_everything(const struct session *s)
{
    read_step(s, 3);
    assert_string_equal(reading.processes[2], "CUDA simulator");
    assert_int_equal(trace_count(&reading, "kernel"), launched);
    static const char *const there[] = {"cublasLtMatmul", "upload", "fill", "download", "backward"};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        if (!trace_find(&reading, there[i])) fail_msg("no \"%s\" in the trace", there[i]);
    bool adamw = false;
    for (int i = 0; i < reading.count; i++)
        adamw |= reading.events[i].process == 2 && strstr(reading.events[i].name, "adamw") != NULL;
    assert_true(adamw);
    expect_launches();
    const struct trace_event *upload = trace_find(&reading, "upload"); /* inputs and targets (2,16) int32 */
    assert_true(upload->bytes == 2 * 2 * 16 * 4 && upload->thread == 7);
    /* the operations' times are from the same simulated clock and add up to the device's work */
    long long device = trace_sum(&reading, "kernel") + trace_sum(&reading, "copy");
    assert_int_equal(trace_sum(&reading, "operation"), device);
    assert_true(device <= trace_sum(&reading, "step"));
}

TEST_CASE(every_kernel_and_copy_of_the_step_is_in_the_trace)
{
    struct session s;
    train(&s, "kernels", WORDS("train.total_steps=5", "profile.trace_step=3", "profile.every=0"));
    assert_string_equal(s.story.last_event, "trace of step 3: written to traces/step-3.json");
    expect_everything(&s);
    session_close(&s);
}

TEST_CASE(records_that_come_in_many_buffers_are_all_there)
{
    struct session s;
    sim_set_cupti(true, 3);
    train(&s, "buffers", WORDS("train.total_steps=5", "profile.trace_step=3"));
    sim_set_cupti(true, 0);
    expect_everything(&s);
    session_close(&s);
}

TEST_CASE(too_many_records_are_reported)
{
    struct session s;
    sim_set_cupti(true, 1); /* more buffers than the product keeps */
    train(&s, "many", WORDS("train.total_steps=5", "profile.trace_step=3", "train.accumulation_steps=8"));
    sim_set_cupti(true, 0);
    assert_non_null(
        strstr(s.story.last_event, "written to traces/step-3.json; cuda: the trace lacks kernels"));
    assert_true(launched > 256);
    read_step(&s, 3);
    assert_in_range(trace_count(&reading, "kernel"), 1, 256);
    session_close(&s);
}

TEST_CASE(two_traces_of_a_run_hold_each_their_own_step)
{
    struct session s;
    struct story_order script[] = {{.at = 1, .order = {.id = 1, .verb = ORDER_TRACE}},
                                   {.at = 3, .order = {.id = 2, .verb = ORDER_TRACE}},
                                   {0}};
    session_open(&s, "two", cuda_plugin.table, WORDS("train.total_steps=5"), 900);
    s.story.orders = script;
    s.story.on_step = count_launches;
    session_start(&s, false);
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    expect_everything(&s);
    read_step(&s, 1);
    assert_int_equal(trace_count(&reading, "kernel"), launched);
    session_close(&s);
}

TEST_CASE(a_traced_step_computes_the_same_bits)
{
    struct session plain, traced;
    train(&plain, "plain", WORDS("train.total_steps=5", "profile.every=0"));
    train(&traced, "traced", WORDS("train.total_steps=5", "profile.trace_step=3"));
    for (int i = 0; i < 5; i++) {
        assert_memory_equal(&plain.story.steps[i].loss, &traced.story.steps[i].loss, sizeof(double));
        assert_memory_equal(&plain.story.steps[i].grad_norm, &traced.story.steps[i].grad_norm,
                            sizeof(double));
    }
    session_close(&plain), session_close(&traced);
}

TEST_CASE(phases_and_operations_are_ranges_that_all_end)
{
    struct session s;
    uint64_t forward = sim_ranges("forward"), attention = sim_ranges("attention");
    train(&s, "ranges", WORDS("train.total_steps=4", "profile.every=1", "profile.warmup_steps=2"));
    assert_int_equal(sim_open_ranges(), 0);
    assert_int_equal(sim_ranges("forward"), forward + 2);     /* of two steps */
    assert_int_equal(sim_ranges("attention"), attention + 8); /* two layers, forward and backward */
    session_close(&s);
}

/* The device is lost during the traced step: the order is not answered, and no file is left behind. */
TEST_CASE(a_device_that_fails_while_it_is_traced_ends_the_run_as_any)
{
    struct session s;
    struct err err = {0};
    enum train_outcome outcome;
    struct story_order script[] = {{.at = 2, .order = {.id = 1, .verb = ORDER_TRACE}}, {0}};
    session_open(&s, "lost", cuda_plugin.table, WORDS("train.total_steps=5"), 900);
    session_start(&s, false);
    s.story.orders = script;
    sim_set_fault("fault_at:200");
    assert_int_equal(trainer_run(s.trainer, &outcome, &err), STATUS_DEVICE);
    trainer_close(s.trainer);
    s.trainer = NULL;
    assert_int_equal(s.story.done, 2);
    assert_int_equal(s.story.acknowledged, 0);
    s.backend->device_close(s.device);
    sim_set_machine(SIM_MACHINE_GOOD);
    assert_int_equal(s.backend->device_open(DEVICE_FIRST, 0, &s.device, &err), STATUS_OK);
    session_start(&s, false); /* and the next one can be traced */
    s.config.profile.trace_step = 3;
    s.story.orders = NULL;
    assert_int_equal(session_run(&s), TRAIN_FINISHED);
    read_step(&s, 3);
    assert_true(trace_count(&reading, "kernel") > 10);
    session_close(&s);
}

TEST_MAIN()
