/* The list of runs in a terminal: names in every script and names made to move the cursor, a filter that is
 * typed, marks, tags, columns, deleting and bringing back. */
#include <locale.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tests/tui/view/terminal_fixture.h"

static void make_hostile(const char *name, char *home, size_t size)
{
    fill_thirty(name, home, size);
    store_fixture_sql(
        home,
        "update runs set name = '日本語' where id = 'id-00';"
        "update runs set name = '🚀🚀 launch' where id = 'id-01';"
        "update runs set name = char(27) || ']0;owned' || char(7) || char(27) || '[2J' where id = 'id-02';"
        "update runs set name = 'שלום عالم' where id = 'id-03';"
        "update runs set name = cast(x'ff80c3' as text) where id = 'id-04';"
        "update runs set note = char(27) || '[31mred', final_loss = null, nan = 1 where id = 'id-05';"
        "insert into tags values('id-00', '実験'), ('id-05', char(27) || '[5mblink')");
}

/* The keys of a session. */
static void use_the_list(const char *environment, bool utf8)
{
    struct pty *pty = terminal_open(environment, 24, 80, NULL, utf8 ? NULL : "LC_ALL=C", NULL);
    pty_wait_text(pty, "30 runs, 0 training");
    pty_wait_text(pty, "run-06");
    pty_wait_text(pty, "diverged"); /* also where there is no colour */
    if (utf8) {
        pty_wait_text(pty, "日本語");
        pty_wait_text(pty, "🚀🚀 launch");
        pty_send(pty, "/日本\r");
        pty_wait_text(pty, "/日本  1 matches");
        pty_send(pty, "\033");
        pty_wait_no_text(pty, "match"); /* else the next key would come with Alt */
        pty_wait_text(pty, "run-06");
    }
    if (!utf8) pty_wait_text(pty, "? ? ?"); /* 日本語 */
    pty_send(pty, "/name~run-[12] los");
    pty_wait_text(pty, "/name~run-[12] los  0 match");
    pty_send(pty, "<3");
    pty_wait_text(pty, "no column, key or metric is called \"los\"; did you mean \"loss\"?");
    pty_wait_text(pty, "/name~run-[12] los<3  20 match");
    pty_send(pty, "\025run-2 and progress=50%\r");
    pty_wait_text(pty, "10 match");
    pty_send(pty, "  ");
    pty_wait_text(pty, "2 marked");
    pty_send(pty, "t+together\r");
    pty_wait_no_text(pty, "tags of 2 runs");
    pty_send(pty, "Dy");
    pty_wait_text(pty, "2 runs are deleted when you leave");
    pty_wait_text(pty, "8 match");
    pty_send(pty, "u");
    pty_wait_text(pty, "2 runs brought back");
    pty_send(pty, "\033"); /* the filter goes */
    pty_wait_no_text(pty, "match");
    pty_send(pty, "v/elapsed\r");
    pty_wait_text(pty, "duration");
    pty_send(pty, " q"); /* shown now, or hidden by the session after this one */
    pty_wait_text(pty, "30 runs");
    pty_send(pty, "q");
    assert_int_equal(pty_wait_exit(pty), 0);
    assert_null(strstr(pty_raw(pty), "owned\a"));
    assert_null(strstr(pty_raw(pty), "\033[31mred"));
    assert_null(strstr(pty_raw(pty), "\033[5mblink"));
    assert_true(pty_modes_restored(pty));
    pty_close(pty);
}

TEST_CASE(the_list_works_with_names_in_any_script_and_in_ascii)
{
    char home[1024], environment[1100];
    make_hostile("list", home, sizeof home);
    snprintf(environment, sizeof environment, "ANNEAL_HOME=%s", home);
    use_the_list(environment, true);
    use_the_list(environment, false);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 30);
    assert_true(store_fixture_number(home, "select count(*) from tags where tag = 'together'") == 2);
}

TEST_CASE(leaving_deletes_what_was_not_brought_back)
{
    char home[1024], environment[1100];
    fill_thirty("gone", home, sizeof home);
    snprintf(environment, sizeof environment, "ANNEAL_HOME=%s", home);
    struct pty *pty = terminal_open(environment, 24, 80, NULL, NULL, NULL);
    pty_wait_text(pty, "30 runs");
    pty_send(pty, "Dy");
    pty_wait_text(pty, "29 runs");
    pty_signal(pty, 9); /* nothing is lost */
    assert_int_not_equal(pty_wait_exit(pty), 0);
    pty_close(pty);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 30);
    pty = terminal_open(environment, 24, 80, NULL, NULL, NULL);
    pty_wait_text(pty, "30 runs");
    pty_send(pty, "Dy");
    pty_wait_text(pty, "29 runs");
    pty_send(pty, "q");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_wait_text(pty, "1 run was deleted");
    pty_close(pty);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 29);
    pty = terminal_open(environment, 24, 200, NULL, NULL, NULL);
    pty_wait_text(pty, "29 runs");
    pty_send(pty, "Dy");
    pty_wait_text(pty, "28 runs");
    store_fixture_sql(home, "update runs set heartbeat = 1e11"); /* somebody resumes it */
    pty_send(pty, "q");
    assert_int_equal(pty_wait_exit(pty), 0);
    pty_wait_text(pty, "1 change was not made: run id-01: has trained since you deleted it, so it stays");
    pty_close(pty);
    assert_true(store_fixture_number(home, "select count(*) from runs") == 29);
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    return TEST_RUN(NULL, NULL);
}
