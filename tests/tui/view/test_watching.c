/* The view of one run on a grid alone: a trainer that dies or hangs while nothing is written, the window of
 * the charts, the cursor, the panels. */
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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
        struct fill_quiet *quiet = fill_quiet("quiet-death");
        struct workbench *workbench = headless_open(quiet->home, "mortal");
        headless_type(workbench, views[v]);
        workbench_tick(workbench, quiet->now + 1);
        headless_expect(workbench, 100, 24, 100, "● running");
        run_lock_release(&quiet->lock); /* as the kernel does when a process dies */
        workbench_tick(workbench, quiet->now + 1.9);
        headless_expect(workbench, 100, 24, 100, "● running"); /* looked at once a second */
        assert_false(workbench->dirty);
        workbench_tick(workbench, quiet->now + 2.1);
        assert_true(workbench->dirty);
        headless_expect(workbench, 100, 24, 100, "✗ crashed");
        workbench_tick(workbench, quiet->now + 9); /* an ended run is looked at no more */
        assert_false(workbench->dirty);
        kept_release();
    }
}

TEST_CASE(a_trainer_that_hangs_is_said_to_be_silent)
{
    static const char *const views[] = {"", "M", "P"};
    struct fill_quiet *quiet = fill_quiet("quiet-hang");
    for (size_t v = 0; v < 3; v++) {
        struct workbench *workbench = headless_open(quiet->home, "mortal");
        headless_type(workbench, views[v]);
        workbench_tick(workbench, quiet->now + 30);
        headless_expect_not(workbench, 100, 24, "no sign of life");
        workbench_tick(workbench, quiet->now + 31);
        assert_true(workbench->dirty);
        headless_expect(workbench, 100, 24, 100, "no sign of life for 31s");
        workbench_tick(workbench, quiet->now + 95);
        headless_expect(workbench, 100, 24, 100, "no sign of life for 1m 35s");
        headless_close(workbench);
    }
}

TEST_CASE(a_silent_trainer_is_no_longer_said_to_train_at_its_speed)
{
    struct fill_quiet *quiet = fill_quiet("quiet-speed");
    store_fixture_sql(quiet->home, "update runs set tokens_per_sec = 10 * tokens / steps"); /* 0.1 s a step */
    struct workbench *workbench = headless_open(quiet->home, NULL);
    workbench_tick(workbench, quiet->now + 30);
    headless_expect_row(workbench, 80, 24, "mortal", "● running", " in 18s ");
    workbench_tick(workbench, quiet->now + 31);
    headless_expect_row(workbench, 80, 24, "mortal", "! silent", " 31s ago ");
    headless_expect_row(workbench, 120, 24, "mortal", "! silent", " -- ", " 31s ago ");
    headless_type(workbench, "\r");
    headless_expect_not(workbench, 80, 24, "ETA");
    headless_expect_not(workbench, 80, 24, "tok/s");
    headless_type(workbench, "p");
    headless_expect(workbench, 80, 24, 80, "current step, but gives no sign of life for 31s");
    store_fixture_sql(quiet->home, "update runs set tokens_per_sec = tokens_per_sec / 50"); /* 5 s a step */
    workbench_tick(workbench, quiet->now + 32);
    headless_expect(workbench, 80, 24, 80, "● running", "ETA 15m 00s", "tok/s");
    workbench_tick(workbench, quiet->now + 51); /* ten steps */
    headless_expect(workbench, 80, 24, 80, "no sign of life for 51s");
    store_fixture_sql(quiet->home, "delete from steps"); /* it compiles its kernels, say */
    workbench_tick(workbench, quiet->now + 300);
    headless_expect(workbench, 80, 24, 80, "● running");
    workbench_tick(workbench, quiet->now + 301);
    headless_expect(workbench, 80, 24, 80, "no sign of life for 5m 01s");
}

static void end_holder(void *child)
{
    kill(*(pid_t *)child, SIGKILL);
    waitpid(*(pid_t *)child, NULL, 0);
}

/* Starts a process that holds the lock of the run "mortal" and suspends itself. */
static pid_t hold_suspended(struct fill_quiet *quiet, const char *run_id)
{
    static pid_t child;
    struct run_lock lock;
    int how;
    run_lock_release(&quiet->lock);
    child = fork();
    if (child == 0) {
        if (run_lock_acquire(quiet->store, run_id, &lock, NULL)) _exit(1);
        raise(SIGSTOP);
        pause();
    }
    kept(&child, end_holder);
    assert_int_equal(waitpid(child, &how, WUNTRACED), child);
    assert_true(WIFSTOPPED(how));
    return child;
}

TEST_CASE(a_suspended_trainer_is_said_to_be_so_at_once)
{
    struct fill_quiet *quiet = fill_quiet("quiet-stopped");
    struct run_info run;
    assert_int_equal(run_find(quiet->store, "mortal", &run, NULL), STATUS_OK);
    pid_t child = hold_suspended(quiet, run.id);
    struct workbench *workbench = headless_open(quiet->home, NULL);
    workbench_tick(workbench, quiet->now + 2);
    headless_expect_row(workbench, 80, 24, "mortal", "‖ suspended", " 2s ago ");
    store_fixture_sql(quiet->home, "insert into tags(run_id, tag) select id, 'sweep:lr' from runs");
    workbench_tick(workbench, quiet->now + 2);
    headless_type(workbench, "W");
    headless_expect_row(workbench, 80, 24, "mortal", " suspended");
    headless_type(workbench, "q\r");
    headless_expect_row(workbench, 80, 24, "mortal", "‖ suspended", "no sign of life for 2.0s");
    headless_expect_not(workbench, 80, 24, "ETA");
    headless_expect_row(workbench, 40, 10, "mortal", "‖ suspended");
    headless_type(workbench, "p");
    headless_expect(workbench, 80, 24, 80, "it is suspended, and will do so when it continues: fg");
    kill(child, SIGCONT);
    while (run_is_suspended(quiet->store, run.id)) sched_yield();
    workbench_tick(workbench, quiet->now + 3);
    headless_expect_row(workbench, 80, 24, "mortal", "● running");
}

/* --- orders, and a store that fails --- */

TEST_CASE(an_order_is_reported_when_it_has_taken_effect)
{
    struct fill_quiet *quiet = fill_quiet("quiet-orders");
    struct workbench *workbench = headless_open(quiet->home, "mortal");
    headless_type(workbench, "p");
    headless_expect(workbench, 80, 24, 80, "asked mortal to pause");
    assert_true(store_fixture_number(quiet->home, "select count(*) from orders where verb = 'pause'") == 1);
    store_fixture_sql(quiet->home, "update orders set applied_step = 19, result = 'paused'");
    workbench_tick(workbench, quiet->now + 1);
    headless_expect(workbench, 80, 24, 80, "pause at step 19: paused");
    headless_type(workbench, "m"); /* reported once */
    store_fixture_sql(quiet->home, "update orders set result = 'again'");
    workbench_tick(workbench, quiet->now + 2);
    headless_expect_not(workbench, 80, 24, "pause at step 19");
    headless_type(workbench, ">y");
    headless_expect(workbench, 80, 24, 80, "learning rate by 2;");
    store_fixture_sql(quiet->home, "update orders set applied_step = 20 where verb = 'lr-factor'");
    workbench_tick(workbench, quiet->now + 3);
    headless_expect(workbench, 80, 24, 80, "lr-factor at step 20"); /* a result is not always there */
    headless_type(workbench, ">y");
    assert_true(store_fixture_number(quiet->home, "select max(argument) from orders") == 4);
    headless_type(workbench, ">y<y<y<y<y<y"); /* each counts, though no tick lies between them */
    assert_true(store_fixture_number(quiet->home, "select max(argument) from orders") == 8);
    assert_true(store_fixture_number(quiet->home, "select min(argument) from orders") == 0.25);
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
    assert_true(store_fixture_number(quiet->home, "select count(*) from orders where verb = 'stop'") == 0);
    headless_type(workbench, "sy");
    assert_true(store_fixture_number(quiet->home, "select count(*) from orders where verb = 'stop'") == 1);
    headless_type(workbench, "q");
    headless_expect(workbench, 80, 24, 80, "mortal continues training in the background");
    run_lock_release(&quiet->lock);
    workbench_tick(workbench, quiet->now + 4);
    headless_type(workbench, "s");
    headless_expect(workbench, 80, 24, 80, "mortal is not training (status: crashed)");
    workbench_key(workbench, K_DOWN); /* the hints again */
    headless_expect(workbench, 200, 24, 200, "r resume");
    headless_expect_not(workbench, 200, 24, "p pause");
    headless_type(workbench, "\r");
    headless_type(workbench, "q"); /* an ended run does not continue */
    headless_expect_not(workbench, 80, 24, "continues training");
}

TEST_CASE(every_order_asks_for_what_its_key_says)
{
    static const struct {
        char key;
        const char *verb;
    } orders[] = {{'p', "pause"},  {'c', "checkpoint"}, {'e', "eval"},
                  {'t', "sample"}, {'T', "trace"},      {'<', "lr-factor"}};
    struct fill_quiet *quiet = fill_quiet("quiet-keys");
    struct workbench *workbench = headless_open(quiet->home, "mortal");
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        char sql[128];
        workbench_key(workbench, (unsigned char)orders[i].key);
        if (orders[i].key == '<') workbench_key(workbench, 'y');
        headless_expect(workbench, 80, 24, 80, "it will do so after the current step");
        snprintf(sql, sizeof sql, "select count(*) from orders where verb = '%s'", orders[i].verb);
        assert_true(store_fixture_number(quiet->home, sql) == 1);
        assert_true(store_fixture_number(quiet->home, "select count(*) from orders") == (double)i + 1);
    }
    assert_true(store_fixture_number(quiet->home, "select argument from orders where verb = 'lr-factor'") ==
                0.5);
    store_fixture_sql(quiet->home, "update runs set status = 'paused'");
    workbench_tick(workbench, quiet->now + 1);
    headless_type(workbench, "p");
    assert_true(store_fixture_number(quiet->home, "select count(*) from orders where verb = 'continue'") ==
                1);
    headless_type(workbench, "r");
    headless_expect(workbench, 80, 24, 80, "mortal is paused: p lets it continue");
}

TEST_CASE(views_of_a_run_notice_that_the_trainer_died)
{
    static const char *const views[] = {"w", "i", "C"}, *const homes[] = {"log-died", "keys-died",
                                                                          "saved-died"};
    for (int v = 0; v < 3; v++) {
        struct fill_quiet *quiet = fill_quiet(homes[v]);
        struct workbench *workbench = headless_open(quiet->home, "mortal");
        headless_type(workbench, views[v]);
        headless_expect(workbench, 100, 24, 100, "mortal ● running");
        run_lock_release(&quiet->lock);
        workbench_tick(workbench, quiet->now + 5);
        headless_expect(workbench, 100, 24, 100, "mortal ✗ crashed");
        kept_release();
    }
}

/* The comparison of all runs, of which "other" has ended. */
static struct workbench *open_comparison(struct fill_quiet *quiet)
{
    static const struct fill ended = {
        .name = "other", .steps = 30, .total_steps = 30, .spike_step = -1, .status = RUN_FINISHED};
    struct fill_run run;
    fill_run(quiet->home, &ended, &run);
    struct workbench *workbench = headless_open(quiet->home, NULL);
    headless_type(workbench, "aC");
    return workbench;
}

TEST_CASE(the_comparison_shows_what_a_paused_run_evaluates)
{
    struct fill_quiet *quiet = fill_quiet("compared-paused");
    store_fixture_sql(quiet->home, "update runs set status = 'paused', best_step = 10, best_val_loss = 4"
                                   " where name = 'mortal';"
                                   "insert into evals(run_id, segment, step, val_loss)"
                                   " select id, 1, 10, 4 from runs where name = 'mortal'");
    struct workbench *workbench = open_comparison(quiet);
    headless_type(workbench, "\t");
    headless_expect_row(workbench, 80, 24, "1‖ mortal", " 4.000 ");
    store_fixture_sql(quiet->home, "insert into measures(run_id, segment, step, name, value)"
                                   " select id, 1, 10, 'accuracy', 0.5 from runs where name = 'mortal'");
    workbench_key(workbench, K_BACK_TAB); /* the loss, and before it the last one, which is new */
    for (int i = 0; i < 12 && !headless_row_with(workbench, 80, 24, "▸accuracy"); i++)
        workbench_key(workbench, K_BACK_TAB);
    headless_expect_row(workbench, 80, 24, "1‖ mortal", " 0.5000 ");
    while (!headless_row_with(workbench, 80, 24, "▸validation loss")) workbench_key(workbench, K_TAB);
    store_fixture_sql(quiet->home, "insert into evals(run_id, segment, step, val_loss)"
                                   " select id, 1, 20, 4.5 from runs where name = 'mortal';"
                                   "update runs set heartbeat = heartbeat + 1 where name = 'mortal'");
    workbench_tick(workbench, quiet->now + 1);
    headless_expect_row(workbench, 80, 24, "1‖ mortal", " 4.500 ");
}

TEST_CASE(the_comparison_notices_that_a_trainer_died)
{
    struct fill_quiet *quiet = fill_quiet("compared-died");
    struct workbench *workbench = open_comparison(quiet);
    headless_expect(workbench, 80, 24, 80, "1● mortal");
    run_lock_release(&quiet->lock);
    workbench_tick(workbench, quiet->now + 5);
    headless_expect(workbench, 80, 24, 80, "1✗ mortal");
}

TEST_CASE(that_a_run_was_deleted_elsewhere_is_said_once)
{
    static const char *const views[] = {"", "w", "i"};
    for (int v = 0; v < 3; v++) {
        struct fill_quiet *quiet = fill_quiet(v == 0 ? "gone-run" : v == 1 ? "gone-log" : "gone-keys");
        struct workbench *workbench = headless_open(quiet->home, "mortal");
        headless_type(workbench, views[v]);
        run_lock_release(&quiet->lock);
        store_fixture_sql(quiet->home, "delete from runs where name = 'mortal'");
        workbench_tick(workbench, quiet->now + 1);
        headless_expect(workbench, 100, 24, 100, "there is no such run");
        if (v == 0) headless_expect(workbench, 100, 24, 100, "deleted since; this is what was read last");
        headless_type(workbench, "?");
        headless_press(workbench, K_ESCAPE, 1);
        headless_expect_not(workbench, 100, 24, "there is no such run");
        store_fixture_sql(quiet->home, "delete from steps"); /* a commit */
        workbench_tick(workbench, quiet->now + 2);
        headless_expect_not(workbench, 100, 24, "there is no such run");
        kept_release();
    }
}

TEST_CASE(a_database_that_was_replaced_is_told)
{
    char path[1200], other[1200];
    struct fill_quiet *quiet = fill_quiet("quiet-replaced");
    struct workbench *workbench = headless_open(quiet->home, "mortal");
    workbench_tick(workbench, quiet->now + 1);
    headless_expect_not(workbench, 200, 24, "the database was");
    snprintf(path, sizeof path, "%s/anneal.db", quiet->home);
    snprintf(other, sizeof other, "%s/gone.db", quiet->home);
    assert_int_equal(rename(path, other), 0);
    workbench_tick(workbench, quiet->now + 2);
    headless_expect(workbench, 200, 24, 200, "the database was removed while it was in use");
    run_lock_release(
        &quiet->lock); /* its trainer may have ended well: that is in no database that is read here */
    workbench_tick(workbench, quiet->now + 3);
    headless_expect_not(workbench, 200, 24, "crashed");
    headless_expect_not(workbench, 200, 24, "its trainer died");
}

TEST_CASE(the_list_tells_what_came_of_an_order)
{
    struct fill_quiet *quiet = fill_quiet("quiet-order");
    struct workbench *workbench = headless_open(quiet->home, NULL);
    workbench_tick(workbench, quiet->now + 1);
    headless_type(workbench, "c");
    workbench_tick(workbench, quiet->now + 2);
    headless_expect(workbench, 80, 24, 80, "asked mortal to write a checkpoint; it will do so");
    store_fixture_sql(quiet->home, "update orders set applied_step = 7, result = 'failed: the disk is full'");
    workbench_tick(workbench, quiet->now + 4);
    headless_expect(workbench, 80, 24, 80, "mortal: checkpoint at step 7: failed: the disk is full");
    headless_type(workbench, "j"); /* it is told once */
    workbench_tick(workbench, quiet->now + 6);
    headless_expect_not(workbench, 80, 24, "checkpoint at step");
    headless_type(workbench, "c");
    store_fixture_sql(quiet->home, "delete from orders");
    workbench_tick(workbench, quiet->now + 8);
    headless_expect_not(workbench, 80, 24, "checkpoint at step");
}

/* A text that is read does not move on when a newer one is written. */
TEST_CASE(an_older_sample_stays_under_its_readers_eyes)
{
    struct fill_quiet *quiet = fill_quiet("quiet-sample");
    struct workbench *workbench = headless_open(quiet->home, "mortal");
    headless_expect(workbench, 100, 24, 100, "sample @19");
    headless_press(workbench, K_UP, 1);
    headless_expect(workbench, 100, 24, 100, "sample @10");
    store_fixture_sql(quiet->home,
                      "insert into samples(run_id, segment, step, prompt, text) select id, 1, 29, 'a', 'b' "
                      "from runs where name = 'mortal'");
    workbench_tick(workbench, quiet->now + 1);
    headless_expect(workbench, 100, 24, 100, "sample @10");
}

TEST_CASE(what_was_read_stays_when_the_store_fails)
{
    static const char *const tables[] = {"runs",   "steps",  "evals",        "samples",
                                         "orders", "memory", "layer_profile"};
    static const char *const views[] = {"", "M", "P"};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        char sql[128];
        struct fill_quiet *quiet = fill_quiet("quiet-failure");
        for (size_t v = 0; v < 3; v++) {
            bool read = t == 0 || (v == 0 ? t < 6 : v == 1 ? t == 5 : t == 6);
            struct workbench *workbench = headless_open(quiet->home, "mortal");
            headless_type(workbench, views[v]);
            snprintf(sql, sizeof sql, "alter table %s rename to gone", tables[t]);
            store_fixture_sql(quiet->home, sql);
            workbench_tick(workbench, quiet->now + 5);
            if (read) headless_expect(workbench, 100, 24, 100, "no such table");
            headless_expect(workbench, 100, 24, 100, "mortal ● running");
            if (v == 0) headless_expect(workbench, 100, 24, 100, "━ train ");
            if (v == 0) headless_expect(workbench, 100, 24, 100, "sample @19");
            snprintf(sql, sizeof sql, "alter table gone rename to %s", tables[t]);
            store_fixture_sql(quiet->home, sql);
            headless_close(workbench);
        }
        kept_release();
    }
}

TEST_CASE(a_resume_asks_with_steps_as_the_view_writes_them)
{
    struct fill_quiet *quiet = fill_quiet("quiet-numbers");
    run_lock_release(&quiet->lock);
    store_fixture_sql(quiet->home, "update runs set status = 'stopped', total_steps = 2000");
    struct workbench *workbench = headless_open(quiet->home, "mortal");
    headless_expect(workbench, 80, 24, 80, "20 / 2,000 steps");
    headless_type(workbench, "r");
    headless_expect(workbench, 80, 24, 80, "It ended after 20 of 2,000 steps.");
    store_fixture_sql(quiet->home, "update runs set total_steps = 0"); /* not done: nobody knows how many */
    workbench_tick(workbench, quiet->now + 1);
    headless_type(workbench, "nr");
    headless_expect(workbench, 80, 24, 80, "Resume mortal from its newest checkpoint?");
}

TEST_CASE(a_greeting_stays_until_a_key_or_for_a_minute)
{
    struct fill_quiet *quiet = fill_quiet("quiet-greeting");
    for (int key = 0; key < 2; key++) {
        struct workbench *workbench = headless_open_with(quiet->home, "mortal", "how to leave");
        double now = workbench->now;
        workbench_tick(workbench, now + 50);
        headless_expect(workbench, 80, 24, 80, "how to leave");
        if (key) workbench_key(workbench, 'm');
        workbench_tick(workbench, now + (key ? 51 : 61));
        headless_expect_not(workbench, 80, 24, "how to leave");
        headless_type(workbench, ">y");
        workbench_tick(workbench, now + 200); /* other messages wait for a key */
        headless_expect(workbench, 80, 24, 80, "learning rate by 2;");
        store_fixture_sql(quiet->home, "delete from orders");
        headless_close(workbench);
    }
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
