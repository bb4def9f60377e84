/* The memory of a device that is not in the plan: measured if possible, and stored per GPU. */
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
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

static bool dies; /* where a file would be synced */

/* Of a process that dies here, overhead_keep has ended before, and with all it wrote. */
int fsync(int fd)
{
    (void)fd;
    if (dies) _exit(3);
    return 0;
}

static int is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

TEST_CASE(a_process_that_is_killed_meanwhile_leaves_nothing_beside_it)
{
    struct device_info cpu = {.uuid = ""};
    char *folder = rig_path("overhead-killed");
    struct dirent **files;
    int status;
    assert_int_equal(file_make_folders(folder, NULL), STATUS_OK); /* which is synced */
    pid_t pid = fork();
    if (pid == 0) {
        dies = true;
        overhead_keep(folder, &cpu, 1000);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    int count = scandir(folder, &files, is_file, alphasort);
    assert_int_equal(count, 1);
    assert_string_equal(files[0]->d_name, "overhead-cpu");
    free(files[0]);
    free(files);
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

TEST_MAIN()
