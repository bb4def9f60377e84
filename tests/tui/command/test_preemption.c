/* Runs under a job scheduler: they leave in time, and the same command goes on with them. */
#include <signal.h>

#include "tests/cmocka.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* Begins or continues the run "job", as a scheduler does each time. */
static struct process *submit(const struct stage *s, const char *setting)
{
    return process_start("train", s->config, "--name=job", "--resume-or-start", "--progress=plain", setting,
                         NULL);
}

STAGE_CASE(sigusr1_saves_and_leaves_and_the_same_command_goes_on, struct stage *s)
{
    process_run(0, "train", s->config, "--name=whole", "--train.total_steps=400", "--progress=none", NULL);
    struct process *p = submit(s, "--train.total_steps=400");
    process_wait_text(p, "step ");
    process_signal(p, SIGUSR1);
    process_signal(p, SIGUSR1);
    process_expect(75, p);
    stage_expect(s, "select status || ' ' || message from runs where name = 'job'",
                 "stopped stopped by SIGUSR1");
    process_expect(0, submit(s, "--train.total_steps=400"));
    stage_expect(s,
                 "select count(*) || ' ' || max(segment) || ' ' || max(status) from runs where name = 'job'",
                 "1 2 finished");
    history_expect_same("whole", "job");
    p = process_expect(0, submit(s, "--train.total_steps=400"));
    process_expect_sentence(p, "nothing is left to do, the run has finished");
    process_expect(0, submit(s, "--train.total_steps=420"));
    stage_expect(s, "select count(*) || ' ' || max(segment) from runs where name = 'job'", "1 3");
}

STAGE_CASE(a_run_leaves_before_its_time_limit, struct stage *s)
{
    struct process *p = process_start("train", s->config, "--name=job", "--train.total_steps=100000000",
                                      "--train.time_limit=0.05", "--progress=none", NULL);
    process_expect(75, p);
    stage_expect(
        s,
        "select status || ' ' || message || ' ' || (steps > 0) || ' ' || (ended_at - created_at < 3) "
        "from runs",
        "stopped train.time_limit is reached 1 1");
    stage_expect(s, "select count(*) > 0 from checkpoints where step = (select steps from runs)", "1");
    stage_expect(s, "select count(*) from events where text like 'train.time_limit = 0.05 minutes: leaves %'",
                 "1");
}

/* The ids of runs begin with their date. */
STAGE_CASE(a_name_that_ids_begin_with_is_looked_for_as_a_name, struct stage *s)
{
    process_run(0, "train", s->config, "--name=a", "--train.total_steps=1", NULL);
    process_run(0, "train", s->config, "--name=b", "--train.total_steps=1", NULL);
    for (int i = 0; i < 2; i++)
        process_run(0, "train", s->config, "--name=2", "--resume-or-start", "--train.total_steps=1", NULL);
    assert_int_equal(stage_count_runs(), 3);
    stage_expect(s, "select count(*) from runs where name = '2'", "1");
}

STAGE_CASE(commands_that_start_together_train_one_run, struct stage *s)
{
    int trained = 0;
    struct process *both[2] = {submit(s, "--train.total_steps=20"), submit(s, "--train.total_steps=20")};
    for (int i = 0; i < 2; i++) {
        int status = process_wait_exit(both[i]);
        if (status)
            process_expect_sentence(both[i], "run \"job\": another process is starting or training it");
        trained += !status;
    }
    assert_in_range(trained, 1, 2);
    assert_int_equal(stage_count_runs(), 1);
}

STAGE_CASE(what_a_checkpoint_depends_on_cannot_change, struct stage *s)
{
    process_expect_sentence(process_run(2, "train", s->config, "--resume-or-start", NULL), "needs --name");
    process_expect_sentence(process_run(2, "train", s->config, "--resume-or-start", "--name=lr:1", NULL),
                            "a run cannot be called \"lr:1\" (give its name as it is stored: --name lr-1)");
    process_expect(0, submit(s, NULL));
    process_expect_sentence(process_expect(2, submit(s, "--model.num_layers=3")),
                            "which a resumed run must keep");
    assert_int_equal(stage_count_runs(), 1);
}

TEST_MAIN()
