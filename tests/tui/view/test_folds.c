/* Groups in the list: runs that differ in the seed alone, or in keys that the user names, in one row. */
#include <locale.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"

/* run-00 … run-29, of which run-00 to run-02 are called base-s1 to base-s3, with losses 1, 2 and 6, and the
 * others differ in the batch size. */
static struct workbench *open_folded(const char *name, char *home, size_t size)
{
    fill_thirty(name, home, size);
    store_fixture_sql(home, "insert into params select id, 'train.seed', id from runs;"
                            "insert into params select id, 'train.batch_size', case when id < 'id-03' then "
                            "'4' else id end from runs;"
                            "update runs set name = 'base-s' || (substr(id, 4) + 1), final_loss = case id "
                            "when 'id-00' then 1 when"
                            " 'id-01' then 2 else 6 end, status = 'finished' where id < 'id-03'");
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "f");
    return workbench;
}

TEST_CASE(runs_of_other_seeds_are_one_row_of_means)
{
    char home[1024];
    struct workbench *workbench = open_folded("rows", home, sizeof home);
    headless_expect(workbench, 80, 24, 80, "runs that differ only in train.seed, are one row");
    headless_expect(workbench, 80, 40, 80, "30 runs, 0 training");
    headless_expect_row(workbench, 80, 40, "base ×3", " 3.000 "); /* the mean of 1, 2 and 6 */
    headless_expect_not(workbench, 80, 40, "base-s");
    headless_type(workbench, "/base\r");                          /* of those that a filter leaves */
    headless_expect(workbench, 80, 24, 80, "base ×3", "3 match"); /* runs, not rows */
    headless_type(workbench, "\033/loss<3\r");
    headless_expect_row(workbench, 80, 24, "base ×2", " 1.500 ");
    headless_type(workbench, "\033f");
    headless_expect(workbench, 80, 40, 80, "each run has a row of its own", "base-s2");
}

TEST_CASE(a_row_of_several_is_marked_opened_and_changed_as_a_whole)
{
    char home[1024];
    struct workbench *workbench = open_folded("whole", home, sizeof home);
    headless_press(workbench, 'g', 1);
    headless_expect_selected(workbench, "base ×3");
    headless_type(workbench, "s");
    headless_expect(workbench, 80, 24, 80, "this row stands for 3 runs: f gives each a row of its own");
    headless_type(workbench, "R");
    headless_expect(workbench, 80, 24, 80, "this row stands for 3 runs");
    headless_type(workbench, "\r");
    headless_expect(workbench, 80, 24, 80, "compare 3 runs in 1 curve");
    headless_type(workbench, "q");
    workbench_mouse(workbench, K_CLICK,
                    &(struct pointer){10, headless_selected_row(workbench, 80, 24), 0}); /* as Enter does */
    headless_expect(workbench, 80, 24, 80, "compare 3 runs in 1 curve");
    headless_type(workbench, "f"); /* the list follows */
    headless_expect(workbench, 80, 24, 80, "3✓ base-s3");
    headless_type(workbench, "q");
    workbench_tick(workbench, workbench->now + 2);
    headless_expect(workbench, 80, 24, 80, "base-s1");
    headless_type(workbench, "fg t+seeds\r");
    headless_expect(workbench, 80, 24, 80, "3 marked");
    assert_true(store_fixture_number(home, "select count(*) from tags where tag = 'seeds'") == 3);
    headless_type(workbench, "g gD");
    headless_expect(workbench, 80, 24, 80, "Delete 3 runs");
    headless_type(workbench, "y");
    headless_expect(workbench, 80, 24, 80, "27 runs, 0 training");
    headless_type(workbench, "u");
    headless_expect(workbench, 80, 24, 80, "base ×3");
    headless_close(workbench);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 30);
}

TEST_CASE(what_was_done_is_summed_in_every_column)
{
    char home[1024];
    struct workbench *workbench = open_folded("sums", home, sizeof home);
    store_fixture_sql(home, "update runs set tokens = 1000, parameters = 7");
    settings_set(&workbench->settings, "runs.columns", "name,progress,steps,tokens,parameters");
    workbench_tick(workbench, workbench->now + 2);
    headless_expect_row(workbench, 120, 40, "base ×3", " 30/60 ", " 30 ", " 3.00k ", " 7");
}

TEST_CASE(rows_keep_their_runs_when_another_one_is_deleted_or_visited)
{
    char home[1024];
    struct workbench *workbench = open_folded("kept", home, sizeof home);
    headless_press(workbench, 'G', 1);
    headless_type(workbench, "Dy");
    headless_expect(workbench, 80, 40, 80, "29 runs, 0 training", "base ×3");
    headless_type(workbench, "\r");
    headless_expect(workbench, 80, 24, 80, "run-28");
    headless_type(workbench, "q");
    headless_expect(workbench, 80, 40, 80, "29 runs, 0 training", "base ×3");
    headless_type(workbench, "g");
    headless_type(workbench, "D");
    headless_expect(workbench, 80, 24, 80, "Delete 3 runs");
}

TEST_CASE(runs_of_a_sweep_are_one_row_with_the_best_of_them)
{
    char home[1024];
    struct workbench *workbench = open_folded("sweep", home, sizeof home);
    store_fixture_sql(home,
                      "insert into tags select id, 'sweep:grid' from runs where id in ('id-00', 'id-05', "
                      "'id-06');"
                      "insert into tags select id, 'no-sweep:grid' from runs where id = 'id-07';"
                      "update runs set name = 'grid-' || substr(id, 5), best_step = 9, best_val_loss = 9 - "
                      "substr(id, 5), final_loss = substr(id, 5) where id in ('id-00', 'id-05', 'id-06')");
    workbench_tick(workbench, workbench->now + 2);
    headless_expect_row(workbench, 80, 40, "grid ×3", " 6.000  3.000 ", "50%");
    store_fixture_sql(home, "update runs set status = 'stopped' where id in ('id-00', 'id-06')");
    workbench_tick(workbench, workbench->now + 2);
    headless_expect_row(workbench, 80, 40, "grid ×3", "■ stopped", "50%"); /* as far as the others */
    store_fixture_sql(home, "update runs set steps = 20 where id = 'id-05'");
    workbench_tick(workbench, workbench->now + 2); /* the others were left behind */
    headless_expect_row(workbench, 80, 40, "grid ×3", "✓ finished", "100%");
    headless_expect(workbench, 80, 40, 80, "base ×2");
    store_fixture_sql(home, "update runs set best_step = 0, best_val_loss = 1 where id = 'id-00'");
    workbench_tick(workbench, workbench->now + 2); /* the best is from before the first step */
    headless_expect_row(workbench, 80, 40, "grid ×3", " 0  1.000 ");
    headless_press(workbench, 'g', 1);
    headless_type(workbench, "\r");
    headless_expect(workbench, 80, 24, 80, "Sweep grid 3 runs, the best first");
}

TEST_CASE(a_run_in_the_place_of_another_has_its_own_group)
{
    char home[1024];
    struct workbench *workbench = open_folded("replaced", home, sizeof home);
    headless_expect(workbench, 80, 40, 80, "base ×3");
    store_fixture_sql(home, "update params set run_id = 'id-99', value = 'other' where run_id = 'id-02';"
                            "update runs set id = 'id-99', name = 'newcomer' where id = 'id-02'");
    workbench_tick(workbench, workbench->now + 2);
    headless_expect(workbench, 80, 40, 80, "base ×2", "newcomer");
}

TEST_CASE(the_user_names_the_keys_that_may_differ)
{
    char home[1024];
    struct workbench *workbench = open_folded("named", home, sizeof home);
    headless_type(workbench, "F");
    headless_expect(workbench, 80, 24, 80, "fold runs that differ only in train.seed");
    headless_type(workbench, "\025train.batch_siz\r");
    headless_expect(workbench, 80, 24, 80, "did you mean \"train.batch_size\"?");
    headless_type(workbench, "F\025train.seed train.batch_size\r");
    headless_expect(workbench, 80, 24, 80, "×30");
    headless_close(workbench);
    workbench = headless_open(home, NULL); /* remembered */
    headless_expect(workbench, 80, 24, 80, "×30");
}

TEST_CASE(folded_rows_fit_every_size)
{
    char home[1024];
    struct workbench *workbench = open_folded("sizes", home, sizeof home);
    store_fixture_sql(home, "update runs set name = '日本語の長い名前の実験その' || id where id < 'id-02';"
                            "update runs set name = char(27) || '[2J' where id = 'id-02';"
                            "update runs set tokens_per_sec = 9e999, final_loss = -1e300 where id = 'id-01'");
    workbench_tick(workbench, workbench->now + 2);
    for (int w = 40; w <= 200; w += 7)
        for (int h = 10; h <= 60; h += 10) {
            struct grid grid = headless_draw(workbench, w, h);
            char row[2048];
            for (int y = 0; y < h; y++)
                assert_true(glyph_text_width(grid_row(&grid, y, row, sizeof row)) <= w);
            grid_release(&grid);
            assert_non_null(headless_row_with(workbench, w, h, "×3"));
        }
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
