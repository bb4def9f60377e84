/* The other views of a run, drawn on a grid without a terminal: its memory with the ledger of the host, its
 * profile with folds. */
#include <locale.h>

#include "runs/reservations/ledger.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"

#define MIB ((int64_t)1 << 20)

TEST_CASE(the_memory_of_a_living_run_names_who_else_holds_some)
{
    static const struct ledger_room cpu = {"cpu", "cpu", 1024 * MIB, 0, 0.05, 0, false};
    struct err err = {0};
    struct ledger *ledger;
    struct run_info run;
    int64_t own, other;
    struct fill_quiet *quiet = fill_quiet("quiet-memory");
    store_fixture_sql(
        quiet->home,
        "insert into memory(run_id, segment, step, category, planned_bytes, live_bytes, peak_bytes)"
        " select id, 1, 0, 'weights', 62914560, 62914560, 62914560 from runs;"
        "insert into gpu_samples(run_id, wall_time, gpu, memory_used_bytes, memory_total_bytes,"
        " process_bytes) select id, 1e9, -1, 419430400, 1073741824, 167772160 from runs");
    assert_int_equal(run_find(quiet->store, "mortal", &run, &err), STATUS_OK);
    assert_int_equal(ledger_open(getenv("ANNEAL_LEDGER"), LEDGER_BUSY_MS, &ledger, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &cpu, run.id, 100 * MIB, &own, &err), STATUS_OK);
    struct workbench *workbench = headless_open(quiet->home, "mortal");
    workbench_tick(workbench, quiet->now);
    headless_expect(workbench, 200, 60, 200, "memory 60.0 MiB planned, 160.0 MiB held, 624.0 MiB free");
    headless_type(workbench, "M");
    headless_expect(workbench, 80, 24, 80, "400.0 MiB of 1.0 GiB");
    headless_expect(workbench, 80, 24, 80, "─ 1.0 GiB");
    headless_expect(workbench, 80, 24, 80, "mortal, ");
    headless_expect(workbench, 80, 24, 80, "100.0 MiB");
    headless_expect_not(workbench, 80, 24, "a-newcomer");
    assert_int_equal(ledger_reserve(ledger, &cpu, "a-newcomer", 77 * MIB, &other, &err), STATUS_OK);
    workbench_tick(workbench, quiet->now + 0.9);
    headless_expect_not(workbench, 80, 24, "a-newcomer"); /* asked once a second */
    workbench_tick(workbench, quiet->now + 1);
    headless_expect(workbench, 80, 24, 80,
                    "a-newcomer, "); /* without a key, and without a change of the run store */
    headless_expect(workbench, 80, 24, 80, "77.0 MiB");
    assert_int_equal(ledger_release(ledger, other, &err), STATUS_OK);
    workbench_tick(workbench, quiet->now - 3600); /* the clock is set back */
    workbench_tick(workbench, quiet->now - 3598);
    headless_expect_not(workbench, 80, 24, "a-newcomer");
    headless_type(workbench, "+");
    headless_expect(workbench, 80, 24, 80, "─ 160.0 MiB");
    headless_type(workbench, "-");
    headless_expect(workbench, 80, 24, 80, "─ 1.0 GiB");
    headless_type(workbench, "+0");
    headless_expect(workbench, 80, 24, 80, "─ 1.0 GiB");
    run_lock_release(&quiet->lock);
    workbench_tick(workbench, quiet->now + 3); /* the holders of now say nothing about a run that has ended */
    headless_expect(workbench, 80, 24, 80, "✗ crashed");
    headless_expect_not(workbench, 80, 24, "mortal, ");
    headless_expect_not(workbench, 80, 24, "runs that hold");
    headless_expect(workbench, 80, 24, 80, "400.0 MiB of 1.0 GiB"); /* as last seen */
    headless_type(workbench, "q");
    headless_expect(workbench, 80, 24, 80, "━ train");
    headless_close(workbench);
    ledger_close(ledger);
}

TEST_CASE(the_profile_folds_sorts_and_scrolls)
{
    struct fill_quiet *quiet = fill_quiet("quiet-profile");
    struct workbench *workbench = headless_open(quiet->home, "mortal");
    workbench_tick(workbench, quiet->now);
    headless_type(workbench, "P");
    headless_expect(workbench, 80, 24, 80, "no step of this run has been profiled yet");
    store_fixture_sql(quiet->home,
                      "with recursive n(i) as (select 0 union all select i + 1 from n where i < 2)"
                      " insert into layer_profile(run_id, segment, step, phase, layer, op, calls, time_us)"
                      " select id, 1, 15, 'forward', i, 'attention', 1, 1000 * (i + 1) from n, runs;"
                      "insert into layer_profile(run_id, segment, step, phase, layer, op, calls, time_us)"
                      " select id, 1, 15, 'optimizer', -1, 'adamw', 1, 2000 from runs");
    workbench_tick(workbench, quiet->now + 2); /* reading it costs: every three seconds */
    headless_expect(workbench, 80, 24, 80, "no step of this run has been profiled yet");
    workbench_tick(workbench, quiet->now + 3);
    headless_expect(workbench, 80, 24, 80, "8.000 ms a step, the mean of 1 profiled, the newest @15");
    headless_expect(workbench, 80, 24, 80, "▼ forward 3 6.000 75.0%");
    headless_expect(workbench, 80, 24, 80, "▶ layer 2 1 3.000 37.5%");
    headless_expect_not(workbench, 80, 24, "attention");
    int row = headless_selected_row(workbench, 80, 24);
    workbench_mouse(workbench, K_CLICK, &(struct pointer){10, row + 1, 0}); /* the slowest layer */
    headless_type(workbench, "\r");
    headless_expect(workbench, 80, 24, 80, "▼ layer 2 1 3.000 37.5% ███░░░░░ attention");
    headless_type(workbench, "j");
    headless_expect_not(workbench, 80, 24, "▶ layer 2");
    headless_type(workbench, "h"); /* from the operation to its layer */
    headless_type(workbench, "h"); /* closes it */
    headless_expect_not(workbench, 80, 24, "attention");
    headless_type(workbench, "hh"); /* to its phase, and closes that */
    headless_expect(workbench, 80, 24, 80, "▶ forward");
    headless_expect_not(workbench, 80, 24, "layer 2");
    headless_type(workbench, "hl"); /* what is closed already stays; opens it */
    headless_expect(workbench, 80, 24, 80, "layer 2");
    headless_type(workbench, "a");
    headless_expect(workbench, 80, 24, 80, "▼ layer 0");
    headless_type(workbench, "o");
    headless_expect(workbench, 80, 24, 80, "phases and layers in their order");
    headless_type(workbench, "k"); /* the message goes */
    headless_expect(workbench, 80, 24, 80,
                    "▼ layer 0 1 1.000 12.5% █░░░░░░░ attention 1 1.000 12.5% █░░░░░░░ ▼ layer 1");
    headless_type(workbench, "t"); /* together */
    headless_expect_not(workbench, 80, 24, "layer");
    headless_expect(workbench, 80, 24, 80, "attention 3 6.000");
    headless_type(workbench, "ta");
    headless_expect_not(workbench, 80, 24, "attention");
    headless_type(workbench, "aG"); /* of nine lines the last */
    assert_int_equal(headless_selected_row(workbench, 80, 24), 4 + 8);
    assert_int_equal(headless_selected_row(workbench, 80, 10), 8); /* in five rows */
    headless_type(workbench, "g");
    assert_int_equal(headless_selected_row(workbench, 80, 10), 4);
    headless_type(workbench, "q");
    headless_expect(workbench, 80, 24, 80, "━ train");
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
