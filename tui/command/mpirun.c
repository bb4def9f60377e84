/* See mpirun.h. mpirun ends its ranks itself when it gets SIGINT or SIGTERM, and soon kills them; but it
 * passes SIGUSR1 and SIGUSR2 on. So it is in a process group of its own, where Ctrl-C does not reach it, and
 * gets SIGUSR2 instead, which asks a rank to stop like SIGTERM. */
#include "tui/command/mpirun.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

extern char **environ;

/* More ranks than cores are allowed, each finds its share of the cores itself, and Open MPI 4 says
 * nothing. */
static void set_environment(void)
{
    static const char *const settings[][2] = {
        {"OMPI_MCA_rmaps_base_oversubscribe", "1"}, /* Open MPI 4 */
        {"OMPI_MCA_hwloc_base_binding_policy", "none"},
        {"OMPI_MCA_orte_execute_quiet", "1"},
        {"OMPI_MCA_btl", "^tcp"},                                    /* all ranks are on this host */
        {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"}, /* 5 */
        {"PRTE_MCA_hwloc_default_binding_policy", "none"},
        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
    size_t count = sizeof settings / sizeof *settings;
    if (geteuid() != 0) count -= 2;
    for (size_t i = 0; i < count; i++) setenv(settings[i][0], settings[i][1], 0);
}

/* In a process group of its own, with nothing to read and no signal blocked. */
static int spawn(char **words, pid_t *pid)
{
    posix_spawnattr_t how;
    posix_spawn_file_actions_t files;
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    int code = posix_spawnp(pid, words[0], &files, &how, words, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    return code;
}

/* Passes signals on until mpirun ends; returns its status of waitpid. *asked: the first signal that asked to
 * stop, or 0. */
static int wait_for(pid_t pid, const sigset_t *signals, int *asked)
{
    int status;
    for (*asked = 0;;) {
        int number = sigwaitinfo(signals, NULL);
        if (number == SIGUSR1) kill(pid, SIGUSR1);
        if (number == SIGINT || number == SIGTERM) {
            kill(pid, *asked ? SIGTERM : SIGUSR2);
            if (!*asked) *asked = number;
        }
        if (waitpid(pid, &status, WNOHANG) == pid) return status;
    }
}

/* Nothing to print: rank 0 has done so. */
static enum status ended(int exit_status, int asked, struct err *err)
{
    enum status status = exit_status == 0             ? STATUS_OK
                         : exit_status == 2           ? STATUS_USAGE
                         : exit_status == EX_TEMPFAIL ? STATUS_PREEMPTED
                         : exit_status == 130         ? STATUS_INTERRUPTED
                                                      : STATUS_FAILED;
    if (asked == SIGINT) status = STATUS_INTERRUPTED;
    return status ? err_set(err, status, "%s", "") : STATUS_OK;
}

enum status mpirun_start(const char *command, int64_t ranks, char **argv, struct err *err)
{
    char self[4096], count[24];
    sigset_t signals;
    size_t words = 0;
    int asked;
    pid_t pid;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return err_set(err, STATUS_FAILED, "--ranks: this program's file is not known");
    self[n] = '\0';
    for (; argv[words]; words++) /* the workbench waits for the process that it has started, not for rank 0 */
        if (strcmp(argv[words], "--watch") == 0)
            return err_set(err, STATUS_USAGE,
                           "--watch: cannot start several ranks (train without it, and in another terminal: "
                           "anneal watch)");
    char **all = calloc(words + 6, sizeof *all);
    if (!all) return err_no_memory(err, "%zu arguments", words);
    snprintf(count, sizeof count, "%" PRId64, ranks);
    char *first[] = {(char *)"mpirun", (char *)"-n", count, self, (char *)command};
    memcpy(all, first, sizeof first);
    memcpy(all + 5, argv, words * sizeof *argv);
    set_environment();
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    int code = spawn(all, &pid);
    free(all);
    if (code)
        return err_set(err, STATUS_NOT_FOUND, "--ranks: cannot start mpirun: %s (apt install openmpi-bin)",
                       strerror(code));
    int status = wait_for(pid, &signals, &asked);
    return ended(WIFEXITED(status) ? WEXITSTATUS(status) : 1, asked, err);
}
