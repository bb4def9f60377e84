/* See child.h. */
#include "tests/cuda_sim/child.h"
#include "tests/cmocka.h"

#include <sys/wait.h>
#include <unistd.h>

int child_run(void (*work)(int argument), int argument, char *buf, size_t size)
{
    int ends[2], status = 0;
    size_t used = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], 2);
        work(argument);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], buf + used, size - 1 - used)) > 0;) used += (size_t)n;
    buf[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
