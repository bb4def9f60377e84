/* The thread that records what a GPU is doing, with a stand-in for NVIDIA's library that can be made to hang.
 */
#include <dlfcn.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tests/cmocka.h"
#include "tests/kernels/stand_in/nvml_stand_in.h"
#include "tests/runs/store_fixture.h"
#include "tui/session/metrics.h"

/* Loaded under the real one's name, so that opening that name finds it. */
static struct nvml_stand_in *stand_in(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    assert_true(n > 0);
    path[n] = '\0';
    strcpy(strrchr(path, '/'), "/../../kernels/stand_in/libnvidia-ml.so.1");
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library) fail_msg("%s", dlerror());
    struct nvml_stand_in *s = dlsym(library, "nvml_stand_in");
    assert_non_null(s);
    *s = (struct nvml_stand_in){.pid = (unsigned)getpid()};
    return s;
}

static struct metrics *start(const char *name, const char *uuid, char *home, size_t size)
{
    char id[RUN_ID_MAX];
    struct metrics *metrics = NULL;
    struct err err = {0};
    struct device_info device = {.short_name = "cuda:3"};
    snprintf(device.uuid, sizeof device.uuid, "%s", uuid);
    store_fixture_home(name, home, size);
    store_fixture_run(home, name, id);
    if (metrics_start(home, id, &device, &metrics, &err)) fail_msg("%s", err.text);
    return metrics;
}

/* However short the run is, its end is recorded. */
TEST_CASE(the_end_is_sampled_with_who_holds_memory)
{
    char home[1024];
    struct err err = {0};
    struct nvml_stand_in *s = stand_in();
    s->reasons = 0x24;
    struct metrics *metrics = start("sampled", "GPU-stand-in", home, sizeof home);
    if (metrics_stop(metrics, 60, &err)) fail_msg("%s", err.text);
    assert_true(store_fixture_number(home, "select count(*) from gpu_samples where utilization_pct = 97 and"
                                           " throttle = 'thermal, power cap' and load_1m >= 0") == 1);
    assert_true(store_fixture_number(home, "select count(*) from gpu_processes where pid = 500000 and bytes ="
                                           " 7516192768") == 1);
    assert_int_equal(s->opened, 0);
}

TEST_CASE(a_gpu_that_hangs_does_not_hold_up_the_end)
{
    char home[1024];
    struct err err = {0};
    int ends[2];
    struct nvml_stand_in *s = stand_in();
    assert_int_equal(pipe(ends), 0);
    s->hanging = ends[0];
    double before = clock_monotonic();
    struct metrics *metrics = start("hanging", "GPU-stand-in", home, sizeof home);
    assert_int_equal(metrics_stop(metrics, 0.05, &err), STATUS_BUSY);
    assert_true(clock_monotonic() - before < 20);
    assert_non_null(strstr(err.text, "has not answered for 0.05 s"));
    assert_int_equal(s->opened, 1);
    close(ends[1]); /* it answers after all: the thread ends, and stores nothing into a run that has ended */
    while (*(volatile int *)&s->opened) {
    }
    assert_true(store_fixture_number(home, "select count(*) from gpu_samples") == 0);
    close(ends[0]);
}

TEST_CASE(without_nvml_the_host_is_recorded)
{
    char home[1024];
    struct err err = {0};
    stand_in();
    struct metrics *metrics = start("host", "GPU-another", home, sizeof home);
    if (metrics_stop(metrics, 60, &err)) fail_msg("%s", err.text);
    assert_true(store_fixture_number(home,
                                     "select count(*) from gpu_samples where gpu = 3 and load_1m >= 0 and"
                                     " utilization_pct is null and memory_used_bytes is null and"
                                     " memory_total_bytes is null and power_w is null and"
                                     " process_bytes is null and processes_at is null") == 1);
    assert_true(store_fixture_number(home, "select count(*) from gpu_samples") == 1);
    assert_int_equal(metrics_stop(NULL, 60, &err), STATUS_OK);
}

TEST_CASE(samples_come_every_two_seconds)
{
    char home[1024];
    struct err err = {0};
    stand_in();
    double before = clock_monotonic();
    struct metrics *metrics = start("again", "GPU-another", home, sizeof home);
    while (store_fixture_number(home, "select count(*) from gpu_samples") < 2 &&
           clock_monotonic() - before < 60)
        usleep(50000);
    double seconds = clock_monotonic() - before;
    if (metrics_stop(metrics, 60, &err)) fail_msg("%s", err.text);
    assert_true(seconds > 1.5 && seconds < 60);
}

TEST_MAIN()
