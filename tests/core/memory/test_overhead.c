/* The memory of a device that is not in the plan: measured if possible, and stored per GPU. */
#include "core/memory/fit.h"
#include "tests/cmocka.h"
#include "tests/core/network/rig.h"

TEST_CASE(a_cpu_is_measured_by_what_the_process_holds)
{
    struct device_info cpu = {.uuid = ""};
    char *folder = rig_path("overhead-cpu");
    int64_t before = overhead_measure(&cpu);
    assert_true(before > 100000);
    enum { MORE = 32 << 20 };
    unsigned char *memory = malloc(MORE);
    assert_non_null(memory);
    for (size_t i = 0; i < MORE; i += 1024) ((volatile unsigned char *)memory)[i] = 1;
    assert_true(overhead_measure(&cpu) >= before + MORE / 2);
    free(memory);
    assert_int_equal(overhead_recall(folder, &cpu), -1);
    overhead_keep(folder, &cpu, before);
    assert_int_equal(overhead_recall(folder, &cpu), before);
    free(folder);
}

TEST_CASE(each_device_has_its_own)
{
    struct device_info one = {.uuid = "GPU-1"}, other = {.uuid = "GPU-2"};
    char *folder = rig_path("overhead-gpu"), *file = rig_path("overhead-gpu/overhead-GPU-2");
    assert_int_equal(overhead_recall(folder, &one), -1);
    overhead_keep(folder, &one, 500000000);
    overhead_keep(folder, &one, 600000000);
    overhead_keep(folder, &other, -1); /* not reported: nothing is written */
    assert_int_equal(overhead_recall(folder, &one), 600000000);
    assert_int_equal(overhead_recall(folder, &other), -1);
    assert_int_equal(overhead_recall(NULL, &one), -1);
    rig_write(file, "nonsense", 8);
    assert_int_equal(overhead_recall(folder, &other), -1);
    free(folder);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cpu_is_measured_by_what_the_process_holds),
        cmocka_unit_test(each_device_has_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
