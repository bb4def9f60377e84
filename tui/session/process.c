/* See process.h. */
#include "tui/session/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- interrupts ---- */

static volatile sig_atomic_t caught;

static void note(int number)
{
    caught = number;
}

static void note_launcher(int number)
{
    (void)number;
    caught = SIGTERM;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

/* SA_RESTART: output to a slow reader is written whole; code that waits for input calls poll first, which a
 * signal always ends. `once`: the second signal has its default effect. */
static void catch_with(void (*handler)(int), int number, bool once)
{
    struct sigaction action = {.sa_handler = handler,
                               .sa_flags = SA_RESTART | (once ? (int)SA_RESETHAND : 0)};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void interrupt_catch(void)
{
    catch_with(note, SIGINT, true);
    catch_with(note, SIGTERM, true);
}

void interrupt_catch_preemption(void)
{
    catch_with(note, SIGUSR1, false);
}

void interrupt_catch_launcher(void)
{
    catch_with(note_launcher, SIGUSR2, false);
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
    interrupt_catch();
}
