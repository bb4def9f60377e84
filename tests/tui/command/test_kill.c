/* SIGKILL at any moment: a trainer is killed forty times (in the long tests two hundred, with
 * ANNEAL_TEST_KILLS=500 as many), anywhere between its first line and its last, many times inside a save;
 * each time its files must be whole and a resume must continue from the newest checkpoint, or from the
 * beginning without one. All records of all these trainers must equal those of a run that was never killed,
 * bit for bit.
 *
 * The moments are drawn from a fixed seed as a number of progress lines; where exactly the signal lands then
 * is the scheduler's choice, and any is as good. */
#include <dirent.h>
#include <signal.h>

#include "core/base/philox.h"
#include "tests/cmocka.h"
#include "tests/long.h"
#include "tests/tui/command/process.h"
#include "tests/tui/command/stage.h"

/* Of the kills, one in LOOKS is followed by a look at all that was left; a run is killed CHAIN times or so.
 */
enum { STEPS = 400, LINES_MOST = 12, LOOKS = 10, CHAIN = 40 };

/* Steps and checkpoints take turns, so that a kill is as likely inside a save as outside. */
#define SETTINGS                                                                                             \
    "--train.total_steps=400", "--checkpoint.every=1", "--eval.every=7", "--sample.every=0",                 \
        "--checkpoint.keep=2"

static uint32_t draw(uint32_t kill, uint32_t what, uint32_t below)
{
    return philox4x32_10(kill, what, 0, 0, 0x6B696C6C, 0).word[0] % below;
}

static void check_database(const struct stage *s)
{
    stage_expect(s, "pragma integrity_check", "ok");
}

/* Whether a step of the newest segment is in the database: asked of it, not of the trainer. */
static bool is_recorded(struct process *trainer, void *context)
{
    (void)trainer;
    char *answer =
        stage_query(context, "select count(*) from segments where first_step is not null and segment "
                             "= (select segment from runs order by created_at desc limit 1) and "
                             "run_id = (select id from runs order by created_at desc limit 1)");
    bool recorded = strcmp(answer, "1") == 0;
    return recorded;
}

enum outcome { KILLED, FINISHED };

static bool lines_or_has_ended(struct process *p, void *context)
{
    size_t left = *(size_t *)context;
    for (const char *line = process_stdout(p); left && (line = strchr(line, '\n')); line++) left--;
    return left == 0 || process_poll(p);
}

/* Counts the unfinished saves of killed trainers in the checkpoint folder of the newest run. */
static int count_half_saves(const struct stage *s)
{
    char *id = stage_query(s, "select id from runs order by created_at desc limit 1"), path[800];
    int count = 0;
    snprintf(path, sizeof path, "%s/runs/%s/checkpoints", s->home, id);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += strncmp(entry->d_name, ".step-", 6) == 0;
    if (folder) closedir(folder);
    return count > 0;
}

/* Trains or resumes, and kills after a drawn number of lines. */
static enum outcome kill_once(struct stage *s, uint32_t kill, const char *name, bool resume, int *half_saves)
{
    struct process *p =
        resume ? process_start("resume", name, "--progress=json", NULL)
               : process_start("train", s->config, "--name", name, "--progress=json", SETTINGS, NULL);
    process_wait_text(p, "\"type\":\"step\"");
    if (draw(kill, 0, LOOKS) == 0) process_wait(p, is_recorded, s);
    size_t lines = 2 + draw(kill, 1, LINES_MOST);
    process_wait(p, lines_or_has_ended, &lines);
    process_signal(p, SIGKILL);
    int how = process_wait_exit(p);
    *half_saves += count_half_saves(s);
    assert_true(how == 128 + SIGKILL || how == 0);
    if (draw(kill, 3, LOOKS) == 0) {
        check_database(s);
        assert_string_equal(stage_status(), how == 0 ? "finished" : "crashed");
    }
    return how == 0 ? FINISHED : KILLED;
}

/* The records of all segments of a run, including steps that a later one repeated. */
static void expect_every_life_right(const struct stage *s, const char *name)
{
    char sql[600];
    snprintf(
        sql, sizeof sql,
        "select count(distinct a.step), sum(a.loss is not b.loss or a.lr is not b.lr or a.grad_norm is not "
        "b.grad_norm) from steps a join steps b on a.step = b.step where a.run_id = (select id from runs "
        "where name = '%s') and b.run_id = (select id from runs where name = 'whole')",
        name);
    stage_expect(s, sql, "400|0");
}

/* Goes on with the run to its end. */
static void finish(struct stage *s, const char *name, const struct history *whole)
{
    struct process *p =
        process_start("resume", name, "--progress=json", "--checkpoint.every=0", "--eval.every=0", NULL);
    process_expect(0, p);
    assert_string_equal(stage_status(), "finished");
    struct history parts = history_of(name);
    history_expect_equal(whole, &parts);
    expect_every_life_right(s, name);
    assert_int_equal(count_half_saves(s), 0);
    check_database(s);
}

STAGE_CASE(a_trainer_killed_at_many_moments_continues_bit_for_bit_every_time, struct stage *s)
{
    int most = long_kills(200, 40), kills = 0, finished = 0, runs = 0, half_saves = 0;
    char name[16];
    process_run(0, "train", s->config, "--name", "whole", "--progress=none", SETTINGS, "--checkpoint.every=0",
                "--eval.every=0", NULL);
    struct history whole = history_of("whole");
    assert_int_equal(whole.count, STEPS);
    /* on a fast disk a save is short: go on until one was hit, within reason */
    for (bool fresh = true; kills < most || (half_saves < most / 20 && kills < 4 * most);) {
        if (fresh) snprintf(name, sizeof name, "run%d", runs++);
        enum outcome outcome = kill_once(s, (uint32_t)kills, name, !fresh, &half_saves);
        kills += outcome == KILLED;
        /* most are resumed to be killed again, some to their end, and so is the last one */
        fresh = outcome != KILLED;
        if (outcome == FINISHED) expect_every_life_right(s, name);
        finished += outcome == FINISHED;
        if (fresh || (draw((uint32_t)kills, 2, CHAIN) != 0 && kills < most)) continue;
        finish(s, name, &whole);
        finished++;
        fresh = true;
    }
    print_message("%d kills in %d runs, %d inside a save, %d resumed to the end\n", kills, runs, half_saves,
                  finished);
    assert_true(finished >= most / 66 + 1);
    assert_true(half_saves >= most / 20);
}

TEST_MAIN()
