/* The list of runs on a grid alone: more runs than rows, sorting, filters, the selection, the small curves,
 * and a run whose trainer dies while nothing is written. */
#include <locale.h>
#include <sys/mount.h>
#include <time.h>

#include "core/base/clock.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"
#include "tui/view/list.h"

/* The list shows rows first … first + 6 at 60 x 10, and the bar lies on `selected`. */
static void expect_page(struct workbench *workbench, int first, int selected)
{
    struct grid grid = headless_draw(workbench, 60, 10);
    char row[512], name[16];
    for (int y = 2; y < 9; y++) {
        snprintf(name, sizeof name, "run-%02d", first + y - 2);
        if (!strstr(grid_row(&grid, y, row, sizeof row), name))
            fail_msg("row %d is \"%s\", not %s", y, row, name);
        bool marked = grid.cells[y * 60 + 2].attr & ATTR_REVERSE;
        if (marked != (first + y - 2 == selected)) fail_msg("the bar is not on run-%02d", selected);
    }
    grid_release(&grid);
}

TEST_CASE(more_runs_than_rows_scroll_with_the_selection)
{
    static const struct {
        uint32_t key;
        int times, first, selected; /* the row at the top then, and the selected one */
    } moves[] = {
        /* the page moves only where the selection would leave it, and neither goes beyond an end */
        {K_DOWN, 6, 0, 6},    {K_DOWN, 1, 1, 7},      {K_UP, 6, 1, 1},          {'k', 1, 0, 0},
        {K_UP, 3, 0, 0},      {K_PAGE_DOWN, 1, 1, 7}, {K_PAGE_DOWN, 2, 15, 21}, {K_PAGE_UP, 1, 14, 14},
        {'G', 1, 23, 29},     {K_DOWN, 3, 23, 29},    {K_PAGE_DOWN, 1, 23, 29}, {'k', 28, 1, 1},
        {K_PAGE_UP, 1, 0, 0}, {K_END, 1, 23, 29},     {'g', 1, 0, 0},
    };
    char home[1024];
    fill_thirty("scroll", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    expect_page(workbench, 0, 0);
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        headless_press(workbench, moves[i].key, moves[i].times);
        expect_page(workbench, moves[i].first, moves[i].selected);
        assert_true(!headless_row_with(workbench, 60, 10, "▲") == (moves[i].first == 0));
        assert_true(!headless_row_with(workbench, 60, 10, "▼") == (moves[i].first == 23));
    }
}

TEST_CASE(a_page_stays_full_when_runs_go_or_rows_come)
{
    char home[1024];
    fill_thirty("clamp", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_press(workbench, 'G', 1);
    expect_page(workbench, 23, 29);
    store_fixture_sql(home, "delete from runs where name >= 'run-20'");
    workbench_tick(workbench, clock_wall());
    expect_page(workbench, 13,
                19); /* what was selected is gone: the row that is now in its place, the last */
    int row = headless_selected_row(workbench, 60, 24);
    assert_int_equal(row, 2 + 19); /* of twenty-one rows: all runs, from the first on */
    expect_page(workbench, 13, 19);
    store_fixture_sql(home, "delete from runs where name >= 'run-03'");
    workbench_tick(workbench, clock_wall());
    assert_int_equal(headless_selected_row(workbench, 60, 10), 4);
    headless_expect(workbench, 60, 10, 60, "3 runs, 0 training");
}

TEST_CASE(a_selection_is_in_its_list_however_short_that_becomes)
{
    static const size_t cases[][3] = {{3, 5, 3}, {3, 4, 3}, {3, 3, 2}, {3, 1, 0}, {3, 0, 0}}; /* at, count */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct list list = {.at = cases[i][0]};
        list_set_count(&list, cases[i][1]);
        assert_int_equal(list.at, cases[i][2]);
    }
}

/* The names of the list from above, parted by spaces: those that begin with "s-". */
static const char *order_of(struct workbench *workbench)
{
    static char names[256];
    struct grid grid = headless_draw(workbench, 100, 24);
    char row[1024], name[8];
    names[0] = '\0';
    for (int y = 2; y < 23; y++) {
        const char *at = strstr(grid_row(&grid, y, row, sizeof row), "s-");
        if (at && sscanf(at, "%7s", name) == 1) strcat(strcat(names, *names ? " " : ""), name);
    }
    grid_release(&grid);
    return names;
}

TEST_CASE(runs_sort_by_every_column_and_what_is_absent_comes_last)
{
    static const struct {
        const char *title, *order, *reversed;
    } sorts[] = {
        {"newest first", "s-c s-a s-d s-b", "s-b s-d s-a s-c"},
        {"by status", "s-d s-a s-c s-b", "s-c s-b s-a s-d"}, /* equal ones: newest first */
        {"by name", "s-a s-b s-c s-d", "s-d s-c s-b s-a"},
        {"by progress", "s-c s-a s-d s-b", "s-c s-a s-d s-b"}, /* unknown */
        {"by loss", "s-b s-c s-d s-a", "s-d s-c s-b s-a"},
        {"by best", "s-d s-b s-c s-a", "s-c s-b s-d s-a"},
        {"by -tok/s", "s-d s-a s-c s-b", "s-c s-a s-d s-b"},
        {"by time", "s-c s-a s-d s-b", "s-b s-d s-a s-c"},
        {"by tags", "s-c s-a s-d s-b", "s-c s-a s-d s-b"},
        {"by note", "s-c s-a s-d s-b", "s-c s-a s-d s-b"},
    };
    char home[1024], id[RUN_ID_MAX];
    store_fixture_home("sorts", home, sizeof home);
    store_fixture_run(home, "other", id);
    store_fixture_sql(
        home, "insert into runs(id, name, status, created_at, steps, final_loss, best_val_loss, best_step,"
              " tokens_per_sec) values"
              " ('1', 's-a', 'stopped', 300, 1, null, null, null, 900),"
              " ('2', 's-b', 'failed', 100, 1, 2.5, 4.0, 1, null),"
              " ('3', 's-c', 'failed', 400, 1, 3.5, 5.0, 1, 20),"
              " ('4', 's-d', 'finished', 200, 1, 10.5, 3.0, 1, 10000);"
              "delete from runs where name = 'other'");
    struct workbench *workbench = headless_open(home, NULL);
    for (size_t i = 0; i < sizeof sorts / sizeof *sorts; i++) {
        const char *header = headless_row_with(workbench, 100, 24, "4 runs, 0 training");
        assert_non_null(header);
        assert_string_equal(header + strlen(header) - strlen(sorts[i].title), sorts[i].title);
        assert_string_equal(order_of(workbench), sorts[i].order);
        headless_type(workbench, "O");
        assert_string_equal(order_of(workbench), sorts[i].reversed);
        headless_type(workbench, "Oo");
    }
    assert_string_equal(order_of(workbench), sorts[0].order); /* round about */
    headless_expect_selected(workbench, "s-c"); /* and the first run is still the selected one */
    headless_type(workbench, "Ooo");
    headless_expect_selected(workbench, "s-c");
    headless_type(workbench, "S");
    headless_press(workbench, K_CTRL('u'), 1);
    headless_type(workbench, "status,-loss\r");
    assert_string_equal(order_of(workbench), "s-d s-a s-c s-b"); /* failed both: the higher loss first */
    headless_expect(workbench, 80, 24, 80, "by status,-loss");
    headless_type(workbench, "S,nothing\r");
    headless_expect(workbench, 80, 24, 80, "no column, key or metric is called \"nothing\"");
    headless_expect(workbench, 80, 24, 80, "sort by status,-loss,nothing"); /* to be typed on */
    headless_press(workbench, K_ESCAPE, 1);
    headless_expect(workbench, 80, 24, 80, "by status,-loss");
}

TEST_CASE(a_filter_that_does_not_fit_is_cut_visibly)
{
    char home[1024];
    fill_thirty("wide_filter", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "/status=finished and device=cpu and best<12.5");
    headless_expect(workbench, 80, 24, 80, "best<12.5"); /* the end, where it is typed */
    workbench_key(workbench, K_ENTER);
    headless_expect(workbench, 80, 24, 80, "/status=finished and device=cpu and…");
    headless_expect(workbench, 120, 24, 120, "/status=finished and device=cpu and best<12.5 ");
    headless_close(workbench);
}

TEST_CASE(a_filter_takes_every_letter_and_all_of_its_words)
{
    char home[1024];
    fill_thirty("filter", home, sizeof home);
    store_fixture_sql(home,
                      "update runs set status = 'early_stopped', device = 'cuda:0' where name = 'run-17'");
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "/qDs"); /* letters are text, not keys */
    headless_expect(workbench, 80, 24, 80, "/qDs 0 match", "No run matches \"qDs\": Esc shows all.");
    workbench_key(workbench, K_CTRL('u'));
    headless_expect(workbench, 80, 24, 80, "/ 30 match");
    headless_type(workbench, "1");
    headless_expect(workbench, 80, 24, 80, "/1 12 match"); /* 01, 10 … 19, 21 */
    workbench_key(workbench, K_HOME);
    headless_type(workbench, "2");
    workbench_key(workbench, K_END); /* of the text, not of the list */
    workbench_key(workbench, K_BACKSPACE);
    headless_expect(workbench, 80, 24, 80, "/2 ");
    workbench_key(workbench, K_BACKSPACE);
    headless_type(workbench, "1");
    headless_type(workbench, " CUDA"); /* small or capital */
    headless_expect(workbench, 80, 24, 80, "/1 CUDA 1 matches");
    headless_expect_selected(workbench, "run-17");
    headless_press(workbench, K_BACKSPACE, 4);
    headless_type(workbench, "early");
    headless_expect(workbench, 80, 24, 80, "1 matches ");
    headless_press(workbench, K_BACKSPACE, 6);
    headless_type(workbench, " id-2");
    headless_press(workbench, K_DOWN, 1); /* moves while it is typed */
    headless_expect(workbench, 80, 24, 80, "/1 id-2 1 matches");
    headless_expect_selected(workbench, "run-21");
    workbench_key(workbench, K_ENTER);
    assert_false(workbench->left);
    headless_press(workbench, K_ESCAPE, 1); /* first the filter goes, then the marks, never the workbench */
    headless_expect_not(workbench, 80, 24, "match");
    headless_expect_selected(workbench, "run-21");
    headless_type(workbench, " ");
    headless_expect(workbench, 80, 24, 80, "1 marked", "Esc clear");
    headless_press(workbench, K_ESCAPE, 1);
    headless_expect_not(workbench, 80, 24, "marked");
    headless_press(workbench, K_ESCAPE, 3);
    assert_false(workbench->left);
    headless_type(workbench, "/7");
    headless_press(workbench, K_BACKSPACE, 2); /* beyond the first letter: no filter */
    headless_type(workbench, "q");
    assert_true(workbench->left);
}

/* The cells of the small curve of the run in the first row, at 200 columns. */
static void read_curve(struct workbench *workbench, char *buf, size_t size)
{
    struct grid grid = headless_draw(workbench, 200, 24);
    char row[2048];
    grid_row(&grid, 2, row, sizeof row);
    const char *curve = strrchr(row, ' '); /* the last column, without blanks */
    snprintf(buf, size, "%s", curve ? curve + 1 : "");
    grid_release(&grid);
}

TEST_CASE(the_small_curve_of_a_living_run_moves)
{
    static const struct fill live = {.name = "moving",
                                     .steps = 100,
                                     .total_steps = 400,
                                     .spike_step = 160,
                                     .spike = 30,
                                     .keep_alive = true};
    char home[1024], before[512], after[512];
    struct fill_run run;
    store_fixture_home("sparks", home, sizeof home);
    fill_run(home, &live, &run);
    struct workbench *workbench = headless_open(home, NULL);
    read_curve(workbench, before, sizeof before);
    assert_true(before[0]);
    fill_steps(&run, &live, 100, 161);
    workbench_tick(workbench, clock_wall());
    assert_true(workbench->dirty);
    read_curve(workbench, after, sizeof after);
    assert_string_not_equal(before, after);
    assert_non_null(strstr(after, "█")); /* the spike is the newest step */
    assert_string_equal(strstr(after, "█"), "█");
    assert_string_equal(strstr(before, "█"), before); /* before it the first step was the highest */
    fill_end(&run, RUN_FINISHED, "");
}

TEST_CASE(the_list_shows_a_death_while_nothing_is_written)
{
    static const struct fill ended = {
        .name = "mortal", .steps = 20, .total_steps = 200, .spike_step = -1, .status = RUN_FINISHED};
    char home[1024];
    struct fill_run run;
    struct run_lock lock;
    struct err err = {0};
    store_fixture_home("death", home, sizeof home);
    fill_run(home, &ended, &run);
    store_fixture_sql(home,
                      "update runs set status = 'running', ended_at = null, heartbeat = strftime('%s')");
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_lock_acquire(store, run.id, &lock, &err), STATUS_OK);
    struct workbench *workbench = headless_open(home, NULL);
    double now = clock_wall();
    workbench_tick(workbench, now);
    headless_expect(workbench, 80, 24, 80, "1 run, 1 training", "● running");
    assert_int_equal(workbench_live_runs(workbench), 1);
    assert_false(workbench->dirty);
    run_lock_release(&lock); /* as the kernel does when a process dies */
    workbench_tick(workbench, now + 1.5);
    assert_true(workbench->dirty);
    headless_expect(workbench, 80, 24, 80, "✗ crashed", "1 run, 0 training");
    assert_int_equal(workbench_live_runs(workbench), 0);
    /* nothing lives and nothing is written: nothing to draw */
    workbench_tick(workbench, (double)((int64_t)now / 60 * 60 + 119));
    assert_false(workbench->dirty);
    workbench_tick(workbench, (double)((int64_t)now / 60 * 60 + 120)); /* but the ages of a new minute */
    assert_true(workbench->dirty);
    headless_close(workbench);
    store_close(store);
}

TEST_CASE(a_run_is_deleted_only_after_yes)
{
    static const struct fill live = {
        .name = "alive", .steps = 5, .total_steps = 20, .spike_step = -1, .keep_alive = true};
    char home[1024];
    struct fill_run run;
    fill_thirty("deleted", home, sizeof home);
    fill_run(home, &live, &run);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "D"); /* the newest */
    headless_expect(workbench, 80, 24, 80, "alive is training: stop it before deleting it");
    headless_type(workbench, "y"); /* nothing was asked */
    headless_press(workbench, K_DOWN, 3);
    headless_type(workbench, "D");
    headless_expect(workbench, 80, 24, 80, "Delete run-02 with its history and checkpoints?");
    headless_type(workbench, "n");
    for (int failure = 0; failure < 2; failure++) { /* a message takes the place of the question */
        headless_type(workbench, "D");
        headless_expect(workbench, 80, 24, 80, "Delete run-02");
        if (failure)
            workbench_did(workbench, err_set(&workbench->err, STATUS_IO, "it was long ago"));
        else
            workbench_say(workbench, "it was long ago");
        headless_type(workbench, "y");
        headless_expect(workbench, 80, 24, 80, "31 runs, 1 training");
    }
    store_fixture_sql(home, "update runs set parent_id = (select id from runs where name = 'run-02'),"
                            " parent_step = 1 where name = 'run-07'");
    headless_press(workbench, 'D', 1);
    headless_expect(workbench, 80, 24, 80, "history and checkpoints? 1 other run may need it.", "(y: yes");
    headless_press(workbench, K_ESCAPE, 1);
    headless_expect(workbench, 80, 24, 80, "31 runs, 1 training");
    headless_type(workbench, "Dy");
    headless_expect(workbench, 80, 24, 80, "run-02 is deleted when you leave; u brings it back",
                    "30 runs, 1 training");
    headless_expect_selected(workbench, "run-03"); /* which has its place now */
    assert_true(store_fixture_number(home, "select count(*) from runs where name = 'run-02'") == 1);
    headless_type(workbench, "u");
    headless_expect(workbench, 80, 24, 80, "1 run brought back", "31 runs, 1 training");
    headless_press(workbench, K_UP, 1);
    headless_expect_selected(workbench, "run-02");
    headless_type(workbench, "Dy");
    headless_type(workbench, "s");
    headless_expect(workbench, 80, 24, 80, "run-03 is not training (status: finished)");
    struct err err = {0};
    assert_int_equal(workbench_finish(workbench, &err), 0);
    headless_close(workbench);
    assert_true(store_fixture_number(home, "select count(*) from runs where name = 'run-02'") == 0);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 30);
    fill_end(&run, RUN_STOPPED, "");
}

TEST_CASE(a_run_that_trains_again_is_not_deleted_and_the_reason_is_told)
{
    char home[1024];
    struct run_lock lock;
    struct err err = {0};
    fill_thirty("resumed", home, sizeof home);
    struct store *store = store_fixture_open(home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "Dy");
    headless_press(workbench, K_DOWN, 1);
    headless_type(workbench, "Dy");
    headless_expect(workbench, 80, 24, 80, "28 runs, 0 training");
    assert_int_equal(run_lock_acquire(store, "id-00", &lock, &err), STATUS_OK);
    assert_int_equal(workbench_finish(workbench, &err), 1);
    assert_non_null(strstr(err.text, "id-00"));
    headless_close(workbench);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 29);
    run_lock_release(&lock);
    store_close(store);
}

TEST_CASE(a_run_that_has_trained_since_its_deletion_stays)
{
    char home[1024];
    struct err err = {0};
    fill_thirty("trained", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "Dy");
    store_fixture_sql(home, "update runs set heartbeat = 4e9");
    assert_int_equal(workbench_finish(workbench, &err), 1);
    assert_non_null(strstr(err.text, "has trained since you deleted it"));
    assert_true(workbench->removed == 0);
    headless_close(workbench);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 30);
}

/* Each deletion has a time of its own. */
TEST_CASE(a_run_that_trained_before_its_own_deletion_goes)
{
    char home[1024], sql[200];
    struct err err = {0};
    fill_thirty("between", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    double now = clock_wall();
    workbench_tick(workbench, now);
    headless_type(workbench, "Dy");
    snprintf(sql, sizeof sql, "update runs set heartbeat = %.0f where id != '%s'", now + 5,
             workbench->deleted.runs[0].id);
    store_fixture_sql(home, sql);
    workbench_tick(workbench, now + 10);
    headless_type(workbench, "Dy");
    assert_int_equal(workbench_finish(workbench, &err), 0);
    assert_int_equal(workbench->removed, 2);
}

TEST_CASE(nothing_is_deleted_when_the_terminal_goes)
{
    char home[1024];
    struct err err = {0};
    fill_thirty("abandoned", home, sizeof home);
    for (int abandoned = 1; abandoned >= 0; abandoned--) {
        struct workbench *workbench = headless_open(home, NULL);
        headless_type(workbench, "Dy");
        workbench->abandoned = abandoned;
        assert_int_equal(workbench_finish(workbench, &err), 0);
        assert_true(workbench->removed == (abandoned ? 0 : 1));
        headless_close(workbench);
        assert_true(store_fixture_number(home, "select count(*) from runs") == (abandoned ? 30 : 29));
    }
}

TEST_CASE(an_empty_store_teaches_how_to_begin)
{
    static const uint32_t nothing_to_act_on[] = {K_ENTER, K_UP, K_DOWN, K_END, 'p', 's',
                                                 'c',     'C',  'D',    'o',   'O'};
    char home[1024];
    store_fixture_home("nothing", home, sizeof home);
    struct workbench *workbench = headless_open(home, NULL);
    headless_expect(workbench, 80, 24, 80, "No runs yet.");
    headless_expect(workbench, 40, 12, 40, "No runs yet.");
    headless_expect(workbench, 80, 24, 80, " train --data.train=kjv");
    for (size_t i = 0; i < sizeof nothing_to_act_on / sizeof *nothing_to_act_on; i++) {
        workbench_key(workbench, nothing_to_act_on[i]);
        headless_expect(workbench, 80, 24, 80, "No runs yet.", "? help");
    }
    headless_type(workbench, "q");
    assert_true(workbench->left);
}

static int unmount(void **state)
{
    char view[1024];
    (void)state;
    kept_release();
    snprintf(view, sizeof view, "%s/read-only", getenv("ANNEAL_TEST_DIR"));
    umount2(view, MNT_DETACH);
    return 0;
}

TEST_CASE_WITH(where_nothing_can_be_written_keys_say_how_to_continue, NULL, unmount)
{
    static const struct fill live = {
        .name = "here", .steps = 20, .total_steps = 200, .spike_step = -1, .keep_alive = true};
    static const char advice[] = "a folder you may write to)"; /* ANNEAL_HOME is to name one */
    char home[1024], view[1024];
    struct fill_run run, old;
    store_fixture_home("written", home, sizeof home);
    store_fixture_home("read-only", view, sizeof view);
    fill_run(home,
             &(struct fill){
                 .name = "old", .steps = 20, .total_steps = 20, .spike_step = -1, .status = RUN_FINISHED},
             &old);
    fill_run(home, &live, &run);
    if (mount(home, view, NULL, MS_BIND, NULL) != 0 ||
        mount(NULL, view, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0) {
        fill_end(&run, RUN_STOPPED, "");
        skip();
    }
    struct workbench *workbench = headless_open(view, NULL);
    headless_expect_selected(workbench, "here");
    headless_type(workbench, "p");
    headless_expect(workbench, 100, 24, 100, advice);
    headless_press(workbench, K_DOWN, 1);
    headless_type(workbench, "D");
    headless_expect(workbench, 100, 24, 100, advice);
    headless_press(workbench, K_UP, 1);
    headless_expect(workbench, 100, 24, 100, "2 runs, 1 training");
    headless_close(workbench);
    umount2(view, MNT_DETACH);
    fill_end(&run, RUN_STOPPED, "");
}

/* --- the rows themselves --- */

TEST_CASE(runs_of_one_name_are_distinguished)
{
    /* the ids as their trainers would have made them, two of one second; but for the last one, which somebody
       has imported */
    static const char *const tags[] = {"twin 20010909-014640 ", "twin 20010912-014640 ",
                                       "twin 20010912-014640-2 ", "single ░", "twin imported-long-id-of-som"};
    char home[1024], id[RUN_ID_MAX];
    store_fixture_home("twins", home, sizeof home);
    store_fixture_run(home, "other", id);
    store_fixture_sql(home, "insert into runs(id, name, status, created_at) values"
                            " ('20010909-014640-twin', 'twin', 'finished', 1e9),"
                            " ('20010912-014640-twin', 'twin', 'finished', 1e9 + 259200),"
                            " ('20010912-014640-twin-2', 'twin', 'finished', 1e9 + 259200.5),"
                            " ('20010913-014641-single', 'single', 'finished', 1e9 + 345601),"
                            " ('imported-long-id-of-somebody', 'twin', 'finished', 1e9 + 432000);"
                            "delete from runs where name = 'other'");
    struct workbench *workbench = headless_open(home, NULL);
    static const int widths[] = {80, 120, 200};
    for (size_t w = 0; w < 3; w++)
        for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
            headless_expect(workbench, widths[w], 24, widths[w], tags[i]);
}

TEST_CASE(long_names_are_whole_where_there_is_room_and_keep_their_ends_where_not)
{
    char home[1024];
    fill_thirty("long_names", home, sizeof home);
    store_fixture_sql(home, "update runs set name = 'experiment-with-long-name-' || substr(id, 4)");
    struct workbench *workbench = headless_open(home, NULL);
    headless_expect(workbench, 80, 24, 80, "experi…ame-00", "experi…ame-17");
    headless_expect(workbench, 120, 24, 120, "experiment-with-long-name-00 ", "experiment-with-long-name-17 ",
                    "progress loss best tok/s time curve");
    headless_press(workbench, K_ENTER, 1); /* a heading takes more */
    store_fixture_sql(home, "update runs set name = hex(zeroblob(20)) || '-end' where id = 'id-00'");
    workbench_tick(workbench, workbench->now + 3);
    headless_expect(workbench, 40, 12, 40, "000000000…000000-end");
    headless_expect(workbench, 80, 24, 80, "00-end");
}

TEST_CASE(the_cells_of_a_row_say_what_is_known)
{
    char home[1024], id[RUN_ID_MAX];
    store_fixture_home("cells", home, sizeof home);
    store_fixture_run(home, "other", id);
    store_fixture_sql(
        home, "insert into runs(id, name, status, created_at, ended_at, steps, total_steps, final_loss,"
              " best_val_loss, best_step, tokens_per_sec, nan) values"
              " ('1', 'whole', 'finished', 1, 1e9 - 7210, 1500, 6000, 3.25, 4.5, 1250, 12345, 0),"
              " ('2', 'blank', 'failed', 2, 1e9 - 30, 0, null, null, null, null, null, 0),"
              " ('3', 'lost', 'stopped', 3, 1e9 - 90000, 5999, 6000, null, null, null, 10, 1);"
              "delete from runs where name = 'other'");
    struct workbench *workbench = headless_open(home, NULL);
    workbench_tick(workbench, 1e9);
    headless_expect_row(workbench, 180, 24, "whole", " 25% ", "1.50k/6.00k ", " 3.250 ", " 4.500 @1250 ",
                        " 12.3k ", " 2h ago");
    headless_expect_row(workbench, 180, 24, "blank", " ?% ", " 0/? ", " -- ", "30s ago");
    headless_expect_row(workbench, 180, 24, "lost", " 99% ", " NaN ", " 1d ago"); /* not yet 100 */
    const char *row =
        headless_row_with(workbench, 80, 24, "whole"); /* where there is little room, without the step */
    assert_non_null(row);
    assert_non_null(strstr(row, " 4.500 "));
    assert_null(strstr(row, "@1250"));
    headless_type(workbench, "\r");
    headless_expect(workbench, 80, 24, 80, "lost ■ stopped", " 99.9% 5,999 / 6,000 steps");
    headless_type(workbench, "qj\r");
    headless_expect(workbench, 80, 24, 80, "blank ✗ failed", " ?% 0 / ? steps");
    headless_type(workbench, "q");
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
