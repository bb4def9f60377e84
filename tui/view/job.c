/* See job.h. */
#include "tui/view/job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/spawn.h"
#include "core/base/text.h"

static void close_file(int *file)
{
    if (*file > 0) close(*file);
    *file = -1;
}

/* Whether the process has ended within 100 ms. */
static bool has_ended(const struct job *job)
{
    for (int ms = 0; ms < 100; ms++) {
        if (waitpid(job->pid, NULL, WNOHANG)) return true;
        poll(NULL, 0, 1);
    }
    return false;
}

void job_leave(struct job *job)
{
    close_file(&job->input);
    if (job->pid && !kill(job->pid, SIGTERM) && has_ended(job)) job->pid = 0;
    job_close(job);
}

void job_close(struct job *job)
{
    if (job->pid) {
        kill(job->pid, SIGKILL);
        (void)has_ended(job); /* one that stays is launch_reap's */
    }
    close_file(&job->input);
    close_file(&job->output);
    close_file(&job->errors);
    pager_release(&job->text);
    pager_release(&job->report);
    *job = (struct job){0};
}

enum status job_start(struct job *job, const char *const *arguments, bool listens, struct err *err)
{
    const char *all[JOB_WORDS_MAX + 2] = {program_invocation_name};
    int input[2] = {-1, -1}, output[2] = {-1, -1}, errors[2] = {-1, -1}, code = 0;
    job_close(job);
    for (size_t i = 0; arguments[i]; i++) {
        if (i == JOB_WORDS_MAX) return err_set(err, STATUS_USAGE, "more than %d words", JOB_WORDS_MAX);
        all[i + 1] = arguments[i];
    }
    if (pipe2(output, O_CLOEXEC) || pipe2(errors, O_CLOEXEC) ||
        (listens && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input)))
        code = errno;
    if (!code)
        code = spawn_program("/proc/self/exe", (const int[3]){input[0], output[1], errors[1]}, false, all,
                             &job->pid);
    close_file(&input[0]);
    close_file(&output[1]);
    close_file(&errors[1]);
    job->input = input[1];
    job->output = output[0];
    job->errors = errors[0];
    if (!code) {
        fcntl(job->output, F_SETFL, O_NONBLOCK);
        fcntl(job->errors, F_SETFL, O_NONBLOCK);
        return STATUS_OK;
    }
    job->pid = 0;
    job_close(job);
    return err_set(err, STATUS_FAILED, "cannot start %s: %s", arguments[0], strerror(code));
}

enum status job_start_lines(struct job *job, const char *words, struct err *err)
{
    const char *arguments[JOB_WORDS_MAX + 2];
    size_t count = 0;
    char *text = strdup(words), *rest = text;
    if (!text) return err_no_memory(err, "a command");
    while (rest && count <= JOB_WORDS_MAX) arguments[count++] = strsep(&rest, "\n");
    arguments[count] = NULL;
    enum status status = job_start(job, arguments, false, err);
    free(text);
    return status;
}

const char *job_word(const struct job *job, enum style *style)
{
    *style = !job->ended ? STYLE_ACCENT : job->failed && !job->stopped ? STYLE_BAD : STYLE_GOOD;
    return !job->ended ? "running" : job->stopped ? "stopped" : job->failed ? "failed" : "done";
}

bool job_answers(const struct job *job)
{
    return job->pid && job->answered < job->asked;
}

bool job_ask(struct job *job, const char *request)
{
    size_t n = strlen(request);
    if (!job->pid || job->input <= 0) return false;
    if (job_answers(job)) kill(job->pid, SIGINT);
    if (send(job->input, request, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
        return false; /* it has ended */
    job->asked++;
    job->stopped = false;
    pager_clear(&job->text);
    pager_clear(&job->report);
    return true;
}

/* Adds output to the text; a zero byte ends an answer, and one to an older request than the newest goes. */
static void add(struct job *job, const char *bytes, size_t n)
{
    for (const char *end; job->answered < job->asked && (end = memchr(bytes, '\0', n));) {
        job->answered++;
        if (job->answered < job->asked)
            pager_clear(&job->text);
        else
            (void)pager_add(&job->text, bytes, (size_t)(end - bytes)); /* without memory it has a gap */
        n -= (size_t)(end + 1 - bytes);
        bytes = end + 1;
    }
    (void)pager_add(&job->text, bytes, n);
}

/* Reads what a pipe holds, at most as much as a frame can wait for; closes it at its end. */
static bool drain(struct job *job, int *file)
{
    enum { MOST = 1 << 20 };
    char bytes[16384];
    ssize_t n = 0;
    size_t all = 0;
    while (*file > 0 && all < MOST && (n = read(*file, bytes, sizeof bytes)) > 0) {
        if (file == &job->output)
            add(job, bytes, (size_t)n);
        else
            (void)pager_add(&job->report, bytes, (size_t)n);
        all += (size_t)n;
    }
    bool end = *file > 0 && all < MOST && (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR));
    if (end) close_file(file);
    return all > 0 || end;
}

bool job_read(struct job *job)
{
    int status = 0;
    if (!job->pid && job->output <= 0) return false;
    bool news = drain(job, &job->output); /* first: what is reported comes before the end of an answer */
    if (drain(job, &job->errors)) news = true;
    if (!job->pid) return news;
    pid_t done = waitpid(job->pid, &status, WNOHANG); /* -1: launch_reap has collected it */
    if (done == 0) return news;
    (void)drain(job, &job->output);
    (void)drain(job, &job->errors);
    job->pid = 0;
    job->ended = true;
    job->failed = done > 0 && status != 0;
    return true;
}

const char *job_stop(struct job *job)
{
    bool again = job->stopped;
    if (job->pid) kill(job->pid, again ? SIGKILL : SIGINT);
    job->stopped = true;
    return again ? "ended" : "stopping it; once more ends it at once";
}

char *job_last_line(const struct job *job, char *buf, size_t size)
{
    text_last_line(job->report.text, job->report.length, buf, size);
    return buf;
}
