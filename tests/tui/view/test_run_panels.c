/* The view of one run on a grid alone: its charts side by side, samples, events, another run's loss, header
 * and side panel. */
#include <locale.h>

#include "core/base/clock.h"
#include "tests/cmocka.h"
#include "tests/counted.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"

/* For each test a fresh home with the run "ended", and the workbench that the test opens on it. */
static char home[1024];
static struct workbench *workbench;

static int set_up(void **state)
{
    (void)state;
    fill_five_hundred("panels", home, sizeof home);
    workbench = NULL;
    return 0;
}

/* Opens it anew. */
static void open_run(const char *name)
{
    headless_close(workbench);
    workbench = headless_open(home, name);
}

#define TEST(name) TEST_CASE_WITH(name, set_up, kept_teardown)

TEST(each_chart_has_its_own_focus_scale_and_size)
{
    open_run("ended");
    static const char *const titles[] = {"▸loss",       "▸learning rate", "▸gradient norm",
                                         "▸throughput", "▸step time",     "▸perplexity"};
    enum { TITLES = sizeof titles / sizeof *titles };
    for (int i = 0; i < TITLES; i++) {
        headless_expect(workbench, 120, 40, 120, titles[i]);
        headless_expect(workbench, 80, 24, 80, titles[i]); /* next to the loss, as only two fit */
        headless_expect(workbench, 80, 24, 80, i ? " loss" : " learning rate");
        headless_type(workbench, "z"); /* alone */
        headless_expect(workbench, 120, 40, 120, titles[i]);
        if (i && i < 5) headless_expect_not(workbench, 120, 40, "━ train");
        headless_type(workbench, "z");
        workbench_key(workbench, K_TAB);
    }
    for (int i = TITLES; i > 3; i--) workbench_key(workbench, K_BACK_TAB);
    headless_expect(workbench, 120, 40, 120, titles[3]);
    headless_type(workbench, "y");
    headless_expect(workbench, 120, 40, 120, "▸throughput tokens/s log");
    headless_expect_not(workbench, 120, 40, "loss log");
    headless_type(workbench, "y");
    headless_expect_not(workbench, 120, 40, "tokens/s log");
}

/* Adds what a GPU, two ranks and `anneal generate` record. */
static void add_all_there_is(void)
{
    store_fixture_sql(home, "insert into measures(run_id, segment, step, name, value)"
                            " select id, 1, 100, 'quiz_acc', 0.25 from runs union all"
                            " select id, 1, 100, 'odd,=name', 0.5 from runs union all"
                            " select id, 1, 400, 'quiz_acc', 0.75 from runs");
    store_fixture_sql(
        home, "insert into gpu_samples(run_id, wall_time, gpu, utilization_pct, power_w, process_bytes)"
              " select run_id, wall_time - 0.001, 1, step % 100, 300 + step, 3221225472 from steps");
    store_fixture_sql(home, "insert into ranks(run_id, segment, step, rank, step_ms, wait_ms)"
                            " select run_id, 1, step + 1, 0, 40, 2 from steps union all"
                            " select run_id, 1, step + 1, 1, 44, 7 from steps");
    store_fixture_sql(home, "insert into inference(run_id, wall_time, checkpoint, decode_tokens_per_sec)"
                            " select id, 1, 'step-200', 77 from runs union all"
                            " select id, 2, 'step-400', 88.5 from runs union all"
                            " select id, 3, '../../etc', 99 from runs");
}

TEST(every_quantity_that_a_run_has_is_a_chart)
{
    add_all_there_is();
    open_run("ended");
    static const char *const titles[] = {"▸loss",
                                         "learning rate",
                                         "gradient norm",
                                         "throughput tokens/s",
                                         "step time ms",
                                         "perplexity",
                                         "validation loss",
                                         "odd__name 0.5000",
                                         "quiz_acc 0.7500",
                                         "MFU % of peak",
                                         "clip scale",
                                         "gpu1 busy % 80.00",
                                         "gpu1 memory of the trainer GiB 3.000",
                                         "gpu1 power W 780.0",
                                         "step time of ranks ms 4",
                                         "waiting of ranks ms ",
                                         "generation tokens/s 88.50"};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        headless_expect(workbench, 300, 90, 240, titles[i]);
    /* a small screen shows the focused one beside the loss */
    for (int i = 0; i < 8; i++) workbench_key(workbench, K_TAB);
    headless_expect(workbench, 80, 24, 80, "▸quiz_acc 0.7500", " loss");
    headless_type(workbench, "m");
    headless_expect(workbench, 80, 24, 80, "quiz_acc is shown as it is");
    store_fixture_sql(home, "insert into measures(run_id, segment, step, name, value)"
                            " select id, 1, 450, 'quiz_acc', 0.875 from runs union all"
                            " select id, 1, 450, 'late_acc', 0.125 from runs");
    workbench_tick(workbench, workbench->now + 1);
    headless_expect(workbench, 300, 90, 240, "quiz_acc 0.8750", "late_acc 0.1250");
}

TEST(charts_survive_whatever_the_store_holds)
{
    struct grid grid = {.level = GLYPHS_BRAILLE};
    add_all_there_is();
    store_fixture_sql(home, "insert into measures(run_id, segment, step, name, value)"
                            " select id, 1, 401, char(27) || ']0;title' || char(7), 1e300 from runs union all"
                            " select id, 1, 401, '', -1e300 from runs union all"
                            " select id, 1, 402, '日本語 \U0001F600', 1 from runs union all"
                            " select id, 1, 403, hex(zeroblob(400)), 1 from runs");
    store_fixture_sql(home, "update gpu_samples set utilization_pct = 1e308 where process_bytes > 0;"
                            "update gpu_samples set power_w = 'text';"
                            "insert into gpu_samples(run_id, wall_time, gpu, power_w)"
                            " select id, 9e999, -7, -9e999 from runs;"
                            "update ranks set step_ms = -1e300 where step % 2");
    store_fixture_sql(home, "insert into inference(run_id, wall_time, checkpoint, decode_tokens_per_sec)"
                            " select id, 1, 'step-99999999999999999999', 1 from runs union all"
                            " select id, 1, 'step-1x', 9e999 from runs");
    open_run("ended");
    headless_expect(workbench, 300, 90, 240, "日本語");
    headless_type(workbench, "y+m");
    for (int size = 0; size < 40; size++) {
        assert_int_equal(grid_resize(&grid, 40 + size * 9, 10 + size * 3, NULL), STATUS_OK);
        workbench_key(workbench, K_TAB);
        workbench_draw(workbench, &grid);
    }
    headless_type(workbench, "x");
    headless_expect(workbench, 120, 60, 120, "]0;title");
    /* steps that no run can reach: values by time would need a slot for each of very many steps */
    store_fixture_sql(home, "insert into steps(run_id, segment, step, wall_time, loss)"
                            " select id, 1, 1 << 59, 1e10, 1 from runs;"
                            "insert into evals(run_id, segment, step, val_loss)"
                            " select id, 1, 9223372036854775807, 1 from runs");
    open_run("ended");
    headless_type(workbench, "0-+");
    headless_expect(workbench, 300, 90, 240, "▸loss");
    grid_release(&grid);
}

TEST(charts_are_chosen_and_remembered_with_their_scales)
{
    add_all_there_is();
    open_run("ended");
    headless_type(workbench, "x");
    headless_expect(workbench, 120, 40, 120, "Charts 17 of 17", "[ 1] loss");
    workbench_key(workbench, ' '); /* no loss; the line is now that of the learning rate */
    headless_expect(workbench, 120, 40, 120, "Charts 16 of 17", "[ 1] lr");
    headless_type(workbench, "l"); /* after the gradient norm */
    headless_expect(workbench, 120, 40, 120, "[ 1] grad_norm");
    headless_type(workbench, "q");
    headless_expect(workbench, 120, 40, 120, "▸gradient norm");
    headless_expect_not(workbench, 120, 40, "━ train");
    headless_type(workbench, "ymm+"); /* logarithmic, 0.99, half the steps */
    headless_expect(workbench, 120, 40, 120, "▸gradient norm log ema 0.99 ", "learning rate ");
    headless_expect_not(workbench, 120, 40, "learning rate log");
    const char *newest = headless_row_with(workbench, 120, 40, "480");
    headless_expect_not(workbench, 120, 40, " 100 ");
    assert_non_null(newest);
    open_run("ended");
    headless_expect(workbench, 120, 40, 120, "▸gradient norm log ema 0.99 ");
    headless_expect_not(workbench, 120, 40, "━ train");
    headless_expect_not(workbench, 120, 40, " 100 "); /* the zoom of this run */
    headless_type(workbench, "x");
    workbench_key(workbench, K_CTRL('u'));
    headless_expect(workbench, 120, 40, 120, "Charts 17 of 17", "[ 1] loss", "[ 2] lr", "[ 3] grad_norm");
    headless_type(workbench, "q0");
    headless_expect(workbench, 120, 40, 120, " loss ━ train", "▸gradient norm", " 100 ");
}

TEST(the_focus_stays_on_its_chart_when_others_come_or_go)
{
    open_run("ended");
    workbench_key(workbench, K_BACK_TAB); /* the last one */
    headless_type(workbench, "z");
    headless_expect(workbench, 80, 24, 80, "▸clip scale");
    store_fixture_sql(home, "insert into measures(run_id, segment, step, name, value)"
                            " select run_id, segment, step, 'accuracy', 0.5 from evals");
    workbench_tick(workbench, workbench->now + 2);
    headless_expect(workbench, 80, 24, 80, "▸clip scale");
    headless_type(workbench, "x q"); /* without the loss */
    headless_expect(workbench, 80, 24, 80, "▸clip scale");
    headless_type(workbench, "x");
    workbench_key(workbench, K_END);
    headless_type(workbench, "k q"); /* without it */
    headless_expect(workbench, 80, 24, 80, "▸learning rate");
}

TEST(a_classifier_shows_its_confusion_instead_of_samples)
{
    store_fixture_sql(home,
                      "insert into classes(run_id, segment, step, label, precision, recall, f1, support)"
                      " select id, 1, 300, 'spam', 0.1, 0.1, 0.1, 8 from runs union all"
                      " select id, 1, 400, 'ham', 0.75, 0.6, 0.6667, 5 from runs union all"
                      " select id, 1, 400, 'spam', 0.5, 0.875, 0.6364, 4 from runs;"
                      "insert into confusion(run_id, segment, step, label, predicted, count)"
                      " select id, 1, 400, 'ham', 'ham', 31 from runs union all"
                      " select id, 1, 400, 'ham', 'spam', 27 from runs union all"
                      " select id, 1, 400, 'spam', 'spam', 46 from runs;"
                      "insert into measures(run_id, segment, step, name, value)"
                      " select id, 1, 400, 'accuracy', 0.8125 from runs");
    open_run("ended");
    headless_expect(workbench, 120, 40, 120, "classes @400", "0.7500 0.6000 0.6667 31 27",
                    "0.5000 0.8750 0.6364 0 46");
    headless_expect_not(workbench, 120, 40, "0.1000");
    headless_expect_not(workbench, 120, 40, " sample");
    headless_expect(workbench, 80, 24, 80, "0.7500 0.6000 0.6667 31 27", "0.5000 0.8750 0.6364 0 46");
    headless_expect_not(workbench, 80, 24, "more of them");
    headless_expect(workbench, 80, 24, 80, "accuracy 0.812");
    headless_expect(workbench, 200, 50, 200, "step, loss, accuracy");
    headless_expect(workbench, 160, 90, 120, " accuracy 0.8125");
    store_fixture_sql(home, "update classes set label = 'long-ham' where label = 'ham'");
    workbench_tick(workbench, workbench->now + 1);
    headless_expect(workbench, 80, 24, 80, "F1 long-ham spam");
    headless_expect(workbench, 120, 40, 120, "columns: the label that the model gave");
    store_fixture_sql(home, "delete from confusion"); /* an import may lack it */
    workbench_tick(workbench, workbench->now + 2);
    headless_expect(workbench, 120, 40, 120, "classes @400", "0.5000 0.8750 0.6364");
    headless_expect_not(workbench, 120, 40, "columns: the label that the model gave");
}

TEST(several_ranks_are_listed_slowest_first)
{
    open_run("ended");
    headless_expect_not(workbench, 120, 40, "slowest first"); /* one rank has none */
    store_fixture_sql(
        home, "insert into ranks(run_id, segment, step, rank, host, device, step_ms, wait_ms, sent_bytes,"
              " memory_bytes) select id, 1, 300, 0, 'former', 'cpu', 99, 1, 1, 1 from runs union all"
              " select id, 1, 400, 0, 'ada', 'cpu', 2.5, 6, 1048576, 2097152 from runs union all"
              " select id, 1, 400, 1, 'grace', 'cpu', 7.5, 1, 1048576, 2097152 from runs union all"
              " select id, 1, 400, 2, 'emmy', 'cpu', 2.25, 6.25, 1048576, 2097152 from runs");
    workbench_tick(workbench, workbench->now + 1);
    headless_expect(workbench, 120, 40, 120, "ranks @400 slowest first", "1 grace 7.50 1.00 1.0 MiB 2.0 MiB",
                    "0 ada 2.50 6.00", "2 emmy 2.25");
    headless_expect_not(workbench, 120, 40, "former");
    headless_expect(workbench, 120, 40, 120, " sample");
    headless_expect(workbench, 80, 24, 80, "1 grace 7.50"); /* where there is room for one alone */
    headless_expect_not(workbench, 80, 24, "ada");
    for (int h = 22; h <= 60; h++) headless_expect(workbench, 80, h, 80, "1 grace 7.50");
    for (int slow = 0; slow < 2; slow++) { /* the slowest needs half as much again, or more */
        store_fixture_sql(home, slow ? "update ranks set step_ms = 3.7501 where rank = 1"
                                     : "update ranks set step_ms = 3.75 where rank = 1");
        workbench_tick(workbench, workbench->now + 2);
        struct grid grid = headless_draw(workbench, 120, 40);
        char row[1024];
        int y = 0;
        while (y < 39 && !strstr(grid_row(&grid, y, row, sizeof row), "grace")) y++;
        assert_int_equal(grid.cells[y * 120 + 6].glyph, 'g');
        assert_int_equal(grid.cells[y * 120 + 6].style, slow ? STYLE_WARN : STYLE_TEXT);
        grid_release(&grid);
    }
}

TEST(classes_that_have_no_room_are_reached_with_keys)
{
    store_fixture_sql(home,
                      "with recursive n(i) as (select 10 union all select i + 1 from n where i < 29)"
                      " insert into classes(run_id, segment, step, label, precision, recall, f1, support)"
                      " select id, 1, 400, 'kind-' || i, 0.5, 0.5, 0.5, i from runs, n");
    open_run("ended");
    headless_expect(workbench, 80, 24, 80, "classes @400 Up Down more of them", "kind-10 10 0.5000",
                    "kind-13 13 0.5000");
    headless_expect_not(workbench, 80, 24, "kind-14");
    headless_type(workbench, "jj");
    headless_expect(workbench, 80, 24, 80, "kind-12 12 0.5000");
    headless_expect_not(workbench, 80, 24, "kind-11");
    for (int i = 0; i < 30; i++) headless_type(workbench, "j");
    headless_expect(workbench, 80, 24, 80, "kind-29 29 0.5000");
    headless_type(workbench, "k");
    headless_expect_not(workbench, 80, 24, "kind-29");
    headless_expect(workbench, 80, 24, 80, "kind-28 28 0.5000");
}

TEST(every_cell_of_a_large_matrix_is_shown)
{
    store_fixture_sql(home,
                      "with recursive n(i) as (select 10 union all select i + 1 from n where i < 19)"
                      " insert into classes(run_id, segment, step, label, precision, recall, f1, support)"
                      " select id, 1, 400, 'kind-' || i, 0.5, 0.5, 0.5, i from runs, n;"
                      "with recursive n(i) as (select 10 union all select i + 1 from n where i < 19)"
                      " insert into confusion(run_id, segment, step, label, predicted, count)"
                      " select id, 1, 400, 'kind-' || a.i, 'kind-' || b.i, b.i from runs, n a, n b");
    open_run("ended");
    for (int kind = 10; kind < 20; kind++) {
        char row[120];
        snprintf(row, sizeof row, "kind-%d %d 0.5000 0.5000 0.5000 10 11 12 13 14 15 16 17 18 19", kind,
                 kind);
        headless_expect(workbench, 160, 60, 160, row);
    }
    store_fixture_sql(home,
                      "update confusion set count = case label when 'kind-10' then 12345 else 123456 end"
                      " where label = predicted"); /* cells of six columns */
    workbench_tick(workbench, workbench->now + 1);
    headless_expect(workbench, 120, 60, 120, "kind-10 10 0.5000 0.5000 0.5000 12345 11 12",
                    "kind-11 11 0.5000 0.5000 0.5000 10 123k 12");
}

TEST(an_answer_begins_on_a_line_of_its_own)
{
    store_fixture_sql(home,
                      "update runs set config = '[data]' || char(10) || 'format = instructions' || char(10);"
                      "update samples set prompt = 'Verse 3?', text = 'It is so.'");
    open_run("ended");
    headless_expect(workbench, 120, 40, 120, "It is so.");
    headless_expect_not(workbench, 120, 40, "Verse 3?It");
}

TEST(drawing_the_same_screen_again_allocates_nothing)
{
    struct grid grid = {.level = GLYPHS_BRAILLE};
    if (!heap_counts()) skip();
    open_run("ended");
    assert_int_equal(grid_resize(&grid, 160, 48, NULL), STATUS_OK);
    for (const char *key = "ym"; *key; key++) { /* logarithmic, and smoothed */
        workbench_key(workbench, (uint32_t)*key);
        workbench_draw(workbench, &grid);
        int64_t before = heap_allocations();
        heap_watch(true);
        workbench_draw(workbench, &grid);
        heap_watch(false);
        assert_int_equal(heap_allocations(), before);
    }
    grid_release(&grid);
}

TEST(smoothing_goes_round_and_spares_the_learning_rate)
{
    open_run("ended");
    headless_type(workbench, "m");
    headless_expect(workbench, 120, 40, 120, "loss smoothed by 0.9 a step", "loss ema 0.9 ");
    headless_expect_not(workbench, 120, 40, "gradient norm ema");
    workbench_key(workbench, K_TAB);
    headless_type(workbench, "m");
    headless_expect(workbench, 120, 40, 120, "learning rate is shown as it is");
    headless_expect_not(workbench, 120, 40, "learning rate ema");
    workbench_key(workbench, K_TAB);
    headless_type(workbench, "mm");
    headless_expect(workbench, 120, 40, 120, "gradient norm ema 0.99 ", "loss ema 0.9 ");
    headless_type(workbench, "m");
    headless_expect(workbench, 120, 40, 120, "gradient norm ema 0.999 ");
    headless_type(workbench, "m");
    headless_expect(workbench, 120, 40, 120, "gradient norm without smoothing");
    headless_expect_not(workbench, 120, 40, "norm ema");
}

TEST(sample_texts_are_leafed_through)
{
    open_run("ended");
    headless_expect(workbench, 120, 40, 120, "sample @480 (Up: older)", "In the beginning of the house");
    headless_type(workbench, "kkk"); /* there are two */
    headless_expect(workbench, 120, 40, 120, "sample @240 (older; Down: newer)",
                    "In the beginning was the word");
    headless_type(workbench, "j");
    headless_expect(workbench, 120, 40, 120, "sample @480 (Up: older)");
    headless_type(workbench, "j");
    headless_expect(workbench, 120, 40, 120, "sample @480 (Up: older)");
}

TEST(the_first_of_many_sample_texts_is_reached)
{
    store_fixture_sql(home, "delete from samples;"
                            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300)"
                            " insert into samples(run_id, segment, step, prompt, text)"
                            " select runs.id, 1, i, 'the text', ' number ' || i from n, runs");
    open_run("ended");
    headless_expect(workbench, 120, 40, 120, "sample @300 (Up: older)");
    headless_press(workbench, K_UP, 400);
    headless_expect(workbench, 120, 40, 120, "sample @1 (older; Down: newer)", "the text number 1 ");
}

TEST(all_events_and_orders_of_a_long_run_are_marked)
{
    store_fixture_sql(home, "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300)"
                            " insert into events(run_id, segment, step, wall_time, level, text)"
                            " select runs.id, 1, i, 1, 'warning', 'number ' || i from n, runs;"
                            "with recursive n(i) as (select 20 union all select i + 1 from n where i < 100)"
                            " insert into orders(run_id, issued_at, verb, applied_step)"
                            " select runs.id, 1, 'sample', i from n, runs");
    open_run("ended");
    headless_expect_row(workbench, 80, 40, "12┤!!!!", "!!!! ");
    headless_expect_row(workbench, 80, 40, "│   ▲▲▲▲▲", "▲▲▲▲▲ ");
    headless_type(workbench, "n");
    headless_expect(workbench, 80, 40, 80, "@1 number 1");
}

TEST(each_evaluation_of_a_classifier_has_its_accuracy)
{
    store_fixture_sql(home,
                      "insert into classes(run_id, segment, step, label, precision, recall, f1, support)"
                      " select id, 1, 450, 'ham', 0.75, 0.6, 0.6667, 5 from runs;"
                      "insert into measures(run_id, segment, step, name, value)"
                      " select run_id, segment, step, 'accuracy', 0.5 + step / 1e5 from evals;"
                      "with recursive n(i) as (select 1 union all select i + 1 from n where i < 9)"
                      " insert into measures(run_id, segment, step, name, value)"
                      " select run_id, segment, step, 'measure' || i, 0.25 from evals, n");
    open_run("ended");
    headless_expect(workbench, 200, 60, 200, "0.5045", "0.5010"); /* the newest, and an old one */
}

TEST(keys_lead_to_every_event_that_has_a_step)
{
    store_fixture_sql(home, "insert into events(run_id, segment, step, wall_time, level, text)"
                            " select id, 1, 0, 1e9, 'info', 'it began' from runs union all"
                            " select id, 1, null, 1e9, 'error', 'nowhere' from runs union all"
                            " select id, 1, 240, 2e9, 'warning', 'and once more' from runs");
    open_run("ended");
    headless_type(workbench, "n");
    headless_expect(workbench, 120, 40, 120, "loss @0", "@0 it began");
    headless_type(workbench, "n");
    headless_expect(workbench, 120, 40, 120, "loss @240");
    headless_expect(workbench, 80, 24, 80, "@240 the loss rose"); /* of several the one that came first */
    headless_type(workbench, "n");
    headless_expect(workbench, 120, 40, 120, "loss @480");
    headless_type(workbench, "n");
    headless_expect(workbench, 120, 40, 120, "no event after this step");
    headless_type(workbench, "NNN");
    headless_expect(workbench, 120, 40, 120, "no event before this step", "loss @0");
    headless_type(workbench, "fN"); /* without a cursor: the last one */
    headless_expect(workbench, 120, 40, 120, "loss @480");
}

TEST(an_evaluation_after_the_last_step_is_drawn)
{
    struct fill_run run;
    store_fixture_home("last-best", home, sizeof home);
    fill_run(home,
             &(struct fill){
                 .name = "forty", .steps = 40, .total_steps = 40, .spike_step = -1, .status = RUN_FINISHED},
             &run);
    /* steps 0 to 39, and as the trainer does, evaluations by steps done */
    store_fixture_sql(
        home,
        "with recursive n(i) as (select 10 union all select i + 10 from n where i < 40)"
        " insert into evals(run_id, segment, step, val_loss) select id, 1, i, 6 - i / 20.0 from n, runs;"
        "update runs set best_step = 40, best_val_loss = 4");
    open_run("forty");
    headless_expect(workbench, 80, 24, 80, "40 / 40 steps");
    workbench_key(workbench, K_LEFT); /* the cursor comes in at the newest: the evaluation */
    headless_expect(workbench, 80, 24, 80, "@40 ━ train", "◆ val 4.000");
    struct grid grid = headless_draw(workbench, 80, 24);
    int stars = 0;
    for (int i = 5 * 80; i < 13 * 80; i++) stars += grid.cells[i].glyph == 0x2605;
    assert_int_equal(stars, 1); /* in the plot */
    grid_release(&grid);
}

TEST(an_evaluation_before_the_first_step_may_be_the_best)
{
    store_fixture_sql(home,
                      "insert into evals(run_id, segment, step, val_loss) select id, 1, 0, 1.5 from runs;"
                      "update runs set best_val_loss = 1.5, best_step = 0");
    open_run("ended");
    headless_expect(workbench, 160, 40, 160, "best 1.500 @0 ",
                    "▸loss ━ train 2.552 ◆ val 2.854 ★ best 1.500 @0");
    headless_expect_row(workbench, 200, 60, "        0     1.5", "★");
    headless_close(workbench);
    workbench = headless_open(home, NULL);
    headless_expect(workbench, 200, 24, 200, " 1.500 @0 ");
}

TEST(an_end_has_its_sentence)
{
    static const struct {
        const char *sql, *sentence;
    } ends[] = {
        {"update runs set status = 'crashed'", "its trainer died; r resumes it from the last checkpoint"},
        {"delete from checkpoints",
         "its trainer died; r resumes it from the beginning: it has no checkpoint yet"},
        {"insert into checkpoints(run_id, segment, step, wall_time, path, kind, bytes)"
         " select id, 1, 100, 1e9, 'checkpoints/step-100', 'last', 1 from runs",
         "its trainer died and its checkpoints are gone; b starts it anew"},
        {"update runs set status = 'stopped', message = 'stopped by a signal'",
         "stopped by a signal; r resumes it"},
        {"update runs set status = 'failed', message = 'the disk is full'", "the disk is full"},
        {"update runs set status = 'early_stopped', message = '';"
         "update early_stopping set verdict = 'stop', patience_used = 3 where step = 450",
         "stopped early: 3 evaluations did not improve on 2."},
    };
    open_run("ended");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        store_fixture_sql(home, ends[i].sql);
        workbench_tick(workbench, clock_wall());
        headless_expect(workbench, 120, 40, 120, ends[i].sentence);
    }
}

TEST(before_the_first_step_has_ended_it_says_what_is_done)
{
    static const struct {
        const char *sql, *sentence;
    } moments[] = {
        {"delete from evals; update runs set steps = 0, config = '[eval]' || char(10) || 'every = 100' || "
         "char(10) || "
         "'early = true' || char(10)",
         "evaluating the untrained model, then the first step"},
        {"update runs set config = replace(config, '100', '0')", "the first step is under way"},
        {"update runs set config = replace(replace(config, ' 0', ' 100'), 'true', 'false')",
         "the first step is under way"},
        {"update runs set config = replace(config, 'false', 'true');"
         "insert into evals(run_id, segment, step, val_loss) select id, 1, 0, 7.625 from runs",
         "val 7.625 the first step is under way"},
        {"update runs set status = 'stopped'", "val 7.625 no step has been done"},
    };
    struct fill_quiet *quiet = fill_quiet("beginning");
    strcpy(home, quiet->home);
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        store_fixture_sql(home, moments[i].sql);
        open_run("mortal");
        headless_expect(workbench, 100, 24, 100, moments[i].sentence);
    }
}

TEST(the_side_panel_lists_what_was_recorded)
{
    store_fixture_sql(
        home, "update runs set frozen_parameters = 813696; delete from checkpoints;"
              "insert into checkpoints(run_id, segment, step, wall_time, path, kind, bytes)"
              " select id, 1, 100, 1e9, 'checkpoints/step-100', 'best', 1048576 from runs union all"
              " select id, 1, 200, 1e9, 'checkpoints/step-200', 'periodic', 2097152 from runs union all"
              " select id, 1, 300, 1e9, 'checkpoints/step-300', 'periodic', 3145728 from runs union all"
              " select id, 1, 450, 1e9, 'checkpoints/step-450', 'best', 4194304 from runs;"
              "insert into orders(run_id, issued_at, verb, argument, issuer, applied_step, result)"
              " select id, 1e9, 'pause', null, 'workbench', 33, 'paused' from runs union all"
              " select id, 1e9, 'checkpoint', null, 'cli', 0, 'written' from runs union all"
              " select id, 2e9, 'stop', null, 'workbench', null, null from runs");
    char *id = store_fixture_text(home, "select id from runs");
    for (int i = 0; i < 3; i++) fill_checkpoint(home, id, (int[]){100, 300, 450}[i]); /* 200 was removed */
    free(id);
    open_run("ended");
    headless_expect(workbench, 200, 60, 200, "parameters 10,813,696", "trained 10,000,000");
    headless_expect(workbench, 80, 24, 80, "10.0M of 10.8M parameters trained");
    headless_expect(workbench, 200, 60, 200, "tokens 1,970,176", "450 best 4.0 MiB", "300 periodic 3.0 MiB",
                    "100 was best 1.0 MiB", "pause @33 paused", "checkpoint @0 written", "stop waiting",
                    "! @240 the loss rose", "[model]", "preset = shakespeare");
    assert_non_null(headless_row_with(workbench, 200, 60, "450     2."));
    assert_non_null(strstr(headless_row_with(workbench, 200, 60, "450     2."), "★")); /* the best one */
    assert_null(strstr(headless_row_with(workbench, 200, 60, "400     2."), "★"));
    char sql[2048] = "update runs set config = '[model]", *end = sql + strlen(sql);
    for (int i = 0; i < 90; i++) end += sprintf(end, "\nkey_%d = 1", i);
    strcpy(end, "'");
    store_fixture_sql(home, sql);
    open_run("ended");
    headless_expect(workbench, 200, 60, 200, "key_0 = 1");
    headless_expect_not(workbench, 200, 60, "key_89 = 1");
    headless_expect(workbench, 200, 60, 200, "more lines: i lists all");
}

TEST(the_side_panel_has_no_title_above_nothing)
{
    static const char *const lists[] = {"evaluations step, loss", "checkpoints ──", "orders ──", "events ──",
                                        "configuration ──"};
    store_fixture_sql(home,
                      "insert into orders(run_id, issued_at, verb, issuer) select id, 1e9, 'pause', 'cli'"
                      " from runs");
    open_run("ended");
    for (int i = 0; i < 5; i++) headless_expect(workbench, 200, 90, 200, lists[i]);
    store_fixture_sql(home, "delete from evals; delete from checkpoints; delete from orders;"
                            " delete from events; update runs set config = '', best_step = null");
    open_run("ended");
    headless_expect(workbench, 200, 90, 200, " run ──");
    for (int i = 0; i < 5; i++) headless_expect_not(workbench, 200, 90, lists[i]);
}

TEST(the_header_names_what_the_newest_step_recorded)
{
    store_fixture_sql(
        home, "update steps set lr = 0.0002, grad_norm = 0.75, step_ms = 331, mfu = 0.414, epoch = 1.776,"
              " tokens_per_sec = 9999 where step = 480;"
              "update runs set final_loss = 2.345, best_val_loss = 2.5, best_step = 450,"
              " tokens_per_sec = 12345, tokens = 1970176");
    open_run("ended");
    headless_expect(workbench, 160, 40, 160,
                    "loss 2.345 val 2.854 best 2.500 @450 12.3k tok/s lr 2.00e-4 grad 0.7500 step 331.0 ms"
                    " tokens 1.97M epoch 1.78 MFU 41.4%",
                    "100.0% 481 / 481 steps elapsed ");
    headless_expect_not(workbench, 160, 40, "ETA");
    headless_expect(workbench, 80, 24, 80, "100.0% 481 / 481 steps elapsed ");
}

int main(int argc, char **argv)
{
    (void)argc;
    counted_start(argv);
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
