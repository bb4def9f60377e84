/* A command beside the workbench: its output as it comes, its end, and that it ends with the view. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tests/cmocka.h"
#include "tui/view/job.h"

static void start(struct job *job, const char *role)
{
    struct err err = {0};
    const char *arguments[] = {role, NULL};
    if (job_start(job, arguments, strcmp(role, "echo") == 0, &err)) fail_msg("%s", err.text);
}

/* Reads until the output contains `text`, or the job has ended if that is NULL. */
static void read_until(struct job *job, const char *text)
{
    double deadline = clock_monotonic() + 120;
    while (text ? !job->text.text || !strstr(job->text.text, text) : !job->ended) {
        (void)job_read(job);
        if (clock_monotonic() > deadline) fail_msg("never came: %s", text ? text : "the end");
        usleep(1000);
    }
}

TEST_CASE(output_is_read_while_the_command_runs)
{
    struct job job = {0};
    start(&job, "deaf");
    read_until(&job, "deaf");
    assert_false(job.ended); /* it waits to be stopped */
    assert_false(job_read(&job));
    job_stop(&job);
    job_stop(&job);
    read_until(&job, NULL);
    assert_true(job.stopped && job.failed);
    assert_string_equal(job.text.text, "deaf\n");
    job_close(&job);
    job_close(&job);
}

static void read_answer(struct job *job)
{
    read_until(job, "");
    for (double end = clock_monotonic() + 120; job_answers(job); usleep(1000)) {
        if (clock_monotonic() > end) fail_msg("no answer");
        (void)job_read(job);
    }
}

TEST_CASE(one_process_answers_many_requests)
{
    struct job job = {0};
    assert_false(job_ask(&job, "nobody\n"));
    start(&job, "echo");
    pid_t pid = job.pid;
    assert_true(job_ask(&job, "hello\n"));
    read_answer(&job);
    assert_string_equal(job.text.text, "hello\n");
    assert_true(job_ask(&job, "endless\n"));
    read_until(&job, "endless");
    assert_true(job_answers(&job));
    assert_true(job_ask(&job, "next\n")); /* which ends the answer that is being written */
    read_answer(&job);
    assert_string_equal(job.text.text, "next\n");
    assert_true(job.pid == pid && job.answered == 3);
    kill(pid, SIGKILL);
    read_until(&job, NULL);
    assert_false(job_ask(&job, "anyone?\n"));
    job_close(&job);
}

TEST_CASE(the_last_line_of_a_command_that_fails_is_its_reason)
{
    struct job job = {0};
    char line[64];
    start(&job, "fail");
    read_until(&job, NULL);
    assert_true(job.failed);
    assert_string_equal(job_last_line(&job, line, sizeof line), "no such model");
    assert_string_equal(job_last_line(&job, line, 8), "no such");
    start(&job, "quiet"); /* another one in its place */
    read_until(&job, NULL);
    assert_false(job.failed);
    assert_string_equal(job_last_line(&job, line, sizeof line), "");
    job_close(&job);
}

TEST_CASE(a_command_that_does_not_listen_ends_with_its_view)
{
    struct job job = {0};
    start(&job, "deaf");
    read_until(&job, "deaf");
    pid_t pid = job.pid;
    job_stop(&job);
    job_stop(&job); /* at once */
    read_until(&job, NULL);
    assert_int_equal(kill(pid, 0), -1);
    start(&job, "deaf");
    read_until(&job, "deaf");
    pid = job.pid;
    double before = clock_monotonic();
    job_close(&job);
    assert_true(clock_monotonic() - before < 30);
    while (kill(pid, 0) == 0 && waitpid(pid, NULL, 0) != pid) continue;
    assert_int_equal(kill(pid, 0), -1);
}

TEST_CASE(a_command_that_is_left_gives_back_what_it_holds)
{
    struct job job = {0};
    char held[] = "/tmp/anneal-held-XXXXXX";
    close(mkstemp(held));
    setenv("HELD", held, 1);
    start(&job, "holder");
    read_until(&job, "holder");
    job_leave(&job);
    assert_true(job.pid == 0 && !job.text.text);
    for (double end = clock_monotonic() + 120; access(held, F_OK) == 0; usleep(1000))
        if (clock_monotonic() > end) fail_msg("it still holds %s", held);
    job_leave(&job);
}

TEST_CASE(a_command_that_does_not_leave_when_told_is_ended)
{
    struct job job = {0};
    start(&job, "stubborn");
    read_until(&job, "stubborn");
    pid_t pid = job.pid;
    job_leave(&job);
    for (double end = clock_monotonic() + 120; kill(pid, 0) == 0; usleep(1000)) {
        waitpid(pid, NULL, WNOHANG);
        if (clock_monotonic() > end) fail_msg("it still runs");
    }
}

TEST_CASE(a_command_that_cannot_be_started_says_why)
{
    struct job job = {0};
    struct err err = {0};
    static const char *many[JOB_WORDS_MAX + 2];
    static char lines[2 * JOB_WORDS_MAX + 2], longest[1 << 20]; /* no system takes such a word */
    memset(longest, 'x', sizeof longest - 1);
    assert_int_equal(job_start(&job, (const char *[]){"fail", longest, NULL}, true, &err), STATUS_FAILED);
    assert_string_equal(err.text, "cannot start fail: Argument list too long");
    assert_true(job.pid == 0 && !job_read(&job));
    for (size_t i = 0; i <= JOB_WORDS_MAX; i++) many[i] = "fail";
    assert_int_equal(job_start(&job, many, false, &err), STATUS_USAGE);
    for (size_t i = 0; i <= 2 * JOB_WORDS_MAX; i++) lines[i] = i % 2 ? '\n' : 'x'; /* one too many */
    assert_int_equal(job_start_lines(&job, lines, &err), STATUS_USAGE);
    assert_true(job.pid == 0 && !job_read(&job));
}

TEST_CASE(much_output_never_stops_a_command_nor_the_screen)
{
    struct job job = {0};
    start(&job, "much");
    read_until(&job, NULL); /* it ends only if all was read */
    assert_false(job.failed);
    assert_true(job.text.length <= PAGER_MOST);
    assert_string_equal(job.text.text + job.text.length - 4, "end\n");
    job_close(&job);
}

static volatile sig_atomic_t interrupted;

static void note(int number)
{
    interrupted = number;
}

/* The command: this program once more. */
static int play(const char *role)
{
    char line[64];
    alarm(300); /* never longer than its test */
    signal(SIGINT, note);
    if (strcmp(role, "holder") == 0) signal(SIGTERM, note), puts("holder"), fflush(stdout);
    while (strcmp(role, "echo") == 0 && fgets(line, sizeof line, stdin)) {
        fputs(line, stdout);
        fflush(stdout);
        while (strcmp(line, "endless\n") == 0 && !interrupted) usleep(1000);
        putchar('\0');
        fflush(stdout);
    }
    if (strcmp(role, "fail") == 0) fputs("reading\nanneal: no such model\n\n", stderr);
    if (strcmp(role, "deaf") == 0) signal(SIGINT, SIG_IGN), puts("deaf");
    if (strcmp(role, "stubborn") == 0) signal(SIGTERM, SIG_IGN), puts("stubborn");
    for (int i = 0; strcmp(role, "much") == 0 && i < 3000000; i++) putchar(i % 60 ? '\0' : '\n');
    if (strcmp(role, "much") == 0) puts("end");
    fflush(stdout);
    if (strcmp(role, "deaf") == 0 || strcmp(role, "stubborn") == 0)
        for (;;) pause();
    while (strcmp(role, "holder") == 0 && !interrupted) usleep(1000);
    if (strcmp(role, "holder") == 0) unlink(getenv("HELD"));
    return strcmp(role, "fail") == 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) return play(argv[1]);
    return TEST_RUN(NULL, NULL);
}
