/* The view of one run on a grid alone: a trainer that dies or hangs while nothing is written, the window of
 * the charts, the cursor, the panels. */
#include <locale.h>

#include "core/base/clock.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"
#include "tui/view/run_model.h"

TEST_CASE(a_death_shows_in_every_view_while_nothing_is_written)
{
    static const char *const views[] = {"", "M", "P"};
    for (size_t v = 0; v < 3; v++) {
        struct fill_quiet quiet;
        fill_quiet(&quiet, "quiet-death");
        struct workbench *workbench = headless_open(quiet.home, "mortal");
        headless_type(workbench, views[v]);
        workbench_tick(workbench, quiet.now + 1);
        headless_expect(workbench, 100, 24, 100, "● running");
        run_lock_release(&quiet.lock); /* as the kernel does when a process dies */
        workbench_tick(workbench, quiet.now + 1.9);
        headless_expect(workbench, 100, 24, 100, "● running"); /* looked at once a second */
        assert_false(workbench->dirty);
        workbench_tick(workbench, quiet.now + 2.1);
        assert_true(workbench->dirty);
        headless_expect(workbench, 100, 24, 100, "✗ crashed");
        workbench_tick(workbench, quiet.now + 9); /* what has ended is not asked again */
        assert_false(workbench->dirty);
        workbench_close(workbench);
        store_close(quiet.store);
    }
}

TEST_CASE(a_trainer_that_hangs_is_said_to_be_silent)
{
    static const char *const views[] = {"", "M", "P"};
    struct fill_quiet quiet;
    fill_quiet(&quiet, "quiet-hang");
    for (size_t v = 0; v < 3; v++) {
        struct workbench *workbench = headless_open(quiet.home, "mortal");
        headless_type(workbench, views[v]);
        workbench_tick(workbench, quiet.now + 30);
        headless_expect_not(workbench, 100, 24, "no sign of life");
        workbench_tick(workbench, quiet.now + 31);
        assert_true(workbench->dirty);
        headless_expect(workbench, 100, 24, 100, "no sign of life for 31s");
        workbench_tick(workbench, quiet.now + 95);
        headless_expect(workbench, 100, 24, 100, "no sign of life for 1m 35s");
        workbench_close(workbench);
    }
    run_lock_release(&quiet.lock);
    store_close(quiet.store);
}

/* --- orders, and a store that fails --- */

TEST_CASE(an_order_is_reported_when_it_has_taken_effect)
{
    struct fill_quiet quiet;
    fill_quiet(&quiet, "quiet-orders");
    struct workbench *workbench = headless_open(quiet.home, "mortal");
    headless_type(workbench, "p");
    headless_expect(workbench, 80, 24, 80, "asked mortal to pause");
    assert_true(store_fixture_number(quiet.home, "select count(*) from orders where verb = 'pause'") == 1);
    store_fixture_sql(quiet.home, "update orders set applied_step = 19, result = 'paused'");
    workbench_tick(workbench, quiet.now + 1);
    headless_expect(workbench, 80, 24, 80, "pause at step 19: paused");
    headless_type(workbench, "m"); /* reported once */
    store_fixture_sql(quiet.home, "update orders set result = 'again'");
    workbench_tick(workbench, quiet.now + 2);
    headless_expect_not(workbench, 80, 24, "pause at step 19");
    headless_type(workbench, ">y");
    headless_expect(workbench, 80, 24, 80, "learning rate by 2;");
    store_fixture_sql(quiet.home, "update orders set applied_step = 20 where verb = 'lr-factor'");
    workbench_tick(workbench, quiet.now + 3);
    headless_expect(workbench, 80, 24, 80, "lr-factor at step 20"); /* a result is not always there */
    headless_type(workbench, ">y");
    assert_true(store_fixture_number(quiet.home, "select max(argument) from orders") == 4);
    headless_type(workbench, ">y<y<y<y<y<y"); /* each counts, though no tick lies between them */
    assert_true(store_fixture_number(quiet.home, "select max(argument) from orders") == 8);
    assert_true(store_fixture_number(quiet.home, "select min(argument) from orders") == 0.25);
    headless_type(workbench, "s");
    headless_expect(workbench, 80, 24, 80, "Stop mortal? It writes a checkpoint first.");
    workbench_key(workbench, 'q'); /* a no, and nothing else */
    headless_expect_not(workbench, 80, 24, "Stop mortal?");
    headless_expect(workbench, 80, 24, 80, "loss");
    headless_expect_not(workbench, 200, 24, "r resume"); /* no hint of a key that is of no use now */
    headless_expect(workbench, 200, 24, 200, "p pause s stop");
    headless_type(workbench, "s");
    workbench_say(workbench, "something else"); /* a question that is not seen is not answered */
    workbench_key(workbench, 'y');
    assert_true(store_fixture_number(quiet.home, "select count(*) from orders where verb = 'stop'") == 0);
    headless_type(workbench, "sy");
    assert_true(store_fixture_number(quiet.home, "select count(*) from orders where verb = 'stop'") == 1);
    headless_type(workbench, "q");
    headless_expect(workbench, 80, 24, 80, "mortal continues training in the background");
    run_lock_release(&quiet.lock);
    workbench_tick(workbench, quiet.now + 4);
    headless_type(workbench, "s");
    headless_expect(workbench, 80, 24, 80, "mortal is not training (status: crashed)");
    workbench_key(workbench, K_DOWN); /* the hints again */
    headless_expect(workbench, 200, 24, 200, "r resume");
    headless_expect_not(workbench, 200, 24, "p pause");
    headless_type(workbench, "\r");
    headless_type(workbench, "q"); /* an ended run does not continue */
    headless_expect_not(workbench, 80, 24, "continues training");
    workbench_close(workbench);
    store_close(quiet.store);
}

TEST_CASE(every_order_asks_for_what_its_key_says)
{
    static const struct {
        char key;
        const char *verb;
    } orders[] = {{'p', "pause"},  {'c', "checkpoint"}, {'e', "eval"},
                  {'t', "sample"}, {'T', "trace"},      {'<', "lr-factor"}};
    struct fill_quiet quiet;
    fill_quiet(&quiet, "quiet-keys");
    struct workbench *workbench = headless_open(quiet.home, "mortal");
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        char sql[128];
        workbench_key(workbench, (unsigned char)orders[i].key);
        if (orders[i].key == '<') workbench_key(workbench, 'y');
        headless_expect(workbench, 80, 24, 80, "it will do so after the current step");
        snprintf(sql, sizeof sql, "select count(*) from orders where verb = '%s'", orders[i].verb);
        assert_true(store_fixture_number(quiet.home, sql) == 1);
        assert_true(store_fixture_number(quiet.home, "select count(*) from orders") == (double)i + 1);
    }
    assert_true(store_fixture_number(quiet.home, "select argument from orders where verb = 'lr-factor'") ==
                0.5);
    store_fixture_sql(quiet.home, "update runs set status = 'paused'");
    workbench_tick(workbench, quiet.now + 1);
    headless_type(workbench, "p");
    assert_true(store_fixture_number(quiet.home, "select count(*) from orders where verb = 'continue'") == 1);
    headless_type(workbench, "r");
    headless_expect(workbench, 80, 24, 80, "mortal is paused: p lets it continue");
    workbench_close(workbench);
    run_lock_release(&quiet.lock);
    store_close(quiet.store);
}

TEST_CASE(the_log_and_the_configuration_notice_that_the_trainer_died)
{
    static const char *const views[] = {"w", "i"};
    for (int v = 0; v < 2; v++) {
        struct fill_quiet quiet;
        fill_quiet(&quiet, v ? "quiet-keys-died" : "quiet-log-died");
        struct workbench *workbench = headless_open(quiet.home, "mortal");
        headless_type(workbench, views[v]);
        headless_expect(workbench, 100, 24, 100, "mortal ● running");
        run_lock_release(&quiet.lock);
        workbench_tick(workbench, quiet.now + 5);
        headless_expect(workbench, 100, 24, 100, "mortal ✗ crashed");
        workbench_close(workbench);
        store_close(quiet.store);
    }
}

TEST_CASE(that_a_run_was_deleted_elsewhere_is_said_once)
{
    static const char *const views[] = {"", "w", "i"};
    for (int v = 0; v < 3; v++) {
        struct fill_quiet quiet;
        fill_quiet(&quiet, v == 0 ? "gone-run" : v == 1 ? "gone-log" : "gone-keys");
        struct workbench *workbench = headless_open(quiet.home, "mortal");
        headless_type(workbench, views[v]);
        run_lock_release(&quiet.lock);
        store_fixture_sql(quiet.home, "delete from runs where name = 'mortal'");
        workbench_tick(workbench, quiet.now + 1);
        headless_expect(workbench, 100, 24, 100, "there is no such run");
        headless_type(workbench, "?");
        headless_press(workbench, K_ESCAPE, 1);
        headless_expect_not(workbench, 100, 24, "there is no such run");
        store_fixture_sql(quiet.home, "delete from steps"); /* a commit */
        workbench_tick(workbench, quiet.now + 2);
        headless_expect_not(workbench, 100, 24, "there is no such run");
        workbench_close(workbench);
        store_close(quiet.store);
    }
}

TEST_CASE(a_database_that_was_replaced_is_told)
{
    struct fill_quiet quiet;
    char path[1200], other[1200];
    fill_quiet(&quiet, "quiet-replaced");
    struct workbench *workbench = headless_open(quiet.home, "mortal");
    workbench_tick(workbench, quiet.now + 1);
    headless_expect_not(workbench, 200, 24, "the database was");
    snprintf(path, sizeof path, "%s/anneal.db", quiet.home);
    snprintf(other, sizeof other, "%s/gone.db", quiet.home);
    assert_int_equal(rename(path, other), 0);
    workbench_tick(workbench, quiet.now + 2);
    headless_expect(workbench, 200, 24, 200, "the database was removed while it was in use");
    workbench_close(workbench);
    run_lock_release(&quiet.lock);
    store_close(quiet.store);
}

/* A text that is read does not move on when a newer one is written. */
TEST_CASE(an_older_sample_stays_under_its_readers_eyes)
{
    struct fill_quiet quiet;
    fill_quiet(&quiet, "quiet-sample");
    struct workbench *workbench = headless_open(quiet.home, "mortal");
    headless_expect(workbench, 100, 24, 100, "sample @19");
    headless_press(workbench, K_UP, 1);
    headless_expect(workbench, 100, 24, 100, "sample @10");
    store_fixture_sql(quiet.home,
                      "insert into samples(run_id, segment, step, prompt, text) select id, 1, 29, 'a', 'b' "
                      "from runs where name = 'mortal'");
    workbench_tick(workbench, quiet.now + 1);
    headless_expect(workbench, 100, 24, 100, "sample @10");
    workbench_close(workbench);
    run_lock_release(&quiet.lock);
    store_close(quiet.store);
}

TEST_CASE(what_was_read_stays_when_the_store_fails)
{
    static const char *const tables[] = {"runs",   "steps",  "evals",        "samples",
                                         "orders", "memory", "layer_profile"};
    static const char *const views[] = {"", "M", "P"};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        struct fill_quiet quiet;
        char sql[128];
        fill_quiet(&quiet, "quiet-failure");
        for (size_t v = 0; v < 3; v++) {
            bool read = t == 0 || (v == 0 ? t < 6 : v == 1 ? t == 5 : t == 6);
            struct workbench *workbench = headless_open(quiet.home, "mortal");
            headless_type(workbench, views[v]);
            snprintf(sql, sizeof sql, "alter table %s rename to gone", tables[t]);
            store_fixture_sql(quiet.home, sql);
            workbench_tick(workbench, quiet.now + 5);
            if (read) headless_expect(workbench, 100, 24, 100, "no such table");
            headless_expect(workbench, 100, 24, 100, "mortal ● running");
            if (v == 0) headless_expect(workbench, 100, 24, 100, "━ train ");
            if (v == 0) headless_expect(workbench, 100, 24, 100, "sample @19");
            snprintf(sql, sizeof sql, "alter table gone rename to %s", tables[t]);
            store_fixture_sql(quiet.home, sql);
            workbench_close(workbench);
        }
        run_lock_release(&quiet.lock);
        store_close(quiet.store);
    }
}

/* --- the window of the charts --- */

/* The steps below the enlarged chart at 80 x 24, as the axis has them: "0 20 40". */
static const char *axis_of(struct workbench *workbench)
{
    static char labels[128];
    struct grid grid = headless_draw(workbench, 80, 24);
    char row[512];
    labels[0] = '\0';
    for (int y = 4; y < 24 && !labels[0]; y++) {
        grid_row(&grid, y, row, sizeof row);
        if (strspn(row, " 0123456789k.") != strlen(row) || !row[0]) continue;
        for (char *word = strtok(row, " "); word; word = strtok(NULL, " "))
            strcat(strcat(labels, *labels ? " " : ""), word);
    }
    grid_release(&grid);
    return labels;
}

/* Whether the curve reaches the last columns of the plot. */
static bool curve_reaches_the_end(struct workbench *workbench)
{
    struct grid grid = headless_draw(workbench, 80, 24);
    bool dots = false;
    for (int y = 5; y < 22; y++)
        for (int x = 77; x < 80; x++) dots = dots || grid.cells[y * 80 + x].style == STYLE_TRAIN;
    grid_release(&grid);
    return dots;
}

static void follow_again(struct workbench *workbench, struct fill_run *run, const struct fill *fill,
                         int64_t from, int64_t to)
{
    fill_steps(run, fill, from, to);
    workbench_tick(workbench, clock_wall());
}

TEST_CASE(after_a_zoom_the_newest_step_is_followed_again)
{
    static const struct fill live = {
        .name = "live", .steps = 401, .total_steps = 4000, .spike_step = -1, .keep_alive = true};
    char home[1024];
    struct fill_run run;
    store_fixture_home("follow", home, sizeof home);
    fill_run(home, &live, &run);
    struct workbench *workbench = headless_open(home, "live");
    headless_type(workbench, "z"); /* the loss alone */
    assert_string_equal(axis_of(workbench), "0 100 200 300 400");
    headless_type(workbench, "++"); /* 100 steps at the end */
    assert_string_equal(axis_of(workbench), "300 320 340 360 380 400");
    assert_true(curve_reaches_the_end(workbench));
    follow_again(workbench, &run, &live, 401, 451); /* a window at the end goes on with the run */
    assert_string_equal(axis_of(workbench), "360 380 400 420 440");
    assert_true(curve_reaches_the_end(workbench));
    workbench_key(workbench, K_HOME); /* elsewhere it stays where it is */
    assert_string_equal(axis_of(workbench), "0 20 40 60 80 100");
    follow_again(workbench, &run, &live, 451, 501);
    assert_string_equal(axis_of(workbench), "0 20 40 60 80 100");
    assert_true(curve_reaches_the_end(workbench));
    headless_type(workbench, "f"); /* and follows again: the values of before and those to come */
    assert_string_equal(axis_of(workbench), "400 420 440 460 480 500");
    assert_true(curve_reaches_the_end(workbench));
    follow_again(workbench, &run, &live, 501, 601);
    assert_string_equal(axis_of(workbench), "500 520 540 560 580 600");
    assert_true(curve_reaches_the_end(workbench));
    headless_expect_not(workbench, 80, 24, "loss @");
    workbench_key(workbench, K_HOME);
    workbench_key(workbench, K_END);
    assert_string_equal(axis_of(workbench), "500 520 540 560 580 600");
    assert_true(curve_reaches_the_end(workbench));
    for (int i = 0; i < 30; i++) workbench_key(workbench, K_LEFT); /* a window that ends before the end */
    headless_type(workbench, "+f");
    for (int64_t step = 601; step < 801; step += 40) { /* within what was read for it, and beyond */
        follow_again(workbench, &run, &live, step, step + 40);
        assert_true(curve_reaches_the_end(workbench));
    }
    assert_string_equal(axis_of(workbench), "750 760 770 780 790 800");
    workbench_close(workbench);
    fill_end(&run, RUN_FINISHED, "");
}

TEST_CASE(a_zoom_halves_and_doubles_around_the_cursor)
{
    char home[1024];
    fill_five_hundred("zoom", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "z");
    assert_string_equal(axis_of(workbench), "0 100 200 300 400"); /* an ended run: to its last step */
    headless_type(workbench, "n");                                /* the cursor goes to the event at 240 */
    headless_expect(workbench, 80, 24, 80, "loss @240");
    headless_type(workbench, "+");
    assert_string_equal(axis_of(workbench), "150 200 250 300 350"); /* 120 … 360 */
    headless_type(workbench, "+=");
    assert_string_equal(axis_of(workbench), "210 220 230 240 250 260 270"); /* 210 … 270 */
    headless_type(workbench, "-");
    assert_string_equal(axis_of(workbench), "180 200 220 240 260 280 300"); /* 180 … 300 */
    headless_type(workbench, "--");
    assert_string_equal(axis_of(workbench), "0 100 200 300 400"); /* no more than there is */
    headless_type(workbench, "+++++++++++");
    assert_string_equal(axis_of(workbench), "236 238 240 242 244"); /* no fewer than eight */
    headless_type(workbench, "0");
    assert_string_equal(axis_of(workbench), "0 100 200 300 400");
    headless_expect(workbench, 80, 24, 80, "loss @240"); /* the cursor stays */
    workbench_key(workbench, K_HOME);
    headless_type(workbench, "++"); /* at the start there is nothing before */
    assert_string_equal(axis_of(workbench), "0 20 40 60 80 100 120");
    workbench_close(workbench);
}

TEST_CASE(the_cursor_moves_by_columns_and_takes_the_window_with_it)
{
    char home[1024];
    fill_five_hundred("cursor", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "z");
    headless_expect(workbench, 80, 24, 80, "━ train"); /* drawn: a column of the plot is 480 / 72 steps */
    workbench_key(workbench, K_LEFT);                  /* comes in at the newest step */
    headless_expect(workbench, 80, 24, 80, "loss @480");
    workbench_key(workbench, K_LEFT);
    headless_expect(workbench, 80, 24, 80, "loss @473");
    headless_type(workbench, "hl");
    headless_expect(workbench, 80, 24, 80, "loss @473");
    headless_type(workbench, "lll"); /* no further than the newest */
    headless_expect(workbench, 80, 24, 80, "loss @480");
    headless_type(workbench, "f");
    workbench_key(workbench, K_RIGHT); /* or at the oldest that is shown */
    headless_expect(workbench, 80, 24, 80, "loss @0");
    headless_type(workbench, "h");
    headless_expect(workbench, 80, 24, 80, "loss @0");
    headless_type(workbench, "X"); /* logarithmic: of the first steps each is a column or more */
    headless_expect(workbench, 80, 24, 80, "loss @0");
    assert_string_equal(axis_of(workbench), "1 3 10 30 100 300");
    workbench_key(workbench, K_RIGHT);
    headless_expect(workbench, 80, 24, 80, "loss @1");
    workbench_key(workbench, K_RIGHT);
    headless_expect(workbench, 80, 24, 80, "loss @2");
    headless_type(workbench, "X");
    headless_type(workbench, "f+++"); /* 420 … 480 */
    headless_expect(workbench, 80, 24, 80, "━ train");
    assert_string_equal(axis_of(workbench), "420 430 440 450 460 470 480");
    workbench_key(workbench, K_RIGHT);
    headless_expect(workbench, 80, 24, 80, "loss @420");
    workbench_key(workbench, K_LEFT); /* out of the window: it goes along, with some room before the cursor */
    headless_expect(workbench, 80, 24, 80, "loss @419");
    assert_string_equal(axis_of(workbench), "410 420 430 440 450 460");
    headless_type(workbench, "N"); /* back to the event */
    headless_expect(workbench, 80, 24, 80, "loss @240");
    assert_string_equal(axis_of(workbench), "230 240 250 260 270 280");
    assert_true(curve_reaches_the_end(workbench));
    headless_type(workbench, "n"); /* and to the one at the end, where the window follows */
    headless_expect(workbench, 80, 24, 80, "loss @480");
    assert_string_equal(axis_of(workbench), "420 430 440 450 460 470 480");
    workbench_close(workbench);
}

TEST_CASE(a_zoomed_window_moves_between_the_first_step_and_the_newest)
{
    char home[1024];
    fill_five_hundred("pan", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "zH"); /* nothing lies before the whole run */
    headless_expect(workbench, 80, 24, 80, "all is shown");
    headless_type(workbench, "+++"); /* 420 … 480 */
    headless_expect(workbench, 80, 24, 80, "━ train");
    headless_type(workbench, "H"); /* 390 … 450 */
    assert_string_equal(axis_of(workbench), "390 400 410 420 430 440 450");
    assert_true(curve_reaches_the_end(workbench));
    headless_type(workbench, "L");
    assert_string_equal(axis_of(workbench), "420 430 440 450 460 470 480");
    headless_type(workbench, "L");
    assert_string_equal(axis_of(workbench), "420 430 440 450 460 470 480");
    for (int i = 0; i < 20; i++) headless_type(workbench, "H");
    assert_string_equal(axis_of(workbench), "0 10 20 30 40 50 60");
    workbench_close(workbench);
}

TEST_CASE(charts_begin_at_the_first_recorded_step)
{
    static const struct fill fork = {
        .name = "fork", .total_steps = 1200, .spike_step = -1, .keep_alive = true, .status = RUN_FINISHED};
    char home[1024];
    struct fill_run run;
    store_fixture_home("fork", home, sizeof home);
    fill_run(home, &fork, &run);
    struct workbench *workbench = headless_open(home, "fork");
    follow_again(workbench, &run, &fork, 1000, 1100);
    fill_end(&run, RUN_FINISHED, "");
    workbench_tick(workbench, clock_wall());
    headless_type(workbench, "z");
    assert_string_equal(axis_of(workbench), "1000 1020 1040 1060 1080");
    workbench_key(workbench, K_HOME);
    headless_expect(workbench, 80, 24, 80, "loss @1000");
    headless_type(workbench, "h");
    headless_expect(workbench, 80, 24, 80, "loss @1000");
    headless_type(workbench, "+"); /* around the cursor, but not before the first step */
    assert_string_equal(axis_of(workbench), "1000 1010 1020 1030 1040");
    workbench_close(workbench);
}

/* The cells of a style that hold dots, in columns from..to. */
static int dots_of(struct workbench *workbench, enum style style, int from, int to)
{
    struct grid grid = headless_draw(workbench, 80, 24);
    int count = 0;
    for (int y = 0; y < grid.h; y++)
        for (int x = from; x < to; x++) {
            const struct cell *cell = &grid.cells[y * grid.w + x];
            count += cell->glyph > 0x2800 && cell->glyph < 0x2900 && cell->style == style;
        }
    grid_release(&grid);
    return count;
}

TEST_CASE(a_fork_shows_the_steps_of_its_parent_dimmed)
{
    static const struct fill parent = {.name = "parent",
                                       .steps = 1000,
                                       .total_steps = 1000,
                                       .eval_every = 100,
                                       .spike_step = -1,
                                       .status = RUN_FINISHED};
    static const struct fill fork = {
        .name = "fork", .total_steps = 1000, .spike_step = -1, .keep_alive = true, .status = RUN_FINISHED};
    char home[1024];
    struct fill_run run;
    store_fixture_home("parent", home, sizeof home);
    fill_run(home, &parent, &run);
    fill_run(home, &fork, &run);
    store_fixture_sql(home, "update runs set parent_step = 500, parent_id ="
                            " (select id from runs where name = 'parent') where name = 'fork'");
    struct workbench *workbench = headless_open(home, "fork");
    follow_again(workbench, &run, &fork, 500, 1000);
    fill_end(&run, RUN_FINISHED, "");
    workbench_tick(workbench, clock_wall());
    headless_type(workbench, "z");
    assert_string_equal(axis_of(workbench), "0 200 400 600 800");
    int fork_x = CHART_MARGIN + (80 - CHART_MARGIN) / 2;
    assert_int_equal(dots_of(workbench, STYLE_TRAIN, 0, fork_x - 2), 0);
    assert_true(dots_of(workbench, STYLE_DIM, 0, fork_x - 2) > 20);
    assert_true(dots_of(workbench, STYLE_TRAIN, fork_x + 2, 80) > 20);
    assert_int_equal(dots_of(workbench, STYLE_DIM, fork_x + 2, 80), 0);
    workbench_close(workbench);
}

/* --- what is read for the charts --- */

TEST_CASE(a_window_is_read_as_finely_as_it_needs)
{
    static const struct fill lasting = {
        .name = "long", .steps = 20000, .total_steps = 20000, .spike_step = -1, .status = RUN_FINISHED};
    char home[1024];
    struct err err = {0};
    struct fill_run run;
    struct run_model model;
    store_fixture_home("levels", home, sizeof home);
    fill_run(home, &lasting, &run);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_model_open(&model, store, run.id, &err), STATUS_OK);
    assert_int_equal(run_model_choose(&model, store, "loss,grad_norm", &err), STATUS_OK);
    assert_true(model.series[TRACE_LOSS].level > 1);
    const struct series *curve = &model.series[TRACE_LOSS];
    assert_true(curve->count <= 2 * MODEL_POINTS && curve->count >= MODEL_POINTS / 4 && !curve->smooth);
    assert_int_equal(run_model_set_range(&model, store, 0, MODEL_SHORT_RUN - 1, &err), STATUS_OK);
    assert_int_equal(model.series[TRACE_LOSS].level, 1);
    assert_int_equal(run_model_set_range(&model, store, 0, MODEL_SHORT_RUN + 1, &err), STATUS_OK);
    assert_true(model.series[TRACE_LOSS].level > 1);
    /* smoothed: the average of the steps themselves, at the same resolution */
    assert_int_equal(run_model_set_range(&model, store, 0, -1, &err), STATUS_OK);
    int level = model.series[TRACE_LOSS].level;
    assert_int_equal(run_model_smooth(&model, store, 0, 0.9, &err), STATUS_OK);
    assert_int_equal(model.series[TRACE_LOSS].level, level);
    assert_true(curve->count <= 2 * MODEL_POINTS);
    double acc = 0, weight = 0;
    size_t at = 0;
    for (int64_t step = 0; step < 20000; step++) {
        acc = 0.9 * acc + 0.1 * fill_loss(step);
        weight = 0.9 * weight + 0.1;
        if (step < curve->points[at].last_step && step < 19999) continue;
        assert_float_equal(curve->smooth[at], acc / weight, 1e-6);
        assert_true(curve->points[at].last_step >= step);
        at++;
    }
    assert_int_equal(at, curve->count);
    /* the other chart has an average of its own, and is read when it is shown */
    assert_int_equal(run_model_series(&model, 1)->count, 0);
    for (int smooth = 0; smooth < 2; smooth++) {
        if (smooth) assert_int_equal(run_model_smooth(&model, store, 1, 0.99, &err), STATUS_OK);
        assert_int_equal(run_model_show(&model, store, 1, &err), STATUS_OK);
        assert_true(run_model_series(&model, 1)->count > 0);
        assert_int_equal(run_model_series(&model, 1)->smooth != NULL, smooth);
    }
    run_model_release(&model);
    store_close(store);
    /* and the view asks for it: zoomed out a chart is of buckets, zoomed in of steps */
    struct workbench *workbench = headless_open(home, "long");
    headless_type(workbench, "z++++++++++"); /* 19 steps of 20,000 */
    struct grid grid = headless_draw(workbench, 80, 24);
    int columns = 0;
    for (int x = 7; x < 80; x++) {
        bool dots = false;
        for (int y = 5; y < 22; y++) dots = dots || grid.cells[y * 80 + x].style == STYLE_TRAIN;
        columns += dots;
    }
    assert_true(columns > 70);
    grid_release(&grid);
    char row[64];
    workbench_key(workbench, K_LEFT);
    workbench_key(workbench, K_LEFT);
    snprintf(row, sizeof row, "loss @19998 ━ train %.3f", fill_loss(19998));
    headless_expect(workbench, 80, 24, 80, row); /* exactly that step's */
    workbench_close(workbench);
}

TEST_CASE(a_resume_asks_with_steps_as_the_view_writes_them)
{
    struct fill_quiet quiet;
    fill_quiet(&quiet, "quiet-numbers");
    run_lock_release(&quiet.lock);
    store_fixture_sql(quiet.home, "update runs set status = 'stopped', total_steps = 2000");
    struct workbench *workbench = headless_open(quiet.home, "mortal");
    headless_expect(workbench, 80, 24, 80, "20 / 2,000 steps");
    headless_type(workbench, "r");
    headless_expect(workbench, 80, 24, 80, "It ended after 20 of 2,000 steps.");
    workbench_close(workbench);
    store_close(quiet.store);
}

TEST_CASE(a_greeting_stays_until_a_key_or_for_a_minute)
{
    struct fill_quiet quiet;
    fill_quiet(&quiet, "quiet-greeting");
    for (int key = 0; key < 2; key++) {
        struct workbench *workbench = headless_open_with(quiet.home, "mortal", "how to leave");
        double now = workbench->now;
        workbench_tick(workbench, now + 50);
        headless_expect(workbench, 80, 24, 80, "how to leave");
        if (key) workbench_key(workbench, 'm');
        workbench_tick(workbench, now + (key ? 51 : 61));
        headless_expect_not(workbench, 80, 24, "how to leave");
        headless_type(workbench, ">y");
        workbench_tick(workbench, now + 200); /* other messages wait for a key */
        headless_expect(workbench, 80, 24, 80, "learning rate by 2;");
        store_fixture_sql(quiet.home, "delete from orders");
        workbench_close(workbench);
    }
    run_lock_release(&quiet.lock);
    store_close(quiet.store);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_shows_in_every_view_while_nothing_is_written),
        cmocka_unit_test(a_trainer_that_hangs_is_said_to_be_silent),
        cmocka_unit_test(after_a_zoom_the_newest_step_is_followed_again),
        cmocka_unit_test(a_zoom_halves_and_doubles_around_the_cursor),
        cmocka_unit_test(the_cursor_moves_by_columns_and_takes_the_window_with_it),
        cmocka_unit_test(an_order_is_reported_when_it_has_taken_effect),
        cmocka_unit_test(every_order_asks_for_what_its_key_says),
        cmocka_unit_test(the_log_and_the_configuration_notice_that_the_trainer_died),
        cmocka_unit_test(that_a_run_was_deleted_elsewhere_is_said_once),
        cmocka_unit_test(a_database_that_was_replaced_is_told),
        cmocka_unit_test(an_older_sample_stays_under_its_readers_eyes),
        cmocka_unit_test(what_was_read_stays_when_the_store_fails),
        cmocka_unit_test(a_zoomed_window_moves_between_the_first_step_and_the_newest),
        cmocka_unit_test(charts_begin_at_the_first_recorded_step),
        cmocka_unit_test(a_fork_shows_the_steps_of_its_parent_dimmed),
        cmocka_unit_test(a_window_is_read_as_finely_as_it_needs),
        cmocka_unit_test(a_resume_asks_with_steps_as_the_view_writes_them),
        cmocka_unit_test(a_greeting_stays_until_a_key_or_for_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
