/* See spawn.h. posix_spawn holds signals back until the child has their default effects: between a fork and
 * an exec our own handlers would swallow one. */
#include "core/base/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

int spawn_program(const char *program, const int files[3], bool session, const char *const *arguments,
                  pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                  (session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
        if (files[i] < 0)
            posix_spawn_file_actions_addopen(&actions, i, "/dev/null", O_RDWR, 0);
        else
            posix_spawn_file_actions_adddup2(&actions, files[i], i);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, flags);
    int code = posix_spawn(pid, program, &actions, &attributes, (char *const *)arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}
