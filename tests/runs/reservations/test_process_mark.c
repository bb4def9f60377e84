/* Who a process is beyond its number, as /proc tells it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runs/reservations/process_mark.h"

static void a_process_has_started_until_it_is_dead(void **state)
{
    (void)state;
    siginfo_t info;
    int64_t own = process_started(getpid());
    assert_true(own > 0);
    assert_int_equal(process_started(getpid()), own);
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    assert_true(process_started(child) >= own);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(process_started(child), 0); /* though nobody has asked how it ended */
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(process_started(child), 0);
}

static void a_boot_has_a_name_that_stays(void **state)
{
    (void)state;
    char first[PROCESS_BOOT_BYTES], second[PROCESS_BOOT_BYTES];
    process_boot(first);
    process_boot(second);
    assert_true(strlen(first) >= 7);
    assert_string_equal(first, second);
}

static void who_locks_a_file_is_found(void **state)
{
    (void)state;
    char path[600], c = 0;
    int ready[2];
    snprintf(path, sizeof path, "%s/locked", getenv("ANNEAL_TEST_DIR"));
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_true(file >= 0);
    assert_int_equal(process_locking(path), 0);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 5, .l_len = 1};
        if (fcntl(file, F_SETLK, &lock) || write(ready[1], &c, 1) != 1) _exit(1);
        pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(process_locking(path), child);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(process_locking(path), 0);
    struct flock own = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    assert_int_equal(fcntl(file, F_SETLK, &own), 0);
    assert_int_equal(process_locking(path), 0); /* not this one */
    close(file);
    assert_int_equal(process_locking("/nowhere/at/all"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_has_started_until_it_is_dead),
        cmocka_unit_test(a_boot_has_a_name_that_stays),
        cmocka_unit_test(who_locks_a_file_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
