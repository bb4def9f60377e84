/* The view of a sweep on a grid alone: its lines and its table. */
#include <locale.h>
#include <math.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"
#include "tests/tui/widget/cells.h"
#include "tui/widget/parallel.h"

/* Makes run-00 … run-05 of the list the runs of a sweep, the lower numbers with the lower losses. */
static void make_sweep(const char *name, char home[1024])
{
    fill_thirty(name, home, 1024);
    store_fixture_sql(
        home,
        "insert into tags(run_id, tag) select id, 'sweep:lr' from runs where name < 'run-06';"
        "insert into tags(run_id, tag) select id, 'aside' from runs where name < 'run-06';"
        "delete from params where run_id in (select id from runs where name < 'run-06');"
        "insert into params(run_id, name, value) select id, 'train.learning_rate',"
        "  case name when 'run-00' then '1e-3' when 'run-01' then '0.003' else '1e-05' end from runs where "
        "name"
        "  < 'run-06';"
        "insert into params(run_id, name, value) select id, 'train.optimizer', case when name < 'run-03' then"
        "  'lion' else 'adamw' end from runs where name < 'run-06';"
        "insert into params(run_id, name, value) select id, 'train.beta2', case when name < 'run-03' then"
        "  '0.99' else '0.95' end from runs where name < 'run-06';"
        "update runs set best_val_loss = 2 + substr(name, 6), nan = nan & ~2 where name < 'run-06'");
}

TEST_CASE(the_runs_of_a_sweep_are_shown_with_their_values_the_best_first)
{
    char home[1024];
    make_sweep("sweep", home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "W"); /* run-00 is the newest */
    headless_expect(workbench, 80, 24, 80, "Sweep lr 6 runs, the best first");
    headless_expect(workbench, 80, 24, 80, "learning_rate");
    headless_expect(workbench, 80, 24, 80, "optimizer");
    headless_expect_not(workbench, 120, 40, "beta2"); /* it follows from the optimizer */
    headless_expect(workbench, 120, 40, 120, "run-00 2.0000");
    assert_non_null(strstr(headless_row_with(workbench, 120, 40, "run-05"), "adamw"));
    store_fixture_sql(home, "update runs set status = 'stopped' where name in ('run-02', 'run-03');"
                            "update runs set steps = 5 where name = 'run-03'");
    workbench_tick(workbench, workbench->now + 3);
    headless_expect_row(workbench, 120, 40, "run-02 ", "stopped ", "10/20");
    headless_expect_row(workbench, 120, 40, "run-03 ", "left at 5 ", "5/20");
    headless_press(workbench, K_DOWN, 1);
    headless_expect_selected(workbench, "run-01");
    store_fixture_sql(home, "update runs set best_val_loss = 1.5 where name = 'run-04'");
    workbench_tick(workbench, workbench->now + 3);
    headless_expect_selected(workbench, "run-01"); /* now the third */
    headless_expect(workbench, 120, 40, 120, "run-04 1.5000");
    store_fixture_sql(home, "update runs set best_metric = 'accuracy', best_value = substr(name, 6) / 10.0"
                            " where name < 'run-06'"); /* of which the highest is the best */
    workbench_tick(workbench, workbench->now + 3);
    headless_expect(workbench, 120, 40, 120, "accuracy");
    headless_press(workbench, K_HOME, 1);
    headless_expect_selected(workbench, "run-05");
    headless_press(workbench, K_END, 1);
    headless_press(workbench, K_UP, 1);
    headless_expect_selected(workbench, "run-01");
    headless_press(workbench, K_ENTER, 1);
    headless_expect(workbench, 80, 24, 80, "run-01");
    headless_type(workbench, "q");
    headless_expect(workbench, 80, 24, 80, "Sweep lr");
    store_fixture_sql(home, "delete from tags where tag = 'sweep:lr'");
    workbench_tick(workbench, workbench->now + 3);
    headless_expect(workbench, 80, 24, 80, "no run has its tag any more");
    headless_press(workbench, K_ENTER, 1); /* there is none to open */
    headless_expect(workbench, 80, 24, 80, "no run has its tag any more");
    headless_type(workbench, "q");
    headless_type(workbench, "W");
    headless_expect(workbench, 80, 24, 80, "run run-01 belongs to no sweep");
}

TEST_CASE(settings_that_some_runs_lack_are_shown_and_the_last_axes_where_all_have_no_room)
{
    char home[1024];
    make_sweep("lacking", home);
    store_fixture_sql(home, "delete from params where name = 'train.optimizer' and run_id in (select id from"
                            " runs where name < 'run-03')");
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "W");
    headless_expect(workbench, 120, 40, 120, "run-00 2.0000", "optimizer");
    headless_expect_not(workbench, 120, 40, "beta2"); /* differs only where the optimizer does */
    headless_press(workbench, K_DOWN, 3);
    struct grid grid = headless_draw(workbench, 120, 40);
    int places = 0; /* of the selected run, which has the only optimizer */
    for (int i = 0; i < 120 * 40; i++) places += grid.cells[i].glyph == 0x25CF;
    assert_int_equal(places, 3);
    grid_release(&grid);
    store_fixture_sql(home, "delete from params where name = 'train.optimizer'");
    workbench_tick(workbench, workbench->now + 3);
    headless_expect(workbench, 120, 40, 120, "beta2"); /* not because of the optimizer */
    headless_expect_not(workbench, 120, 40, "optimizer");
    store_fixture_sql(home, "with recursive n(i) as (select 10 union all select i + 1 from n where i < 40)"
                            " insert into params select runs.id, 'train.x' || i, name from runs, n"
                            " where name < 'run-06'");
    workbench_tick(workbench, workbench->now + 6);
    headless_expect(workbench, 200, 40, 200, "val loss", "run-00 2.0000");
    headless_expect_not(workbench, 200, 40, "x40"); /* of too many settings the first */
    headless_expect_row(workbench, 200, 40, "val loss", "beta2", "learning_rate", "x18");
    headless_expect_row(workbench, 60, 24, "val loss", "x16", "x17", "x18");
    assert_null(strstr(headless_row_with(workbench, 60, 24, "val loss"), "beta2"));
}

TEST_CASE(a_silent_trainer_is_told_between_two_reads)
{
    struct fill_quiet *quiet = fill_quiet("quiet-sweep");
    store_fixture_sql(quiet->home, "insert into tags(run_id, tag) select id, 'sweep:lr' from runs");
    struct workbench *workbench = headless_open(quiet->home, NULL);
    headless_type(workbench, "W");
    workbench_tick(workbench, quiet->now + 30); /* reads the runs */
    headless_expect_row(workbench, 80, 24, "mortal", " running ");
    workbench_tick(workbench, quiet->now + 30.5);
    headless_expect_row(workbench, 80, 24, "mortal", " silent ");
}

TEST_CASE(lines_stay_in_their_area_and_end_at_their_places)
{
    static const double up[3] = {0, 1, 0.5}, none[3] = {NAN, 7, -INFINITY};
    static const struct parallel_label ends[2] = {{0, "low"}, {1, "high"}};
    static const struct parallel_axis axes[3] = {{"a", ends, 2}, {"b", ends, 2}, {"c", ends, 2}};
    const struct parallel_line lines[2] = {{up, STYLE_TRAIN, true}, {none, STYLE_BAD, false}};
    const struct parallel parallel = {axes, 3, lines, 2};
    for (int level = GLYPHS_ASCII; level <= GLYPHS_BRAILLE; level++)
        for (int w = 0; w < 60; w += 3)
            for (int h = 0; h < 30; h += 2) {
                struct grid grid = make_grid(70, 40, (enum glyph_level)level);
                parallel_draw(&grid, (struct rect){5, 4, w, h}, &parallel);
                for (int y = 0; y < 40; y++)
                    for (int x = 0; x < 70; x++)
                        if (x < 5 || y < 4 || x >= 5 + w || y >= 4 + h)
                            assert_int_equal(grid.cells[y * 70 + x].glyph, ' ');
                grid_release(&grid);
            }
    struct grid grid = make_grid(36, 9, GLYPHS_BRAILLE);
    parallel_draw(&grid, (struct rect){0, 0, 36, 9}, &parallel);
    assert_row(&grid, 0, "a           b           c");
    assert_int_equal(grid.cells[8 * 36].glyph, 0x25CF);      /* a: at the bottom */
    assert_int_equal(grid.cells[1 * 36 + 12].glyph, 0x25CF); /* b: at the top */
    assert_int_equal(grid.cells[5 * 36 + 24].glyph, 0x25CF); /* c: in the middle */
    grid_release(&grid);
}

TEST_CASE(lines_name_each_place_once_and_need_one_to_twelve_axes)
{
    static const struct parallel_label labels[3] = {{0, "low"}, {0.01, "mid"}, {1, "high"}};
    static const double at[PARALLEL_AXES_MAX + 1] = {0};
    struct parallel_axis axes[PARALLEL_AXES_MAX + 1];
    const struct parallel_line line = {at, STYLE_TRAIN, false};
    for (size_t k = 0; k < sizeof axes / sizeof *axes; k++) axes[k] = (struct parallel_axis){"a", labels, 3};
    for (int count = 0; count <= PARALLEL_AXES_MAX + 1; count++) {
        struct grid grid = make_grid(200, 9, GLYPHS_BRAILLE);
        parallel_draw(&grid, (struct rect){0, 0, 200, 9}, &(struct parallel){axes, count, &line, 1});
        char row[1024];
        grid_row(&grid, 8, row, sizeof row);
        assert_int_equal(strstr(row, "low") != NULL, count >= 1 && count <= PARALLEL_AXES_MAX);
        assert_null(strstr(row, "mid")); /* it lies in the same row */
        grid_release(&grid);
    }
}

int main(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
