/* The ledger of device memory: what is refused, whose reservations count, and forty processes at once. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runs/ledger.h"

enum { MIB = 1 << 20, CHILDREN = 40 };

static const struct ledger_room room = {"gpu", "gpu", 1000 * MIB, 0, 0.1, 0, false, 0};

static const char *home(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", getenv("ANNEAL_TEST_DIR"), name);
    return path;
}

static struct ledger *opened(const char *name)
{
    struct ledger *ledger = NULL;
    struct err err = {0};
    if (ledger_open(home(name), &ledger, &err)) fail_msg("%s", err.text);
    return ledger;
}

static size_t held(struct ledger *ledger, int64_t *bytes)
{
    struct reservation *rows = NULL;
    size_t count = 0;
    assert_int_equal(ledger_list(ledger, "gpu", &rows, &count, NULL), STATUS_OK);
    *bytes = 0;
    for (size_t i = 0; i < count; i++) *bytes += rows[i].bytes;
    free(rows);
    return count;
}

static void what_does_not_fit_is_refused_with_numbers_and_holders(void **state)
{
    (void)state;
    struct err err = {0};
    int64_t id, other;
    struct ledger *ledger = opened("refused");
    assert_int_equal(ledger_reserve(ledger, &room, "run-a", 600 * MIB, &id, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &room, "run-b", 301 * MIB, &other, &err), STATUS_BUSY);
    assert_non_null(strstr(err.text,
                           "gpu: 301.0 MiB are needed, 300.0 MiB of 1000.0 MiB are left beside the 10 % that "
                           "stay free; reserved: run-a 600.0 MiB"));
    assert_int_equal(ledger_reserve(ledger, &room, "run-b", 901 * MIB, &other, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.text, "of which 10 % stay free"));
    assert_int_equal(ledger_reserve(ledger, &room, "run-b", 300 * MIB, &other, &err), STATUS_OK);
    assert_int_equal(ledger_release(ledger, id, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &room, "run-c", 600 * MIB, &id, &err), STATUS_OK);
    ledger_close(ledger);
}

/* Another program has 500 of 1000: 400 were reserved and 100 of them are taken already, so 300 are still to
 * come out of the 500 that are free, and the 100 that stay free. */
static void memory_that_others_took_counts_once(void **state)
{
    (void)state;
    struct err err = {0};
    int64_t id, other;
    struct ledger *ledger = opened("others");
    struct ledger_room busy = room;
    assert_int_equal(ledger_reserve(ledger, &room, "run-a", 400 * MIB, &id, &err), STATUS_OK);
    assert_int_equal(ledger_use(ledger, id, "run-a", 100 * MIB, &err), STATUS_OK);
    busy.available = 500 * MIB;
    assert_int_equal(ledger_reserve(ledger, &busy, "run-b", 101 * MIB, &other, &err), STATUS_BUSY);
    assert_non_null(strstr(err.text, "reserved: run-a 400.0 MiB"));
    assert_non_null(strstr(err.text, "; other programs hold 400.0 MiB"));
    assert_int_equal(ledger_reserve(ledger, &busy, "run-b", 100 * MIB, &other, &err), STATUS_OK);
    ledger_close(ledger);
}

static void devices_have_their_own_memory(void **state)
{
    (void)state;
    struct err err = {0};
    struct ledger_room second = room, unknown = {"mystery", "mystery", 0, 0, 0.1, 0, false, 0};
    int64_t id;
    struct ledger *ledger = opened("devices");
    second.device = "gpu2";
    assert_int_equal(ledger_reserve(ledger, &room, "a", 900 * MIB, &id, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &second, "b", 900 * MIB, &id, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &unknown, "c", (int64_t)1 << 50, &id, &err), STATUS_OK);
    ledger_close(ledger);
}

/* A child reserves and dies without releasing. */
static void reservations_of_dead_processes_do_not_count(void **state)
{
    (void)state;
    struct err err = {0};
    int64_t id, bytes;
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct ledger *ledger;
        bool good = !ledger_open(home("dead"), &ledger, NULL) &&
                    !ledger_reserve(ledger, &room, "dead", 800 * MIB, &id, NULL);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct ledger *ledger = opened("dead");
    assert_int_equal(held(ledger, &bytes), 0);
    assert_int_equal(ledger_reserve(ledger, &room, "alive", 800 * MIB, &id, &err), STATUS_OK);
    assert_int_equal(held(ledger, &bytes), 1);
    ledger_close(ledger);
}

/* A process of this number lives, but it is another: it started at another time, or in another boot. */
static void a_reused_process_number_is_not_the_same_process(void **state)
{
    (void)state;
    char path[1000], host[65], command[200];
    int64_t id, bytes;
    sqlite3 *db;
    static const char *const lies[] = {"started = started - 1", "boot = 'of yesterday'"};
    for (int i = 0; i < 2; i++) {
        struct ledger *ledger = opened(i ? "boot" : "reused");
        assert_int_equal(ledger_reserve(ledger, &room, "impostor", 800 * MIB, &id, NULL), STATUS_OK);
        assert_int_equal(gethostname(host, sizeof host), 0);
        snprintf(path, sizeof path, "%s/ledger-%s.db", home(i ? "boot" : "reused"), host);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        snprintf(command, sizeof command, "update reservations set %s", lies[i]);
        assert_int_equal(sqlite3_exec(db, command, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        assert_int_equal(held(ledger, &bytes), 0);
        ledger_close(ledger);
    }
}

/* Each of forty wants 100 of 900: never more than nine hold at once, and in the end everyone has had a turn.
 */
static void take_a_turn(int number)
{
    struct ledger *ledger;
    int64_t id, bytes;
    enum status status;
    char holder[32];
    struct err err = {0};
    snprintf(holder, sizeof holder, "child-%d", number);
    if (ledger_open(home("forty"), &ledger, &err)) _exit(2);
    while ((status = ledger_reserve(ledger, &room, holder, 100 * MIB, &id, &err)) == STATUS_BUSY)
        usleep(1000);
    if (status) _exit(3);
    for (int i = 0; i < 5; i++) {
        if (held(ledger, &bytes) > 9 || bytes > 900 * MIB) _exit(4);
        if (ledger_use(ledger, id, holder, i * MIB, &err)) _exit(5);
    }
    if (number % 4 && ledger_release(ledger, id, &err)) _exit(6); /* every fourth just dies */
    _exit(0);
}

static void forty_processes_share_the_memory(void **state)
{
    (void)state;
    int64_t bytes;
    int status;
    ledger_close(opened("forty"));
    for (int i = 0; i < CHILDREN; i++)
        if (fork() == 0) take_a_turn(i);
    for (int i = 0; i < CHILDREN; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    struct ledger *ledger = opened("forty");
    assert_int_equal(held(ledger, &bytes), 0);
    ledger_close(ledger);
}

/* Wants 500 of the 900, says when it is in the queue, and waits for them; then holds them until it is told.
 */
static void wait_in_the_queue(int ready, int told)
{
    struct ledger *ledger;
    int64_t id;
    char c = 'q';
    enum status status;
    if (ledger_open(home("queue"), &ledger, NULL)) _exit(2);
    if (ledger_wait(ledger, &room, "large", 500 * MIB, NULL)) _exit(3);
    if (write(ready, &c, 1) != 1) _exit(4);
    while ((status = ledger_reserve(ledger, &room, "large", 500 * MIB, &id, NULL)) == STATUS_BUSY)
        usleep(1000);
    if (status || write(ready, &c, 1) != 1 || read(told, &c, 1) != 1) _exit(5);
    _exit(0); /* and just dies */
}

static pid_t queue_another(int ready[2], int told[2])
{
    char c;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) wait_in_the_queue(ready[1], told[0]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    return child;
}

static void a_later_one_does_not_overtake_who_waits(void **state)
{
    (void)state;
    struct err err = {0};
    int64_t id, small;
    int ready[2], told[2], status;
    char c;
    ledger_close(opened("queue"));
    pid_t child;
    struct ledger *ledger = opened("queue"), *other = opened("queue");
    assert_int_equal(ledger_reserve(ledger, &room, "first", 600 * MIB, &id, &err), STATUS_OK);
    child = queue_another(ready, told);
    assert_int_equal(ledger_reserve(other, &room, "small", 100 * MIB, &small, &err), STATUS_BUSY);
    assert_non_null(strstr(err.text, "gpu: large (process "));
    assert_non_null(strstr(err.text, ") waits for 500.0 MiB and came before"));
    struct ledger_room brief = room; /* one that cannot wait takes what is there, and gives it back */
    brief.passes = true;
    assert_int_equal(ledger_reserve(other, &brief, "generate", 100 * MIB, &small, &err), STATUS_OK);
    assert_int_equal(ledger_release(other, small, &err), STATUS_OK);
    assert_int_equal(ledger_wait(other, &room, "small", 100 * MIB, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(other, &room, "small", 100 * MIB, &small, &err), STATUS_BUSY);
    struct ledger_room second = room;
    second.device = "gpu2";
    assert_int_equal(ledger_reserve(ledger, &second, "elsewhere", 100 * MIB, &small, &err), STATUS_OK);
    assert_int_equal(ledger_release(ledger, id, &err), STATUS_OK);
    assert_int_equal(read(ready[0], &c, 1), 1); /* it has its 500 */
    assert_int_equal(ledger_reserve(other, &room, "small", 100 * MIB, &small, &err), STATUS_OK);
    assert_int_equal(write(told[1], &c, 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ledger_close(other);
    ledger_close(ledger);
}

/* What is held is held, but a place in the queue ends with its process or its ledger. */
static void who_stops_waiting_stands_in_nobodys_way(void **state)
{
    (void)state;
    struct err err = {0};
    int64_t id, small;
    int ready[2], told[2];
    struct ledger *ledger = opened("queue"), *other = opened("queue");
    assert_int_equal(ledger_reserve(ledger, &room, "first", 600 * MIB, &id, &err), STATUS_OK);
    pid_t child = queue_another(ready, told);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(ledger_wait(other, &room, "large", 500 * MIB, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &room, "small", 100 * MIB, &small, &err), STATUS_BUSY);
    ledger_close(other);
    assert_int_equal(ledger_reserve(ledger, &room, "small", 100 * MIB, &small, &err), STATUS_OK);
    assert_int_equal(ledger_release(ledger, id, &err), STATUS_OK);
    assert_int_equal(ledger_release(ledger, small, &err), STATUS_OK);
    ledger_close(ledger);
}

static void a_file_that_is_no_ledger_is_told(void **state)
{
    (void)state;
    char path[1000], host[65];
    struct ledger *ledger;
    struct err err = {0};
    mkdir(home("garbage"), 0777);
    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(path, sizeof path, "%s/ledger-%s.db", home("garbage"), host);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 1000; i++) fputs("this is not a database ", file);
    fclose(file);
    assert_int_equal(ledger_open(home("garbage"), &ledger, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "it may be deleted while nothing trains"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_refused_with_numbers_and_holders),
        cmocka_unit_test(memory_that_others_took_counts_once),
        cmocka_unit_test(devices_have_their_own_memory),
        cmocka_unit_test(reservations_of_dead_processes_do_not_count),
        cmocka_unit_test(a_reused_process_number_is_not_the_same_process),
        cmocka_unit_test(forty_processes_share_the_memory),
        cmocka_unit_test(a_later_one_does_not_overtake_who_waits),
        cmocka_unit_test(who_stops_waiting_stands_in_nobodys_way),
        cmocka_unit_test(a_file_that_is_no_ledger_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
