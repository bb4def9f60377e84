/* Tests of how a run's facts are worded. */
#include <math.h>
#include <time.h>

#include "tests/cmocka.h"
#include "tests/tui/widget/cells.h"
#include "tui/view/labels.h"

TEST_CASE(every_status_has_a_word_and_a_symbol)
{
    for (int s = RUN_CREATED; s <= RUN_CRASHED; s++) {
        struct status_label label = label_status((enum run_status)s);
        assert_true(label.symbol && label.word && *label.word);
        assert_int_equal(status_is_live((enum run_status)s), s == RUN_RUNNING || s == RUN_PAUSED);
        for (int t = RUN_CREATED; t < s; t++)
            assert_string_not_equal(label.word, label_status((enum run_status)t).word);
    }
}

TEST_CASE(parameters_say_how_many_are_trained_where_some_are_frozen)
{
    struct run_info run = {.parameters = 42000000, .trained_parameters = 42000000};
    char text[80];
    assert_string_equal(label_parameters(&run, text, sizeof text), "42.0M parameters");
    run.frozen_parameters = 40900000;
    run.trained_parameters = 1100000;
    assert_string_equal(label_parameters(&run, text, sizeof text), "1.10M of 42.0M parameters trained");
    run = (struct run_info){.parameters = -1, .trained_parameters = -1};
    assert_string_equal(label_parameters(&run, text, sizeof text), "- parameters");
}

TEST_CASE(progress_eta_and_time_worked_follow_from_the_row)
{
    struct run_info run = {.status = RUN_RUNNING,
                           .steps = 250,
                           .total_steps = 1000,
                           .step_tokens = 100,
                           .tokens_per_sec = 500,
                           .heartbeat = 90,
                           .elapsed = 60};
    assert_true(run_progress(&run) == 0.25);
    assert_true(label_eta(&run, 100) == 150); /* 750 steps of 100 tokens */
    assert_true(label_elapsed(&run, 100) == 70);
    assert_true(label_elapsed(&run, 80) == 60); /* a clock that was set back */
    snprintf(run.accumulation_plan, sizeof run.accumulation_plan, "0: 1, 500: 2"); /* 250 and 500 · 2 */
    assert_true(label_eta(&run, 100) == 250);
    snprintf(run.accumulation_plan, sizeof run.accumulation_plan, "0: 1, 250: 2"); /* from the next step on */
    assert_true(label_eta(&run, 100) == 300);
    *run.accumulation_plan = '\0';
    run.status = RUN_PAUSED;
    assert_true(isnan(label_eta(&run, 100)));
    run.status = RUN_STOPPED;
    assert_true(label_elapsed(&run, 100) == 60);
    run.status = RUN_RUNNING;
    run.total_steps = 249; /* beyond its plan */
    assert_true(run_progress(&run) == 1);
    assert_true(isnan(label_eta(&run, 100)));
    run.total_steps = 250;
    assert_true(label_eta(&run, 100) == 0);
    run.tokens_per_sec = INFINITY;
    assert_true(isnan(label_eta(&run, 100)));
    run.tokens_per_sec = 0;
    assert_true(isnan(label_eta(&run, 100)));
    run.tokens_per_sec = 500;
    run.step_tokens = NAN;
    assert_true(isnan(label_eta(&run, 100)));
    run.step_tokens = 100;
    run.steps = -1;
    assert_true(run_progress(&run) == 0);
    assert_true(isnan(label_eta(&run, 100)));
    run.total_steps = 0;
    assert_true(isnan(run_progress(&run)));
}

TEST_CASE(the_head_of_a_run_is_whole_in_a_narrow_terminal_and_has_no_negative_number)
{
    struct run_info run = {.name = "twenty-letters-long-",
                           .status = RUN_RUNNING,
                           .steps = -1, /* not known */
                           .total_steps = 1000,
                           .parameters = -1,
                           .heartbeat = 200,
                           .suspended = true};
    char row[256];
    struct grid grid = make_grid(40, 2, GLYPHS_BRAILLE);
    label_draw_run(&grid, &run, 100);
    assert_row(&grid, 0, " twenty-letters-long-  ‖ suspended");
    if (!strstr(grid_row(&grid, 1, row, sizeof row), " 0 / 1,000 ")) fail_msg("%s", row);
    grid_release(&grid);
    struct run_info paused = {
        .status = RUN_PAUSED, .steps = 4e6, .total_steps = 9e6, .elapsed = 14 * 3600, .heartbeat = 100};
    static const int widths[] = {40, 80, 120};
    for (size_t i = 0; i < 3; i++) { /* and not "in 14h", which in the list is the time that is left */
        grid = make_grid(widths[i], 2, GLYPHS_BRAILLE);
        label_draw_run(&grid, &paused, 100);
        if (!strstr(grid_row(&grid, 1, row, sizeof row), "  elapsed 14h 00m")) fail_msg("%s", row);
        grid_release(&grid);
    }
    struct run_info almost = {.status = RUN_RUNNING, .steps = 99999, .total_steps = 100000};
    grid = make_grid(80, 2, GLYPHS_BRAILLE);
    label_draw_run(&grid, &almost, 100);
    if (!strstr(grid_row(&grid, 1, row, sizeof row), " 99.9%  ")) fail_msg("%s", row);
    grid_release(&grid);
    grid = make_grid(90, 2, GLYPHS_BRAILLE); /* the clock was set back */
    label_draw_run(&grid, &run, 100);
    assert_non_null(strstr(grid_row(&grid, 0, row, sizeof row), "no sign of life for 0"));
    grid_release(&grid);
}

TEST_CASE(an_age_is_in_its_largest_unit)
{
    static const struct {
        double age;
        const char *text;
    } cases[] = {{-5, "now"},           {0.99, "now"},        {1, "1s ago"},       {59.9, "59s ago"},
                 {60, "1m ago"},        {3599, "59m ago"},    {3600, "1h ago"},    {86399, "23h ago"},
                 {86400, "1d ago"},     {2591999, "29d ago"}, {2592000, "15 May"}, {28511999, "19 Jul"},
                 {28512000, "2022-07"}, {NAN, "--"}};
    setenv("TZ", "UTC", 1);
    tzset();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        assert_string_equal(label_age(1686700800 - cases[i].age, 1686700800, text, sizeof text),
                            cases[i].text);
    }
}

TEST_CASE(a_device_is_described_by_what_is_known_of_it)
{
    char text[96];
    struct gpu_record sample = {
        .gpu = 0, .utilization_pct = 97, .power_w = 312.4, .temperature_c = 64, .sm_clock_mhz = 1980};
    assert_string_equal(label_device(&sample, text, sizeof text), "97 % busy, 312 W, 64 C, 1980 MHz");
    sample.power_w = sample.sm_clock_mhz = NAN;
    assert_string_equal(label_device(&sample, text, sizeof text), "97 % busy, 64 C");
    sample.gpu = -1;
    sample.temperature_c = NAN;
    assert_string_equal(label_device(&sample, text, sizeof text), "97 % of all processors busy");
    sample.utilization_pct = NAN;
    assert_string_equal(label_device(&sample, text, sizeof text), "");
}

TEST_MAIN()
