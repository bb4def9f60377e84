/* The memory available to a process: the limits of control groups of both versions, read from folders like
 * the kernel's, combined with the machine's own memory. */

#include "core/base/memory.h"
#include "tests/cmocka.h"
#include "tests/core/base/groups.h"

static struct memory_group read_with(const char *groups)
{
    groups_put("", "groups", groups);
    return memory_group_read(groups_file, groups_root);
}

TEST_CASE(the_lowest_limit_above_a_process_counts)
{
    groups_begin("second");
    groups_put("/user.slice", "memory.max", "3000\n");
    groups_put("/user.slice", "memory.current", "1000\n");
    groups_put("/user.slice/job", "memory.max", "max\n");
    groups_put("/user.slice/job", "memory.current", "900\n");
    groups_put("/user.slice/job/step", "memory.max", "4000\n");
    groups_put("/user.slice/job/step", "memory.current", "800\n");
    struct memory_group group = read_with("0::/user.slice/job/step\n");
    assert_int_equal(group.limit, 3000);
    assert_int_equal(group.left, 2000);
    groups_put("/user.slice/job/step", "memory.max", "1500\n");
    group = read_with("0::/user.slice/job/step\n");
    assert_int_equal(group.limit, 1500);
    assert_int_equal(group.left, 700);
}

TEST_CASE(pages_of_files_that_can_be_dropped_are_left)
{
    groups_begin("droppable");
    groups_put("/job", "memory.max", "3000\n");
    groups_put("/job", "memory.current", "2900\n");
    groups_put("/job", "memory.stat", "anon 900\nfile 2000\ninactive_file_other 7\ninactive_file 1800\n");
    assert_int_equal(read_with("0::/job\n").left, 1900);
}

TEST_CASE(groups_of_the_first_version_are_read_too)
{
    groups_begin("first");
    groups_put("/memory/job", "memory.limit_in_bytes", "2000\n");
    groups_put("/memory/job", "memory.usage_in_bytes", "500\n");
    groups_put("/memory/job", "memory.stat", "inactive_file 1\ntotal_inactive_file 100\n");
    groups_put("/memory", "memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    groups_put("/memory", "memory.usage_in_bytes", "7\n");
    struct memory_group group = read_with("9:name=systemd:/\n5:cpu,memory:/job\n3:cpuset:/memory\n0::/\n");
    assert_int_equal(group.limit, 2000);
    assert_int_equal(group.left, 1600);
}

/* The process's own group is mounted at the groups_root of the root group, but its path is the one on the
 * host. */
TEST_CASE(a_container_finds_its_group_where_it_is_mounted)
{
    groups_begin("container");
    groups_put("", "memory.max", "5000\n");
    groups_put("", "memory.current", "1000\n");
    assert_int_equal(read_with("0::/\n").limit, 5000);
    assert_int_equal(read_with("0::/docker/0123456789abcdef\n").left, 4000);
}

TEST_CASE(without_a_limit_there_is_none)
{
    groups_begin("none");
    groups_put("/job", "memory.max", "max\n");
    groups_put("/job", "memory.current", "900\n");
    struct memory_group group = read_with("0::/job\n");
    assert_true(group.limit == -1 && group.left == -1);
    group = memory_group_read("/nowhere/groups", groups_root);
    assert_true(group.limit == -1 && group.left == -1);
    group = read_with("nonsense\n0:\n::\n");
    assert_true(group.limit == -1 && group.left == -1);
}

TEST_CASE(less_is_available_than_there_is)
{
    struct memory_group group = memory_group_read("/proc/self/cgroup", "/sys/fs/cgroup");
    assert_true(memory_total() > 0 && memory_available() > 0);
    assert_true(memory_available() <= memory_total());
    if (group.limit > 0) assert_true(memory_total() <= group.limit);
}

TEST_MAIN()
