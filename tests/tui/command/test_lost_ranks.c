/* Ranks that die or hang while several train, with the real binary and mpirun on this host: all end at once,
 * one sentence names the rank, and the run goes on from its last checkpoint. A slow rank is named, too.
 * Skipped where there is no MPI.
 *
 * They run only if ANNEAL_TEST_KILLS is set: how many ranks are killed, at random moments. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>

#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

enum { RANKS = 3 };

/* mpirun kills the other ranks a second after one has died: on a busy machine that may be too early for their
 * sentence, so these tests run only on request. */
static void need_time(void)
{
    stage_need_mpi();
    if (getenv("ANNEAL_TEST_KILLS")) return;
    print_message("skipped: set ANNEAL_TEST_KILLS, on a machine that has nothing else to do\n");
    skip();
}

/* Whether the process has this variable in its environment. */
static bool has(const char *pid, const char *variable)
{
    char path[300], *text = NULL;
    size_t size = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    FILE *file = fopen(path, "r");
    while (file && !found && getdelim(&text, &size, '\0', file) > 0) found = strcmp(text, variable) == 0;
    if (file) fclose(file);
    free(text);
    return found;
}

/* The process of a rank of this stage's home; 0: there is none. */
static pid_t find_rank(const struct stage *s, int rank)
{
    char home[700], number[64];
    snprintf(home, sizeof home, "ANNEAL_HOME=%s", s->home);
    snprintf(number, sizeof number, "OMPI_COMM_WORLD_RANK=%d", rank);
    DIR *folder = opendir("/proc");
    pid_t pid = 0;
    for (struct dirent *entry; !pid && (entry = readdir(folder));)
        if (has(entry->d_name, home) && has(entry->d_name, number)) pid = atoi(entry->d_name);
    closedir(folder);
    return pid;
}

static struct process *start(const struct stage *s, const char *steps, const char *timeout)
{
    return process_start("train", s->config, "--name=lost", "--ranks=3", "--progress=json",
                         "--train.batch_size=3", "--checkpoint.every=4", "--train.schedule=constant", timeout,
                         "--sample.every=0", steps, NULL);
}

/* Lets it train for `lines` lines of progress, sends the signal to a rank, and waits for the end of all. */
static void lose(const struct stage *s, int rank, int number, int lines, const char *how)
{
    char sentence[64];
    const char *timeout = number == SIGSTOP ? "--world.timeout=5" : "--world.timeout=60";
    struct process *p = start(s, "--train.total_steps=1000000", timeout);
    process_wait_text(p, "\"type\":\"checkpoint\"");
    process_wait_lines(p, (size_t)lines);
    pid_t pid = find_rank(s, rank);
    assert_int_not_equal(pid, 0);
    kill(pid, number);
    assert_int_equal(process_wait_exit(p), 1);
    snprintf(sentence, sizeof sentence, "anneal: rank %d on ", rank);
    process_expect_said_once(p, sentence);
    process_expect_said_once(p, how);
    for (int r = 0; r < RANKS; r++) assert_int_equal(find_rank(s, r), 0);
    assert_string_equal(stage_status(), "crashed");
    process_close(p);
}

/* The interrupted run, resumed by as many ranks and trained to a step that it has not reached, has the steps
 * of one that nothing interrupted. */
static void expect_to_go_on(const struct stage *s)
{
    char steps[64];
    struct history lost, whole;
    json_t *runs = stage_runs();
    snprintf(steps, sizeof steps, "--train.total_steps=%d",
             (int)stage_int(json_array_get(runs, 0), "steps") + 10);
    json_decref(runs);
    process_close(process_expect_within(
        200, 0, process_start("resume", "lost", "--ranks=3", "--progress=none", steps, NULL)));
    history_read("lost", &lost);
    struct process *p = start(s, steps, "--world.timeout=60"); /* the newest run of this name */
    process_close(process_expect_within(200, 0, p));
    history_read("latest", &whole);
    history_expect_equal(&whole, &lost);
    history_release(&whole);
    history_release(&lost);
}

static void a_rank_that_dies_ends_all_and_loses_nothing(void **state)
{
    (void)state;
    struct stage s;
    need_time();
    int kills = atoi(getenv("ANNEAL_TEST_KILLS"));
    srand((unsigned)getpid());
    for (int i = 0; i < kills; i++) {
        stage_open(&s, "ranks-killed");
        int lines = 12 + rand() % 60;
        print_message("rank %d of %d, after %d lines\n", i % RANKS, RANKS, lines);
        lose(&s, i % RANKS, SIGKILL, lines, "has died");
        expect_to_go_on(&s);
    }
}

static void a_rank_that_hangs_ends_all(void **state)
{
    (void)state;
    struct stage s;
    need_time();
    for (int rank = 0; rank < RANKS; rank++) {
        stage_open(&s, "ranks-hang");
        lose(&s, rank, SIGSTOP, 20, "gave no sign of life for 5 s (world.timeout)");
    }
}

static bool was_named(const char *sentence, const struct stage *s)
{
    char sql[200];
    snprintf(sql, sizeof sql, "select count(*) from events where text like '%s%%'", sentence);
    char *count = stage_query(s, sql);
    bool named = *count != '0';
    free(count);
    return named;
}

/* Halts rank 1 again and again, until the run's history names it. */
static bool slowed_rank_is_named(struct process *p, void *stage)
{
    pid_t pid = find_rank(stage, 1);
    process_poll(p);
    for (int i = 0; i < 20 && pid; i++) {
        kill(pid, SIGSTOP);
        usleep(20000);
        kill(pid, SIGCONT);
        usleep(5000);
    }
    return was_named("rank 1 on % computes % times as long as the others", stage);
}

static void a_rank_that_is_slow_is_named(void **state)
{
    (void)state;
    struct stage s;
    need_time();
    stage_open(&s, "ranks-slow");
    struct process *p = process_start("train", s.config, "--name=slow", "--ranks=3", "--progress=json",
                                      "--train.batch_size=48", "--checkpoint.every=0", "--eval.every=0",
                                      "--sample.every=0", "--train.total_steps=100000000", NULL);
    process_wait_text(p, "\"type\":\"step\"");
    process_wait(p, slowed_rank_is_named, &s);
    assert_false(was_named("rank 0 on", &s));
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait_exit(p), 0);
    process_close(p);
}

/* A run of three ranks goes on with two when one host is gone. */
static void fewer_ranks_go_on(void **state)
{
    (void)state;
    struct stage s;
    need_time();
    stage_open(&s, "ranks-fewer");
    lose(&s, 1, SIGKILL, 20, "has died");
    json_t *runs = stage_runs();
    char steps[64];
    snprintf(steps, sizeof steps, "--train.total_steps=%d",
             (int)stage_int(json_array_get(runs, 0), "steps") + 10);
    json_decref(runs);
    process_close(process_expect_within(
        200, 0, process_start("resume", "lost", "--ranks=2", "--progress=none", steps, NULL)));
    assert_string_equal(stage_status(), "finished");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_rank_that_dies_ends_all_and_loses_nothing, process_close_all),
        cmocka_unit_test_teardown(a_rank_that_hangs_ends_all, process_close_all),
        cmocka_unit_test_teardown(a_rank_that_is_slow_is_named, process_close_all),
        cmocka_unit_test_teardown(fewer_ranks_go_on, process_close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
