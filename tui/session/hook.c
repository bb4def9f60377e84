/* See hook.h. */
#include "tui/session/hook.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/json_out.h"
#include "core/base/spawn.h"
#include "core/base/text.h"
#include "core/base/thread.h"

enum { EVENTS_MAX = 16, GRACE_MS = 2000, LOOK_SECONDS = 1 };

struct event {
    char word[16], status[24], message[1024];
    int64_t step;
    double time; /* Unix seconds */
};

struct hook {
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what the two threads share: the events that wait, and `leave` */
    pthread_cond_t changed;
    struct event events[EVENTS_MAX]; /* the oldest first */
    int count;
    bool leave;
    _Atomic int64_t step;
    atomic_uint excuses; /* bits of enum hook_excuse */
    char *command;
    double timeout, stall;
    const struct run_log *log;
    char run[256], name[256], folder[PATH_MAX];
    int64_t seen; /* the step when it last changed, at `seen_at`; of the hook's thread */
    double seen_at;
    bool stalled;
    int failed; /* commands; of the hook's thread until it has ended */
};

/* ---- one command ---- */

static void say_failed(struct hook *h, const char *word, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say_failed(struct hook *h, const char *word, const char *format, ...)
{
    char text[200], line[300];
    TEXT_FORMAT(text, format);
    snprintf(line, sizeof line, "hooks.on_event, %s: %s", word, text);
    run_log_line(h->log, line);
    h->failed++;
}

/* A pipe that holds the event; -1: there is none. What fits into a pipe is written without waiting. */
static int event_pipe(const struct hook *h, const struct event *event)
{
    char text[8192];
    int ends[2];
    struct json_out out;
    FILE *file = fmemopen(text, sizeof text, "w");
    if (!file) return -1;
    json_out_begin(&out, file);
    json_out_open(&out, NULL, '{', JSON_OUT_COMPACT);
    JSON_MEMBERS(&out, "event", (const char *)event->word, "run", (const char *)h->run, "name",
                 (const char *)h->name, "status", (const char *)event->status, "step", event->step, "time",
                 event->time, "message", (const char *)event->message, "folder", (const char *)h->folder);
    json_out_close(&out);
    fputc('\n', file);
    long n = ftell(file);
    if (fclose(file) != 0 || n <= 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return -1;
    ssize_t written = write(ends[1], text, (size_t)n);
    close(ends[1]);
    fcntl(ends[0], F_SETFL, 0); /* the command reads as usual */
    if (written == n) return ends[0];
    close(ends[0]);
    return -1;
}

/* Whether the process ends in that time; *how is its wait status. */
static bool ends_within(pid_t pid, int ms, int *how)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0) {
        struct pollfd ended = {fd, POLLIN, 0};
        while (poll(&ended, 1, ms) < 0 && errno == EINTR) continue;
        close(fd);
        return waitpid(pid, how, WNOHANG) == pid;
    }
    double until = clock_monotonic() + ms / 1e3; /* a kernel before 5.3 */
    while (waitpid(pid, how, WNOHANG) == 0) {
        if (clock_monotonic() > until) return false;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return true;
}

static void run_command(struct hook *h, const struct event *event)
{
    const char *arguments[] = {"sh", "-c", h->command, NULL};
    int in = event_pipe(h, event), how = 0;
    pid_t pid;
    if (in < 0) {
        say_failed(h, event->word, "no memory or file for the event");
        return;
    }
    int code = spawn_program("/bin/sh", (const int[3]){in, h->log->fd, h->log->fd}, true, arguments, &pid);
    close(in);
    if (code) {
        say_failed(h, event->word, "cannot start the command: %s", strerror(code));
        return;
    }
    if (!ends_within(pid, (int)(h->timeout * 1e3), &how)) {
        say_failed(h, event->word, "the command is ended after hooks.timeout = %g s", h->timeout);
        kill(-pid, SIGTERM); /* its group: also what it has started */
        if (!ends_within(pid, GRACE_MS, &how)) {
            kill(-pid, SIGKILL);
            waitpid(pid, &how, 0);
        }
    } else if (WIFEXITED(how) && WEXITSTATUS(how)) {
        say_failed(h, event->word, "the command failed with exit status %d", WEXITSTATUS(how));
    } else if (WIFSIGNALED(how)) {
        say_failed(h, event->word, "the command was ended by signal %d", WTERMSIG(how));
    }
}

/* ---- the thread ---- */

static void look_for_stall(struct hook *h)
{
    int64_t step = atomic_load_explicit(&h->step, memory_order_relaxed);
    double now = clock_monotonic();
    char message[80];
    if (step != h->seen || atomic_load_explicit(&h->excuses, memory_order_relaxed)) {
        h->seen = step;
        h->seen_at = now;
        h->stalled = false;
    }
    if (h->stalled || h->stall <= 0 || now - h->seen_at < h->stall) return;
    h->stalled = true;
    snprintf(message, sizeof message, "no step has ended for %.0f s", now - h->seen_at);
    hook_event(h, "stall", "running", step, message);
}

/* Waits for an event and takes it; false: the end has come and none is left. */
static bool next_event(struct hook *h, struct event *out)
{
    struct timespec until = clock_deadline(LOOK_SECONDS);
    pthread_mutex_lock(&h->mutex);
    while (!h->count && !h->leave) {
        if (pthread_cond_timedwait(&h->changed, &h->mutex, &until) != ETIMEDOUT) continue;
        pthread_mutex_unlock(&h->mutex);
        look_for_stall(h);
        until = clock_deadline(LOOK_SECONDS);
        pthread_mutex_lock(&h->mutex);
    }
    bool found = h->count > 0;
    if (found) {
        *out = h->events[0];
        memmove(h->events, h->events + 1, (size_t)--h->count * sizeof *h->events);
    }
    pthread_mutex_unlock(&h->mutex);
    return found;
}

static void *body(void *argument)
{
    struct event event;
    while (next_event(argument, &event)) run_command(argument, &event);
    return NULL;
}

static void release(struct hook *h)
{
    thread_lock_release(&h->mutex, &h->changed);
    free(h->command);
    free(h);
}

enum status hook_start(const struct hook_options *options, struct hook **out, struct err *err)
{
    *out = NULL;
    if (!*options->command) return STATUS_OK;
    struct hook *h = calloc(1, sizeof *h);
    char *command = strdup(options->command);
    if (!h || !command) {
        free(command);
        free(h);
        return err_no_memory(err, "hooks.on_event");
    }
    h->command = command;
    h->timeout = options->timeout;
    h->stall = options->stall;
    h->log = options->log;
    h->seen_at = clock_monotonic();
    snprintf(h->run, sizeof h->run, "%s", options->run);
    snprintf(h->name, sizeof h->name, "%s", options->name);
    snprintf(h->folder, sizeof h->folder, "%s", options->folder);
    thread_lock_init(&h->mutex, &h->changed);
    if (thread_start(&h->thread, body, h)) {
        release(h);
        return err_set(err, STATUS_FAILED, "cannot start a thread for hooks.on_event");
    }
    *out = h;
    return STATUS_OK;
}

void hook_event(struct hook *h, const char *word, const char *status, int64_t step, const char *message)
{
    if (!h) return;
    struct event event = {.step = step, .time = clock_wall()};
    snprintf(event.word, sizeof event.word, "%s", word);
    snprintf(event.status, sizeof event.status, "%s", status);
    snprintf(event.message, sizeof event.message, "%s", message);
    pthread_mutex_lock(&h->mutex);
    if (h->count < EVENTS_MAX) h->events[h->count++] = event;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->mutex);
}

void hook_step(struct hook *h, int64_t step)
{
    if (h) atomic_store_explicit(&h->step, step + 1, memory_order_relaxed);
}

void hook_excuse(struct hook *h, enum hook_excuse why, bool holds)
{
    if (h && holds) atomic_fetch_or_explicit(&h->excuses, why, memory_order_relaxed);
    if (h && !holds) atomic_fetch_and_explicit(&h->excuses, ~(unsigned)why, memory_order_relaxed);
}

int hook_stop(struct hook *h)
{
    if (!h) return 0;
    pthread_mutex_lock(&h->mutex);
    h->leave = true;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->mutex);
    pthread_join(h->thread, NULL);
    int failed = h->failed;
    release(h);
    return failed;
}
