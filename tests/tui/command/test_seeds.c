/* `anneal train --seeds`: runs of consecutive seeds one after the other, interrupted, gone on with, watched.
 */
#include <signal.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"
#include "tests/tui/view/pty.h"

/* Its standard error has these words. */
static void expect_words(struct process *p, const char *words)
{
    if (!strstr(process_stderr(p), words)) fail_msg("\"%s\" is not in:\n%s", words, process_stderr(p));
}

STAGE_CASE(each_seed_is_a_run_of_its_own, struct stage *s)
{
    struct process *p =
        process_run(0, "train", s->config, "--name=base", "--seeds=3", "--train.seed=7", NULL);
    expect_words(p, "run 2 of 3: base-s2, train.seed = 8");
    stage_expect(s,
                 "select runs.name || ' ' || status || ' ' || value from runs join params on run_id = id and"
                 " params.name = 'train.seed' order by runs.name",
                 "base-s1 finished 7\nbase-s2 finished 8\nbase-s3 finished 9");
    process_run(0, "train", s->config, "--name=alone", "--train.seed=8", NULL);
    history_expect_same("alone", "base-s2");
    process_run(0, "train", s->config, "--seeds=1", "--progress=none", NULL); /* without a name */
    stage_expect(s, "select name from runs order by created_at desc, id desc limit 1", "shakespeare-s1");
}

STAGE_CASE(an_interrupted_series_is_gone_on_with_by_the_same_command, struct stage *s)
{
    struct process *p = process_start("train", s->config, "--name=base", "--seeds=2",
                                      "--train.total_steps=400", "--progress=plain", NULL);
    process_wait_text(p, "checkpoint ");
    process_signal(p, SIGINT);
    process_expect(130, p);
    stage_expect(s, "select group_concat(name || ' ' || status) from runs", "base-s1 stopped");
    process_run(0, "train", s->config, "--name=base", "--seeds=2", "--train.total_steps=400",
                "--resume-or-start", NULL);
    stage_expect(s, "select group_concat(name || ' ' || status) from (select * from runs order by name)",
                 "base-s1 finished,base-s2 finished");
    /* the seeds of the series hold, though the command line has another one */
    p = process_run(0, "train", s->config, "--name=base", "--seeds=2", "--train.seed=1337",
                    "--train.total_steps=410", "--resume-or-start", NULL);
    stage_expect(s, "select group_concat(steps) from runs", "410,410");
    process_run(0, "train", s->config, "--name=whole", "--train.seed=1337", "--train.total_steps=400",
                "--progress=none", NULL);
    process_run(0, "resume", "whole", "--train.total_steps=410", "--progress=none", NULL);
    history_expect_same("whole", "base-s1");
    assert_int_equal(stage_count_leftovers(s), 0);
}

STAGE_CASE(what_was_not_started_is_told, struct stage *s)
{
    struct process *p = process_start("train", s->config, "--name=base", "--seeds=3",
                                      "--train.total_steps=10000000", "--progress=plain", NULL);
    process_wait_text(p, "run 1 of 3");
    process_wait_text(p, "checkpoint ");
    process_signal(p, SIGTERM);
    p = process_expect(0, p);
    expect_words(p, "not started: base-s2 to base-s3; the same command with --resume-or-start");
    stage_expect(s, "select runs.name || ' ' || status from runs", "base-s1 stopped");
    /* a failure ends the series, too */
    p = process_run(1, "train", s->config, "--name=bad", "--seeds=2", "--data.train=nowhere.txt", NULL);
    expect_words(p, "not started: bad-s2; the same command");
    p = process_run(1, "train", s->config, "--name=bad", "--seeds=1", "--data.train=nowhere.txt", NULL);
    assert_null(strstr(process_stderr(p), "not started"));
    p = process_run(2, "train", s->config, "--seeds=2", "--train.seed=9223372036854775807", NULL);
    expect_words(p, "too large for so many");
    stage_expect(s, "select count(*) from runs", "1");
}

STAGE_CASE(watch_opens_the_first_and_the_others_follow, struct stage *s)
{
    const char *words[] = {"train", s->config, "--watch", "--seeds=2", "--name=base", NULL};
    struct pty *pty = pty_open(&(struct pty_options){.rows = 24, .columns = 100, .arguments = words});
    pty_wait_text(pty, "base-s1");
    pty_send(pty, "q"); /* the list */
    pty_wait_text(pty, "2 runs, 0 training");
    pty_send(pty, "f");
    pty_wait_text(pty, "base ×2");
    pty_send(pty, "q");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
    const char *status = "select group_concat(status) from runs";
    while (strstr(stage_query(s, status), "running")) usleep(10000); /* the series goes on without the list */
    stage_expect(s, status, "finished,finished");
}

TEST_MAIN()
