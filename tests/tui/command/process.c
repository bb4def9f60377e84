/* See process.h. */
#include "tests/tui/command/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tests/cmocka.h"
#include "tests/kept.h"

enum {
    DEADLINE_SECONDS = 120,
    AFTERMATH_SECONDS = 10,
    ARGUMENTS_MAX = 48,
    SHOWN_BYTES = 4000,
    PIECE_BYTES = 4096
};

struct stream {
    int fd; /* -1: at its end */
    char *text;
    size_t length, capacity;
};

struct process {
    pid_t pid;
    int pidfd; /* can be read when it has ended */
    bool ended;
    int how; /* wait status once ended */
    struct stream out, err;
    char command[512]; /* for messages */
};

/* ---- starting ---- */

static char **make_environment(const char *const *changes)
{
    size_t count = 0, extra = 0, used = 0;
    while (environ[count]) count++;
    while (changes && changes[extra]) extra++;
    char **made = calloc(count + extra + 1, sizeof *made);
    assert_non_null(made);
    for (size_t i = 0; i < count; i++) {
        bool changed = false;
        for (size_t j = 0; j < extra; j++) {
            size_t n = strcspn(changes[j], "=");
            changed |= strncmp(environ[i], changes[j], n) == 0 && environ[i][n] == '=';
        }
        if (!changed) made[used++] = environ[i];
    }
    for (size_t j = 0; j < extra; j++)
        if (strchr(changes[j], '=')) made[used++] = (char *)(uintptr_t)changes[j];
    return made;
}

static void open_stream(struct stream *stream, int *writing)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *stream = (struct stream){.fd = ends[0], .capacity = 1 << 14};
    assert_non_null(stream->text = calloc(1, stream->capacity));
    *writing = ends[1];
}

static void dispose(void *process)
{
    struct process *p = process;
    if (!p->ended) {
        kill(p->pid, SIGKILL);
        waitpid(p->pid, NULL, 0);
    }
    if (p->out.fd >= 0) close(p->out.fd);
    if (p->err.fd >= 0) close(p->err.fd);
    close(p->pidfd);
    free(p->out.text);
    free(p->err.text);
    free(p);
}

/* "sh -c 'PRELUDE exec "$0" "$@"' PROGRAM ARGUMENTS", or the program and its arguments alone. */
static void make_words(const struct process_options *options, const char *program, char *script, size_t size,
                       const char *words[ARGUMENTS_MAX + 4])
{
    int n = 0;
    if (options->prelude) {
        snprintf(script, size, "%s exec \"$0\" \"$@\"", options->prelude);
        words[n++] = "/bin/sh";
        words[n++] = "-c";
        words[n++] = script;
    }
    words[n++] = program;
    for (int i = 0; options->arguments && options->arguments[i]; i++) {
        assert_true(i < ARGUMENTS_MAX);
        words[n++] = options->arguments[i];
    }
    words[n] = NULL;
}

struct process *process_open(const struct process_options *options)
{
    const char *program = options->program ? options->program : getenv("ANNEAL_BINARY");
    const char *words[ARGUMENTS_MAX + 4];
    char script[512];
    int out, err;
    struct process *p = calloc(1, sizeof *p);
    assert_non_null(p);
    assert_non_null(program);
    make_words(options, program, script, sizeof script, words);
    for (int i = 0; words[i]; i++)
        snprintf(p->command + strlen(p->command), sizeof p->command - strlen(p->command), "%s%s",
                 i ? " " : "", words[i]);
    open_stream(&p->out, &out);
    open_stream(&p->err, &err);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_adddup2(&actions, err, 2);
    if (options->folder) posix_spawn_file_actions_addchdir_np(&actions, options->folder);
    char **environment = make_environment(options->environment);
    int problem =
        posix_spawnp(&p->pid, words[0], &actions, NULL, (char *const *)(uintptr_t)words, environment);
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    close(out);
    close(err);
    if (problem) fail_msg("cannot start %s: %s", words[0], strerror(problem));
    p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    assert_true(p->pidfd >= 0);
    return kept(p, dispose);
}

/* argument, then the rest of `list` up to NULL. */
static struct process *open_list(const char *program, const char *const *environment, const char *argument,
                                 va_list list)
{
    const char *arguments[ARGUMENTS_MAX + 1] = {argument};
    for (int n = 1; argument && (arguments[n] = va_arg(list, const char *)); n++)
        assert_true(n < ARGUMENTS_MAX);
    return process_open(
        &(struct process_options){.arguments = arguments, .environment = environment, .program = program});
}

struct process *process_start(const char *argument, ...)
{
    va_list list;
    va_start(list, argument);
    struct process *process = open_list(NULL, NULL, argument, list);
    va_end(list);
    return process;
}

struct process *process_start_in(const char *program, const char *const *environment, const char *argument,
                                 ...)
{
    va_list list;
    va_start(list, argument);
    struct process *process = open_list(program, environment, argument, list);
    va_end(list);
    return process;
}

/* ---- ending ---- */

void process_close(struct process *p)
{
    kept_forget(p);
    dispose(p);
}

pid_t process_pid(const struct process *p)
{
    return p->pid;
}

void process_signal(struct process *p, int number)
{
    if (!p->ended) assert_int_equal(kill(p->pid, number), 0);
}

void process_stop_reading(struct process *p)
{
    close(p->out.fd);
    p->out.fd = -1;
}

/* ---- reading ---- */

/* Reads at most one piece of the available output: false when there is no more. */
static bool read_piece(struct stream *s)
{
    if (s->fd < 0) return false;
    if (s->length + 2 * PIECE_BYTES > s->capacity) {
        s->text = realloc(s->text, s->capacity *= 2);
        assert_non_null(s->text);
    }
    ssize_t n = read(s->fd, s->text + s->length, PIECE_BYTES);
    if (n > 0) {
        s->length += (size_t)n;
        s->text[s->length] = '\0';
    } else if (n == 0) {
        close(s->fd);
        s->fd = -1;
    }
    return n > 0;
}

/* Reads only one piece of the child's output: once a condition holds, a child that writes on soon blocks on
 * its full pipe, so that it still runs and can be signalled. Waits a moment for the first byte, or
 * the end. */
static void pump(struct process *p)
{
    struct pollfd fds[] = {
        {p->out.fd, POLLIN, 0}, {p->err.fd, POLLIN, 0}, {p->ended ? -1 : p->pidfd, POLLIN, 0}};
    poll(fds, 3, 20);
    read_piece(&p->out);
    read_piece(&p->err);
    if (p->ended || waitpid(p->pid, &p->how, WNOHANG) != p->pid) return;
    p->ended = true;
    while (read_piece(&p->out)) continue;
    while (read_piece(&p->err)) continue;
}

static const char *tail(const struct stream *s)
{
    return s->length > SHOWN_BYTES ? s->text + s->length - SHOWN_BYTES : s->text;
}

static void give_up(struct process *p, const char *why)
{
    /* not print_error, which leaves out what is behind the first kilobyte */
    fprintf(stderr, "%s: %s (%s)\nstandard output:\n%s\nstandard error:\n%s\n", p->command, why,
            p->ended ? "it has ended" : "it lives", tail(&p->out), tail(&p->err));
    process_close(p);
    fail();
}

void process_wait_blocked(struct process *p)
{
    int held = 0, before;
    double deadline = clock_monotonic() + DEADLINE_SECONDS;
    do {
        before = held;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        assert_int_equal(ioctl(p->out.fd, FIONREAD, &held), 0);
        if (clock_monotonic() > deadline) give_up(p, "its output never filled the pipe");
    } while (held < 4 * PIECE_BYTES || held != before);
}

void process_wait(struct process *p, bool (*condition)(struct process *, void *), void *context)
{
    double deadline = clock_monotonic() + DEADLINE_SECONDS;
    while (!condition(p, context)) {
        bool ended = p->ended;
        if (clock_monotonic() > deadline) give_up(p, "what was waited for never came");
        pump(p);
        /* there is no more output, but the condition may depend on the end of the process */
        if (p->ended && !ended) deadline = clock_monotonic() + AFTERMATH_SECONDS;
    }
}

static bool has_text(struct process *p, void *context)
{
    return strstr(p->out.text, context) || strstr(p->err.text, context);
}

void process_wait_text(struct process *p, const char *text)
{
    process_wait(p, has_text, (void *)(uintptr_t)text);
}

static bool has_lines(struct process *p, void *context)
{
    size_t left = *(size_t *)context;
    for (const char *line = p->out.text; left && (line = strchr(line, '\n')); line++) left--;
    return left == 0;
}

void process_wait_lines(struct process *p, size_t lines)
{
    process_wait(p, has_lines, &lines);
}

bool process_poll(struct process *p)
{
    if (!p->ended) pump(p);
    return p->ended;
}

static int wait_exit(struct process *p, int seconds)
{
    double deadline = clock_monotonic() + seconds;
    while (!p->ended) {
        if (clock_monotonic() > deadline) give_up(p, "did not end");
        pump(p);
    }
    return WIFEXITED(p->how) ? WEXITSTATUS(p->how) : 128 + WTERMSIG(p->how);
}

int process_wait_exit(struct process *p)
{
    return wait_exit(p, DEADLINE_SECONDS);
}

const char *process_stdout(const struct process *p)
{
    return p->out.text;
}

const char *process_stderr(const struct process *p)
{
    return p->err.text;
}

/* ---- whole runs of it ---- */

struct process *process_expect_within(int seconds, int status, struct process *p)
{
    char why[80];
    int got = wait_exit(p, seconds);
    snprintf(why, sizeof why, "exit status %d instead of %d", got, status);
    if (got != status) give_up(p, why);
    return p;
}

struct process *process_expect(int status, struct process *p)
{
    return process_expect_within(DEADLINE_SECONDS, status, p);
}

struct process *process_run(int status, const char *argument, ...)
{
    va_list list;
    va_start(list, argument);
    struct process *process = open_list(NULL, NULL, argument, list);
    va_end(list);
    return process_expect(status, process);
}

struct process *process_run_permitted(int status, const char *command, const char *word)
{
    const char *const words[] = {"--bounding-set=-dac_override,-dac_read_search", getenv("ANNEAL_BINARY"),
                                 command, word, NULL};
    int skipped = geteuid() == 0 ? 0 : 2;
    const struct process_options options = {.program = skipped ? NULL : "setpriv",
                                            .arguments = words + skipped};
    return process_expect(status, process_open(&options));
}

char *process_output(const char *argument, ...)
{
    va_list list;
    va_start(list, argument);
    struct process *process = process_expect(0, open_list(NULL, NULL, argument, list));
    va_end(list);
    return process->out.text;
}

void process_expect_sentence(const struct process *p, const char *sentence)
{
    const char *text = p->err.text;
    while (strncmp(text, "==", 2) == 0 && strstr(text, "WARNING: AddressSanitizer") && strchr(text, '\n'))
        text = strchr(text, '\n') + 1; /* skips the sanitizer's message about an allocation that it refused */
    size_t n = strlen(text);
    bool one_line = n > 1 && strchr(text, '\n') == text + n - 1;
    if (one_line && strncmp(text, "anneal: ", 8) == 0 && strstr(text, sentence)) return;
    fail_msg("%s: standard error is not one line with \"%s\" but:\n%s", p->command, sentence, text);
}

void process_expect_said_once(const struct process *p, const char *sentence)
{
    static const char begin[] = "\nanneal: ";
    const char *text = p->err.text, *said = strncmp(text, begin + 1, 8) == 0 ? text : strstr(text, begin);
    const char *end = said ? strchr(said + 1, '\n') : NULL, *found = said ? strstr(said, sentence) : NULL;
    if (found && end && found < end && !strstr(end, begin)) return;
    fail_msg("%s: standard error does not say once \"%s\" but:\n%s", p->command, sentence, text);
}
