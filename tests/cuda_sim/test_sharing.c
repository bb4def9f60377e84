/* Several runs on one GPU of little memory: the second is refused or waits, and the first one's memory is
 * listed; the allocator that a run uses changes none of its numbers. */
#include <jansson.h>
#include <signal.h>

#include "core/base/clock.h"
#include "core/model/config.h"
#include "tests/cmocka.h"
#include "tests/cuda_sim/simulated_plugin.h"
#include "tests/kept.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tui/session/memory_share.h"

/* A tenth of the simulator's 1 GiB may be used, 102 MiB; the plan has 55, most of it the products' workspace.
 *
 * */
#define LARGE                                                                                                \
    "--device=cuda", "--memory.reserve=0.9", "--model.vocab_size=40000", "--model.hidden_dim=32",            \
        "--train.seq_len=8", "--train.batch_size=1", "--eval.batches=1", "--eval.every=0",                   \
        "--sample.every=0"

STAGE_CASE_TEARDOWN(a_run_that_does_not_fit_next_to_another_is_refused_or_waits, simulated_plugin_forget,
                    struct stage *s)
{
    simulated_plugin_use("good");
    struct process *first = process_start("train", s->config, LARGE, "--train.total_steps=1000000",
                                          "--name=first", "--progress=json", NULL);
    process_wait_lines(first, 3); /* it trains */

    struct process *refused =
        process_run(1, "train", s->config, LARGE, "--name=second", "--progress=none", NULL);
    process_expect_sentence(refused, "cuda:0: ");
    process_expect_sentence(refused, "-first ");
    process_expect_sentence(refused, "(--wait waits for them)");

    struct process *devices = process_run(0, "devices", NULL);
    char *holder = kept_format("-first, process %d, ", (int)process_pid(first));
    if (!strstr(process_stdout(devices), " reserved by ") || !strstr(process_stdout(devices), holder))
        fail_msg("no holder: %s", process_stdout(devices));
    if (!strstr(process_stdout(devices), " in use\n")) fail_msg("no use: %s", process_stdout(devices));

    struct process *waiting = process_start("train", s->config, LARGE, "--name=third", "--wait",
                                            "--train.total_steps=1", "--progress=none", NULL);
    process_wait_text(waiting, "anneal: waiting: cuda:0: ");
    /* it enters the queue right after it has reported that it waits */
    bool listed = false;
    for (double end = clock_monotonic() + 60; !listed && clock_monotonic() < end; process_close(devices)) {
        devices = process_run(0, "devices", NULL);
        listed = strstr(process_stdout(devices), " requested by third (starting), process ");
    }
    assert_true(listed);
    process_signal(first, SIGTERM);
    process_expect(0, first);
    process_expect(0, waiting);
    devices = process_run(0, "devices", NULL);
    assert_null(strstr(process_stdout(devices), "reserved by"));
}

STAGE_CASE_TEARDOWN(ctrl_c_ends_the_waiting, simulated_plugin_forget, struct stage *s)
{
    simulated_plugin_use("good");
    struct process *first = process_start("train", s->config, LARGE, "--train.total_steps=1000000",
                                          "--name=first", "--progress=json", NULL);
    process_wait_lines(first, 3);
    struct process *waiting = process_start("train", s->config, LARGE, "--wait", "--progress=none", NULL);
    process_wait_text(waiting, "anneal: waiting: ");
    process_signal(waiting, SIGINT);
    process_expect(130, waiting);
    assert_int_equal(stage_count_runs(), 1);
    process_signal(first, SIGKILL); /* its reservation no longer counts */
    process_wait_exit(first);
    process_run(0, "train", s->config, LARGE, "--train.total_steps=1", "--progress=none", NULL);
}

STAGE_CASE_TEARDOWN(memory_from_any_allocator_gives_the_same_losses, simulated_plugin_forget, struct stage *s)
{
    static const char *const kinds[] = {"basic", "pool", "arena", "caching"}, *const devices[] = {"cpu",
                                                                                                  "cuda"};
    simulated_plugin_use("good");
    for (int d = 0; d < 2; d++) {
        struct history first, other;
        for (int k = 0; k < 4; k++) {
            char *name = kept_format("--name=%s-%s", devices[d], kinds[k]);
            char *key = kept_format("--memory.allocator=%s", kinds[k]);
            char *device = kept_format("--device=%s", devices[d]);
            process_run(0, "train", s->config, "--model.hidden_dim=16", "--train.seq_len=8",
                        "--train.total_steps=5", device, key, name, "--progress=none", NULL);
            if (k)
                other = history_of(name + strlen("--name="));
            else
                first = history_of(name + strlen("--name="));
            if (k) history_expect_equal(&first, &other);
        }
        assert_int_equal(first.count, 5);
    }
}

/* Activation checkpointing, in bf16 on the GPU: the losses of several steps would show any gradient that
 * differs. */
STAGE_CASE_TEARDOWN(recomputed_activations_change_no_loss, simulated_plugin_forget, struct stage *s)
{
    struct history saved, recomputed;
    simulated_plugin_use("good");
    for (int i = 0; i < 2; i++)
        process_run(0, "train", s->config, "--model.hidden_dim=16", "--model.num_layers=3",
                    "--train.seq_len=8", "--train.total_steps=4", "--train.dropout=0.1", "--device=cuda",
                    i ? "--name=recomputed" : "--name=saved",
                    i ? "--checkpoint.activation_interval=1" : "--checkpoint.activation_interval=0",
                    "--progress=none", NULL);
    saved = history_of("saved");
    recomputed = history_of("recomputed");
    assert_int_equal(saved.count, 4);
    history_expect_equal(&saved, &recomputed);
    stage_expect(s,
                 "select (select max(live_bytes) from memory where category = 'activations' and run_id like"
                 " '%recomputed') < (select max(live_bytes) from memory where category = 'activations' and"
                 " run_id like '%saved')",
                 "1");
}

/* The layers and the rest add up to the plan without activation checkpointing; every other choice needs less.
 *
 * */
static void expect_layers_add_up(const json_t *estimate)
{
    json_int_t total = json_integer_value(json_object_get(estimate, "total_bytes")), sum = 0;
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(estimate, "layers"), i, entry)
        sum += json_integer_value(json_object_get(entry, "bytes"));
    assert_true(i > 1);
    assert_int_equal(sum, total);
    double most = 0;
    json_array_foreach(json_object_get(estimate, "activation_checkpointing"), i, entry) {
        json_int_t bytes = json_integer_value(json_object_get(entry, "total_bytes"));
        double extra = json_real_value(json_object_get(entry, "extra_flops"));
        assert_true(i == 0 ? bytes == total && extra == 0 : bytes < total && extra > 0);
        if (i == 1) most = extra; /* every layer */
        assert_true(extra <= most || i == 0);
    }
    assert_true(i >= 2); /* none, every layer; more where there are as many layers */
}

/* Every category, at every report of the newest run. */
static void expect_what_was_allocated(const struct stage *s, const json_t *estimate, const char *word)
{
    const char *name;
    json_t *bytes;
    json_object_foreach(json_object_get((json_t *)(uintptr_t)estimate, "categories"), name, bytes) {
        char sql[400];
        snprintf(sql, sizeof sql,
                 "select ifnull(min(live_bytes), 0), ifnull(max(live_bytes), 0), ifnull(max(peak_bytes), 0)"
                 " from memory where category = '%s' and run_id = (select id from runs order by created_at"
                 " desc limit 1)",
                 name);
        char *row = stage_query(s, sql), expected[100];
        long long planned = json_integer_value(bytes);
        snprintf(expected, sizeof expected, "%lld|%lld|%lld", planned, planned, planned);
        if (strcmp(row, expected) != 0) fail_msg("%s: %s: %s instead of %s", word, name, row, expected);
    }
}

/* Host memory is listed, but is not part of the device's memory. */
static void expect_total_without_the_host(const json_t *estimate)
{
    const json_t *of = json_object_get(estimate, "categories");
    json_int_t sum = 0;
    const char *name;
    json_t *bytes;
    json_object_foreach((json_t *)(uintptr_t)of, name, bytes) sum += json_integer_value(bytes);
    sum -=
        json_integer_value(json_object_get(of, "host")) + json_integer_value(json_object_get(of, "snapshot"));
    assert_true(json_integer_value(json_object_get(of, "snapshot")) > 0);
    assert_int_equal(json_integer_value(json_object_get(estimate, "total_bytes")), sum);
}

STAGE_CASE_TEARDOWN(the_estimate_for_the_gpu_is_what_is_allocated_there, simulated_plugin_forget,
                    struct stage *s)
{
    static const char *const words[] = {"--train.precision=fp32",       "--train.precision=tf32",
                                        "--train.precision=bf16",       "--memory.allocator=basic",
                                        "--memory.allocator=pool",      "--memory.allocator=caching",
                                        "--train.accumulation_steps=2", "--checkpoint.contents=weights"};
    simulated_plugin_use("good");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        process_run(0, "train", s->config, "--model.hidden_dim=16", "--train.total_steps=1", "--eval.every=0",
                    "--sample.every=0", "--device=cuda", words[i], "--progress=none", NULL);
        json_t *estimate = stage_json(process_output("estimate", s->config, "--model.hidden_dim=16",
                                                     "--device=cuda", words[i], "--json", NULL));
        expect_what_was_allocated(s, estimate, words[i]);
        expect_total_without_the_host(estimate);
        expect_layers_add_up(estimate);
    }
}

/* A short run leaves one sample at its end. */
STAGE_CASE_TEARDOWN(a_run_leaves_device_metrics, simulated_plugin_forget, struct stage *s)
{
    process_run(0, "train", s->config, "--train.total_steps=2", "--progress=none", NULL);
    char *row = stage_query(
        s,
        "select count(*) > 0, min(gpu), min(process_bytes) > 1000000, max(memory_used_bytes) <"
        " max(memory_total_bytes), max(process_bytes) > (select sum(live_bytes) from memory where step = 2)"
        " from gpu_samples"); /* the process holds more than the memory for training */
    assert_string_equal(row, "1|-1|1|1|1");
}

/* A given share applies to every device; "auto" leaves more free on devices that other programs use. */
TEST_CASE(the_share_that_stays_free_follows_the_kind_of_device)
{
    struct config config;
    struct err err = {0};
    char text[32];
    struct device_info cpu = {.uuid = ""}, rack = {.uuid = "GPU-1"},
                       desk = {.uuid = "GPU-2", .has_display = true};
    config_init(&config);
    assert_true(config_get(&config, "memory.reserve", text, sizeof text));
    assert_string_equal(text, "auto");
    assert_true(memory_share_reserve(&cpu, config.memory.reserve) == 0.10);
    assert_true(memory_share_reserve(&desk, config.memory.reserve) == 0.10);
    assert_true(memory_share_reserve(&rack, config.memory.reserve) == 0.02);
    assert_int_equal(config_read_word(&config, "memory.reserve=0.3", &err), STATUS_OK);
    assert_true(memory_share_reserve(&cpu, config.memory.reserve) == 0.3);
    assert_true(memory_share_reserve(&rack, config.memory.reserve) == 0.3);
    assert_int_equal(config_read_word(&config, "memory.reserve=most", &err), STATUS_USAGE);
    assert_string_equal(err.text, "memory.reserve = most: must be a number from 0 to 0.95, or auto");
}

TEST_MAIN()
