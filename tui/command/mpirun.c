/* See mpirun.h. mpirun ends its ranks itself when it gets SIGINT or SIGTERM, and soon kills them; but it
 * passes SIGUSR1 and SIGUSR2 on. So it is in a process group of its own, where Ctrl-C does not reach it, and
 * gets SIGUSR2 instead, which asks a rank to stop like SIGTERM. The kernel sends it, too, when this process
 * is killed. */
#include "tui/command/mpirun.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/processors.h"
#include "core/base/text.h"
#include "kernels/device/world.h"
#include "runs/run.h"
#include "tui/session/process.h"

#define TERMINAL     "ANNEAL_TERMINAL" /* the file of the terminal */
#define OUTCOME      "ANNEAL_OUTCOME"  /* a file in memory, where rank 0 writes how it ended */
#define OUTCOME_NAME "anneal-outcome"

enum { RANKS_EACH = 16 /* for each processor: more would bring the host to a standstill */ };

enum { NOT_STARTED = 127 /* the exit status of a process that is no mpirun */, OF_SIGNAL = 128 };

/* More ranks than cores are allowed, each finds its share of the cores itself, and Open MPI 4 says nothing.
 * When one rank has died, the others have twice this many seconds to report it. */
#define REPORTING "2"
static void set_environment(void)
{
    static const char *const settings[][2] = {
        {"OMPI_MCA_rmaps_base_oversubscribe", "1"}, /* Open MPI 4 */
        {"OMPI_MCA_hwloc_base_binding_policy", "none"},
        {"OMPI_MCA_orte_execute_quiet", "1"},
        {"OMPI_MCA_odls_base_sigkill_timeout", REPORTING},
        {"OMPI_MCA_btl", "^tcp,ofi"}, /* all ranks are on this host; ofi sleeps for a second when it ends */
        {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"}, /* 5 */
        {"PRTE_MCA_hwloc_default_binding_policy", "none"},
        {"PRTE_MCA_odls_base_sigkill_timeout", REPORTING},
        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
    size_t count = sizeof settings / sizeof *settings;
    if (geteuid() != 0) count -= 2;
    for (size_t i = 0; i < count; i++) setenv(settings[i][0], settings[i][1], 0);
}

/* Tells the ranks which process has started them, and on which terminal. */
static void describe_self(void)
{
    char text[PATH_MAX];
    snprintf(text, sizeof text, "%ld", (long)getpid());
    setenv(RUN_STARTER, text, 1);
    if (isatty(STDERR_FILENO) && ttyname_r(STDERR_FILENO, text, sizeof text) == 0)
        setenv(TERMINAL, text, 1);
    else
        unsetenv(TERMINAL);
}

/* A file, for which mpirun leaves rank 0 no descriptor: it opens the path in the environment. -1: there is
 * none, and mpirun's exit status has to do. */
static int open_outcome(void)
{
    char path[64];
    int fd = memfd_create(OUTCOME_NAME, MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), fd);
    if (fd >= 0)
        setenv(OUTCOME, path, 1);
    else
        unsetenv(OUTCOME);
    return fd;
}

void mpirun_tell(enum status status)
{
    static const char wanted[] = "/memfd:" OUTCOME_NAME;
    const char *path = getenv(OUTCOME);
    char name[sizeof wanted] = "";
    if (!path || readlink(path, name, sizeof name - 1) < 0 || strcmp(name, wanted) != 0)
        return; /* the number of a starter that has been killed may be another process's by now */
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    dprintf(fd, "%c", '0' + (int)status); /* one byte, to write over the one before */
    close(fd);
}

/* Rank 0's enum status; -1: it has not written one. */
static int close_outcome(int fd)
{
    char word;
    int status = pread(fd, &word, 1, 0) == 1 ? word - '0' : -1;
    close(fd);
    return status;
}

/* mpirun passes nothing on to ranks that it has not started yet. */
static bool starter_is_gone(void)
{
    return kill((pid_t)run_process(), 0) != 0 && errno == ESRCH;
}

static void join_terminal(void)
{
    const char *name = getenv(TERMINAL);
    int fd = name ? open(name, O_WRONLY | O_NOCTTY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    if (isatty(fd)) dup2(fd, STDERR_FILENO);
    close(fd);
    signal(SIGTTOU, SIG_IGN); /* not in the foreground: the terminal may be set to stop its writers */
}

void mpirun_join(void)
{
    join_terminal();
    interrupt_catch_launcher();
    interrupt_catch_preemption();
    if (starter_is_gone()) raise(SIGUSR2);
}

/* In a process group of its own, with nothing to read and no signal blocked. If this process is killed,
 * mpirun gets SIGUSR2, so that the ranks save and end. -1: see errno. */
static pid_t spawn(char **words)
{
    pid_t self = getpid(), pid = fork();
    sigset_t none;
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGUSR2);
    if (getppid() != self) _exit(EXIT_FAILURE);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing > 0) dup2(nothing, STDIN_FILENO), close(nothing);
    setpgid(0, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(words[0], words);
    _exit(NOT_STARTED);
}

/* Passes signals on until mpirun ends; returns its status of waitpid. mpirun drops a signal that comes before
 * its ranks have started, so the signal is repeated. The first request to stop asks the ranks, the second one
 * mpirun, which kills them; the third one kills mpirun, and ranks without it end by themselves. *asked: the
 * first request, or 0. */
static int wait_for(pid_t pid, const sigset_t *signals, int *asked)
{
    static const int requests[] = {SIGUSR2, SIGTERM, SIGKILL};
    static const struct timespec second = {1, 0};
    int status, times = 0, passed = 0;
    double last = 0;
    for (*asked = 0;;) {
        int number = passed ? sigtimedwait(signals, NULL, &second) : sigwaitinfo(signals, NULL);
        if (number == SIGUSR1 && !*asked) passed = SIGUSR1;
        if (number == SIGINT || number == SIGTERM) {
            bool again = times && clock_monotonic() - last < 1; /* the same request, see interrupt_catch */
            last = clock_monotonic();
            if (!again) passed = requests[times];
            if (!again && times < 2) times++;
            if (!*asked) *asked = number;
        }
        if (waitpid(pid, &status, WNOHANG) == pid) return status;
        if (passed) kill(pid, passed);
    }
}

/* Nothing to print: rank 0 has done so. A request to stop may have gone to mpirun, too, whose exit status
 * then says nothing of the ranks, not even that they have saved: what rank 0 has `told` (-1: nothing) counts
 * more. */
static enum status ended(int exit_status, int asked, int told, struct err *err)
{
    enum status status = exit_status == 0             ? STATUS_OK
                         : exit_status == 2           ? STATUS_USAGE
                         : exit_status == EX_TEMPFAIL ? STATUS_PREEMPTED
                         : exit_status == 130         ? STATUS_INTERRUPTED
                                                      : STATUS_FAILED;
    if (told >= 0 && told != STATUS_INTERRUPTED && (asked || !status)) status = (enum status)told;
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
    int processors = processors_online();
    if (ranks > RANKS_EACH * processors)
        return err_set(err, STATUS_USAGE,
                       "--ranks %" PRId64
                       ": this host has %d processor%s, on which at most %d ranks start (give "
                       "at most so many, or use several hosts with mpirun)",
                       ranks, processors, text_plural(processors), RANKS_EACH * processors);
    if (n <= 0) return err_set(err, STATUS_FAILED, "--ranks: this program's file is not known");
    char plugin[PATH_MAX];
    enum status found = world_plugin(plugin, err); /* else each rank would say that it is missing */
    if (found) return found;
    self[n] = '\0';
    while (argv[words]) words++;
    char **all = calloc(words + 6, sizeof *all);
    if (!all) return err_no_memory(err, "%zu arguments", words);
    snprintf(count, sizeof count, "%" PRId64, ranks);
    char *first[] = {(char *)"mpirun", (char *)"-n", count, self, (char *)command};
    memcpy(all, first, sizeof first);
    memcpy(all + 5, argv, words * sizeof *argv);
    set_environment();
    describe_self();
    int outcome = open_outcome();
    signal(SIGHUP, SIG_IGN); /* a closed terminal stops no run */
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    pid = spawn(all);
    free(all);
    if (pid < 0) close(outcome);
    if (pid < 0) return err_set(err, STATUS_FAILED, "--ranks: cannot start a process: %s", strerror(errno));
    int status = wait_for(pid, &signals, &asked), told = close_outcome(outcome);
    /* mpirun may die of a signal that it was to pass on, before there are ranks or when they have ended; and
     * so may a rank that has just started, whose status mpirun takes */
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : OF_SIGNAL + WTERMSIG(status);
    if (code == OF_SIGNAL + SIGUSR1) code = EX_TEMPFAIL;
    if (code == OF_SIGNAL + SIGUSR2) code = 0;
    if (code == NOT_STARTED)
        return err_set(err, STATUS_NOT_FOUND,
                       "several ranks need mpirun, which cannot be started (apt install openmpi-bin; --ranks "
                       "1 trains in one "
                       "process)");
    return ended(code, asked, told, err);
}
