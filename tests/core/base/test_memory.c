/* The memory available to a process: the limits of control groups of both versions, read from folders like
 * the kernel's, combined with the machine's own memory. */
#include <limits.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "tests/cmocka.h"

static char place[512];

/* A fresh folder for the kernel's files of one test. */
static void begin(const char *name)
{
    struct err err = {0};
    const char *folder = getenv("ANNEAL_TEST_DIR");
    assert_non_null(folder);
    snprintf(place, sizeof place, "%s/memory-%s", folder, name);
    if (file_remove_tree(place, &err) || file_make_folders(place, &err)) fail_msg("%s", err.text);
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX];
    struct err err = {0};
    snprintf(path, sizeof path, "%s%s", place, folder);
    if (file_make_folders(path, &err)) fail_msg("%s", err.text);
    snprintf(path, sizeof path, "%s%s/%s", place, folder, name);
    if (file_write_atomic(path, text, strlen(text), &err)) fail_msg("%s", err.text);
}

static struct memory_group read_with(const char *groups)
{
    char path[PATH_MAX];
    put("", "groups", groups);
    snprintf(path, sizeof path, "%s/groups", place);
    return memory_group_read(path, place);
}

TEST_CASE(the_lowest_limit_above_a_process_counts)
{
    begin("second");
    put("/user.slice", "memory.max", "3000\n");
    put("/user.slice", "memory.current", "1000\n");
    put("/user.slice/job", "memory.max", "max\n");
    put("/user.slice/job", "memory.current", "900\n");
    put("/user.slice/job/step", "memory.max", "4000\n");
    put("/user.slice/job/step", "memory.current", "800\n");
    struct memory_group group = read_with("0::/user.slice/job/step\n");
    assert_int_equal(group.limit, 3000);
    assert_int_equal(group.left, 2000);
    put("/user.slice/job/step", "memory.max", "1500\n");
    group = read_with("0::/user.slice/job/step\n");
    assert_int_equal(group.limit, 1500);
    assert_int_equal(group.left, 700);
}

TEST_CASE(pages_of_files_that_can_be_dropped_are_left)
{
    begin("droppable");
    put("/job", "memory.max", "3000\n");
    put("/job", "memory.current", "2900\n");
    put("/job", "memory.stat", "anon 900\nfile 2000\ninactive_file_other 7\ninactive_file 1800\n");
    assert_int_equal(read_with("0::/job\n").left, 1900);
}

TEST_CASE(groups_of_the_first_version_are_read_too)
{
    begin("first");
    put("/memory/job", "memory.limit_in_bytes", "2000\n");
    put("/memory/job", "memory.usage_in_bytes", "500\n");
    put("/memory/job", "memory.stat", "inactive_file 1\ntotal_inactive_file 100\n");
    put("/memory", "memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    put("/memory", "memory.usage_in_bytes", "7\n");
    struct memory_group group = read_with("9:name=systemd:/\n5:cpu,memory:/job\n3:cpuset:/memory\n0::/\n");
    assert_int_equal(group.limit, 2000);
    assert_int_equal(group.left, 1600);
}

/* The process's own group is mounted at the place of the root group, but its path is the one on the host. */
TEST_CASE(a_container_finds_its_group_where_it_is_mounted)
{
    begin("container");
    put("", "memory.max", "5000\n");
    put("", "memory.current", "1000\n");
    assert_int_equal(read_with("0::/\n").limit, 5000);
    assert_int_equal(read_with("0::/docker/0123456789abcdef\n").left, 4000);
}

TEST_CASE(without_a_limit_there_is_none)
{
    begin("none");
    put("/job", "memory.max", "max\n");
    put("/job", "memory.current", "900\n");
    struct memory_group group = read_with("0::/job\n");
    assert_true(group.limit == -1 && group.left == -1);
    group = memory_group_read("/nowhere/groups", place);
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
