/* The list of a run's evaluations on a grid alone: verdicts, patience, the best. */
#include <locale.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"

/* A run of 100 steps with ten evaluations, in which the one at 70 is the best and three follow it. */
static struct workbench *open_patient(const char *name, char home[1024], struct fill_run *run)
{
    struct fill fill = {.name = "patient",
                        .steps = 100,
                        .total_steps = 200,
                        .eval_every = 10,
                        .patience = 5,
                        .spike_step = -1,
                        .keep_alive = true};
    store_fixture_home(name, home, 1024);
    fill_run(home, &fill, run);
    store_fixture_sql(
        home, "update early_stopping set val_loss = 4 - step / 100.0, best_val_loss = 4 - step / 100.0,"
              " best_step = step, improved = 1, patience_used = 0, verdict = 'improved';"
              "update early_stopping set val_loss = 3.5, best_val_loss = 3.3, best_step = 70,"
              " improved = 0, patience_used = (step - 70) / 10, verdict = 'waiting' where step > 70");
    return headless_open(home, run->id);
}

TEST_CASE(the_newest_evaluation_shows_how_much_patience_is_left)
{
    char home[1024];
    struct fill_run run;
    struct workbench *workbench = open_patient("patience", home, &run);
    headless_type(workbench, "E");
    headless_expect(workbench, 80, 24, 80, "best 3.3000 at step 70 now 3.5000 (+0.2000)",
                    " by the lowest validation loss ");
    headless_expect(workbench, 120, 40, 120, "2 of 5 used up stops at step 120 if nothing improves");
    headless_expect_row(workbench, 80, 24, "★", " 70 ", "3.3000", "improved");
    headless_expect_row(workbench, 80, 24, "2/5", "waiting");
    headless_expect_row(workbench, 120, 24, " 60 ", "3.4000", "-0.1000");
    headless_expect_row(workbench, 120, 24, " 80 ", "3.5000", "+0.2000");
    headless_expect_selected(workbench, " 90 ");
    headless_type(workbench, "b");
    headless_expect_selected(workbench, "3.3000");
    workbench_mouse(workbench, K_CLICK, &(struct pointer){20, 8, 0}); /* the second row */
    headless_expect_selected(workbench, " 80 ");
    headless_type(workbench, "b");
    /* a new evaluation: the same row stays selected */
    store_fixture_sql(home,
                      "insert into early_stopping(run_id, segment, step, val_loss, best_val_loss, best_step,"
                      " min_delta, improved, patience_used, patience, verdict) select run_id, segment, 100,"
                      " 3.6, 3.3, 70, 0, 0, 3, 5, 'waiting' from early_stopping where step = 90");
    workbench_tick(workbench, workbench->now + 3);
    headless_expect(workbench, 80, 24, 80, "3 of 5 used up");
    headless_expect_selected(workbench, " 70 ");
    store_fixture_sql(home, "update early_stopping set metric = 'val_loss_ema'");
    workbench_tick(workbench, workbench->now + 3);
    headless_expect(workbench, 120, 24, 120, " by the lowest val_loss_ema ");
    store_fixture_sql(home, "update early_stopping set metric = 'val_acc'");
    workbench_tick(workbench, workbench->now + 3);
    headless_expect(workbench, 120, 24, 120, " by the highest val_acc ");
    headless_type(workbench, "q");
    headless_expect(workbench, 80, 24, 80, "▸loss");
    headless_close(workbench);
    fill_end(&run, RUN_EARLY_STOPPED, "");
}

TEST_CASE(a_best_evaluation_that_was_not_due_is_said_to_be_missing)
{
    char home[1024];
    struct fill_run run;
    struct workbench *workbench = open_patient("early", home, &run);
    headless_type(workbench, "E");
    headless_expect_not(workbench, 80, 24, "was due");
    store_fixture_sql(home, "update early_stopping set best_step = 75 where step > 70");
    workbench_tick(workbench, workbench->now + 3);
    headless_expect(workbench, 80, 24, 80,
                    "best 3.3000 at step 75 (not one that was due) now 3.5000 (+0.2000)");
    headless_close(workbench);
    fill_end(&run, RUN_FINISHED, "");
}

TEST_CASE(without_patience_or_evaluations_a_sentence_says_why)
{
    char home[1024];
    struct fill_run run;
    struct workbench *workbench = open_patient("off", home, &run);
    store_fixture_sql(home, "update early_stopping set patience = 0, patience_used = 0");
    headless_type(workbench, "E");
    headless_expect(workbench, 80, 24, 80, "early stopping is off (eval.early_stopping_patience = 0)");
    headless_expect_not(workbench, 80, 24, "waiting");
    headless_expect(workbench, 80, 24, 80, "90 3.5000 +0.2000 3.3000 - 80"); /* no gauge of nothing */
    store_fixture_sql(home, "delete from early_stopping");
    workbench_tick(workbench, workbench->now + 3);
    headless_expect(workbench, 80, 24, 80, "none yet (eval.every says when");
    store_fixture_sql(home, "update runs set status = 'finished', message = 'imported from /x.csv'");
    workbench_tick(workbench, workbench->now + 3);
    headless_expect(workbench, 80, 24, 80, "none with a verdict of early stopping: the run was imported");
    headless_close(workbench);
    fill_end(&run, RUN_FINISHED, "");
}

TEST_CASE(a_first_evaluation_foresees_no_end)
{
    char home[1024];
    struct fill_run run;
    struct workbench *workbench = open_patient("first", home, &run);
    store_fixture_sql(home, "delete from early_stopping where step < 90;"
                            "update early_stopping set patience = 4, patience_used = 2");
    headless_type(workbench, "E");
    headless_expect(workbench, 120, 24, 120, "2 of 4 used up");
    headless_expect_not(workbench, 120, 24,
                        "if nothing improves"); /* when the next one is due is not known */
    struct grid grid = headless_draw(workbench, 120, 24);
    char row[1024];
    int y = 0, x = 0;
    while (!strstr(grid_row(&grid, y, row, sizeof row), "2 of 4")) y++;
    while (grid.cells[y * 120 + x].glyph != '2') x++;
    assert_int_equal(grid.cells[y * 120 + x].style, STYLE_WARN); /* half of it */
    grid_release(&grid);
    headless_close(workbench);
    fill_end(&run, RUN_FINISHED, "");
}

TEST_CASE(a_run_that_early_stopping_ended_says_at_which_step)
{
    char home[1024];
    struct fill_run run;
    struct workbench *workbench = open_patient("ended", home, &run);
    fill_end(&run, RUN_EARLY_STOPPED, "");
    store_fixture_sql(
        home,
        "update early_stopping set patience_used = 5, verdict = 'stop', min_delta = 0.125 where step = 90");
    workbench_tick(workbench, workbench->now + 3);
    headless_type(workbench, "E");
    headless_expect(workbench, 120, 24, 120, "5 of 5 used up stopped at step 90 min_delta 0.125");
    headless_expect_not(workbench, 120, 24, "if nothing improves");
}

int main(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
