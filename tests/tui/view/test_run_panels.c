/* The view of one run on a grid alone: its charts side by side, samples, events, another run's loss, header
 * and side panel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it */
#include <cmocka.h>
#include <locale.h>
#include <stdio.h>

#include "core/base/clock.h"
#include "tests/counted.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"

static void each_chart_has_its_own_focus_scale_and_size(void **state)
{
    (void)state;
    char home[1024];
    fill_five_hundred("focus", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    static const char *const titles[] = {"▸loss", "▸learning rate", "▸gradient norm", "▸throughput"};
    for (int i = 0; i < 4; i++) {
        headless_expect(workbench, 120, 40, 120, titles[i]);
        headless_expect(workbench, 80, 24, 80, titles[i]); /* next to the loss, as only two fit */
        headless_expect(workbench, 80, 24, 80, i ? " loss" : " learning rate");
        headless_type(workbench, "z"); /* alone */
        headless_expect(workbench, 120, 40, 120, titles[i]);
        if (i) headless_expect_not(workbench, 120, 40, "━ train");
        headless_type(workbench, "z");
        workbench_key(workbench, K_TAB);
    }
    headless_expect(workbench, 120, 40, 120, titles[0]);
    workbench_key(workbench, K_BACK_TAB);
    headless_expect(workbench, 120, 40, 120, titles[3]);
    headless_type(workbench, "y");
    headless_expect(workbench, 120, 40, 120, "▸throughput tokens/s log");
    headless_expect_not(workbench, 120, 40, "loss log");
    headless_type(workbench, "y");
    headless_expect_not(workbench, 120, 40, "tokens/s log");
    workbench_close(workbench);
}

static void the_chart_of_the_loss_shows_perplexity_on_request(void **state)
{
    (void)state;
    char home[1024];
    fill_five_hundred("perplexity", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    headless_expect(workbench, 120, 40, 120, "▸loss");
    headless_type(workbench, "x");
    headless_expect(workbench, 120, 40, 120, "▸perplexity");
    headless_expect_not(workbench, 120, 40, "▸loss");
    headless_expect(workbench, 120, 40, 120, "gradient norm"); /* the others stay as they are */
    headless_type(workbench, "m");
    headless_expect(workbench, 120, 40, 120, "▸perplexity ema 0.9 ");
    headless_type(workbench, "x");
    headless_expect(workbench, 120, 40, 120, "▸loss ema 0.9");
    workbench_close(workbench);
}

static void the_chart_of_the_loss_shows_each_measure_in_turn(void **state)
{
    (void)state;
    char home[1024];
    fill_five_hundred("measures", home, sizeof home);
    store_fixture_sql(home, "insert into measures(run_id, segment, step, name, value)"
                            " select id, 1, 100, 'quiz_acc', 0.25 from runs union all"
                            " select id, 1, 100, 'arc_acc', 0.5 from runs union all"
                            " select id, 1, 400, 'quiz_acc', 0.75 from runs union all"
                            " select id, 1, 400, 'arc_acc', 0.625 from runs");
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "x");
    headless_expect(workbench, 120, 40, 120, "▸perplexity");
    headless_type(workbench, "x");
    headless_expect(workbench, 120, 40, 120, "▸arc_acc 0.6250");
    headless_expect_not(workbench, 120, 40, "★");
    headless_type(workbench, "x");
    headless_expect(workbench, 120, 40, 120, "▸quiz_acc 0.7500");
    headless_type(workbench, "m");
    headless_expect_not(workbench, 120, 40, "quiz_acc ema");
    store_fixture_sql(home, "insert into measures(run_id, segment, step, name, value)"
                            " select id, 1, 450, 'quiz_acc', 0.875 from runs");
    workbench_tick(workbench, workbench->now + 1);
    headless_expect(workbench, 120, 40, 120, "▸quiz_acc 0.8750");
    headless_type(workbench, "x");
    headless_expect(workbench, 120, 40, 120, "▸loss ema 0.9");
    workbench_close(workbench);
}

static void a_classifier_shows_its_confusion_instead_of_samples(void **state)
{
    (void)state;
    char home[1024];
    fill_five_hundred("confusion", home, sizeof home);
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
    struct workbench *workbench = headless_open(home, "ended");
    headless_expect(workbench, 120, 40, 120, "classes @400");
    headless_expect(workbench, 120, 40, 120, "0.7500 0.6000 0.6667 31 27");
    headless_expect(workbench, 120, 40, 120, "0.5000 0.8750 0.6364 0 46");
    headless_expect_not(workbench, 120, 40, "0.1000");
    headless_expect_not(workbench, 120, 40, " sample");
    headless_expect(workbench, 80, 24, 80, "0.7500 0.6000 0.6667 31 27");
    headless_expect(workbench, 80, 24, 80, "0.5000 0.8750 0.6364 0 46");
    headless_expect_not(workbench, 80, 24, "more of them");
    headless_expect(workbench, 80, 24, 80, "accuracy 0.812");
    headless_expect(workbench, 200, 50, 200, "step, loss, accuracy");
    headless_type(workbench, "x"); /* exp(loss) would mean nothing */
    headless_expect(workbench, 80, 24, 80, "▸accuracy 0.8125");
    store_fixture_sql(home, "update classes set label = 'long-ham' where label = 'ham'");
    workbench_tick(workbench, workbench->now + 1);
    headless_expect(workbench, 80, 24, 80, "F1 long-ham spam");
    workbench_close(workbench);
}

static void several_ranks_are_listed_slowest_first(void **state)
{
    (void)state;
    char home[1024];
    fill_five_hundred("ranks", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    headless_expect_not(workbench, 120, 40, "slowest first"); /* one rank has none */
    store_fixture_sql(
        home, "insert into ranks(run_id, segment, step, rank, host, device, step_ms, wait_ms, sent_bytes,"
              " memory_bytes) select id, 1, 300, 0, 'former', 'cpu', 99, 1, 1, 1 from runs union all"
              " select id, 1, 400, 0, 'ada', 'cpu', 2.5, 6, 1048576, 2097152 from runs union all"
              " select id, 1, 400, 1, 'grace', 'cpu', 7.5, 1, 1048576, 2097152 from runs union all"
              " select id, 1, 400, 2, 'emmy', 'cpu', 2.25, 6.25, 1048576, 2097152 from runs");
    workbench_tick(workbench, workbench->now + 1);
    headless_expect(workbench, 120, 40, 120, "ranks @400 slowest first");
    headless_expect(workbench, 120, 40, 120, "1 grace 7.50 1.00 1.0 MiB 2.0 MiB");
    headless_expect(workbench, 120, 40, 120, "0 ada 2.50 6.00");
    headless_expect(workbench, 120, 40, 120, "2 emmy 2.25");
    headless_expect_not(workbench, 120, 40, "former");
    headless_expect(workbench, 120, 40, 120, " sample");
    headless_expect(workbench, 80, 24, 80, "1 grace 7.50"); /* where there is room for one alone */
    headless_expect_not(workbench, 80, 24, "ada");
    workbench_close(workbench);
}

static void classes_that_have_no_room_are_reached_with_keys(void **state)
{
    (void)state;
    char home[1024];
    fill_five_hundred("classes", home, sizeof home);
    store_fixture_sql(home,
                      "with recursive n(i) as (select 10 union all select i + 1 from n where i < 29)"
                      " insert into classes(run_id, segment, step, label, precision, recall, f1, support)"
                      " select id, 1, 400, 'kind-' || i, 0.5, 0.5, 0.5, i from runs, n");
    struct workbench *workbench = headless_open(home, "ended");
    headless_expect(workbench, 80, 24, 80, "classes @400 j k more of them");
    headless_expect(workbench, 80, 24, 80, "kind-10 10 0.5000");
    headless_expect(workbench, 80, 24, 80, "kind-13 13 0.5000");
    headless_expect_not(workbench, 80, 24, "kind-14");
    headless_type(workbench, "jj");
    headless_expect(workbench, 80, 24, 80, "kind-12 12 0.5000");
    headless_expect_not(workbench, 80, 24, "kind-11");
    for (int i = 0; i < 30; i++) headless_type(workbench, "j");
    headless_expect(workbench, 80, 24, 80, "kind-29 29 0.5000");
    headless_type(workbench, "k");
    headless_expect_not(workbench, 80, 24, "kind-29");
    headless_expect(workbench, 80, 24, 80, "kind-28 28 0.5000");
    workbench_close(workbench);
}

static void an_answer_begins_on_a_line_of_its_own(void **state)
{
    (void)state;
    char home[1024];
    fill_five_hundred("answers", home, sizeof home);
    store_fixture_sql(home,
                      "update runs set config = '[data]' || char(10) || 'format = instructions' || char(10);"
                      "update samples set prompt = 'Verse 3?', text = 'It is so.'");
    struct workbench *workbench = headless_open(home, "ended");
    headless_expect(workbench, 120, 40, 120, "It is so.");
    headless_expect_not(workbench, 120, 40, "Verse 3?It");
    workbench_close(workbench);
}

static void drawing_the_same_screen_again_allocates_nothing(void **state)
{
    (void)state;
    char home[1024];
    struct grid grid = {.level = GLYPHS_BRAILLE};
    if (!heap_counts()) skip();
    fill_five_hundred("allocations", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    assert_int_equal(grid_resize(&grid, 160, 48, NULL), STATUS_OK);
    for (const char *key = "xm"; *key; key++) { /* perplexity, and smoothed */
        workbench_key(workbench, (uint32_t)*key);
        workbench_draw(workbench, &grid);
        int64_t before = heap_allocations();
        heap_watch(true);
        workbench_draw(workbench, &grid);
        heap_watch(false);
        assert_int_equal(heap_allocations(), before);
    }
    grid_release(&grid);
    workbench_close(workbench);
}

static void smoothing_goes_round_and_spares_the_learning_rate(void **state)
{
    (void)state;
    char home[1024];
    fill_five_hundred("smooth", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "m");
    headless_expect(workbench, 120, 40, 120, "smoothing 0.9 a step");
    headless_expect(workbench, 120, 40, 120, "loss ema 0.9 ");
    headless_expect(workbench, 120, 40, 120, "gradient norm ema 0.9 ");
    headless_expect_not(workbench, 120, 40, "learning rate ema");
    headless_type(workbench, "m");
    headless_expect(workbench, 120, 40, 120, "loss ema 0.99 ");
    headless_type(workbench, "m");
    headless_expect(workbench, 120, 40, 120, "no smoothing");
    headless_expect_not(workbench, 120, 40, "ema");
    workbench_close(workbench);
}

static void sample_texts_are_leafed_through(void **state)
{
    (void)state;
    char home[1024];
    fill_five_hundred("samples", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    headless_expect(workbench, 120, 40, 120, "sample @480 (Up: older)");
    headless_expect(workbench, 120, 40, 120, "In the beginning of the house");
    headless_type(workbench, "kkk"); /* there are two */
    headless_expect(workbench, 120, 40, 120, "sample @240 (older; Down: newer)");
    headless_expect(workbench, 120, 40, 120, "In the beginning was the word");
    headless_type(workbench, "j");
    headless_expect(workbench, 120, 40, 120, "sample @480 (Up: older)");
    headless_type(workbench, "j");
    headless_expect(workbench, 120, 40, 120, "sample @480 (Up: older)");
    workbench_close(workbench);
}

static void keys_lead_to_every_event_that_has_a_step(void **state)
{
    (void)state;
    char home[1024];
    fill_five_hundred("events", home, sizeof home);
    store_fixture_sql(home, "insert into events(run_id, segment, step, wall_time, level, text)"
                            " select id, 1, 0, 1e9, 'info', 'it began' from runs union all"
                            " select id, 1, null, 1e9, 'error', 'nowhere' from runs union all"
                            " select id, 1, 240, 2e9, 'warning', 'and once more' from runs");
    struct workbench *workbench = headless_open(home, "ended");
    headless_type(workbench, "n");
    headless_expect(workbench, 120, 40, 120, "loss @0");
    headless_expect(workbench, 120, 40, 120, "@0 it began");
    headless_type(workbench, "n");
    headless_expect(workbench, 120, 40, 120, "loss @240");
    headless_expect(workbench, 80, 24, 80, "@240 the loss rose"); /* of several the one that came first */
    headless_type(workbench, "n");
    headless_expect(workbench, 120, 40, 120, "loss @480");
    headless_type(workbench, "n");
    headless_expect(workbench, 120, 40, 120, "no event after this step");
    headless_type(workbench, "NNN");
    headless_expect(workbench, 120, 40, 120, "no event before this step");
    headless_expect(workbench, 120, 40, 120, "loss @0");
    headless_type(workbench, "fN"); /* without a cursor: the last one */
    headless_expect(workbench, 120, 40, 120, "loss @480");
    workbench_close(workbench);
}

static void an_evaluation_after_the_last_step_is_drawn(void **state)
{
    (void)state;
    char home[1024];
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
    struct workbench *workbench = headless_open(home, "forty");
    headless_expect(workbench, 80, 24, 80, "40 / 40 steps");
    workbench_key(workbench, K_LEFT); /* the cursor comes in at the newest: the evaluation */
    headless_expect(workbench, 80, 24, 80, "@40 ━ train");
    headless_expect(workbench, 80, 24, 80, "◆ val 4.000");
    struct grid grid = headless_draw(workbench, 80, 24);
    int stars = 0;
    for (int i = 5 * 80; i < 13 * 80; i++) stars += grid.cells[i].glyph == 0x2605;
    assert_int_equal(stars, 1); /* in the plot */
    grid_release(&grid);
    workbench_close(workbench);
}

static void the_loss_of_another_run_lies_next_to_a_runs_own(void **state)
{
    (void)state;
    char home[1024], words[64];
    struct fill_run run;
    fill_five_hundred("compared", home, sizeof home);
    fill_run(home,
             &(struct fill){
                 .name = "other", .steps = 300, .total_steps = 300, .spike_step = -1, .status = RUN_FINISHED},
             &run);
    struct workbench *workbench = headless_open(home, NULL);
    headless_type(workbench, "C"); /* the newest */
    headless_expect(workbench, 120, 40, 120, "its charts also show the loss of other");
    headless_type(workbench, "\r"); /* not compared with itself */
    headless_expect_not(workbench, 120, 40, "· other");
    headless_type(workbench, "qj\r");
    workbench_key(workbench, K_LEFT);
    headless_expect(workbench, 120, 40, 120, "· other --"); /* it has ended before */
    headless_type(workbench, "f");
    headless_type(workbench, "n");
    snprintf(words, sizeof words, "@240 ━ train 12.00 ◆ val");
    headless_expect(workbench, 120, 40, 120, words);
    snprintf(words, sizeof words, "· other %.3f", fill_loss(240));
    headless_expect(workbench, 120, 40, 120, words);
    headless_type(workbench, "qk");
    headless_type(workbench, "C");
    headless_expect(workbench, 120, 40, 120, "other is no longer drawn in other runs");
    headless_type(workbench, "j\r");
    headless_expect_not(workbench, 120, 40, "· other");
    headless_type(workbench, "qkCD"); /* one that is gone is forgotten */
    headless_type(workbench, "y\r");
    headless_expect_not(workbench, 120, 40, "· other");
    headless_expect(workbench, 120, 40, 120, "481 / 481 steps");
    workbench_close(workbench);
}

static void an_end_has_its_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *sentence;
    } ends[] = {
        {"update runs set status = 'crashed'", "its trainer died; r resumes it from the last checkpoint"},
        {"delete from checkpoints",
         "its trainer died; r resumes it from the beginning: it has no checkpoint yet"},
        {"update runs set status = 'stopped', message = 'stopped by a signal'",
         "stopped by a signal; r resumes it"},
        {"update runs set status = 'failed', message = 'the disk is full'", "the disk is full"},
        {"update runs set status = 'early_stopped', message = '';"
         "update early_stopping set verdict = 'stop', patience_used = 3 where step = 450",
         "stopped early: 3 evaluations did not improve on 2."},
    };
    char home[1024];
    fill_five_hundred("ends", home, sizeof home);
    struct workbench *workbench = headless_open(home, "ended");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        store_fixture_sql(home, ends[i].sql);
        workbench_tick(workbench, clock_wall());
        headless_expect(workbench, 120, 40, 120, ends[i].sentence);
    }
    workbench_close(workbench);
}

static void before_the_first_step_has_ended_it_says_what_is_done(void **state)
{
    (void)state;
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
    };
    struct fill_quiet quiet;
    fill_quiet(&quiet, "beginning");
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        store_fixture_sql(quiet.home, moments[i].sql);
        struct workbench *workbench = headless_open(quiet.home, "mortal");
        headless_expect(workbench, 100, 24, 100, moments[i].sentence);
        workbench_close(workbench);
    }
    run_lock_release(&quiet.lock);
    store_close(quiet.store);
}

static void the_side_panel_lists_what_was_recorded(void **state)
{
    (void)state;
    char home[1024];
    fill_five_hundred("side-panel", home, sizeof home);
    store_fixture_sql(home,
                      "update runs set frozen_parameters = 813696; delete from checkpoints;"
                      "insert into checkpoints(run_id, segment, step, wall_time, path, kind, bytes)"
                      " select id, 1, 100, 1e9, 'a', 'best', 1048576 from runs union all"
                      " select id, 1, 200, 1e9, 'b', 'best', 2097152 from runs union all"
                      " select id, 1, 300, 1e9, 'c', 'periodic', 3145728 from runs;"
                      "insert into orders(run_id, issued_at, verb, argument, issuer, applied_step, result)"
                      " select id, 1e9, 'pause', null, 'workbench', 33, 'paused' from runs union all"
                      " select id, 2e9, 'stop', null, 'workbench', null, null from runs");
    struct workbench *workbench = headless_open(home, "ended");
    headless_expect(workbench, 200, 60, 200, "parameters 10,813,696");
    headless_expect(workbench, 200, 60, 200, "trained 10,000,000");
    headless_expect(workbench, 80, 24, 80, "10.0M of 10.8M parameters trained");
    headless_expect(workbench, 200, 60, 200, "tokens 1,970,176");
    headless_expect(workbench, 200, 60, 200, "300 periodic 3.0 MiB");
    headless_expect(workbench, 200, 60, 200, "200 best 2.0 MiB");
    headless_expect(workbench, 200, 60, 200, "100 was best 1.0 MiB");
    headless_expect(workbench, 200, 60, 200, "pause @33 paused");
    headless_expect(workbench, 200, 60, 200, "stop waiting");
    headless_expect(workbench, 200, 60, 200, "! @240 the loss rose");
    headless_expect(workbench, 200, 60, 200, "[model]");
    headless_expect(workbench, 200, 60, 200, "preset = shakespeare");
    assert_non_null(headless_row_with(workbench, 200, 60, "450     2."));
    assert_non_null(strstr(headless_row_with(workbench, 200, 60, "450     2."), "★")); /* the best one */
    assert_null(strstr(headless_row_with(workbench, 200, 60, "400     2."), "★"));
    workbench_close(workbench);
    char sql[2048] = "update runs set config = '[model]", *end = sql + strlen(sql);
    for (int i = 0; i < 90; i++) end += sprintf(end, "\nkey_%d = 1", i);
    strcpy(end, "'");
    store_fixture_sql(home, sql);
    workbench = headless_open(home, "ended");
    headless_expect(workbench, 200, 60, 200, "key_0 = 1");
    headless_expect_not(workbench, 200, 60, "key_89 = 1");
    headless_expect(workbench, 200, 60, 200, "more lines: anneal show prints all");
    workbench_close(workbench);
}

static void the_header_names_what_the_newest_step_recorded(void **state)
{
    (void)state;
    char home[1024];
    fill_five_hundred("header", home, sizeof home);
    store_fixture_sql(
        home, "update steps set lr = 0.0002, grad_norm = 0.75, step_ms = 331, mfu = 0.414, epoch = 1.776,"
              " tokens_per_sec = 9999 where step = 480;"
              "update runs set final_loss = 2.345, best_val_loss = 2.5, best_step = 450,"
              " tokens_per_sec = 12345, tokens = 1970176");
    struct workbench *workbench = headless_open(home, "ended");
    headless_expect(workbench, 160, 40, 160,
                    "loss 2.345 val 2.854 best 2.500 @450 12.3k tok/s lr 2.00e-4 grad 0.7500 step 331.0 ms"
                    " tokens 1.97M epoch 1.78 MFU 41.4%");
    headless_expect(workbench, 160, 40, 160, "100.0% 481 / 481 steps elapsed ");
    headless_expect_not(workbench, 160, 40, "ETA");
    headless_expect(workbench, 80, 24, 80, "100.0% 481 / 481 steps in ");
    workbench_close(workbench);
}

int main(int argc, char **argv)
{
    (void)argc;
    counted_start(argv);
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_classifier_shows_its_confusion_instead_of_samples),
        cmocka_unit_test(several_ranks_are_listed_slowest_first),
        cmocka_unit_test(classes_that_have_no_room_are_reached_with_keys),
        cmocka_unit_test(each_chart_has_its_own_focus_scale_and_size),
        cmocka_unit_test(the_chart_of_the_loss_shows_perplexity_on_request),
        cmocka_unit_test(the_chart_of_the_loss_shows_each_measure_in_turn),
        cmocka_unit_test(an_answer_begins_on_a_line_of_its_own),
        cmocka_unit_test(drawing_the_same_screen_again_allocates_nothing),
        cmocka_unit_test(smoothing_goes_round_and_spares_the_learning_rate),
        cmocka_unit_test(sample_texts_are_leafed_through),
        cmocka_unit_test(keys_lead_to_every_event_that_has_a_step),
        cmocka_unit_test(an_evaluation_after_the_last_step_is_drawn),
        cmocka_unit_test(the_loss_of_another_run_lies_next_to_a_runs_own),
        cmocka_unit_test(an_end_has_its_sentence),
        cmocka_unit_test(before_the_first_step_has_ended_it_says_what_is_done),
        cmocka_unit_test(the_side_panel_lists_what_was_recorded),
        cmocka_unit_test(the_header_names_what_the_newest_step_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
