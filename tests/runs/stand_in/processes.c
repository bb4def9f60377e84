/* To be preloaded: after TEST_FORKS calls fork fails, with TEST_NO_LOCKS no file can be locked, and a signal
 * for all processes of the user is not sent but reported. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

pid_t fork(void)
{
    static int calls;
    pid_t (*next)(void);
    const char *most = getenv("TEST_FORKS");
    *(void **)&next = dlsym(RTLD_NEXT, "fork");
    if (!most || calls++ < atoi(most)) return next();
    errno = EAGAIN;
    return -1;
}

int flock(int fd, int operation)
{
    int (*next)(int, int);
    *(void **)&next = dlsym(RTLD_NEXT, "flock");
    if (!getenv("TEST_NO_LOCKS")) return next(fd, operation);
    errno = ENOLCK;
    return -1;
}

int kill(pid_t pid, int signal)
{
    int (*next)(pid_t, int);
    *(void **)&next = dlsym(RTLD_NEXT, "kill");
    if (pid != -1) return next(pid, signal);
    fputs("a signal for all processes\n", stderr);
    return 0;
}
