/* Comparing runs in the workbench: curves over every axis, what differs, outcomes, a target, groups, forks;
 * on hostile data, at every size and on real terminals. */
#include <ctype.h>
#include <locale.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"
#include "tui/view/compare_model.h"
#include "tui/widget/chart.h"

static void add_run(const char *home, const char *name, int64_t steps, double spike)
{
    struct fill_run run;
    struct fill fill = {.name = name,
                        .steps = steps,
                        .total_steps = steps,
                        .eval_every = 50,
                        .spike_step = 20,
                        .spike = spike,
                        .status = RUN_FINISHED};
    fill_run(home, &fill, &run);
}

/* A home with base-s1, base-s2 and base-s3, which differ in the seed alone, and wide, with another batch size
 * and half as many steps. */
static void fill_compared(const char *name, char *home, size_t size)
{
    store_fixture_home(name, home, size);
    add_run(home, "base-s1", 301, 12);
    add_run(home, "base-s2", 301, 15);
    add_run(home, "base-s3", 301, 18);
    add_run(home, "wide", 151, 12);
    store_fixture_sql(home,
                      "insert into params select id, 'train.seed', case name when 'base-s2' then '2' when"
                      " 'base-s3' then '3' else '1' end from runs;"
                      "update params set value = '32' where name = 'train.batch_size' and run_id ="
                      " (select id from runs where name = 'wide')");
}

/* Opens the list, marks all runs and compares them. */
static struct workbench *open_comparison(const char *home)
{
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "aC");
    return workbench;
}

TEST_CASE(marked_runs_are_compared_and_others_not)
{
    char home[1024];
    fill_compared("marked", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "C");
    headless_expect(workbench, 80, 24, 80, "mark the runs to compare with Space");
    headless_type(workbench, " jC"); /* wide, and base-s2, which is selected */
    headless_expect(workbench, 80, 24, 80, "compare 2 runs");
    headless_expect(workbench, 160, 24, 160, "1✓ base-s2", "2✓ wide");
    headless_expect_not(workbench, 160, 24, "base-s1");
    workbench_key(workbench, '\r'); /* the run of the selected row */
    headless_expect(workbench, 80, 24, 80, "base-s2 ✓ finished");
    headless_type(workbench, "q");
    headless_expect(workbench, 80, 24, 80, "compare 2 runs");
    headless_type(workbench, "q");
    headless_expect(workbench, 80, 24, 80, "4 runs, 0 training");
}

TEST_CASE(of_too_many_the_first_of_the_list_are_compared)
{
    char home[1024];
    fill_thirty("many", home, sizeof home);
    struct workbench *workbench = open_comparison(home);
    headless_expect(workbench, 160, 30, 160, "compare 10 runs, 20 left out", "run-00", "run-09");
    headless_expect_not(workbench, 160, 30, "run-10");
    headless_type(workbench, "qS"); /* sorts by */
    headless_type(workbench, "-name\rC");
    headless_expect(workbench, 160, 30, 160, "compare 10 runs, 20 left out", "1✓ run-29", "run-20");
    headless_expect_not(workbench, 160, 30, "run-19");
    headless_close(workbench);
}

TEST_CASE(runs_that_are_gone_are_not_compared)
{
    static const struct {
        const char *gone, *words;
    } cases[] = {{"name <> 'wide'", "compare 1 run "}, {"true", "no run to compare is left"}};
    for (int i = 0; i < 2; i++) {
        char home[1024], sql[80];
        fill_compared("gone", home, sizeof home);
        struct workbench *workbench = headless_open(home, NULL);
        headless_type(workbench, "a");
        snprintf(sql, sizeof sql, "delete from runs where %s", cases[i].gone);
        store_fixture_sql(home, sql);
        headless_type(workbench, "C");
        headless_expect(workbench, 80, 24, 80, cases[i].words);
        headless_close(workbench);
    }
}

TEST_CASE(only_what_differs_is_listed_with_outcomes_and_deltas)
{
    char home[1024];
    fill_compared("differs", home, sizeof home);
    struct workbench *workbench = open_comparison(home);
    headless_expect(workbench, 200, 40, 200, "run loss batch_size seed steps final loss");
    headless_expect_not(workbench, 200, 40, "schedule");
    headless_expect_row(workbench, 200, 40, "4✓ wide", "  32 ", "151 (-150)");
    headless_type(workbench, "jjjb"); /* measured against wide */
    headless_expect(workbench, 200, 40, 200, "the others are measured against wide", "1✓ wide");
    headless_expect_row(workbench, 200, 40, "2✓ base-s1", "301 (+150)");
    for (int i = 0; i < 30; i++) { /* the last column stays in sight */
        headless_type(workbench, ">");
        if (i > 20) headless_expect(workbench, 80, 24, 80, "wall time");
    }
    for (int i = 0; i < 30; i++) headless_type(workbench, "<");
    headless_expect(workbench, 80, 24, 80, "batch_size");
}

TEST_CASE(long_settings_are_told_apart_by_their_ends)
{
    char home[1024];
    fill_compared("paths", home, sizeof home);
    store_fixture_sql(home, "update params set value = '/data/collections/english/books/' || run_id"
                            " where name = 'data.train'");
    struct workbench *workbench = open_comparison(home);
    headless_expect(workbench, 160, 30, 160, "/data/collect…", "-base-s1", "-base-s2");
}

TEST_CASE(settings_that_end_in_the_same_word_are_told_apart)
{
    char home[1024];
    fill_compared("same_word", home, sizeof home);
    store_fixture_sql(home,
                      "insert or replace into params select id, 'eval.every', '1' || (name = 'wide') from "
                      "runs; insert or replace into params select id, 'sample.every', '5' || (name = "
                      "'wide') from runs");
    struct workbench *workbench = open_comparison(home);
    headless_expect(workbench, 200, 40, 200, "run loss eval.every sample.every batch_size seed");
}

/* The words below the plot: the ticks of the axis. */
static const char *axis_of(struct workbench *workbench, int w, int h, int curves)
{
    static char row[512];
    struct grid grid = headless_draw(workbench, w, h);
    grid_row(&grid, h - 1 - (curves + 1) - 1, row, sizeof row);
    grid_release(&grid);
    char *out = row;
    for (const char *in = row; *in; in++)
        if (*in != ' ' || (out > row && out[-1] != ' ')) *out++ = *in;
    *out = '\0';
    return row;
}

TEST_CASE(any_axis_has_its_own_ticks)
{
    char home[1024];
    fill_compared("axes", home, sizeof home);
    struct workbench *workbench = open_comparison(home);
    static const char *const titles[] = {"loss by step ", "loss by tokens ", "loss by wall time, seconds ",
                                         "loss by active time, seconds ", "loss by relative step "};
    static const char *const ticks[] = {"0 50 100 150 200 250 300", "0.2M 0.4M 0.6M 0.8M 1.0M 1.2M",
                                        "20 40 60 80", NULL, "0 50 100 150 200 250 300"};
    static const char *const cursors[] = {"compare 4 runs @0 ", "compare 4 runs @4096 ",
                                          "compare 4 runs @0.3310 seconds ", "compare 4 runs @0.3",
                                          "compare 4 runs @0 "};
    for (int axis = 0; axis < 5; axis++) {
        headless_expect(workbench, 80, 24, 80, titles[axis]);
        if (ticks[axis]) assert_string_equal(axis_of(workbench, 80, 24, 4), ticks[axis]);
        headless_type(workbench, "l"); /* the cursor begins at the left */
        headless_expect(workbench, 80, 24, 80, cursors[axis]);
        workbench_key(workbench, K_END);
        headless_type(workbench, "x");
    }
    headless_expect(workbench, 80, 24, 80, titles[0]);
    headless_type(workbench, "x");
    headless_close(workbench);
    workbench = open_comparison(home); /* and is remembered */
    headless_expect(workbench, 80, 24, 80, titles[1]);
    headless_type(workbench, "l"); /* the cursor begins at the left */
    headless_expect(workbench, 80, 24, 80, "@4096");
}

TEST_CASE(a_target_tells_when_and_after_how_many_tokens)
{
    char home[1024];
    fill_compared("target", home, sizeof home);
    store_fixture_sql(home, "update steps set loss = 9 - step * 0.01");
    struct workbench *workbench = open_comparison(home);
    headless_type(workbench, "t7\r"); /* step 200: 201 x 4096 tokens, wide has 151 steps */
    headless_expect(workbench, 200, 40, 200, "time to 7 tokens to 7", "823k");
    headless_expect(workbench, 200, 40, 200, "steps to 7 FLOPs to 7", " 200 ");
    headless_expect_row(workbench, 200, 40, "4✓ wide", "  -  ");
    headless_type(workbench, "t\025much\r");
    headless_expect(workbench, 80, 24, 80, "much is not a number");
    headless_type(workbench, "t\025\r");
    headless_expect_not(workbench, 200, 40, "time to");
}

TEST_CASE(a_target_is_reached_from_above_or_below_and_is_meant_as_it_is_shown)
{
    static const struct {
        const char *title, *target, *step;
    } cases[] = {{"perplexity by", "2981", " 100 "},
                 {"accuracy by", "0.5", " 150 "},
                 {"val_loss_ema by", "7", " 100 "},
                 {"learning rate by", "0.00105", " 105 "},
                 {"MFU % of peak by", "11", " 110 "}};
    char home[1024];
    fill_compared("sides", home, sizeof home);
    store_fixture_sql(home, "update steps set loss = 9 - step * 0.01, lr = step * 1e-5, mfu = step * 1e-3;"
                            "insert into measures(run_id, segment, step, name, value)"
                            " select run_id, segment, step, 'accuracy', step / 300.0 from evals union all"
                            " select run_id, segment, step, 'val_loss_ema', 8 - step * 0.01 from evals;"
                            "update evals set val_loss = 8 - step * 0.01; delete from rollup");
    struct workbench *workbench = open_comparison(home);
    headless_type(workbench, "t7\r");
    headless_expect_row(workbench, 200, 40, "1✓ base-s1", " 200 ");
    headless_type(workbench, "\t"); /* the same target for the validation loss */
    headless_expect_row(workbench, 200, 40, "1✓ base-s1", " 100 ");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int k = 0; k < 20 && !headless_row_with(workbench, 200, 40, cases[i].title); k++)
            headless_type(workbench, "\t");
        headless_expect(workbench, 200, 40, 200, cases[i].title);
        headless_type(workbench, "t\025");
        headless_type(workbench, cases[i].target);
        headless_type(workbench, "\r");
        headless_expect_row(workbench, 200, 40, "1✓ base-s1", cases[i].step);
    }
}

TEST_CASE(a_folded_curve_is_the_mean_of_those_that_have_a_number)
{
    char home[1024];
    fill_compared("numbers", home, sizeof home);
    store_fixture_sql(home,
                      "update steps set loss = 2 + substr(run_id, -1);"
                      "update steps set loss = 9e999, nan = nan | 1 where step = 300 and run_id like '%s3';"
                      "update steps set loss = null, nan = nan | 1 where step = 200 and run_id like '%s2';"
                      "delete from evals where step < 150 and run_id like '%s1'; delete from rollup");
    struct workbench *workbench = open_comparison(home);
    headless_type(workbench, "f");
    headless_expect(workbench, 120, 30, 120, "1✓ base ×3 3.500 (3.000 to 4.000, n 2)");
    struct grid grid = headless_draw(workbench, 120, 30);
    int crosses = 0;
    for (int i = 0; i < grid.w * grid.h; i++) crosses += grid.cells[i].glyph == 0x2717;
    assert_true(crosses > 0);
    grid_release(&grid);
    headless_type(workbench, "\tl"); /* at the first evaluation that any of them has */
    headless_expect(workbench, 120, 30, 120, "@50 ", ", n 2)");
}

TEST_CASE(relative_steps_of_a_fork_begin_where_it_does)
{
    char home[1024];
    fill_compared("forked", home, sizeof home);
    add_run(home, "tail", 100, 12);
    store_fixture_sql(home, "update runs set parent_id = (select id from runs where name = 'base-s1'),"
                            " parent_step = 150 where name = 'tail';"
                            "update steps set step = step + 1000 where run_id like '%tail';"
                            "update steps set step = step - 850 where run_id like '%tail';"
                            "update segments set first_step = 150 where run_id like '%tail';"
                            "delete from steps where step > 150 and run_id not like '%tail';"
                            "delete from rollup");
    struct workbench *workbench = open_comparison(home);
    headless_type(workbench, "xxxx");
    headless_expect(workbench, 80, 24, 80, "loss by relative step");
    assert_string_equal(axis_of(workbench, 80, 24, 5), "0 50 100 150");
}

TEST_CASE(runs_of_other_seeds_fold_into_one_curve_with_a_band)
{
    char home[1024];
    fill_compared("folded", home, sizeof home);
    store_fixture_sql(home,
                      "update steps set loss = loss + (select rowid from runs where id = run_id) * 0.5");
    struct workbench *workbench = open_comparison(home);
    headless_type(workbench, "f");
    headless_expect(workbench, 120, 30, 120, "compare 4 runs in 2 curves",
                    "loss by step; shaded: lowest to highest", "1✓ base ×3", ", n 3)", "1, 2, 3");
    struct grid grid = headless_draw(workbench, 120, 30);
    int shaded = 0;
    for (int i = 0; i < grid.w * grid.h; i++) shaded += grid.cells[i].glyph == 0x2591;
    assert_true(shaded > 50);
    grid_release(&grid);
    headless_type(workbench, "xx"); /* by wall time, of which one needed ten times as much */
    store_fixture_sql(home, "update steps set wall_time = 1e9 + step * 10 where run_id like '%base-s2'");
    headless_type(workbench, "ff"); /* opens the runs anew */
    headless_expect(workbench, 120, 30, 120, "by wall time, minutes");
    headless_expect(workbench, 120, 30, 120, ", n 1)"); /* the others had ended before */
    headless_type(workbench, "xxxf");
    headless_expect(workbench, 120, 30, 120, "3✓ base-s3");
}

TEST_CASE(a_curve_is_read_at_the_cursor_or_at_its_end)
{
    struct series_point points[] = {series_point_of(0, 4), series_point_of(10, 3), series_point_of(20, 2)};
    struct compare_curve curve = {.points = points, .count = 3};
    static const struct {
        int64_t place;
        double mean;
    } cases[] = {{-1, 2}, {0, 4}, {9, 4}, {10, 3}, {20, 2}, {21, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(compare_curve_at(&curve, cases[i].place)->mean == cases[i].mean);
    assert_null(compare_curve_at(&curve, 22)); /* 21: an evaluation has the number of steps done */
}

/* In a row of the table the value at the cursor is that of its step, over any axis. */
TEST_CASE(a_long_run_is_read_at_the_step_of_the_cursor)
{
    char home[1024], words[64];
    store_fixture_home("exact", home, sizeof home);
    add_run(home, "long", 20000, 12);
    add_run(home, "other", 20000, 12);
    store_fixture_sql(home, "update steps set loss = 3 + step % 7, tokens = (step + 1) * 10");
    struct workbench *workbench = open_comparison(home);
    for (int axis = 0; axis < 2; axis++) { /* steps, tokens */
        headless_expect(workbench, 120, 30, 120, "1✓ long");
        for (int i = 0; i < 10; i++) {
            workbench_key(workbench, K_LEFT);
            const char *at = strstr(headless_row_with(workbench, 120, 30, " compare "), "@");
            int64_t step = strtoll(at + 1, NULL, 10);
            if (axis == 1) step = step / 10 - 1;
            snprintf(words, sizeof words, "1✓ long %d.000 ", 3 + (int)(step % 7));
            headless_expect(workbench, 120, 30, 120, words);
        }
        headless_type(workbench, "x");
    }
    headless_type(workbench, "xxx"); /* steps again, without a cursor */
    store_fixture_sql(home, "update steps set loss = 9e999, nan = nan | 1 where step = 19999");
    workbench_tick(workbench, workbench->now + 1);
    headless_expect(workbench, 120, 30, 120, "1✓ long inf ");
    workbench_key(workbench, K_LEFT);
    headless_expect(workbench, 120, 30, 120, "1✓ long inf ");
}

TEST_CASE(on_logarithmic_steps_a_long_curve_begins_with_its_first_ones)
{
    char home[1024];
    store_fixture_home("logarithmic", home, sizeof home);
    add_run(home, "long", 20000, 12);
    add_run(home, "other", 100, 12);
    struct workbench *workbench = open_comparison(home);
    headless_type(workbench, "X");
    struct grid grid = headless_draw(workbench, 80, 24);
    int first = grid.w;
    for (int y = 2; y < 20; y++) /* of the first curve */
        for (int x = grid.w - 1; x >= CHART_MARGIN; x--)
            if (grid.cells[y * grid.w + x].style == STYLE_CURVE && x < first) first = x;
    assert_int_equal(first, CHART_MARGIN);
    grid_release(&grid);
}

TEST_CASE(a_smoothed_curve_is_read_with_the_value_itself)
{
    char home[1024];
    fill_compared("both", home, sizeof home);
    store_fixture_sql(home, "update steps set loss = case step when 300 then 13 else 3 end;"
                            "delete from rollup");
    struct workbench *workbench = open_comparison(home);
    headless_type(workbench, "m");
    headless_expect(workbench, 120, 30, 120, "1✓ base-s1 4.000 (13.00)");
    workbench_key(workbench, K_LEFT);
    headless_expect(workbench, 120, 30, 120, "@300", "1✓ base-s1 4.000 (13.00)");
    headless_type(workbench, "f"); /* of several runs the averages alone */
    headless_expect(workbench, 120, 30, 120, "1✓ base ×3 4.000 (4.000 to 4.000, n 3)");
}

TEST_CASE(only_values_of_each_step_are_smoothed)
{
    char home[1024];
    fill_compared("smoothed", home, sizeof home);
    struct workbench *workbench = open_comparison(home);
    headless_type(workbench, "m");
    headless_expect(workbench, 80, 24, 80, "loss by step ema 0.9 ");
    workbench_key(workbench, '\t');
    headless_expect(workbench, 80, 24, 80, "validation loss by step ");
    headless_expect_not(workbench, 80, 24, "ema");
}

TEST_CASE(the_quantity_looked_at_last_is_shown_again)
{
    char home[1024], before[512];
    fill_compared("quantity", home, sizeof home);
    struct workbench *workbench = open_comparison(home);
    workbench_key(workbench, '\t');
    headless_expect(workbench, 80, 24, 80, "validation loss by step ");
    snprintf(before, sizeof before, "%s", headless_row_with(workbench, 80, 24, "4✓ wide"));
    headless_close(workbench);
    workbench = open_comparison(home);
    headless_expect(workbench, 80, 24, 80, "validation loss by step ", "run validation loss");
    assert_string_equal(headless_row_with(workbench, 80, 24, "4✓ wide"), before);
}

TEST_CASE(runs_without_a_loss_are_compared_by_what_they_have)
{
    char home[1024];
    fill_compared("measured", home, sizeof home);
    store_fixture_sql(home, "insert into measures(run_id, segment, step, name, value)"
                            " select run_id, segment, step, 'accuracy', 0.5 from evals;"
                            " delete from steps; delete from rollup; delete from evals");
    struct workbench *workbench = open_comparison(home);
    headless_expect(workbench, 80, 24, 80, "accuracy by step ");
    headless_expect_not(workbench, 80, 24, "loss by step");
}

TEST_CASE(losses_of_other_tokens_are_not_compared)
{
    char home[1024];
    fill_compared("tokens", home, sizeof home);
    struct workbench *workbench = open_comparison(home);
    headless_expect_not(workbench, 200, 40, "not comparable");
    headless_close(workbench);
    store_fixture_sql(home, "insert or replace into params select id, 'data.tokenizer', case name when 'wide'"
                            " then 'bytes' else 'gpt2' end from runs");
    workbench = open_comparison(home);
    headless_expect(workbench, 200, 40, 200, "losses are not comparable: the tokens differ");
}

TEST_CASE(zooming_and_panning_keep_inside_the_runs)
{
    char home[1024];
    fill_compared("zoomed", home, sizeof home);
    struct workbench *workbench = open_comparison(home);
    headless_type(workbench, "+");
    assert_string_equal(axis_of(workbench, 80, 24, 4), "150 200 250 300");
    headless_type(workbench, "HHHHHH");
    assert_string_equal(axis_of(workbench, 80, 24, 4), "0 50 100 150");
    headless_type(workbench, "++++++++++------------------");
    assert_string_equal(axis_of(workbench, 80, 24, 4), "0 50 100 150 200 250 300");
    headless_type(workbench, "xxxx+llll"); /* the same values when the runs are opened anew */
    char before[512];
    snprintf(before, sizeof before, "%s", headless_row_with(workbench, 80, 24, "1✓ base-s1"));
    headless_type(workbench, "b");
    assert_string_equal(headless_row_with(workbench, 80, 24, "1✓ base-s1"), before);
    headless_type(workbench, "0x");
    headless_type(workbench, "+lh"); /* the cursor leaves the window, which follows it */
    assert_string_not_equal(axis_of(workbench, 80, 24, 4), "150 200 250 300");
    headless_expect(workbench, 80, 24, 80, "compare 4 runs @14");
    headless_type(workbench, "o");
    headless_expect(workbench, 80, 24, 80, "the charts show all values");
    headless_close(workbench);
    workbench = open_comparison(home); /* and that is remembered */
    headless_type(workbench, "o");
    headless_expect(workbench, 80, 24, 80, "rare outliers are marked");
}

TEST_CASE(a_live_run_grows_in_the_comparison)
{
    char home[1024], target[32];
    struct fill_run run;
    static const struct fill live = {.name = "live",
                                     .steps = 10,
                                     .total_steps = 1000,
                                     .spike_step = -1,
                                     .keep_alive = true,
                                     .status = RUN_FINISHED};
    fill_compared("live", home, sizeof home);
    fill_run(home, &live, &run);
    struct workbench *workbench = open_comparison(home);
    headless_expect(workbench, 200, 40, 200, "● live");
    snprintf(target, sizeof target, "t%g\r", fill_loss(400));
    headless_type(workbench, target); /* not yet */
    headless_expect_row(workbench, 200, 40, "● live", "  -  ");
    fill_steps(&run, &live, 10, 900);
    workbench_tick(workbench, run.start + 1);
    assert_string_equal(axis_of(workbench, 80, 24, 5), "0 200 400 600 800");
    headless_expect_row(workbench, 200, 40, "● live", " 356 "); /* the target is reached */
    headless_expect_row(workbench, 200, 40, "● live", " 1.46M ");
    headless_type(workbench, "x+HL"); /* zoomed, at the newest again, by tokens */
    fill_steps(&run, &live, 900, 1000);
    workbench_tick(workbench, run.start + 2);
    assert_string_equal(axis_of(workbench, 80, 24, 5), "2.5M 3.0M 3.5M 4.0M");
    fill_end(&run, RUN_FINISHED, "");
    workbench_tick(workbench, run.start + 3);
    headless_expect(workbench, 200, 40, 200, "✓ live");
    store_fixture_sql(home, "delete from runs where name = 'wide'"); /* it stays until the view closes */
    workbench_tick(workbench, run.start + 4);
    headless_expect(workbench, 200, 40, 200, "compare 5 runs", "✓ wide");
    headless_expect_not(workbench, 200, 40, "no such run");
}

TEST_CASE(a_diverged_run_does_not_flatten_the_others)
{
    char home[1024];
    fill_compared("diverged", home, sizeof home);
    store_fixture_sql(home, "update steps set loss = loss * 1e6 where step > 75 and run_id ="
                            " (select id from runs where name = 'wide')");
    struct workbench *workbench = open_comparison(home);
    headless_expect(workbench, 160, 40, 160, "above ↑");
    headless_expect_not(workbench, 160, 40, "M┤");
    headless_type(workbench, "o");
    headless_expect(workbench, 160, 40, 160, "M┤");
    headless_expect_not(workbench, 160, 40, "above ↑");
}

/* ---- hostile data ---- */

static void fill_hostile(const char *name, char *home, size_t size)
{
    fill_compared(name, home, size);
    add_run(home, "nothing", 0, 0);
    add_run(home, "point", 1, 0);
    add_run(home, "tail", 100, 0);
    store_fixture_sql(
        home,
        "update runs set name = '日本語の実験' where name = 'base-s2';"
        "update runs set name = char(27) || ']0;owned' || char(7) || char(27) || '[2J' where name = 'wide';"
        "update params set value = char(27) || '[31mred' || char(10) where name = 'train.seed' and run_id ="
        " (select id from runs where name = 'point');"
        "update steps set loss = null, nan = 8 where step % 3 = 0 and run_id like '%base-s1';"
        "update steps set loss = case step % 5 when 0 then 1e300 when 1 then -1e300 when 2 then 9e999 when 3"
        " then -9e999 else 1e-300 end where run_id like '%wide';"
        "update steps set wall_time = case step % 3 when 0 then -1e300 when 1 then 9e999 else 5 end, step_ms "
        "="
        " -1e300, tokens = -step where run_id like '%wide';"
        "update steps set wall_time = null, tokens = null where run_id like '%base-s3';"
        "update runs set parent_id = (select id from runs where name = 'base-s1'), parent_step = 50 where"
        " name = 'tail';"
        "update steps set step = step + 100000 where run_id like '%tail'; update steps set step = step - "
        "99950"
        " where run_id like '%tail'; delete from rollup where run_id like '%tail'; update segments set "
        "first_step = 50"
        " where run_id like '%tail'; update runs set best_val_loss = 9e999, tokens_per_sec = -1e300 where"
        " name = 'point'");
}

/* No word lies in the plot, where it could cover data, and nothing but the table below the axis. */
static void check_screen(struct workbench *workbench, int w, int h, int curves)
{
    struct grid grid = headless_draw(workbench, w, h);
    int table = curves + 1;
    if (table > h - 2 - 6) table = h - 2 - 6;
    if (table < 2) table = 2;
    struct rect plot = chart_plot((struct rect){0, 1, w, h - 2 - table});
    char row[1024];
    for (int y = plot.y; y < plot.y + plot.h && w >= CHART_MIN_W; y++) {
        grid_row(&grid, y, row, sizeof row);
        if (strstr(row, "no finite") || strstr(row, "recorded")) continue;
        for (int x = plot.x; x < w; x++)
            assert_false(isalpha((int)grid.cells[y * w + x].glyph & 0xff) &&
                         grid.cells[y * w + x].glyph < 128);
    }
    grid_row(&grid, h - 1 - table, row, sizeof row);
    assert_non_null(strstr(row, "run"));
    grid_release(&grid);
}

TEST_CASE(what_could_not_be_read_is_read_at_the_next_tick)
{
    char home[1024];
    fill_compared("again", home, sizeof home);
    struct workbench *workbench = open_comparison(home);
    headless_type(workbench, "\t");
    headless_expect(workbench, 200, 40, 200, "run validation loss");
    store_fixture_sql(home,
                      "insert into evals(run_id, segment, step, val_loss) select id, 1, 700, 1.2345 from"
                      " runs where name = 'wide'; update runs set best_step = 700 where name = 'wide';"
                      "alter table evals rename to hidden");
    workbench_tick(workbench, workbench->now + 1);
    headless_expect(workbench, 80, 24, 80, "no such table");
    store_fixture_sql(home, "alter table hidden rename to evals");
    workbench_tick(workbench, workbench->now + 1);
    headless_expect_row(workbench, 200, 40, "4✓ wide", " 1.234 ");
}

TEST_CASE(hostile_data_fits_any_size_over_any_axis)
{
    char home[1024];
    fill_hostile("hostile", home, sizeof home);
    struct workbench *workbench = open_comparison(home);
    headless_expect(workbench, 80, 24, 80, "compare 7 runs");
    for (int fold = 0; fold < 2; fold++) {
        for (int axis = 0; axis < 5; axis++) {
            for (int w = 40; w <= 200; w += 23)
                for (int h = 12; h <= 60; h += 7) check_screen(workbench, w, h, fold ? 3 : 7);
            headless_type(workbench, "x");
        }
        for (int metric = 0; metric < 10; metric++) { /* with every key that changes the picture */
            headless_type(workbench, "t1e-300\ryXmo");
            for (int i = 0; i < 3; i++) headless_type(workbench, "l+jH>");
            check_screen(workbench, 80, 24, fold ? 3 : 7);
            headless_type(workbench, "yX0");
            check_screen(workbench, 120, 40, fold ? 3 : 7);
            workbench_key(workbench, K_END);
            workbench_key(workbench, '\t');
        }
        headless_type(workbench, "f");
    }
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
