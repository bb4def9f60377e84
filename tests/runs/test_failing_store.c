/* A writer whose store refuses records: which calls wait for it, and for how long. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "core/base/clock.h"
#include "store_fixture.h"

struct complaints {
    char home[PATH_MAX], newest[512];
    atomic_int count;
    int mend_at; /* the complaint after which the store takes everything again */
};

static void complain(void *context, const char *sentence)
{
    struct complaints *c = context;
    snprintf(c->newest, sizeof c->newest, "%s", sentence);
    if (++c->count == c->mend_at) store_fixture_sql(c->home, "drop trigger no");
}

/* A writer whose first step the database refuses. */
static struct writer *open_refused(const char *name, struct complaints *c)
{
    char id[RUN_ID_MAX];
    struct err err = {0};
    struct writer *writer = NULL;
    store_fixture_home(name, c->home, sizeof c->home);
    store_fixture_run(c->home, name, id);
    store_fixture_sql(c->home,
                      "create trigger no before insert on steps begin select raise(abort, 'no'); end");
    struct writer_options options = {c->home, id, complain, c};
    if (writer_open(&options, &writer, &err)) fail_msg("%s", err.text);
    struct step_record record = store_fixture_step(0, 1);
    writer_step(writer, &record);
    return writer;
}

static void a_checkpoint_waits_for_no_store_that_fails(void **state)
{
    (void)state;
    struct complaints c = {0};
    struct err err = {0};
    struct writer *writer = open_refused("no-wait", &c);
    double start = clock_monotonic();
    assert_int_equal(writer_flush_wait(writer, writer_flush_begin(writer), 300, &err), STATUS_BUSY);
    assert_true(clock_monotonic() - start < 150);
    if (!strstr(err.text, "are not stored yet: ") || !strstr(err.text, "anneal.db: SQLite failed: no"))
        fail_msg("%s", err.text);
    store_fixture_sql(c.home, "drop trigger no");
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    assert_true(store_fixture_number(c.home, "select count(*) from steps") == 1);
}

/* A lock, a hung disk: the first checkpoint finds out, later ones go on. */
static void a_checkpoint_waits_once_for_a_store_that_stalls(void **state)
{
    (void)state;
    struct err err = {0};
    struct complaints c = {0};
    char id[RUN_ID_MAX], path[PATH_MAX + 16];
    struct writer *writer;
    sqlite3 *db;
    store_fixture_home("stalls", c.home, sizeof c.home);
    store_fixture_run(c.home, "stalls", id);
    struct writer_options options = {c.home, id, complain, &c};
    if (writer_open(&options, &writer, &err)) fail_msg("%s", err.text);
    snprintf(path, sizeof path, "%s/anneal.db", c.home);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "begin immediate", NULL, NULL, NULL), SQLITE_OK);
    struct step_record record = store_fixture_step(0, 1);
    writer_step(writer, &record);
    assert_int_equal(writer_flush_wait(writer, writer_flush_begin(writer), 0.1, &err), STATUS_BUSY);
    for (int i = 0; i < 10; i++)
        assert_int_equal(writer_flush_wait(writer, writer_flush_begin(writer), 300, &err), STATUS_BUSY);
    assert_int_equal(c.count, 0); /* nobody has waited until it counts as failing, 5 s */
    assert_int_equal(sqlite3_exec(db, "rollback", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(writer_flush(writer, 60, &err), STATUS_OK);
    record = store_fixture_step(1, 1);
    writer_step(writer, &record); /* it is waited for again */
    assert_int_equal(writer_flush_wait(writer, writer_flush_begin(writer), 60, &err), STATUS_OK);
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
}

static void who_leaves_a_failing_store_says_that_it_waits(void **state)
{
    (void)state;
    struct complaints c = {.mend_at = 2};
    struct err err = {0};
    struct writer *writer = open_refused("leaves", &c);
    writer_flush_wait(writer, writer_flush_begin(writer), 300, NULL); /* it has failed */
    assert_int_equal(writer_close(writer, RUN_FINISHED, NULL, &err), STATUS_OK);
    assert_int_equal(c.count, 2);
    assert_string_equal(c.newest, "trying for up to 10 s to store the last records");
    assert_true(store_fixture_number(c.home, "select count(*) from steps") == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_waits_for_no_store_that_fails),
        cmocka_unit_test(a_checkpoint_waits_once_for_a_store_that_stalls),
        cmocka_unit_test(who_leaves_a_failing_store_says_that_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
