/* The metrics that a run on a GPU records and shows: the real binary, the simulator as the GPU, and a
 * stand-in for NVIDIA's management library. */
#include <jansson.h>
#include <signal.h>

#include "tests/cmocka.h"
#include "tests/cuda_sim/simulated_plugin.h"
#include "tests/kernels/stand_in/nvml_stand_in.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* The library is in the folder of the tests, one below the binary's. */
static void use_stand_in(const char *pid)
{
    char path[4096];
    const char *binary = getenv("ANNEAL_BINARY");
    assert_non_null(binary);
    snprintf(path, sizeof path, "%.*s/tests/kernels/stand_in", (int)(strrchr(binary, '/') - binary), binary);
    setenv("LD_LIBRARY_PATH", path, 1);
    setenv(NVML_STAND_IN_PID, pid, 1);
}

static int forget(void **state)
{
    unsetenv("LD_LIBRARY_PATH");
    unsetenv(NVML_STAND_IN_PID);
    return simulated_plugin_forget(state);
}

static void assert_shows(const char *text, const char *wanted)
{
    if (!strstr(text, wanted)) fail_msg("\"%s\" is not in:\n%s", wanted, text);
}

STAGE_CASE_TEARDOWN(a_run_records_its_gpu_and_who_holds_memory_of_it, forget, struct stage *s)
{
    simulated_plugin_use("good");
    use_stand_in("own");
    process_run(0, "train", s->config, "--model.hidden_dim=16", "--train.total_steps=2", "--device=cuda",
                "--progress=none", NULL);
    char *text = process_output("show", "latest", NULL);
    assert_shows(text, "\nDevice, as last measured\n");
    assert_shows(text, "\nutilization_pct    97\n");
    assert_shows(text, "\nload_1m  ");
    assert_shows(text, "\nProcesses that hold its memory\n");
    text = process_output("show", "latest", "--json", NULL);
    json_t *shown = stage_json(text), *device = json_object_get(shown, "device_sample");
    assert_int_equal(stage_int(device, "gpu"), 2);
    assert_int_equal(stage_int(device, "process_bytes"), 40 << 20);
    assert_int_equal(json_array_size(json_object_get(device, "processes")),
                     3); /* it, a larger one, a screen's */
    text = process_output("export", "latest", "--table", "gpu", NULL);
    assert_shows(text, ",sm_clock_mhz,process_bytes,throttle,load_1m");
    assert_shows(text, ",64,1980,41943040,\"\",");
    text = stage_query(s, "select count(*), sum(bytes) >> 20, max(name <> '') from gpu_processes"
                          " where wall_time = (select processes_at from gpu_samples limit 1)");
    assert_string_equal(text, "3|7408|1"); /* 7 GiB, 200 and 40 MiB; its own process has a name */
}

STAGE_CASE_TEARDOWN(devices_reports_who_holds_memory_by_run_or_by_number, forget, struct stage *s)
{
    char pid[16], line[96];
    simulated_plugin_use("good");
    use_stand_in("own");
    struct process *run =
        process_start("train", s->config, "--model.hidden_dim=16", "--train.total_steps=1000000",
                      "--device=cuda", "--name=wide", "--progress=json", NULL);
    process_wait_lines(run, 3);
    snprintf(pid, sizeof pid, "%d", (int)process_pid(run));
    use_stand_in(pid);
    char *text = process_output("devices", NULL);
    assert_shows(text, "         97 % busy, 312 W, 64 C, 1980 MHz\n");
    snprintf(line, sizeof line, "-wide, process %s\n", pid);
    assert_shows(text, "         40.0 MiB held by ");
    assert_shows(text, line);
    assert_shows(text, "         7.0 GiB held by process 500000\n"); /* it has no name here */
    assert_shows(text, "host load ");
    assert_true(strstr(text, "7.0 GiB held") < strstr(text, "40.0 MiB held"));
    process_signal(run, SIGTERM);
    process_expect(0, run);
}

/* A real library does not have the simulator's GPU either. */
STAGE_CASE_TEARDOWN(a_run_without_nvml_records_its_host, forget, struct stage *s)
{
    simulated_plugin_use("good");
    process_run(0, "train", s->config, "--train.total_steps=2", "--device=cuda", "--progress=none", NULL);
    stage_expect(s,
                 "select count(*) > 0, min(gpu), count(utilization_pct), count(process_bytes),"
                 " min(load_1m) >= 0 from gpu_samples",
                 "1|0|0|0|1");
    char *text = process_output("show", "latest", NULL);
    assert_shows(text, "\nDevice, as last measured\n");
    if (strstr(text, "utilization_pct")) fail_msg("%s", text);
}

TEST_CASE_WITH(devices_says_why_nobody_can_tell, NULL, forget)
{
    simulated_plugin_use("good");
    char *text = process_output("devices", NULL);
    if (strstr(text, "libnvidia-ml.so.1 not found") == NULL) { /* a machine with a driver */
        assert_shows(text, "no GPU metrics: NVML ");
    }
}

TEST_MAIN()
