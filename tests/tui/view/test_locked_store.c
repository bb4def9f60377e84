/* Another process has locked the database: the workbench neither stands still nor forgets what was asked. */
#include <locale.h>

#include "core/base/clock.h"
#include "runs/database.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/fill.h"
#include "tests/tui/view/headless.h"

/* Waiting for a lock takes five seconds, the slowest machine that this should hold on less than half. */
enum { WAIT_LESS = 2 };

static void lock(struct fill_quiet *quiet)
{
    struct err err = {0};
    assert_int_equal(store_begin(quiet->store, &err), STATUS_OK);
}

TEST_CASE(opening_does_not_wait_for_the_lock)
{
    struct err err = {0};
    struct fill_quiet *quiet = fill_quiet("locked-opening");
    lock(quiet);
    assert_int_equal(store_lock(quiet->store, 0, &err), STATUS_OK); /* also where SQLite needs none */
    double before = clock_monotonic();
    struct workbench *workbench = headless_open(quiet->home, NULL);
    headless_expect(workbench, 80, 24, 80, "mortal");
    assert_true(clock_monotonic() - before < WAIT_LESS);
    headless_close(workbench);
    store_rollback(quiet->store);
}

TEST_CASE(no_key_waits_for_the_lock)
{
    struct fill_quiet *quiet = fill_quiet("locked-keys");
    struct workbench *workbench = headless_open(quiet->home, NULL);
    lock(quiet);
    double before = clock_monotonic();
    headless_type(workbench, "p");
    headless_expect(workbench, 80, 24, 80, "another process has locked the database;");
    headless_expect(workbench, 80, 24, 80, "what you asked for waits until it is free");
    headless_type(workbench, "c:tags +new\rRother\rNa note\r");
    for (int i = 1; i <= 10; i++) workbench_tick(workbench, quiet->now + i);
    headless_type(workbench, "\r"); /* and reading goes on */
    headless_expect(workbench, 80, 24, 80, "20 / 200 steps");
    headless_type(workbench, "q");
    assert_true(clock_monotonic() - before < WAIT_LESS);
    assert_true(store_fixture_number(quiet->home, "select count(*) from orders") == 0);
    store_rollback(quiet->store);
    workbench_tick(workbench, quiet->now + 20);
    headless_expect(workbench, 80, 24, 80, "the database is free again: what you asked for is done");
    char *verbs = store_fixture_text(quiet->home, "select group_concat(verb) from orders order by id");
    assert_string_equal(verbs, "pause,checkpoint");
    free(verbs);
    assert_true(store_fixture_number(quiet->home, "select count(*) from tags where tag = 'new'") == 1);
    assert_true(store_fixture_number(quiet->home, "select count(*) from runs where note = 'a note'") == 1);
    headless_type(workbench, "j");
    headless_expect(workbench, 120, 24, 120, "new"); /* it was read again */
}

TEST_CASE(what_waits_is_for_the_run_that_it_was_asked_for)
{
    char home[1024];
    struct err err = {0};
    struct store *other;
    fill_thirty("locked-order", home, sizeof home);
    assert_int_equal(store_open(home, STORE_WRITE, &other, &err), STATUS_OK);
    struct workbench *workbench = headless_open(home, NULL);
    assert_int_equal(store_begin(other, &err), STATUS_OK);
    headless_type(workbench, "Ajjj");
    headless_expect_selected(workbench, "run-03");
    headless_type(workbench, "  A"); /* run-03 and run-04 together */
    store_rollback(other);
    workbench_tick(workbench, workbench->now + 1);
    char *tagged = store_fixture_text(
        home, "select group_concat(run_id) from (select run_id from tags where tag = 'archived' order by 1)");
    assert_string_equal(tagged, "id-00,id-03,id-04");
    free(tagged);
    headless_expect_not(workbench, 80, 24, "run-03");
    headless_close(workbench);
    store_close(other);
}

TEST_CASE(a_change_that_can_no_longer_be_made_is_reported)
{
    struct fill_quiet *quiet = fill_quiet("locked-late");
    struct workbench *workbench = headless_open(quiet->home, NULL);
    lock(quiet);
    headless_type(workbench, "p");
    run_lock_release(&quiet->lock); /* its trainer dies */
    store_rollback(quiet->store);
    workbench_tick(workbench, quiet->now + 1);
    headless_expect(workbench, 80, 24, 80, "-mortal is not training (status: crashed)");
    lock(quiet);
    headless_type(workbench, "Na note\r");
    store_rollback(quiet->store);
    struct err err = {0};
    assert_int_equal(workbench_finish(workbench, &err), 0); /* what still waits is made before leaving */
    assert_true(store_fixture_number(quiet->home, "select count(*) from runs where note = 'a note'") == 1);
}

TEST_CASE(a_change_that_cannot_be_made_before_leaving_is_counted)
{
    struct err err = {0};
    struct fill_quiet *quiet = fill_quiet("locked-lost");
    struct workbench *workbench = headless_open(quiet->home, NULL);
    lock(quiet);
    headless_type(workbench, "Nlate\r");
    store_rollback(quiet->store);
    store_fixture_sql(quiet->home, "delete from runs");
    assert_int_equal(workbench_finish(workbench, &err), 1);
    assert_non_null(strstr(err.text, "there is no such run"));
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
