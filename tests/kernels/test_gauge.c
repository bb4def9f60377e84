/* Device metrics: of a GPU, reported by a stand-in for NVIDIA's library, and of this processor. */
#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "kernels/device/gauge.h"
#include "tests/cmocka.h"
#include "tests/kernels/stand_in/nvml_stand_in.h"

#define MIB ((int64_t)1 << 20)
#define GIB ((int64_t)1 << 30)

static void *library;

/* Loaded under the real one's name, so that opening that name finds it; one at a time. */
static struct nvml_stand_in *stand_in_of(const char *driver)
{
    char path[4096];
    if (library) dlclose(library);
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    assert_true(n > 0);
    path[n] = '\0';
    sprintf(strrchr(path, '/'), "/stand_in/%slibnvidia-ml.so.1", driver);
    library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library) fail_msg("%s", dlerror());
    struct nvml_stand_in *s = dlsym(library, "nvml_stand_in");
    assert_non_null(s);
    *s = (struct nvml_stand_in){.pid = (unsigned)getpid()};
    return s;
}

static struct nvml_stand_in *stand_in(void)
{
    return stand_in_of("");
}

static struct gauge *open_gauge(const char *uuid)
{
    struct gauge *gauge = NULL;
    struct err err = {0};
    if (gauge_open(uuid, &gauge, &err)) fail_msg("%s", err.text);
    return gauge;
}

static const struct gpu_process *holder(const struct gpu_record *r, int64_t pid)
{
    for (int64_t i = 0; i < r->process_count; i++)
        if (r->processes[i].pid == pid) return &r->processes[i];
    fail_msg("process %lld is not listed", (long long)pid);
    return NULL;
}

/* Before the stand-in is loaded, so this must come first: a machine without the library, as CI's is. */
TEST_CASE(a_machine_without_the_library_says_so)
{
    struct gauge *gauge;
    struct err err = {0};
    void *real = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (real) {
        dlclose(real);
        skip();
    }
    assert_int_equal(gauge_open("GPU-stand-in", &gauge, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "libnvidia-ml.so.1 not found"));
}

TEST_CASE(a_gpu_reports_load_memory_power_and_clocks)
{
    struct nvml_stand_in *s = stand_in();
    struct gpu_record r;
    struct gauge *gauge = open_gauge("GPU-stand-in");
    gauge_read(gauge, &r);
    assert_true(r.gpu == 2 && r.utilization_pct == 97 && r.power_w == 312.5 && r.temperature_c == 64 &&
                r.sm_clock_mhz == 1980 && r.wall_time > 1e9);
    assert_true(r.memory_used_bytes == 10 * GIB && r.memory_total_bytes == 80 * GIB);
    assert_int_equal(r.process_bytes, 3 * GIB);
    assert_true(r.load_1m >= 0); /* of the host */
    gauge_close(gauge);
    assert_int_equal(s->opened, 0);
}

TEST_CASE(an_instance_of_a_gpu_is_found_by_the_uuid_that_cuda_gives)
{
    struct nvml_stand_in *s = stand_in();
    struct gpu_record r;
    struct gauge *gauge = open_gauge("GPU-instance");
    gauge_read(gauge, &r);
    assert_int_equal(r.memory_total_bytes, 80 * GIB);
    gauge_close(gauge);
    assert_int_equal(s->opened, 0);
}

TEST_CASE(every_reason_for_low_clocks_is_reported_the_weightiest_first)
{
    static const struct {
        unsigned long long bits;
        const char *text;
    } cases[] = {
        {0x000, ""},
        {0x001, ""}, /* idle is none */
        {0x002, "set clocks"},
        {0x004, "power cap"},
        {0x008, "hardware slowdown"},
        {0x010, "sync boost"},
        {0x020, "thermal"},
        {0x040, "thermal (hardware)"},
        {0x080, "power brake"},
        {0x100, "display clocks"},
        {0x200, "other"}, /* of a driver that is newer than this program */
        {0x045, "thermal (hardware), power cap"},
        {0x3FF,
         "thermal (hardware), thermal, power brake, hardware slowdown, power cap, sync boost, set clocks, "
         "display clocks, other"},
    };
    struct nvml_stand_in *s = stand_in();
    struct gpu_record r;
    struct gauge *gauge = open_gauge("GPU-stand-in");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s->reasons = cases[i].bits;
        gauge_read(gauge, &r);
        assert_string_equal(r.throttle, cases[i].text);
    }
    gauge_close(gauge);
}

TEST_CASE(who_holds_memory_is_listed_by_number_and_named)
{
    struct nvml_stand_in *s = stand_in();
    struct gpu_record r;
    assert_int_equal(prctl(PR_SET_NAME, "a\033[1m\x7f"), 0); /* any program can */
    s->unknown = 500007;
    struct gauge *gauge = open_gauge("GPU-stand-in");
    gauge_read(gauge, &r);
    assert_int_equal(r.process_count, 4);
    for (int i = 1; i < 4; i++) assert_true(r.processes[i - 1].pid < r.processes[i].pid);
    assert_int_equal(holder(&r, getpid())->bytes,
                     3 * GIB); /* it computes and draws: reported twice, counted once */
    assert_string_equal(holder(&r, getpid())->name, "a?[1m?");
    assert_int_equal(holder(&r, 500000)->bytes, 7 * GIB);
    assert_int_equal(holder(&r, 500007)->bytes, -1);
    assert_int_equal(holder(&r, 600000)->bytes, 200 * MIB); /* it only draws */
    s->instances = 2;
    gauge_read(gauge, &r);
    assert_int_equal(holder(&r, getpid())->bytes, 6 * GIB); /* of each instance its own */
    s->failing_graphics = 3;
    gauge_read(gauge, &r);
    assert_int_equal(r.process_count, 3);
    gauge_close(gauge);
}

TEST_CASE(of_more_processes_than_anybody_has_none_are_reported)
{
    struct nvml_stand_in *s = stand_in();
    struct gpu_record r;
    s->more = 500;
    struct gauge *gauge = open_gauge("GPU-stand-in");
    gauge_read(gauge, &r);
    assert_int_equal(r.process_count, 503);
    assert_int_equal(holder(&r, 500001)->bytes, MIB);
    assert_int_equal(holder(&r, 500500)->bytes, 500 * MIB);
    assert_int_equal(r.process_bytes, 3 * GIB);
    s->more = 1000;
    gauge_read(gauge, &r);
    assert_int_equal(r.process_count, -1);
    assert_true(r.power_w == 312.5);
    gauge_close(gauge);
}

static bool is_own_namespace(void)
{
    char link[64] = "";
    assert_true(readlink("/proc/self/ns/pid", link, sizeof link - 1) > 0);
    return strcmp(link, "pid:[4026531836]") != 0;
}

/* In a container the host's process ids are useless, unless this process is among them. */
TEST_CASE(in_a_container_nobody_has_a_name_that_might_be_another_ones)
{
    struct nvml_stand_in *s = stand_in();
    struct gpu_record r;
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    s->pid = (unsigned)child; /* it exists; nobody there is us */
    struct gauge *gauge = open_gauge("GPU-stand-in");
    gauge_read(gauge, &r);
    assert_int_equal(r.process_bytes, -1);
    assert_int_equal(holder(&r, child)->name[0] == '\0', is_own_namespace());
    assert_string_equal(holder(&r, 500000)->name, "");
    s->unknown = (unsigned)getpid();
    s->failing_graphics = 3;
    gauge_read(gauge, &r);
    assert_true(holder(&r, child)->name[0] != '\0');
    assert_true(holder(&r, getpid())->name[0] != '\0'); /* the last of the list */
    gauge_close(gauge);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

TEST_CASE(what_a_gpu_does_not_tell_is_unknown_not_zero)
{
    struct nvml_stand_in *s = stand_in();
    struct gauge *gauge;
    struct gpu_record r;
    struct err err = {0};
    s->failing = 3; /* not supported */
    gauge = open_gauge("GPU-stand-in");
    gauge_read(gauge, &r);
    assert_true(isnan(r.utilization_pct) && isnan(r.power_w) && isnan(r.temperature_c) &&
                isnan(r.sm_clock_mhz));
    assert_true(r.memory_used_bytes == -1 && r.memory_total_bytes == -1 && r.process_bytes == -1);
    assert_int_equal(r.process_count, -1);
    gauge_close(gauge);
    s->failing = 0;
    assert_int_equal(gauge_open("GPU-another", &gauge, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "does not know GPU-another"));
    s->start = 9;
    assert_int_equal(gauge_open("GPU-stand-in", &gauge, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "error 9"));
    assert_int_equal(s->opened, 0);
}

TEST_CASE(an_old_driver_reports_what_it_has)
{
    struct nvml_stand_in *s = stand_in_of("old/");
    struct gpu_record r;
    s->reasons = 0x4;
    struct gauge *gauge = open_gauge("GPU-stand-in");
    gauge_read(gauge, &r);
    assert_true(r.utilization_pct == 97 && r.power_w == 312.5);
    assert_string_equal(r.throttle, "power cap"); /* by the function's older name */
    assert_true(r.process_bytes == -1 && r.process_count == -1);
    gauge_close(gauge);
}

TEST_CASE(a_glance_has_what_the_gauge_says)
{
    struct nvml_stand_in *s = stand_in();
    struct gpu_record r;
    struct err err = {0};
    s->more = 100;
    if (gauge_glance("GPU-stand-in", 60, &r, &err)) fail_msg("%s", err.text);
    assert_int_equal(r.process_count, 103);
    assert_int_equal(holder(&r, 500100)->bytes, 100 * MIB);
    free(r.processes);
    assert_int_equal(gauge_glance("GPU-another", 60, &r, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "does not know GPU-another"));
    assert_int_equal(gauge_glance("", 0, &r, &err), STATUS_OK); /* the CPU */
    assert_int_equal(r.gpu, -1);
    assert_int_equal(s->opened, 0);
}

TEST_CASE(a_glance_at_a_gpu_that_hangs_comes_back)
{
    struct nvml_stand_in *s = stand_in();
    struct gpu_record r;
    struct err err = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    s->hanging = ends[0];
    double before = clock_monotonic();
    assert_int_equal(gauge_glance("GPU-stand-in", 0.05, &r, &err), STATUS_BUSY);
    assert_true(clock_monotonic() - before < 20);
    assert_non_null(strstr(err.text, "NVML has not answered for 0.05 s"));
    assert_int_equal(s->opened, 1); /* the thread that was left behind is still there */
    assert_int_equal(write(ends[1], "x", 1), 1);
    while (*(volatile int *)&s->opened) { /* and ends when it is answered */
    }
    close(ends[1]); /* not the other: the thread was in a library in which nobody sees that it is done */
}

/* Work of some processor time between two readings shows as load. */
TEST_CASE(the_processor_reports_load_and_memory)
{
    struct gpu_record r;
    struct gauge *gauge = open_gauge("");
    size_t bytes = (size_t)64 << 20;
    unsigned char *memory = malloc(bytes);
    assert_non_null(memory);
    for (size_t i = 0; i < bytes; i += 4096) memory[i] = (unsigned char)i;
    gauge_read(gauge, &r);
    assert_int_equal(r.gpu, -1);
    assert_true(r.utilization_pct > 0 && r.utilization_pct <= 110);
    assert_true(r.process_bytes >= (int64_t)bytes && r.process_bytes < r.memory_total_bytes);
    assert_true(r.memory_used_bytes > 0 && r.memory_used_bytes <= r.memory_total_bytes);
    assert_int_equal(r.memory_total_bytes, memory_total()); /* of a control group with a limit: that */
    assert_true(isnan(r.power_w) && isnan(r.temperature_c));
    assert_string_equal(r.throttle, "");
    assert_int_equal(r.process_count, -1);
    free(memory);
    gauge_close(gauge);
}

TEST_CASE(the_load_of_the_host_is_what_the_kernel_says)
{
    struct gpu_record r;
    double before, after;
    struct gauge *gauge = open_gauge("");
    do { /* it changes every five seconds */
        assert_int_equal(getloadavg(&before, 1), 1);
        gauge_read(gauge, &r);
        assert_int_equal(getloadavg(&after, 1), 1);
    } while (before != after);
    assert_true(r.load_1m == before);
    gauge_close(gauge);
}

TEST_MAIN()
