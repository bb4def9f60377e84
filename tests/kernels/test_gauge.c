/* Device metrics: of a GPU as a stand-in for NVIDIA's library tells them, and of this processor. */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/gauge.h"

struct nvml_stand_in {
    int start, failing;
    unsigned pid;
    unsigned long long reasons;
    int opened;
};

/* Loaded under the real one's name, so that opening that name finds it. */
static struct nvml_stand_in *stand_in(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    assert_true(n > 0);
    path[n] = '\0';
    strcpy(strrchr(path, '/'), "/stand_in/libnvidia-ml.so.1");
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library) fail_msg("%s", dlerror());
    struct nvml_stand_in *s = dlsym(library, "nvml_stand_in");
    assert_non_null(s);
    *s = (struct nvml_stand_in){.pid = (unsigned)getpid()};
    return s;
}

/* Before the stand-in is loaded, so this must come first: a machine without the library, as CI's is. */
static void a_machine_without_the_library_says_so(void **state)
{
    (void)state;
    struct gauge *gauge;
    struct err err = {0};
    void *real = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (real) {
        dlclose(real);
        skip();
    }
    assert_int_equal(gauge_open("GPU-stand-in", &gauge, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "libnvidia-ml.so.1 is not there"));
}

static void a_gpu_tells_load_memory_power_and_clocks(void **state)
{
    (void)state;
    struct nvml_stand_in *s = stand_in();
    struct gauge *gauge;
    struct gpu_record r;
    struct err err = {0};
    s->reasons = 0x4 | 0x1;
    assert_int_equal(gauge_open("GPU-stand-in", &gauge, &err), STATUS_OK);
    gauge_read(gauge, &r);
    assert_true(r.gpu == 2 && r.utilization_pct == 97 && r.power_w == 312.5 && r.temperature_c == 64 &&
                r.sm_clock_mhz == 1980 && r.wall_time > 1e9);
    assert_true(r.memory_used_bytes == (int64_t)10 << 30 && r.memory_total_bytes == (int64_t)80 << 30);
    assert_int_equal(r.process_bytes, (int64_t)3 << 30);
    assert_string_equal(r.throttle, "power cap");
    s->reasons |= 0x40;
    gauge_read(gauge, &r);
    assert_string_equal(r.throttle, "thermal (hardware)");
    s->reasons = 1; /* idle is no reason */
    s->pid = 0;     /* a container: the numbers are the host's */
    gauge_read(gauge, &r);
    assert_string_equal(r.throttle, "");
    assert_int_equal(r.process_bytes, -1);
    gauge_close(gauge);
    assert_int_equal(s->opened, 0);
}

static void what_a_gpu_does_not_tell_is_unknown_not_zero(void **state)
{
    (void)state;
    struct nvml_stand_in *s = stand_in();
    struct gauge *gauge;
    struct gpu_record r;
    struct err err = {0};
    s->failing = 3; /* not supported */
    assert_int_equal(gauge_open("GPU-stand-in", &gauge, &err), STATUS_OK);
    gauge_read(gauge, &r);
    assert_true(isnan(r.utilization_pct) && isnan(r.power_w) && isnan(r.temperature_c) &&
                isnan(r.sm_clock_mhz));
    assert_true(r.memory_used_bytes == -1 && r.memory_total_bytes == -1 && r.process_bytes == -1);
    gauge_close(gauge);
    s->failing = 0;
    assert_int_equal(gauge_open("GPU-another", &gauge, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "does not know GPU-another"));
    s->start = 9;
    assert_int_equal(gauge_open("GPU-stand-in", &gauge, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "error 9"));
    assert_int_equal(s->opened, 0);
}

/* Work of some processor time between two readings shows as load. */
static void the_processor_tells_load_and_memory(void **state)
{
    (void)state;
    struct gauge *gauge;
    struct gpu_record r;
    struct err err = {0};
    assert_int_equal(gauge_open("", &gauge, &err), STATUS_OK);
    size_t bytes = (size_t)64 << 20;
    unsigned char *memory = malloc(bytes);
    assert_non_null(memory);
    for (size_t i = 0; i < bytes; i += 4096) memory[i] = (unsigned char)i;
    gauge_read(gauge, &r);
    assert_int_equal(r.gpu, -1);
    assert_true(r.utilization_pct > 0 && r.utilization_pct <= 110);
    assert_true(r.process_bytes >= (int64_t)bytes && r.process_bytes < r.memory_total_bytes);
    assert_true(r.memory_used_bytes > 0 && r.memory_used_bytes <= r.memory_total_bytes);
    assert_true(isnan(r.power_w) && isnan(r.temperature_c));
    free(memory);
    gauge_close(gauge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_without_the_library_says_so),
        cmocka_unit_test(a_gpu_tells_load_memory_power_and_clocks),
        cmocka_unit_test(what_a_gpu_does_not_tell_is_unknown_not_zero),
        cmocka_unit_test(the_processor_tells_load_and_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
