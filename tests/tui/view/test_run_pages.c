/* The pages of a run: its log, its configuration. */
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"
#include "tui/widget/pager.h"

/* The path of log.txt of the only run in `home`. */
static void find_log(const char *home, char *path, size_t size)
{
    struct store *store = store_fixture_open(home);
    struct run_info run;
    struct err err = {0};
    char folder[2048];
    assert_int_equal(run_find(store, "latest", &run, &err), STATUS_OK);
    run_folder(store, run.id, folder, sizeof folder);
    snprintf(path, size, "%s/log.txt", folder);
    store_close(store);
}

static void append(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void tick(struct workbench *workbench)
{
    workbench_tick(workbench, workbench->now + 0.1);
}

TEST_CASE(the_log_is_followed_as_it_grows)
{
    char home[1024], path[2100], line[64];
    fill_five_hundred("logged", home, sizeof home);
    find_log(home, path, sizeof path);
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "w");
    headless_expect(workbench, 80, 24, 80, "no log: the run was imported");
    append(path, "2026-01-01 00:00:00  warning: the disk is nearly full\n");
    tick(workbench);
    headless_expect(workbench, 80, 24, 80, "warning: the disk is nearly full");
    headless_expect_not(workbench, 80, 24, "no log");
    for (int i = 0; i < 200; i++) {
        snprintf(line, sizeof line, "line-%d\n", i);
        append(path, line);
    }
    tick(workbench);
    headless_expect(workbench, 80, 24, 80, "line-198 line-199");
    headless_expect_not(workbench, 80, 24, "nearly full");
    headless_press(workbench, K_HOME, 1);
    headless_expect(workbench, 80, 24, 80, "nearly full line-0 line-1 ");
    append(path, "line-200\n");
    tick(workbench);
    headless_expect(workbench, 80, 24, 80, "nearly full line-0 line-1 "); /* what is read stays */
    headless_press(workbench, K_PAGE_DOWN, 1);
    headless_expect_not(workbench, 80, 24, "nearly full");
    headless_type(workbench, "G");
    headless_expect(workbench, 80, 24, 80, "line-199 line-200");
    headless_type(workbench, "q");
    headless_expect(workbench, 80, 24, 80, "loss"); /* the charts */
}

TEST_CASE(a_log_that_is_cut_replaced_or_no_file_is_harmless)
{
    static const int sizes[][2] = {{40, 10}, {80, 24}, {120, 40}, {200, 60}};
    char home[1024], path[2100], other[2200];
    fill_five_hundred("hostile-log", home, sizeof home);
    find_log(home, path, sizeof path);
    append(path, "\033[2Jred\033[0m \xff\xfe \x9b"
                 "2J 日本語 🎉\nend\n");
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "w");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct grid grid = headless_draw(workbench, sizes[i][0], sizes[i][1]);
        for (int c = 0; c < grid.w * grid.h; c++)
            assert_true(!grid.cells[c].glyph || (grid.cells[c].glyph >= ' ' && grid.cells[c].glyph != 0x9B));
        grid_release(&grid);
        headless_expect(workbench, sizes[i][0], sizes[i][1], sizes[i][0], "end");
    }
    assert_int_equal(truncate(path, 0), 0);
    tick(workbench);
    headless_expect(workbench, 80, 24, 80, "the log is empty");
    append(path, "anew\n");
    tick(workbench);
    headless_expect(workbench, 80, 24, 80, "anew");
    headless_expect_not(workbench, 80, 24, "red");
    snprintf(other, sizeof other, "%s.other", path);
    append(other, "12:00:00  error: as long as before, or longer\n");
    assert_int_equal(rename(other, path), 0);
    tick(workbench);
    headless_expect_not(workbench, 80, 24, "anew");
    struct grid grid = headless_draw(workbench, 80, 24);
    assert_int_equal(grid.cells[2 * 80 + 1].glyph, '1');
    assert_int_equal(grid.cells[2 * 80 + 1].style, STYLE_BAD);
    grid_release(&grid);
    assert_int_equal(truncate(path, 9), 0);
    tick(workbench);
    headless_expect_not(workbench, 80, 24, "error");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* opening it must not wait for a writer */
    tick(workbench);
    headless_expect(workbench, 80, 24, 80, "log.txt is no file");
}

TEST_CASE(a_long_log_is_read_from_its_end)
{
    char home[1024], path[2100];
    fill_five_hundred("long-log", home, sizeof home);
    find_log(home, path, sizeof path);
    append(path, "the beginning\n");
    assert_int_equal(truncate(path, 8LL << 30), 0); /* a sparse file of 8 GiB */
    append(path, "\nthe end\n");
    struct workbench *workbench = headless_open(home, "ended");
    double start = clock_monotonic();
    headless_type(workbench, "w");
    headless_expect(workbench, 80, 24, 80, "the end");
    assert_true(clock_monotonic() - start < 10); /* reading all takes far longer */
}

TEST_CASE(a_log_that_is_shown_whole_has_no_mark_of_more_above)
{
    enum { KEPT = PAGER_MOST / 2 };
    char home[1024], path[2100], *text = malloc(KEPT + 1);
    assert_non_null(text);
    for (int i = 0; i < KEPT; i++) text[i] = i % 64 == 63 ? '\n' : 'x';
    text[KEPT] = '\0';
    fill_five_hundred("whole-log", home, sizeof home);
    find_log(home, path, sizeof path);
    for (int more = 0; more < 2; more++) { /* just what is kept, and a line more */
        append(path, more ? "end\n" : text);
        struct workbench *workbench = headless_open(home, "ended");
        headless_type(workbench, "w");
        headless_press(workbench, K_HOME, 1);
        assert_int_equal(headless_row_with(workbench, 80, 24, "▲") != NULL, more);
        headless_close(workbench);
    }
    free(text);
}

TEST_CASE(a_configuration_begins_with_what_differs_and_can_be_searched)
{
    static const int sizes[][2] = {{60, 12}, {80, 24}, {120, 40}, {200, 60}};
    char home[1024];
    fill_five_hundred("configured", home, sizeof home);
    store_fixture_sql(home, "update runs set config = '[model]' || char(10) || 'preset = tiny' || char(10) ||"
                            " '[train]' || char(10) || 'optimizer = lion' || char(10) || 'batch_size = 7' ||"
                            " char(10) || '[data]' || char(10) || 'val = other.txt'");
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "i");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        headless_expect(workbench, sizes[i][0], sizes[i][1], sizes[i][0],
                        sizes[i][0] < 80 ? "model.preset tiny" : "model.preset tiny default shakespeare");
    headless_expect(workbench, 80, 24, 80, "train.optimizer lion default adamw");
    headless_expect(workbench, 80, 24, 80,
                    "model.from - model.zero_outputs false model.vocab_size"); /* then the others */
    headless_expect(workbench, 80, 24, 80, "keys differ from their defaults");
    headless_expect_not(workbench, 200, 60, "train.beta2 0.99 default"); /* the optimizer's own */
    headless_expect_row(workbench, 80, 24, "data.val ", "other.txt");
    assert_null(strstr(headless_row_with(workbench, 80, 24, "data.val "), "default")); /* which is empty */
    headless_type(workbench, "/BATCH_");
    headless_expect(workbench, 80, 24, 80, "train.batch_size 7 default 16 ");
    headless_expect_not(workbench, 80, 24, "train.optimizer");
    headless_press(workbench, K_ESCAPE, 1);
    headless_expect(workbench, 80, 24, 80, "train.optimizer");
    headless_type(workbench, "/train.schedule");
    headless_expect(workbench, 80, 24, 80,
                    "up to it, as `anneal lr-find` trains"); /* the end of a long text */
    headless_press(workbench, K_ESCAPE, 1);
    headless_type(workbench, "/train.seed\r"); /* what was found stays selected among all */
    headless_press(workbench, K_ESCAPE, 1);
    headless_expect_selected(workbench, "train.seed");
    headless_type(workbench, "/no-such\rqi");
    headless_press(workbench, K_END, 1);
    headless_expect(workbench, 80, 24, 80, "hooks."); /* the last section */
}

TEST_CASE(a_resume_changes_the_configuration_and_long_keys_push_their_values)
{
    char home[1024];
    fill_five_hundred("resumed-config", home, sizeof home);
    store_fixture_sql(home, "update runs set config = '[train]' || char(10) || 'batch_size = 7'");
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "i");
    headless_expect(workbench, 120, 40, 120, "train.batch_size 7 default 16");
    store_fixture_sql(home,
                      "update runs set config = '[train]' || char(10) || 'batch_size = 9' || char(10) ||"
                      " '[param_group.with_quite_a_long_name]' || char(10) || 'match = layer.0.*' ||"
                      " char(10) || '[data]' || char(10) ||"
                      " 'train = /a/path/that/is/longer/than/its/column.txt'");
    workbench_tick(workbench, workbench->now + 1);
    headless_expect(workbench, 120, 40, 120, "train.batch_size 7 default 16"); /* no resume */
    store_fixture_sql(home, "update runs set segment = segment + 1");
    headless_press(workbench, K_DOWN, 20);
    char selected[1024];
    struct grid grid = headless_draw(workbench, 80, 24);
    grid_row(&grid, headless_selected_row(workbench, 80, 24), selected, sizeof selected);
    grid_release(&grid);
    workbench_tick(workbench, workbench->now + 2);
    headless_expect_selected(workbench, selected); /* though rows above it are new */
    headless_press(workbench, K_HOME, 1);
    headless_expect(workbench, 120, 40, 120, "train.batch_size 9 default 16",
                    "param_group.with_quite_a_long_name.match layer.0.*",
                    "/a/path/that/is/longer/than/its/column.txt default kjv");
}

TEST_CASE(a_configuration_that_cannot_be_read_is_an_error_and_none_is_said)
{
    char home[1024];
    fill_five_hundred("unreadable", home, sizeof home);
    store_fixture_sql(home, "update runs set config = '[model]' || char(10) || 'preset = gigantic'");
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "i");
    headless_expect(workbench, 120, 24, 120, "gigantic");
    store_fixture_sql(home, "update runs set config = ''");
    headless_type(workbench, "i");
    headless_expect(workbench, 120, 24, 120, "none: the run was imported");
    headless_type(workbench, "jkG/x");
    headless_press(workbench, K_ESCAPE, 2);
}

TEST_CASE(a_view_of_a_deleted_run_does_not_turn_to_another)
{
    char home[1024];
    fill_thirty("twins", home, sizeof home);
    for (const char *view = " wiPMEC"; *view; view++) { /* the run's own view, then each that it leads to */
        store_fixture_sql(home, "update runs set id = 'id-00' where name = 'run-00';"
                                "update runs set id = 'id-00-2' where name = 'run-01'");
        struct workbench *workbench = headless_open(home, "id-00");
        if (*view != ' ') headless_press(workbench, (uint32_t)*view, 1);
        headless_expect(workbench, 80, 24, 80, "run-00");
        store_fixture_sql(home, "update runs set id = 'gone' where id = 'id-00'");
        workbench_tick(workbench, workbench->now + 3);
        headless_expect(workbench, 80, 24, 80, "run id-00: there is no such run");
        headless_expect_not(workbench, 80, 24, "run-01");
        headless_close(workbench);
    }
}

TEST_CASE(charts_that_this_run_lacks_stay_chosen_for_others)
{
    char home[1024];
    fill_five_hundred("lacking", home, sizeof home);
    store_fixture_settings(home, "run.charts.text = gpu9.power_w,loss,lr\n");
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "x");
    headless_expect(workbench, 120, 40, 120, "Charts 3 of 10", "[ 1] gpu9.power_w",
                    "not recorded by this run");
    headless_type(workbench, "jj "); /* no learning rate */
    assert_string_equal(settings_get(&workbench->settings, "run.charts.text"), "gpu9.power_w,loss");
    workbench_key(workbench, K_HOME);
    headless_type(workbench, " "); /* nor that */
    assert_string_equal(settings_get(&workbench->settings, "run.charts.text"), "loss");
    headless_close(workbench);
    store_fixture_settings(home, "run.charts.text = gpu9.power_w\n"); /* then all are shown */
    workbench = headless_open(home, "ended");
    headless_type(workbench, "x");
    headless_expect(workbench, 120, 40, 120, "Charts 10 of 10");
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
