/* The part of its charts that the view of a run shows: zooming, moving, the cursor, what is read for it. */
#include <locale.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"
#include "tui/view/chart_window.h"
#include "tui/view/run_model.h"

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
    headless_close(workbench);
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
}

TEST_CASE(a_place_that_brings_the_newest_step_into_the_window_is_followed)
{
    static const struct {
        int64_t place, end, cursor;
    } cases[] = {{50, 60, 50}, {20, 60, 20}, {60, 60, 60}, {19, 49, 19},   {70, 80, 70},
                 {89, 99, 89}, {90, -1, 90}, {95, -1, 95}, {200, -1, 100}, {-5, 30, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct chart_window window = {.newest = 100, .span = 40, .end = 60, .cursor = -1};
        chart_window_place(&window, cases[i].place);
        assert_int_equal(window.cursor, cases[i].cursor);
        assert_int_equal(window.end, cases[i].end);
    }
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
    /* among other charts it brings what was read, and the new ones are empty */
    size_t read = run_model_series(&model, 1)->count;
    assert_int_equal(run_model_choose(&model, store, "loss,lr,grad_norm", &err), STATUS_OK);
    assert_int_equal(run_model_series(&model, 1)->count, 0);
    assert_int_equal(run_model_series(&model, 2)->count, read);
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
}

/* The newest or the cursor's value in the title is that of the step named beside it, whatever the points. */
TEST_CASE(the_title_shows_the_value_of_the_step_itself)
{
    static const struct fill lasting = {
        .name = "long", .steps = 20000, .total_steps = 20000, .spike_step = -1, .status = RUN_FINISHED};
    char home[1024], words[64];
    struct fill_run run;
    store_fixture_home("exact", home, sizeof home);
    fill_run(home, &lasting, &run);
    store_fixture_sql(home, "update steps set loss = 3 + (step % 7)");
    struct workbench *workbench = headless_open(home, "long");
    headless_type(workbench, "z");
    headless_expect(workbench, 80, 24, 80, "━ train"); /* drawn: it has columns */
    for (int i = 0; i < 20; i++) {
        workbench_key(workbench, K_LEFT);
        const char *at = strstr(headless_row_with(workbench, 80, 24, "loss @"), "@");
        int64_t step = strtoll(at + 1, NULL, 10);
        snprintf(words, sizeof words, "loss @%lld ━ train %d.000", (long long)step, 3 + (int)(step % 7));
        headless_expect(workbench, 80, 24, 80, words);
    }
    workbench_key(workbench, K_END);
    store_fixture_sql(home, "update steps set loss = 9e999, nan = nan | 1 where step = 19999");
    workbench_tick(workbench, workbench->now + 1);
    headless_expect(workbench, 80, 24, 80, "━ train inf");
    workbench_key(workbench, K_LEFT);
    headless_expect(workbench, 80, 24, 80, "loss @19999 ━ train inf");
}

/* The first column that the curve has dots in. */
static int first_column(struct workbench *workbench)
{
    struct grid grid = headless_draw(workbench, 80, 24);
    int first = grid.w;
    for (int y = 5; y < 22; y++)
        for (int x = 79; x >= CHART_MARGIN; x--)
            if (grid.cells[y * 80 + x].style == STYLE_TRAIN && x < first) first = x;
    grid_release(&grid);
    return first;
}

TEST_CASE(logarithmic_steps_of_a_long_run_begin_with_its_first_ones)
{
    char home[1024];
    struct fill_run run;
    static const struct fill lasting = {
        .name = "long", .steps = 60000, .total_steps = 60000, .spike_step = -1, .status = RUN_FINISHED};
    store_fixture_home("logarithmic", home, sizeof home);
    fill_run(home, &lasting, &run);
    struct workbench *workbench = headless_open(home, "long");
    headless_type(workbench, "zX");
    headless_expect(workbench, 80, 24, 80, "━ train");
    assert_int_equal(first_column(workbench), CHART_MARGIN);
    headless_close(workbench);
    workbench = headless_open(home, "long"); /* as it is remembered */
    headless_type(workbench, "z");
    assert_int_equal(first_column(workbench), CHART_MARGIN);
}

TEST_CASE(how_a_run_is_looked_at_holds_in_the_comparison)
{
    static const char *const names[] = {"one", "other"};
    char home[1024];
    store_fixture_home("looked-at", home, sizeof home);
    for (int i = 0; i < 2; i++) {
        struct fill fill = {
            .name = names[i], .steps = 301, .total_steps = 301, .spike_step = -1, .status = RUN_FINISHED};
        struct fill_run run;
        fill_run(home, &fill, &run);
    }
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "aC");
    headless_expect(workbench, 120, 40, 120, "▸loss by step");
    headless_type(workbench, "\rmyXo"); /* smoothed, logarithmic both ways, all values */
    headless_expect(workbench, 120, 40, 120, "▸loss log ema 0.9");
    headless_type(workbench, "q");
    headless_expect(workbench, 120, 40, 120, "▸loss by step log ema 0.9", " 1 2 5 10 ");
    headless_type(workbench, "\rmmmyXoq");
    headless_expect(workbench, 120, 40, 120, "▸loss by step ─");
    headless_expect_not(workbench, 120, 40, " 1 2 5 10 ");
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
