/* Starting a trainer in the background: which run belongs to it, and its output file. This program is its own
 * trainer: with the word "linger" it only waits, with "fail" it ends with a sentence. */
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tui/view/launch.h"

struct place {
    char home[1024];
    struct store *store;
    struct launch launch;
    char found[RUN_ID_MAX]; /* by the newest poll */
    struct err err;
};

static void expect_poll(struct place *place, enum status status)
{
    assert_int_equal(launch_poll(&place->launch, place->store, place->found, &place->err), status);
}

static void start(struct place *place, const char *name, const char *what)
{
    const char *arguments[] = {what, NULL};
    *place = (struct place){0};
    store_fixture_home(name, place->home, sizeof place->home);
    place->store = store_fixture_open(place->home);
    if (launch_start(&place->launch, place->home, arguments, NULL, &place->err))
        fail_msg("%s", place->err.text);
}

static void finish(struct place *place, pid_t pid)
{
    launch_release(&place->launch);
    store_close(place->store);
    if (pid > 0 && kill(pid, SIGKILL) == 0) waitpid(pid, NULL, 0);
}

/* A run that says `pid` is its trainer and that it was made `seconds` from now. */
static void make_run(const struct place *place, pid_t pid, double seconds, char id[RUN_ID_MAX])
{
    char sql[200];
    store_fixture_run(place->home, "of", id);
    snprintf(sql, sizeof sql,
             "update runs set status = 'running', pid = %d, created_at = %.17g where id = '%s'", (int)pid,
             clock_wall() + seconds, id);
    store_fixture_sql(place->home, sql);
}

static int count_launch_files(const char *home)
{
    int count = 0;
    DIR *folder = opendir(home);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) count += strncmp(entry->d_name, "launch-", 7) == 0;
    closedir(folder);
    return count;
}

TEST_CASE(a_run_is_the_trainers_only_if_younger_and_alive)
{
    struct place place;
    struct run_lock old_lock, lock;
    char old[RUN_ID_MAX], dead[RUN_ID_MAX], own[RUN_ID_MAX], log[2048];
    start(&place, "whose", "linger");
    pid_t pid = place.launch.pid;
    expect_poll(&place, STATUS_BUSY);
    /* the same process id in another container, a day ago, and still at work */
    make_run(&place, pid, -86400, old);
    assert_int_equal(run_lock_acquire(place.store, old, &old_lock, &place.err), STATUS_OK);
    expect_poll(&place, STATUS_BUSY);
    /* a young one whose trainer is dead, though ours lives */
    make_run(&place, pid, 0, dead);
    expect_poll(&place, STATUS_BUSY);
    make_run(&place, pid + 1, 0, own); /* another one's, then ours */
    assert_int_equal(run_lock_acquire(place.store, own, &lock, &place.err), STATUS_OK);
    expect_poll(&place, STATUS_BUSY);
    assert_int_equal(count_launch_files(place.home), 1);
    char sql[200];
    snprintf(sql, sizeof sql, "update runs set pid = %d where id = '%s'", (int)pid, own);
    store_fixture_sql(place.home, sql);
    expect_poll(&place, STATUS_OK);
    assert_string_equal(place.found, own);
    assert_int_equal(count_launch_files(place.home), 0); /* it is the run's now */
    snprintf(log, sizeof log, "%s/runs/%s/stderr.log", place.home, own);
    assert_true(file_exists(log));
    run_lock_release(&lock);
    run_lock_release(&old_lock);
    finish(&place, pid);
    assert_true(file_exists(log));
}

TEST_CASE(a_run_that_has_ended_before_the_first_look_is_found)
{
    struct place place;
    siginfo_t info;
    char own[RUN_ID_MAX];
    start(&place, "short", "fail");
    make_run(&place, place.launch.pid, 0, own);
    assert_int_equal(waitid(P_PID, (id_t)place.launch.pid, &info, WEXITED | WNOWAIT), 0);
    expect_poll(&place, STATUS_OK);
    assert_string_equal(place.found, own);
    finish(&place, 0);
}

TEST_CASE(a_trainer_that_fails_leaves_its_sentence_and_no_file)
{
    struct place place;
    siginfo_t info;
    start(&place, "fails", "fail");
    assert_int_equal(waitid(P_PID, (id_t)place.launch.pid, &info, WEXITED | WNOWAIT), 0);
    expect_poll(&place, STATUS_FAILED);
    assert_string_equal(place.err.text, "no corpus here");
    assert_int_equal(count_launch_files(place.home), 0);
    expect_poll(&place, STATUS_NOT_FOUND);
    finish(&place, 0);
}

TEST_CASE(a_trainer_reaped_elsewhere_is_not_waited_for)
{
    struct place place;
    start(&place, "reaped", "linger");
    pid_t pid = place.launch.pid;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid); /* as launch_reap would */
    expect_poll(&place, STATUS_FAILED);
    assert_non_null(strstr(place.err.text, "ended before it made a run"));
    finish(&place, 0);
}

TEST_CASE(while_the_trainer_prepares_its_last_line_is_said)
{
    struct place place;
    start(&place, "prepares", "linger");
    pid_t pid = place.launch.pid;
    expect_poll(&place, STATUS_BUSY);
    assert_string_equal(place.err.text, "starting");
    FILE *log = fopen(place.launch.log, "a");
    assert_non_null(log);
    fputs("reading kjv: 100%\nencoding: 45%, ETA 3s\n", log);
    assert_int_equal(fclose(log), 0);
    expect_poll(&place, STATUS_BUSY);
    assert_string_equal(place.err.text, "encoding: 45%, ETA 3s");
    finish(&place, pid);
}

TEST_CASE(a_resumed_run_is_the_trainers_once_it_has_begun_a_segment)
{
    struct place place;
    struct run_info old;
    struct run_lock lock;
    char id[RUN_ID_MAX], sql[200];
    const char *arguments[] = {"linger", NULL};
    place = (struct place){0};
    store_fixture_home("resumes", place.home, sizeof place.home);
    place.store = store_fixture_open(place.home);
    make_run(&place, 1, -86400, id);
    assert_int_equal(run_find(place.store, id, &old, &place.err), STATUS_OK);
    if (launch_start(&place.launch, place.home, arguments, &old, &place.err)) fail_msg("%s", place.err.text);
    pid_t pid = place.launch.pid;
    assert_int_equal(run_lock_acquire(place.store, id, &lock, &place.err), STATUS_OK);
    snprintf(sql, sizeof sql, "update runs set pid = %d", (int)pid); /* as after a restart of a container */
    store_fixture_sql(place.home, sql);
    expect_poll(&place, STATUS_BUSY);
    store_fixture_sql(place.home, "update runs set segment = segment + 1");
    expect_poll(&place, STATUS_OK);
    assert_string_equal(place.found, id);
    run_lock_release(&lock);
    finish(&place, pid);
}

TEST_CASE(a_run_that_has_ended_well_is_found_while_its_trainer_still_closes)
{
    static const char *const ends[] = {"finished", "early_stopped", "running"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct place place;
        char own[RUN_ID_MAX], sql[200], folder[2048], away[2100];
        start(&place, ends[i], "linger");
        pid_t pid = place.launch.pid;
        make_run(&place, pid, 0, own);
        snprintf(sql, sizeof sql, "update runs set status = '%s', created_at = %.17g", ends[i],
                 place.launch.started); /* as early as can be */
        store_fixture_sql(place.home, sql);
        snprintf(folder, sizeof folder, "%s/runs/%s", place.home, own);
        snprintf(away, sizeof away, "%s/away", place.home);
        assert_int_equal(rename(folder, away), 0); /* no place for the file of its output */
        expect_poll(&place, i < 2 ? STATUS_OK : STATUS_BUSY);
        assert_int_equal(count_launch_files(place.home), i < 2 ? 0 : 1);
        finish(&place, pid);
    }
}

TEST_CASE(a_trainer_that_cannot_be_started_leaves_no_file)
{
    char home[1024], nowhere[1100];
    static const char *many[LAUNCH_WORDS_MAX + 2];
    struct launch launch = {0};
    struct err err = {0};
    char *endless = malloc(1 << 20); /* no system takes such a word */
    assert_non_null(endless);
    memset(endless, 'x', 1 << 20);
    endless[(1 << 20) - 1] = '\0';
    store_fixture_home("no-start", home, sizeof home);
    assert_int_equal(launch_start(&launch, home, (const char *[]){"linger", endless, NULL}, NULL, &err),
                     STATUS_FAILED);
    assert_string_equal(err.text, "cannot start a trainer: Argument list too long");
    assert_true(launch.pid == 0 && count_launch_files(home) == 0);
    free(endless);
    for (size_t i = 0; i <= LAUNCH_WORDS_MAX; i++) many[i] = "fail";
    assert_int_equal(launch_start(&launch, home, many, NULL, &err), STATUS_USAGE);
    assert_string_equal(err.text, "more than 512 arguments for a trainer");
    snprintf(nowhere, sizeof nowhere, "%s/nowhere", home);
    assert_int_equal(launch_start(&launch, nowhere, (const char *[]){"linger", NULL}, NULL, &err), STATUS_IO);
    assert_memory_equal(err.text, nowhere, strlen(nowhere));
    assert_non_null(strstr(err.text, ": cannot write: No such file or directory"));
    assert_true(launch.pid == 0);
}

TEST_CASE(letting_go_removes_the_file_and_spares_the_trainer)
{
    struct place place;
    start(&place, "letting-go", "linger");
    pid_t pid = place.launch.pid;
    assert_int_equal(count_launch_files(place.home), 1);
    launch_release(&place.launch);
    assert_int_equal(count_launch_files(place.home), 0);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* it lives */
    finish(&place, pid);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "linger") == 0) {
        alarm(300); /* never longer than its test */
        pause();
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "fail") == 0) {
        fputs("preparing\nanneal: no corpus here\n", stderr);
        return 1;
    }
    return TEST_RUN(NULL, NULL);
}
