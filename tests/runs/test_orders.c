/* The control channel and the writer's pace: which orders reach the trainer, and when a commit or a heartbeat
 * is due. */
#include <limits.h>
#include <math.h>
/* cmocka wants the headers above first */
#include "core/base/clock.h"
#include "runs/order.h"
#include "runs/writer_pace.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

TEST_CASE(an_answer_says_whether_the_order_was_carried_out)
{
    static const struct {
        int64_t step;
        const char *result;
        bool done;
    } cases[] = {{4, "done", true},
                 {0, "written to checkpoints/step-0", true},
                 {4, NULL, false},
                 {-1, "not done: the trainer ended first", false},
                 {4, ORDER_FAILED "checkpoint at step 4: no room", false},
                 {4, ORDER_REFUSED "this training keeps no checkpoints", false},
                 {4, ORDER_NO_TRACE "no step followed the order", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(order_was_carried_out(
                             &(struct order_row){.applied_step = cases[i].step, .result = cases[i].result}),
                         cases[i].done);
}

TEST_CASE(orders_are_delivered_once_and_acknowledged)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    store_fixture_home("orders", home, sizeof home);
    store_fixture_run(home, "orders", id);
    struct store *store = store_fixture_open(home);
    int64_t early, first, second;
    assert_int_equal(order_issue(store, id, ORDER_STOP, NAN, "test", &early, &err), STATUS_FAILED);
    assert_non_null(strstr(err.text, "no trainer can carry out the order"));

    struct run_lock lock;
    assert_int_equal(run_lock_acquire(store, id, &lock, &err), STATUS_OK);
    /* given before the segment begins: answered, not delivered */
    assert_int_equal(order_issue(store, id, ORDER_STOP, NAN, "test", &early, &err), STATUS_OK);
    struct writer *writer = store_fixture_writer(home, id);
    assert_int_equal(order_issue(store, id, ORDER_LR_FACTOR, 0.5, "test", &first, &err), STATUS_OK);
    assert_int_equal(order_issue(store, id, ORDER_PAUSE, NAN, "test", &second, &err), STATUS_OK);
    assert_int_equal(order_issue(store, id, ORDER_LR_FACTOR, NAN, "test", NULL, &err), STATUS_USAGE);

    struct order orders[3];
    size_t got = 0;
    double deadline = clock_monotonic() + 30;
    while (got < 2 && clock_monotonic() < deadline) got += writer_next_order(writer, &orders[got]);
    assert_int_equal(got, 2);
    assert_true(orders[0].id == first && orders[0].verb == ORDER_LR_FACTOR && orders[0].argument == 0.5);
    assert_true(orders[1].id == second && orders[1].verb == ORDER_PAUSE && isnan(orders[1].argument));

    writer_order_done(writer, first, 41, "factor 0.5, from \"now\" on");
    writer_status(writer, RUN_PAUSED);
    assert_int_equal(writer_flush(writer, 30, &err), STATUS_OK);
    assert_false(writer_next_order(writer, &orders[2]));
    struct order_row row;
    assert_int_equal(order_get(store, id, first, &arena, &row, &err), STATUS_OK);
    assert_int_equal(row.applied_step, 41);
    assert_string_equal(row.result, "factor 0.5, from \"now\" on");
    assert_string_equal(row.issuer, "test");
    assert_int_equal(order_get(store, id, second, &arena, &row, &err), STATUS_OK);
    assert_true(row.applied_step == -1 && row.result == NULL);
    struct run_info info;
    assert_int_equal(run_find(store, id, &info, &err), STATUS_OK);
    assert_int_equal(info.status, RUN_PAUSED);

    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
    run_lock_release(&lock);
    struct order_row *rows;
    size_t count;
    assert_int_equal(order_list(store, id, 10, &arena, &rows, &count, &err), STATUS_OK);
    assert_int_equal(count, 3);
    assert_true(rows[0].id == second && rows[2].id == early);
    assert_non_null(strstr(rows[0].result, "ended first"));
    assert_non_null(strstr(rows[2].result, "already ended"));
    assert_int_equal(order_get(store, id, 999, &arena, &row, &err), STATUS_NOT_FOUND);
    store_close(store);
    arena_release(&arena);
}

/* A workbench asks for the answer to each of its orders, all day. */
TEST_CASE(one_handle_can_ask_for_any_number_of_orders)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct arena arena = {0};
    struct order_row row;
    store_fixture_home("many-orders", home, sizeof home);
    store_fixture_run(home, "many", id);
    store_fixture_sql(home, "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300)"
                            " insert into orders(run_id, issued_at, verb) select id, i, 'eval' from runs, n");
    struct store *store = store_fixture_open(home);
    for (int64_t i = 1; i <= 300; i++) {
        if (order_get(store, id, i, &arena, &row, &err)) fail_msg("order %d: %s", (int)i, err.text);
        assert_true(row.id == i && row.issued_at == (double)i);
    }
    assert_int_equal(order_get(store, id, 301, &arena, &row, &err), STATUS_NOT_FOUND);
    arena_release(&arena);
    store_close(store);
}

TEST_CASE(an_order_that_comes_while_a_trainer_begins_is_delivered)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct order order;
    store_fixture_home("between", home, sizeof home);
    store_fixture_run(home, "between", id);
    /* right after the trainer has answered the old orders, another one comes */
    store_fixture_sql(
        home, "create trigger another after update of result on orders when new.verb = 'stop' begin"
              " insert into orders(run_id, issued_at, verb, issuer) values(new.run_id, 2, 'eval', 't');"
              " end; insert into orders(run_id, issued_at, verb, issuer)"
              " select id, 1, 'stop', 't' from runs");
    struct writer *writer = store_fixture_writer(home, id);
    double deadline = clock_monotonic() + 30;
    bool got = false;
    while (!got && clock_monotonic() < deadline) got = writer_next_order(writer, &order);
    assert_true(got && order.verb == ORDER_EVAL);
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, &err), STATUS_OK);
}

/* Returns when the writer's thread has looked for orders after whatever was committed before the call. */
static void let_it_look(struct writer *writer)
{
    struct err err = {0};
    for (int i = 0; i < 2; i++) { /* it looks after each commit: before the second one, at the latest */
        writer_event(writer, &(struct event_record){0, 0, "info", "a look", false});
        assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK);
    }
}

TEST_CASE(more_orders_than_the_ring_holds_arrive_once_and_in_order)
{
    enum { ORDERS = 193 }; /* three times as many, and one */
    char home[PATH_MAX], id[RUN_ID_MAX];
    store_fixture_home("many", home, sizeof home);
    store_fixture_run(home, "many", id);
    struct writer *writer = store_fixture_writer(home, id);
    store_fixture_sql(home, "with recursive n(i) as (select 0 union all select i + 1 from n where i < 192)"
                            " insert into orders(run_id, issued_at, verb, argument)"
                            " select id, 1, 'lr-factor', i from runs, n");
    int64_t got = 0;
    for (int rounds = 0; got < ORDERS && rounds < 10; rounds++) {
        struct order order;
        let_it_look(writer); /* the trainer asks only when the ring is full */
        for (; writer_next_order(writer, &order); got++) assert_true(order.argument == (double)got);
    }
    assert_int_equal(got, ORDERS);
    let_it_look(writer);
    assert_false(writer_next_order(writer, &(struct order){0}));
    /* and one that comes when nothing waits any more */
    store_fixture_sql(home, "insert into orders(run_id, issued_at, verb) select id, 1, 'stop' from runs");
    struct order last = {0};
    let_it_look(writer);
    assert_true(writer_next_order(writer, &last));
    assert_int_equal(last.verb, ORDER_STOP);
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, NULL), STATUS_OK);
}

TEST_CASE(an_unknown_verb_is_passed_over)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct order order;
    store_fixture_home("verbs", home, sizeof home);
    store_fixture_run(home, "verbs", id);
    struct writer *writer = store_fixture_writer(home, id);
    store_fixture_sql(home, "insert into orders(run_id, issued_at, verb) select id, 1, 'dance' from runs;"
                            "insert into orders(run_id, issued_at, verb) select id, 1, 'eval' from runs");
    let_it_look(writer);
    assert_true(writer_next_order(writer, &order));
    assert_int_equal(order.verb, ORDER_EVAL);
    assert_false(writer_next_order(writer, &order));
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, NULL), STATUS_OK);
}

TEST_CASE(a_factor_is_a_finite_number_from_zero_up_and_other_verbs_have_none)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    struct err err = {0};
    struct run_lock lock;
    struct order_row *rows;
    struct arena arena = {0};
    size_t count;
    int64_t order;
    store_fixture_home("factor", home, sizeof home);
    store_fixture_run(home, "factor", id);
    struct store *store = store_fixture_open(home);
    assert_int_equal(run_lock_acquire(store, id, &lock, &err), STATUS_OK);
    static const double refused[] = {-0.5, NAN, INFINITY};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_int_equal(order_issue(store, id, ORDER_LR_FACTOR, refused[i], "test", &order, &err),
                         STATUS_USAGE);
    assert_int_equal(order_issue(store, id, ORDER_LR_FACTOR, 0, "test", &order, &err), STATUS_OK);
    assert_int_equal(order_issue(store, id, ORDER_PAUSE, 7, "test", &order, &err), STATUS_OK);
    assert_int_equal(order_list(store, id, 1, &arena, &rows, &count, &err), STATUS_OK);
    assert_int_equal(count, 1); /* the newest */
    assert_true(rows[0].verb == ORDER_PAUSE && isnan(rows[0].argument));
    run_lock_release(&lock);
    store_close(store);
    arena_release(&arena);
}

/* ---- the pace ---- */

TEST_CASE(a_trainer_that_hangs_has_no_heartbeat)
{
    struct writer_pace pace = {.last = 100, .looks = 7};
    struct writer_demand hangs = {.looks = 7}, looks = {.looks = 8};
    assert_false(writer_commit_due(&pace, &hangs, 1e6));
    assert_false(writer_commit_due(&pace, &looks, 104.9));
    assert_true(writer_commit_due(&pace, &looks, 105));
    pace.looks = 8;
    assert_false(writer_commit_due(&pace, &looks, 1e6)); /* it has hung since */
}

TEST_CASE(asking_for_orders_is_the_sign_of_life)
{
    char home[PATH_MAX], id[RUN_ID_MAX];
    store_fixture_home("alive", home, sizeof home);
    store_fixture_run(home, "alive", id);
    struct writer *writer = store_fixture_writer(home, id);
    uint64_t before = writer_looks(writer);
    struct step_record step = store_fixture_step(0, 1);
    writer_step(writer, &step);
    assert_true(writer_looks(writer) == before);
    writer_next_order(writer, &(struct order){0});
    assert_true(writer_looks(writer) > before);
    assert_int_equal(writer_close(writer, RUN_STOPPED, NULL, NULL), STATUS_OK);
}

TEST_CASE(records_wait_for_a_quarter_of_a_second_at_most)
{
    struct writer_pace pace = {.last = 100};
    struct writer_demand one = {.records = 1}, awaited = {.records = 1, .flush = true},
                         last = {.records = 1, .closing = true}, full = {.records = WRITER_BATCH},
                         lost = {.lost = true}, none = {.looks = 0}, synced = {.flush = true};
    assert_false(writer_commit_due(&pace, &one, 100.2));
    assert_true(writer_commit_due(&pace, &one, 100.25));
    assert_true(writer_commit_due(&pace, &lost, 100.25));
    assert_true(writer_commit_due(&pace, &awaited, 100));
    assert_true(writer_commit_due(&pace, &last, 100));
    assert_true(writer_commit_due(&pace, &full, 100));
    assert_true(writer_commit_due(&pace, &synced, 100)); /* stored, but perhaps not on the disk */
    assert_false(writer_commit_due(&pace, &none, 1e6));
}

TEST_CASE(a_storage_that_fails_is_tried_again_after_half_a_second)
{
    struct writer_pace pace = {.last = 100, .failed = true};
    struct writer_demand full = {.records = WRITER_BATCH, .flush = true, .closing = true}, none = {0};
    assert_false(writer_commit_due(&pace, &full, 100.49));
    assert_true(writer_commit_due(&pace, &full, 100.5));
    assert_true(writer_commit_due(&pace, &none, 100.5)); /* what failed is still there */
}

TEST_MAIN()
