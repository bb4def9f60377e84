/* Ranks that die or hang while several train, with the real binary and mpirun on this host: all end at once,
 * one sentence names the rank, and the run goes on from its last checkpoint. A slow rank is named, too.
 * Skipped where there is no MPI.
 *
 * The long tests kill ten, at random moments, and let each rank hang. ANNEAL_TEST_KILLS=500 kills as many. */
#include <signal.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tests/long.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

enum { RANKS = 3 };

/* How many ranks to kill, at random moments; 0: nobody asked for more than the usual ones. */
static int kills_asked(void)
{
    return long_kills(10, 0);
}

static struct process *start(const struct stage *s, const char *steps, const char *timeout)
{
    return process_start("train", s->config, "--name=lost", "--ranks=3", "--progress=json",
                         "--train.batch_size=3", "--checkpoint.every=4", "--train.schedule=constant", timeout,
                         "--sample.every=0", steps, NULL);
}

/* The same, started as a user of mpirun does. */
static struct process *start_by_hand(const struct stage *s)
{
    return process_start_in("mpirun", stage_mpirun_environment, "-n", "3", getenv("ANNEAL_BINARY"), "train",
                            s->config, "--name=lost", "--progress=json", "--train.batch_size=3",
                            "--checkpoint.every=4", "--sample.every=0", "--train.total_steps=1000000", NULL);
}

/* All ranks have ended, one sentence names the lost one, and so does the run. */
static void expect_named(const struct stage *s, const struct process *p, int rank, const char *how)
{
    process_expect_said_once(p, kept_format("anneal: rank %d on ", rank));
    process_expect_said_once(p, how);
    for (int r = 0; r < RANKS; r++) assert_int_equal(stage_find_rank(s, r), 0);
    assert_string_equal(stage_status(), "crashed");
    stage_expect(
        s,
        kept_format("select count(*) from runs r join events e on e.run_id = r.id and e.text = r.message"
                    " and e.level = 'error' and e.segment = r.segment where message like"
                    " 'rank %d on %%%s%%'",
                    rank, how),
        "1");
    assert_non_null(strstr(process_output("show", "lost", NULL), kept_format("crashed: rank %d on ", rank)));
}

/* Lets it train for `lines` lines of progress, sends the signal to a rank, and waits for the end of all. */
static void lose_of(struct process *p, const struct stage *s, int rank, int number, int lines,
                    const char *how)
{
    process_wait_text(p, "\"type\":\"checkpoint\"");
    process_wait_lines(p, (size_t)lines);
    pid_t pid = stage_find_rank(s, rank);
    assert_int_not_equal(pid, 0);
    kill(pid, number);
    assert_int_not_equal(process_wait_exit(p), 0);
    expect_named(s, p, rank, how);
}

static void lose(const struct stage *s, int rank, int number, int lines, const char *how)
{
    const char *timeout = number == SIGSTOP ? "--world.timeout=5" : "--world.timeout=60";
    lose_of(start(s, "--train.total_steps=1000000", timeout), s, rank, number, lines, how);
}

/* Resumes it to a step that it has not reached; returns the setting. */
static const char *go_on_with(const char *ranks)
{
    int64_t steps = stage_int(json_array_get(stage_runs(), 0), "steps") + 10;
    const char *word = kept_format("--train.total_steps=%d", (int)steps);
    process_expect_within(200, 0,
                          process_start("resume", "lost", "--ranks", ranks, "--progress=none", word, NULL));
    return word;
}

/* The interrupted run, resumed by as many ranks and trained to a step that it has not reached, has the steps
 * of one that nothing interrupted. */
static void expect_to_go_on(const struct stage *s)
{
    const char *steps = go_on_with("3");
    struct history lost = history_of("lost");
    struct process *p = start(s, steps, "--world.timeout=60"); /* the newest run of this name */
    process_expect_within(200, 0, p);
    struct history whole = history_of("latest");
    history_expect_equal(&whole, &lost);
}

TEST_CASE(a_rank_that_dies_ends_all_and_loses_nothing)
{
    struct stage s;
    stage_need_mpi();
    int asked = kills_asked(), kills = asked ? asked : RANKS;
    srand((unsigned)getpid());
    for (int i = 0; i < kills; i++) {
        stage_open(&s, "ranks-killed");
        int lines = 12 + rand() % 60;
        print_message("rank %d of %d, after %d lines\n", i % RANKS, RANKS, lines);
        lose(&s, i % RANKS, SIGKILL, lines, "has died");
        if (asked || i == 0) expect_to_go_on(&s);
    }
}

STAGE_CASE(a_rank_of_mpirun_that_dies_ends_all, struct stage *s)
{
    stage_need_mpi();
    lose_of(start_by_hand(s), s, 1, SIGKILL, 20, "has died");
}

/* mpirun can pass nothing on any more when it is killed; when anneal is, which has started it, the ranks
 * save. */
TEST_CASE(ranks_end_when_what_has_started_them_is_killed)
{
    stage_need_mpi();
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        struct stage s;
        stage_open(&s, "ranks-launcher");
        struct process *p =
            by_hand ? start_by_hand(&s) : start(&s, "--train.total_steps=1000000", "--world.timeout=60");
        process_wait_lines(p, 20);
        process_signal(p, SIGKILL);
        process_wait_exit(p);
        for (int r = 0; r < RANKS; r++)
            while (stage_find_rank(&s, r)) usleep(10000); /* the suite ends a test that hangs */
        char *message = stage_query(&s, "select message from runs");
        assert_string_equal(stage_status(), by_hand ? "crashed" : "stopped");
        assert_non_null(strstr(message, by_hand ? "the process that has started it" : "signal"));
    }
}

/* A failure of rank 0 alone, which the others do not see. */
STAGE_CASE(ranks_whose_folder_is_moved_end_with_that_reason, struct stage *s)
{
    stage_need_mpi();
    struct process *p = start(s, "--train.total_steps=1000000", "--world.timeout=60");
    process_wait_lines(p, 20);
    char *folder = kept_format("%s/runs/%s", s->home, stage_query(s, "select id from runs"));
    assert_int_equal(rename(folder, kept_format("%s-moved", folder)), 0);
    process_expect(1, p);
    process_expect_said_once(p, "was removed or moved while it was training");
    assert_string_equal(stage_status(), "failed");
}

TEST_CASE(a_rank_that_hangs_ends_all)
{
    struct stage s;
    stage_need_mpi();
    for (int rank = kills_asked() ? 0 : 2; rank < RANKS; rank++) {
        stage_open(&s, "ranks-hang");
        lose(&s, rank, SIGSTOP, 20, "gave no sign of life for 5 s (world.timeout)");
    }
}

static bool was_named(const char *sentence, const struct stage *s)
{
    return *stage_query(s, kept_format("select count(*) from events where text like '%s%%'", sentence)) !=
           '0';
}

/* Halts rank 1 again and again, for many steps of the others, until the run's history names it. */
static bool slowed_rank_is_named(struct process *p, void *stage)
{
    pid_t pid = stage_find_rank(stage, 1);
    process_poll(p);
    for (int i = 0; i < 4 && pid; i++) {
        kill(pid, SIGSTOP);
        usleep(300000);
        kill(pid, SIGCONT);
        usleep(20000);
    }
    return was_named("rank 1 on % computes % times as long as the others", stage);
}

STAGE_CASE(a_rank_that_is_slow_is_named, struct stage *s)
{
    stage_need_mpi();
    if (!kills_asked()) skip(); /* it takes half a minute */
    struct process *p = process_start("train", s->config, "--name=slow", "--ranks=3", "--progress=json",
                                      "--train.batch_size=48", "--checkpoint.every=0", "--eval.every=0",
                                      "--sample.every=0", "--train.total_steps=100000000", NULL);
    process_wait_text(p, "\"type\":\"step\"");
    process_wait(p, slowed_rank_is_named, s);
    assert_false(was_named("rank 0 on", s));
    process_signal(p, SIGTERM);
    assert_int_equal(process_wait_exit(p), 0);
}

/* A run of three ranks goes on with two when one host is gone. */
STAGE_CASE(fewer_ranks_go_on, struct stage *s)
{
    stage_need_mpi();
    lose(s, 1, SIGKILL, 20, "has died");
    go_on_with("2");
    assert_string_equal(stage_status(), "finished");
}

TEST_MAIN()
