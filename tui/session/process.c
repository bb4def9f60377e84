/* See process.h. */
#include "tui/session/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/heap.h"
#include "kernels/device/cpu_threads.h"

void standard_streams_reserve(void)
{
    int fd; /* the lowest that is free */
    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO) continue;
    if (fd >= 0) close(fd);
}

void signals_reset(void)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN);
}

/* ---- the second start ---- */

/* Idle OpenMP threads spin between operations and slow down other processes that need the cores: two runs on
 * one machine were twenty times slower. With these settings they sleep, in GNU's OpenMP after some ten
 * microseconds: waking up took a quarter of a step of a small model (batch 1), and two such runs at once pay
 * a quarter for it. */
static bool let_idle_threads_sleep(void)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return false;
    return setenv("OMP_WAIT_POLICY", "passive", 1) == 0 && setenv("GOMP_SPINCOUNT", "1000", 1) == 0;
}

static bool count_allocations(char **argv)
{
    char counter[4096];
    while (*argv && strcmp(*argv, "--check-allocations") != 0) argv++;
    return *argv && !file_of_program(HEAP_COUNTER, counter, sizeof counter, NULL) && heap_preload(counter);
}

void second_start(char **argv)
{
    char self[4096];
    cpu_threads_untie();
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return;
    self[n] = '\0';
    bool sleep_set = let_idle_threads_sleep(), counter_set = count_allocations(argv);
    if (sleep_set || counter_set) execv(self, argv);
}

/* ---- files that are cut while they are mapped ---- */

/* Returns whether this line of /proc/self/maps, "FROM-TO rw-p OFFSET DEVICE INODE   /path", is of a file that
 * is mapped at `address`; *path is then its name. */
static bool is_mapped_at(char *line, uintptr_t address, const char **path)
{
    char *end;
    uintptr_t from = (uintptr_t)strtoull(line, &end, 16);
    if (*end != '-' || address < from || address >= (uintptr_t)strtoull(end + 1, NULL, 16)) return false;
    *path = strchr(line, '/');
    return *path != NULL;
}

static void say_raw(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0) { /* there is nobody to tell */
    }
}

/* A read of a mapped file that was cut since, or whose disk fails, comes as this signal. Only calls that may
 * be made in a signal handler. */
static void report_lost_page(int number, siginfo_t *info, void *context)
{
    char line[4400], c;
    const char *path;
    size_t n = 0;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    (void)number, (void)context;
    while (maps >= 0 && read(maps, &c, 1) == 1) {
        if (c != '\n') {
            if (n < sizeof line - 1) line[n++] = c;
            continue;
        }
        line[n] = '\0';
        n = 0;
        if (!is_mapped_at(line, (uintptr_t)info->si_addr, &path)) continue;
        say_raw("anneal: ");
        say_raw(path);
        say_raw(
            ": was cut or cannot be read any more while it was in use (check the file and its disk; once it "
            "is whole again, resume the run)\n");
        _exit(EXIT_FAILURE);
    }
    signal(SIGBUS, SIG_DFL); /* no file: a fault of ours or of the memory, which comes again on return */
}

void lost_pages_report(void)
{
    struct sigaction action = {.sa_sigaction = report_lost_page, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

/* ---- interrupts ---- */

static volatile sig_atomic_t caught;

/* When SIGINT and SIGTERM asked for the first time, in seconds; 0: not yet. */
static volatile double asked_at[2];

static volatile double *asked_by(int number)
{
    return &asked_at[number == SIGTERM];
}

static void note(int number)
{
    caught = number;
}

/* `timeout` signals its child, and its process group with the child in it; a service manager signals all
 * processes, and their parents pass that on. So what comes within a second is the same request; a later one
 * has its default effect. */
static void note_first(int number)
{
    volatile double *asked = asked_by(number);
    double now = clock_monotonic();
    caught = number;
    if (*asked == 0)
        *asked = now;
    else if (now - *asked >= 1)
        signal(number, SIG_DFL), raise(number);
}

static void note_launcher(int number)
{
    (void)number;
    caught = SIGTERM;
    for (int i = 0; i < 2; i++)
        if (asked_at[i] == 0) asked_at[i] = clock_monotonic();
}

/* SA_RESTART: output to a slow reader is written whole; code that waits for input calls poll first, which a
 * signal always ends. */
static void catch_with(void (*handler)(int), int number)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void interrupt_catch(void)
{
    catch_with(note_first, SIGINT);
    catch_with(note_first, SIGTERM);
}

void interrupt_catch_preemption(void)
{
    catch_with(note, SIGUSR1);
}

void interrupt_catch_launcher(void)
{
    catch_with(note_launcher, SIGUSR2);
}

bool interrupt_requested(void)
{
    return caught != 0;
}

int interrupt_signal(void)
{
    return caught;
}

void interrupt_forget(void)
{
    if (caught == SIGINT) caught = 0;
    *asked_by(SIGINT) = 0;
}
