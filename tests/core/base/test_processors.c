/* The processors of a process: the limits of control groups of both versions, read from folders like the
 * kernel's, the affinity, and OMP_NUM_THREADS. */
#include <limits.h>
#include <math.h>
#include <sched.h>

#include "core/base/processors.h"
#include "tests/cmocka.h"
#include "tests/core/base/groups.h"

static double limit_with(const char *groups)
{
    groups_put("", "groups", groups);
    return processors_limit_read(groups_file, groups_root);
}

static void expect(double found, double expected)
{
    if (fabs(found - expected) > 1e-9) fail_msg("%g instead of %g", found, expected);
}

TEST_CASE(the_lowest_limit_above_a_process_counts)
{
    groups_begin("second");
    groups_put("/user.slice", "cpu.max", "400000 100000\n");
    groups_put("/user.slice/job", "cpu.max", "max 100000\n");
    groups_put("/user.slice/job/step", "cpu.max", "1200000 100000\n");
    expect(limit_with("0::/user.slice/job/step\n"), 4);
    groups_put("/user.slice/job", "cpu.max", "75000 50000\n");
    expect(limit_with("0::/user.slice/job/step\n"), 1.5);
    expect(limit_with("0::/user.slice\n"), 4);
    expect(limit_with("0::/elsewhere\n"), 0);
}

TEST_CASE(in_a_container_the_mount_point_is_the_group)
{
    groups_begin("container");
    groups_put("", "cpu.max", "250000 100000\n");
    expect(limit_with("0::/not/seen/inside\n"), 2.5);
    expect(limit_with("0::/\n"), 2.5);
}

TEST_CASE(version_1_has_two_files_and_a_hierarchy_for_each_controller)
{
    groups_begin("first");
    groups_put("/cpu", "cpu.cfs_quota_us", "-1\n");
    groups_put("/cpu", "cpu.cfs_period_us", "100000\n");
    groups_put("/cpu/job", "cpu.cfs_quota_us", "300000\n");
    groups_put("/cpu/job", "cpu.cfs_period_us", "100000\n");
    groups_put("/cpuset/job", "cpu.cfs_quota_us", "100000\n");
    expect(limit_with("5:cpuset:/job\n4:cpuacct,cpu:/job\n3:memory:/job\n"), 3);
    expect(limit_with("4:cpu:/\n"), 0);
    expect(limit_with("4:cpuset,cpuacct:/job\n"), 0);
}

TEST_CASE(what_is_no_limit_is_ignored)
{
    static const char *const texts[] = {
        "",         "\n",       "max\n",     "max 100000\n", "-1 100000\n",   "0 100000\n",
        "100000\n", "100000 0", "100000 -5", "many much",    "100000 period", "99999999999999999999 1",
        "\xFF\xFE", " ",        "100000 \n"};
    groups_begin("hostile");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        groups_put("/job", "cpu.max", texts[i]);
        double found = limit_with("0::/job\n");
        expect(found, 0);
        assert_true(processors_within(found, 8) >= 1);
    }
    groups_put("/job", "cpu.max", "9000000000000000000 1\n");
    assert_int_equal(processors_within(limit_with("0::/job\n"), 8), 8);
    groups_put("/job", "cpu.max", "1 9000000000000000000\n");
    assert_int_equal(processors_within(limit_with("0::/job\n"), 8), 1);
}

TEST_CASE(damaged_lists_of_groups_are_ignored)
{
    groups_begin("lists");
    groups_put("", "cpu.max", "100000 100000\n");
    expect(limit_with(""), 0);
    expect(limit_with("0\n0:\n0:cpu\n:\n\n"), 0);
    expect(limit_with("0::relative\n"), 0);
    expect(processors_limit_read("/no/such/file", groups_root), 0);
    char longest[3 * PATH_MAX] = "0::/";
    memset(longest + 4, 'x', sizeof longest - 5);
    longest[sizeof longest - 1] = '\0';
    limit_with(longest); /* neither a crash nor a path that is cut short */
}

TEST_CASE(a_limit_is_rounded_up_but_not_for_a_trifle)
{
    assert_int_equal(processors_within(0, 8), 8);
    assert_int_equal(processors_within(0.2, 8), 1);
    assert_int_equal(processors_within(1, 8), 1);
    assert_int_equal(processors_within(1.04, 8), 1);
    assert_int_equal(processors_within(1.5, 8), 2);
    assert_int_equal(processors_within(7.99, 8), 8);
    assert_int_equal(processors_within(100, 8), 8);
}

TEST_CASE(omp_num_threads_is_followed_if_it_is_a_number)
{
    static const struct {
        const char *text;
        int wanted;
    } cases[] = {{"3", 3},   {" 4 ", 4}, {"5,2", 5}, {"0", 0},     {"-1", 0},
                 {"two", 0}, {"", 0},    {"2x", 0},  {"70000", 0}, {"99999999999999999999", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("OMP_NUM_THREADS", cases[i].text, 1);
        assert_int_equal(processors_wanted(), cases[i].wanted);
        assert_true(processors_usable() >= 1);
        if (cases[i].wanted) assert_int_equal(processors_usable(), cases[i].wanted);
    }
    unsetenv("OMP_NUM_THREADS");
    assert_int_equal(processors_wanted(), 0);
}

TEST_CASE(an_affinity_for_one_processor_leaves_one_thread)
{
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_int_equal(processors_allowed(), CPU_COUNT(&all));
    assert_true(processors_online() >= processors_allowed());
    int first = 0;
    while (!CPU_ISSET(first, &all)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(processors_allowed(), 1);
    assert_int_equal(processors_usable(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

TEST_MAIN()
