/* What a user makes of the list of runs: marks, tags, notes, names, an archive, columns, order and filter,
 * and names that are hostile. */
#include <locale.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"

TEST_CASE(marked_runs_are_changed_together)
{
    char home[1024];
    fill_thirty("together", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "t");
    headless_expect(workbench, 80, 24, 80, "tags of run-00:");
    headless_type(workbench, "first qD\r"); /* letters are text */
    assert_true(store_fixture_number(home, "select count(*) from tags where run_id = 'id-00'") == 2);
    headless_expect(workbench, 80, 24, 80, "tags of run-00: first qD "); /* without a column for them */
    headless_expect(workbench, 120, 24, 120, "first qD");
    headless_type(workbench, "t");
    headless_press(workbench, K_BACKSPACE, 3);
    headless_type(workbench, " \"\r");
    headless_expect(workbench, 80, 24, 80, "is no tag");
    headless_press(workbench, K_BACKSPACE, 1);
    headless_press(workbench, K_ENTER, 1);
    assert_true(store_fixture_number(home, "select count(*) from tags where run_id = 'id-00'") == 1);
    headless_type(workbench, ":tags +more\r");
    assert_true(store_fixture_number(home, "select count(*) from tags where run_id = 'id-00'") == 2);
    headless_type(workbench, ":tags -more\r");
    assert_true(store_fixture_number(home, "select count(*) from tags where run_id = 'id-00'") == 1);
    headless_press(workbench, K_DOWN, 1);
    headless_type(workbench, "  "); /* run-01 and run-02 */
    headless_expect(workbench, 80, 24, 80, "2 marked");
    headless_expect_selected(workbench, "run-03");
    assert_non_null(strstr(headless_row_with(workbench, 80, 24, "run-01"), "*"));
    headless_type(workbench, "t+both\r");
    headless_expect(workbench, 80, 24, 80, "tags of 2 runs changed");
    assert_true(store_fixture_number(home, "select count(*) from tags where tag = 'both'") == 2);
    headless_type(workbench, "A");
    headless_expect(workbench, 80, 24, 80, "2 runs archived");
    headless_expect_not(workbench, 80, 24, "run-01");
    headless_type(workbench, "/tag=archived\r");
    headless_expect(workbench, 80, 24, 80, "2 match");
    headless_expect_not(workbench, 80, 24, "marked");
    headless_type(workbench, "aA");
    headless_expect(workbench, 80, 24, 80, "2 runs no longer archived");
    headless_press(workbench, K_ESCAPE, 1);
    headless_expect(workbench, 80, 24, 80, "run-01");
    headless_expect_not(workbench, 80, 24, "marked");
    headless_type(workbench, "/tag=both\r");
    headless_type(workbench, "aDy");
    headless_expect(workbench, 80, 24, 80, "2 runs are deleted when you leave", "28 runs, 0 training");
    headless_type(workbench, "u\033a"); /* all of them */
    headless_expect(workbench, 80, 24, 80, "30 marked");
    headless_type(workbench, "a");
    headless_expect_not(workbench, 80, 24, "marked");
    headless_close(workbench);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 30);
    workbench = headless_open(home, NULL);
    headless_type(workbench, "Dy");
    store_fixture_sql(home, "delete from runs"); /* by somebody else */
    workbench_tick(workbench, clock_wall());
    headless_expect(workbench, 80, 24, 80, "0 runs, 0 training");
    headless_type(workbench, "u");
    headless_expect(workbench, 80, 24, 80, "no run was deleted");
}

TEST_CASE(names_and_notes_are_changed_in_place)
{
    char home[1024];
    fill_thirty("notes", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "R");
    headless_press(workbench, K_CTRL('u'), 1);
    headless_type(workbench, "another one\r");
    headless_expect(workbench, 80, 24, 80, "the run is called another-one: a name consists of letters,");
    headless_expect_selected(workbench, "another-one");
    assert_true(store_fixture_number(home, "select id = 'id-00' from runs where name = 'another-one'") == 1);
    headless_type(workbench, "R");
    headless_press(workbench, K_CTRL('u'), 1);
    headless_type(workbench, "x");
    headless_press(workbench, K_ESCAPE, 1); /* as it was */
    headless_expect_selected(workbench, "another-one");
    headless_type(workbench, "R");
    store_fixture_sql(home, "delete from runs where id = 'id-00'");
    workbench_tick(workbench, clock_wall());
    headless_type(workbench, "-not-this\r"); /* the run in its place keeps its name */
    headless_expect(workbench, 80, 24, 80, "nothing was changed");
    headless_expect_selected(workbench, "run-01 ");
    headless_type(workbench, "Nto be looked at\r");
    headless_expect(workbench, 80, 24, 80, "note of run-01: to be looked at ");
    headless_type(workbench, "/looked\r");
    headless_expect(workbench, 80, 24, 80, "1 matches");
    headless_type(workbench, "N");
    headless_press(workbench, K_CTRL('u'), 1);
    headless_press(workbench, K_ENTER, 1);
    headless_expect(workbench, 80, 24, 80, "note of run-01: none");
}

TEST_CASE(a_filter_that_is_not_understood_is_underlined_and_told)
{
    char home[1024];
    fill_thirty("underlined", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "/run-1 los<3");
    headless_expect(workbench, 120, 24, 120,
                    "no column, key or metric is called \"los\"; did you mean \"loss\"?");
    headless_expect(workbench, 120, 24, 120, "10 match"); /* the part that is understood counts */
    struct grid grid = headless_draw(workbench, 120, 24);
    int underlined = 0;
    for (int x = 0; x < 120; x++)
        if (grid.cells[x].attr & ATTR_UNDERLINE) {
            assert_non_null(strchr("los", (int)grid.cells[x].glyph));
            underlined++;
        }
    assert_int_equal(underlined, 3);
    grid_release(&grid);
    headless_press(workbench, K_HOME, 1); /* in the text */
    headless_press(workbench, K_END, 1);
    headless_press(workbench, K_LEFT, 2);
    headless_type(workbench, "s"); /* loss<3 */
    headless_expect_not(workbench, 120, 24, "is called");
    headless_expect(workbench, 120, 24, 120, "0 match");
    headless_press(workbench, K_CTRL('u'), 1);
    headless_type(workbench, "not pro\t"); /* completed */
    headless_expect(workbench, 120, 24, 120, "/not progress 30 match");
    headless_type(workbench, ">1 or st\t");
    headless_expect(workbench, 120, 24, 120, "/not progress>1 or st"); /* there is more than one */
    headless_expect(workbench, 120, 24, 120, "status steps step_ms");
    headless_type(workbench, "e\t");
    headless_expect(workbench, 120, 24, 120, "/not progress>1 or step");
    headless_type(workbench, "s=10");
    headless_expect(workbench, 120, 24, 120, "30 match");
}

TEST_CASE(columns_order_and_filter_are_remembered)
{
    char home[1024], path[1100], text[4096];
    fill_thirty("remembered", home, sizeof home);
    store_fixture_sql(home, "insert into params values('id-03', 'train.learning_rate', '0.125')");
    snprintf(path, sizeof path, "%s/workbench.ini", home);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("; mine\n[later]\nother.key = kept\nruns.sort = -no_such_field\n", file);
    fclose(file);
    struct workbench *workbench = headless_open(home, NULL);
    headless_expect(workbench, 80, 24, 80, "newest first"); /* what does not exist is forgotten */
    headless_type(workbench, "v");
    headless_expect(workbench, 80, 24, 80, "Columns 10 of");
    headless_type(workbench, "/learning_rate\r");
    headless_expect(workbench, 80, 24, 80, "train.learning_rate key of the configuration");
    headless_type(workbench, " hhhhhhhhhq"); /* shown, and moved before all others but one */
    headless_expect(workbench, 120, 24, 120, "status learning_rate name", "0.125");
    headless_type(workbench, "/run-0\roo");
    headless_close(workbench);
    workbench = headless_open(home, NULL);
    headless_expect(workbench, 120, 24, 120, "status learning_rate name",
                    "/run-0 10 match by train.learning_rate");
    headless_type(workbench, "v");
    headless_press(workbench, K_CTRL('u'), 1);
    headless_type(workbench, "/at\r"); /* the moved item stays selected, though hidden ones lie between */
    headless_press(workbench, K_HOME, 1);
    headless_type(workbench, "jh");
    headless_expect_selected(workbench, "time");
    headless_type(workbench, "l");
    headless_expect_selected(workbench, "time");
    headless_press(workbench, K_ESCAPE, 1);
    headless_type(workbench, "q");
    headless_expect_not(workbench, 120, 24, "learning_rate name");
    headless_close(workbench);
    file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_non_null(strstr(text, "; mine\n[later]\nother.key = kept\nruns.sort = train.learning_rate\n"));
    assert_non_null(strstr(text, "runs.filter = run-0\n"));
}

/* The place of `what` in the row of the chooser with `name`. */
static ptrdiff_t place_in_row(struct workbench *workbench, const char *name, const char *what)
{
    const char *row = headless_row_with(workbench, 100, 24, name), *at = row ? strstr(row, what) : NULL;
    if (!at) fail_msg("%s is not in the row of %s", what, name);
    return at - row;
}

TEST_CASE(what_a_chooser_says_of_its_items_stands_in_one_column)
{
    char home[1024];
    fill_thirty("aligned", home, sizeof home);
    store_fixture_sql(home, "insert into params values('id-03', 'checkpoint.activation_interval', '2'),"
                            " ('id-03', 'data.train', 'kjv')");
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "v/key of\r");
    assert_int_equal(place_in_row(workbench, "checkpoint.activation_interval", "key of"),
                     place_in_row(workbench, "data.train", "key of"));
    headless_expect(workbench, 40, 12, 40, "checkpoint…on_interval key of t…");
}

TEST_CASE(there_is_room_for_so_many_columns)
{
    char home[1024];
    fill_thirty("many-columns", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "v");
    for (int i = 0; i < 100 && !workbench->message[0]; i++) {
        headless_press(workbench, K_END, 1);
        headless_type(workbench, " ");
    }
    headless_expect(workbench, 80, 24, 80, "there are 32 columns already: hide one first");
}

TEST_CASE(a_column_that_was_found_stays_selected_among_all)
{
    char home[1024];
    fill_thirty("found-column", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "v/elapsed\r");
    headless_press(workbench, K_ESCAPE, 1);
    headless_expect_selected(workbench, "elapsed");
}

TEST_CASE(one_column_always_stays)
{
    char home[1024];
    fill_thirty("one-column", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "v");
    for (int i = 0; i < 40; i++) {
        headless_press(workbench, K_HOME, 1);
        headless_type(workbench, " ");
    }
    headless_expect(workbench, 80, 24, 80, "the last column stays");
    headless_expect(workbench, 80, 24, 80, "Columns 1 of");
    headless_press(workbench, K_CTRL('u'), 1);
    headless_type(workbench, "q");
    headless_expect_row(workbench, 80, 24, "run-00", "finished");
}

TEST_CASE(a_list_whose_runs_are_all_hidden_says_how_to_see_them)
{
    char home[1024];
    struct err err = {0};
    fill_thirty("all-hidden", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "aA");
    headless_expect(workbench, 80, 24, 80, "All runs are archived: /archived shows them.");
    headless_type(workbench, "/archived\r");
    headless_expect(workbench, 80, 24, 80, "run-00");
    headless_type(workbench, "aA");
    headless_press(workbench, K_ESCAPE, 1);
    headless_type(workbench, "/no such run\r");
    headless_expect(workbench, 80, 24, 80, "No run matches \"no such run\": Esc shows all.");
    headless_press(workbench, K_ESCAPE, 1);
    headless_type(workbench, "aDy");
    headless_expect(workbench, 80, 24, 80, "All runs are deleted when you leave: u brings them back.");
    headless_type(workbench, "u");
    headless_expect(workbench, 80, 24, 80, "30 runs brought back");
    assert_int_equal(workbench_finish(workbench, &err), 0);
    headless_close(workbench);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 30);
}

TEST_CASE(a_run_that_somebody_else_has_deleted_is_no_failure)
{
    char home[1024];
    struct err err = {0};
    fill_thirty("twice-deleted", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "aDy");
    store_fixture_sql(home, "delete from runs where id = 'id-07';"
                            "update runs set heartbeat = 1e11 where id = 'id-09'"); /* trains again */
    assert_int_equal(workbench_finish(workbench, &err), 1);
    assert_int_equal(workbench->removed, 28);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 1);
}

/* The workbench on thirty runs with this line in its settings. */
static struct workbench *open_with_setting(const char *name, const char *line)
{
    char home[1024], path[1100];
    fill_thirty(name, home, sizeof home);
    snprintf(path, sizeof path, "%s/workbench.ini", home);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(line, file);
    fclose(file);
    return headless_open(home, NULL);
}

TEST_CASE(a_filter_takes_the_room_of_the_counts_on_narrow_screens)
{
    char home[1024];
    fill_thirty("narrow", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "/run-1\r");
    headless_expect(workbench, 60, 24, 60, "30 runs, 0 training", "/run-1 10 match");
    headless_expect_not(workbench, 59, 24, "30 runs");
    headless_expect(workbench, 59, 24, 59, "anneal /run-1 10 match");
    headless_press(workbench, K_ESCAPE, 1);
    headless_expect(workbench, 59, 24, 59, "30 runs, 0 training");
}

TEST_CASE(a_line_of_the_settings_that_binds_no_key_is_told)
{
    struct workbench *workbench = open_with_setting("bad-key", "key.runs.pause = Hyper-P\n");
    headless_expect(workbench, 200, 24, 200,
                    "workbench.ini:1: key.runs.pause = Hyper-P: \"Hyper-P\" is no key");
}

TEST_CASE(a_filter_is_cleared_by_a_key_of_the_users_choice_as_well)
{
    struct workbench *workbench = open_with_setting("own-key", "key.runs.dismiss = F9\n");
    headless_type(workbench, "/run-29\r");
    headless_expect_not(workbench, 80, 24, "run-05");
    headless_press(workbench, K_F1 + 8, 1);
    headless_expect(workbench, 80, 40, 80, "run-05");
    headless_expect_not(workbench, 80, 24, "/run");
}

TEST_CASE(only_one_run_is_resumed_at_a_time)
{
    char home[1024];
    fill_thirty("resuming", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    workbench->resuming = (struct launch){.pid = getpid(), .resumed = "id-09"};
    headless_type(workbench, "r");
    headless_expect(workbench, 160, 24, 160, "id-09 is still being resumed: try again once it is training");
    workbench->resuming.pid = 0;
}

TEST_CASE(a_run_without_a_model_or_a_configuration_begins_no_other)
{
    char home[1024];
    fill_thirty("no-parent", home, sizeof home);
    store_fixture_sql(home, "insert into tags(run_id, tag) values('id-01', 'lr-find')");
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "b");
    headless_expect(workbench, 80, 24, 80, "run-00 has no configuration: it was imported");
    headless_press(workbench, K_DOWN, 1);
    headless_type(workbench, "b");
    headless_expect(
        workbench, 160, 24, 160,
        "run-01 is a search for a learning rate: its settings train no model (begin with another run)");
}

TEST_CASE(a_column_shows_what_runs_take_on_disk)
{
    static char zeros[1 << 20];
    char home[1024], path[1200];
    struct err err;
    fill_thirty("taken", home, sizeof home);
    snprintf(path, sizeof path, "%s/runs/id-03/checkpoints/step-1", home);
    assert_int_equal(file_make_folders(path, &err), STATUS_OK);
    snprintf(path, sizeof path, "%s/runs/id-03/checkpoints/step-1/model.safetensors", home);
    assert_int_equal(file_write_atomic(path, zeros, sizeof zeros, &err), STATUS_OK);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "v/disk\r");
    headless_expect(workbench, 80, 24, 80, "disk bytes");
    headless_type(workbench, " hhhhhhhhhq"); /* shown, and moved before all others but one */
    headless_expect_row(workbench, 120, 24, "run-03", " 1.0 MiB ");
}

TEST_CASE(hostile_names_stay_in_their_cells)
{
    static const int widths[] = {40, 80, 120, 200};
    char home[1024];
    fill_thirty("cells", home, sizeof home);
    store_fixture_sql(home, "update runs set name = '日本語のとても長い名前がここにあります', note = "
                            "char(27) || '[31mred' where id = 'id-00';"
                            "update runs set name = '🚀🚀' where id = 'id-01';"
                            "update runs set name = char(27) || ']0;title' || char(7) where id = 'id-02';"
                            "update runs set name = 'שלום עולם' where id = 'id-03';"
                            "update runs set name = cast(x'ff80c3' as text) where id = 'id-04';"
                            "update runs set name = '' where id = 'id-05'; update runs set name = 'e' || "
                            "char(769) where id = 'id-06';"
                            "insert into tags values('id-00', '実験')");
    struct workbench *workbench = headless_open(home, NULL);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct grid grid = headless_draw(workbench, widths[i], 24);
        char row[2048];
        int column = -1;
        for (int y = 2; y < 12; y++) {
            grid_row(&grid, y, row, sizeof row);
            assert_null(strpbrk(row, "\033\a"));
            for (int x = 0, w = 0; x < grid.w; x += w) { /* the progress begins in one column */
                w = glyph_width(grid.cells[y * grid.w + x].glyph);
                if (w < 1) w = 1;
                if (grid.cells[y * grid.w + x].glyph != 0x2588) continue;
                if (column < 0) column = x;
                assert_int_equal(x, column);
                break;
            }
        }
        grid_release(&grid);
    }
    headless_type(workbench, "/日本\r");
    headless_expect(workbench, 80, 24, 80, "0 match"); /* each byte of a headless key is a character */
}

TEST_CASE(many_runs_are_read_once_a_second_and_no_commit_is_missed)
{
    char home[1024];
    fill_thirty("many", home, sizeof home);
    store_fixture_sql(home, "with recursive n(i) as (select 0 union all select i + 1 from n where i < 299)"
                            " insert into runs(id, name, status, created_at) select 'more-' || i, 'more',"
                            " 'finished', 1 from n");
    struct workbench *workbench = headless_open(home, NULL);
    double now = clock_wall();
    headless_expect(workbench, 80, 24, 80, "330 runs");
    store_fixture_sql(home, "delete from runs where id = 'more-0'");
    workbench_tick(workbench, now + 2);
    headless_expect(workbench, 80, 24, 80, "329 runs");
    store_fixture_sql(home, "delete from runs where id = 'more-1'");
    workbench_tick(workbench, now + 2.1);
    headless_expect(workbench, 80, 24, 80, "329 runs");
    workbench_tick(workbench, now + 3.2); /* nothing new since */
    headless_expect(workbench, 80, 24, 80, "328 runs");
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
