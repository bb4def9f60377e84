/* The ledger of device memory: refused requests, the reservations that count, waiting in the queue and
 * passing it. */
#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "runs/reservations/ledger.h"
#include "tests/cmocka.h"

enum { MIB = 1 << 20 };

static const struct ledger_room room = {"gpu", "gpu", 1000 * MIB, 0, 0.1, 0, false};

/* A command that cannot wait: reserves the memory that is left, and releases it. */
static const struct ledger_room brief = {"gpu", "gpu", 1000 * MIB, 0, 0.1, 0, true};

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
    if (ledger_open(home(name), LEDGER_BUSY_MS, &ledger, &err)) fail_msg("%s", err.text);
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

static void change(const char *name, const char *sql)
{
    char path[1000], host[65];
    sqlite3 *db;
    char *message = NULL;
    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(path, sizeof path, "%s/ledger-%s.db", home(name), host);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) fail_msg("%s: %s", sql, message);
    sqlite3_close(db);
}

TEST_CASE(a_request_that_does_not_fit_is_refused_with_numbers_and_holders)
{
    struct err err = {0};
    int64_t id, other;
    struct ledger *ledger = opened("refused");
    assert_int_equal(ledger_reserve(ledger, &room, "run-a", 600 * MIB, &id, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &room, "run-b", 301 * MIB, &other, &err), STATUS_BUSY);
    assert_non_null(
        strstr(err.text, "gpu: 301.0 MiB are needed, but 300.0 MiB of 1000.0 MiB are left (10 % stay free); "
                         "reserved: run-a 600.0 MiB"));
    assert_int_equal(ledger_reserve(ledger, &room, "run-b", 901 * MIB, &other, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.text, "of which 10 % stay free"));
    assert_int_equal(ledger_reserve(ledger, &room, "run-b", 300 * MIB, &other, &err), STATUS_OK);
    assert_int_equal(ledger_release(ledger, id, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &room, "run-c", 600 * MIB, &id, &err), STATUS_OK);
    ledger_close(ledger);
}

/* Four of them, and how many more there are. */
TEST_CASE(a_refusal_names_the_first_holders)
{
    struct err err = {0};
    int64_t id, ids[6];
    struct ledger *ledger = opened("holders");
    for (int i = 0; i < 6; i++) {
        char holder[8], expected[200];
        int n = snprintf(expected, sizeof expected, "; reserved: a 100.0 MiB (process %d)", (int)getpid());
        for (int k = 1; k <= i && k < 4; k++)
            n += snprintf(expected + n, sizeof expected - (size_t)n, ", %c 100.0 MiB (process %d)", 'a' + k,
                          (int)getpid());
        if (i >= 4) snprintf(expected + n, sizeof expected - (size_t)n, " and %d more", i - 3);
        snprintf(holder, sizeof holder, "%c", 'a' + i);
        assert_int_equal(ledger_reserve(ledger, &room, holder, 100 * MIB, &ids[i], &err), STATUS_OK);
        assert_int_equal(ledger_reserve(ledger, &room, "large", 850 * MIB, &id, &err), STATUS_BUSY);
        const char *found = strstr(err.text, "; reserved: ");
        if (!found || strcmp(found, expected) != 0) fail_msg("%s, not %s", err.text, expected);
    }
    ledger_close(ledger);
}

/* Another program has 500 of 1000: 400 were reserved and 100 of them are taken already, so 300 are still to
 * come out of the 500 that are free, and the 100 that stay free. */
TEST_CASE(memory_that_others_took_counts_once)
{
    struct err err = {0};
    int64_t id, other;
    struct ledger *ledger = opened("others");
    struct ledger_room busy = room;
    assert_int_equal(ledger_reserve(ledger, &room, "run-a", 400 * MIB, &id, &err), STATUS_OK);
    assert_int_equal(ledger_use(ledger, id, "run-a", 100 * MIB, &err), STATUS_OK);
    busy.available = 500 * MIB;
    assert_int_equal(ledger_reserve(ledger, &busy, "run-b", 101 * MIB, &other, &err), STATUS_BUSY);
    assert_non_null(strstr(err.text, ", 500.0 MiB are free now; reserved: run-a 400.0 MiB"));
    assert_int_equal(ledger_reserve(ledger, &busy, "run-b", 100 * MIB, &other, &err), STATUS_OK);
    assert_int_equal(ledger_release(ledger, other, &err), STATUS_OK);
    assert_int_equal(ledger_use(ledger, id, "run-a", 450 * MIB, &err), STATUS_OK); /* more than reserved */
    busy.available = 150 * MIB;
    assert_int_equal(ledger_reserve(ledger, &busy, "run-b", 51 * MIB, &other, &err), STATUS_BUSY);
    assert_int_equal(ledger_reserve(ledger, &busy, "run-b", 50 * MIB, &other, &err), STATUS_OK);
    busy.available = 90 * MIB; /* of which 100 stay free */
    assert_int_equal(ledger_reserve(ledger, &busy, "run-c", 50 * MIB, &other, &err), STATUS_BUSY);
    assert_non_null(strstr(err.text, "50.0 MiB are needed, but 0 B of 1000.0 MiB are left"));
    busy.taken = 110 * MIB; /* by this process, which needs it for what it reserves */
    assert_int_equal(ledger_reserve(ledger, &busy, "run-c", 50 * MIB, &other, &err), STATUS_OK);
    ledger_close(ledger);
}

/* A child that reserves 200 MiB of the host's memory, touches some of them, and reports nothing to the
 * ledger. */
static pid_t start_toucher(size_t mib, int ready[2], int go[2])
{
    char c = 0;
    int64_t id;
    struct ledger *ledger;
    struct ledger_room host = {LEDGER_HOST, "cpu", 1000 * MIB, 0, 0.1, 0, false};
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    pid_t child = fork();
    if (child) return child;
    bool good = !ledger_open(home("host"), LEDGER_BUSY_MS, &ledger, NULL) &&
                !ledger_reserve(ledger, &host, "starts", 200 * MIB, &id, NULL);
    unsigned char *memory = mmap(NULL, mib * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    good = good && memory != MAP_FAILED;
    for (size_t i = 0; good && i < mib * MIB; i += 1024) ((volatile unsigned char *)memory)[i] = 1;
    good = good && write(ready[1], &c, 1) == 1 && read(go[0], &c, 1) == 1;
    _exit(good ? 0 : 1);
}

/* Touched memory is missing from the free memory and no longer expected; the ledger ignores memory beyond the
 * reservation. */
TEST_CASE(a_holder_of_the_hosts_memory_counts_once_while_it_starts)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* whose shadow of it is resident, too */
    skip();
#endif
    static const struct {
        int64_t touched, used;
    } cases[] = {{64, 64}, {250, 200}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        struct reservation *rows;
        size_t count;
        int ready[2], go[2], status;
        char c = 0;
        int64_t left;
        pid_t child = start_toucher((size_t)cases[i].touched, ready, go);
        assert_int_equal(read(ready[0], &c, 1), 1);
        struct ledger *ledger = opened("host");
        assert_int_equal(ledger_list(ledger, LEDGER_HOST, &rows, &count, &err), STATUS_OK);
        assert_int_equal(count, 1);
        assert_in_range(rows[0].used, (cases[i].used - 2) * MIB, (cases[i].used + 8) * MIB);
        free(rows);
        struct ledger_room host = {LEDGER_HOST, "cpu", 1000 * MIB, (1000 - cases[i].used) * MIB,
                                   0.1,         0,     false};
        assert_int_equal(ledger_left(ledger, &host, &left, &err), STATUS_OK);
        assert_in_range(left, 698 * MIB, 708 * MIB); /* as if it had touched nothing yet */
        assert_int_equal(write(go[1], &c, 1), 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        ledger_close(ledger);
    }
}

TEST_CASE(devices_have_their_own_memory)
{
    struct err err = {0};
    struct ledger_room second = room, unknown = {"mystery", "mystery", 0, 0, 0.1, 0, false};
    int64_t id;
    struct ledger *ledger = opened("devices");
    second.device = "gpu2";
    assert_int_equal(ledger_reserve(ledger, &room, "a", 900 * MIB, &id, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &second, "b", 900 * MIB, &id, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(ledger, &unknown, "c", (int64_t)1 << 50, &id, &err), STATUS_OK);
    struct reservation *rows;
    size_t count;
    assert_int_equal(ledger_list(ledger, second.device, &rows, &count, &err), STATUS_OK);
    assert_int_equal(count, 1);
    assert_int_equal(rows[0].used, 0); /* the memory of this process on the host does not count there */
    free(rows);
    ledger_close(ledger);
}

/* A child reserves and dies without releasing. */
TEST_CASE(reservations_of_dead_processes_do_not_count)
{
    struct err err = {0};
    int64_t id, bytes;
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct ledger *ledger;
        bool good = !ledger_open(home("dead"), LEDGER_BUSY_MS, &ledger, NULL) &&
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
TEST_CASE(a_reused_process_number_is_not_the_same_process)
{
    char command[200], boot[64];
    int64_t id, bytes;
    static const char *const lies[] = {"started = started - 1", "boot = 'of yesterday'"};
    for (int i = 0; i < 2; i++) {
        struct ledger *ledger = opened(i ? "boot" : "reused");
        assert_int_equal(ledger_reserve(ledger, &room, "impostor", 800 * MIB, &id, NULL), STATUS_OK);
        snprintf(command, sizeof command, "update reservations set %s", lies[i]);
        change(i ? "boot" : "reused", command);
        assert_int_equal(held(ledger, &bytes), 0);
        if (i) { /* and this boot is known by its name */
            FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
            if (!file || fscanf(file, "%63s", boot) != 1) skip();
            fclose(file);
            snprintf(command, sizeof command, "update reservations set boot = '%s'", boot);
            change("boot", command);
            assert_int_equal(held(ledger, &bytes), 1);
        }
        ledger_close(ledger);
    }
}

/* Requests 500 of the 900, reports when it is in the queue, and waits; then holds them until it may end.
 *
 * */
static void wait_in_the_queue(int ready, int go)
{
    struct ledger *ledger;
    int64_t id;
    char c = 'q';
    enum status status;
    if (ledger_open(home("queue"), LEDGER_BUSY_MS, &ledger, NULL)) _exit(2);
    if (ledger_wait(ledger, &room, "large", 500 * MIB, NULL)) _exit(3);
    if (write(ready, &c, 1) != 1) _exit(4);
    while ((status = ledger_reserve(ledger, &room, "large", 500 * MIB, &id, NULL)) == STATUS_BUSY)
        usleep(1000);
    if (status || write(ready, &c, 1) != 1 || read(go, &c, 1) != 1) _exit(5);
    _exit(0); /* and just dies */
}

static pid_t queue_another(int ready[2], int go[2])
{
    char c;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    pid_t child = fork();
    if (child == 0) wait_in_the_queue(ready[1], go[0]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    return child;
}

TEST_CASE(a_later_process_does_not_overtake_the_queue)
{
    struct err err = {0};
    int64_t id, small;
    int ready[2], go[2], status;
    char c;
    ledger_close(opened("queue"));
    pid_t child;
    struct ledger *ledger = opened("queue"), *other = opened("queue");
    assert_int_equal(ledger_reserve(ledger, &room, "first", 600 * MIB, &id, &err), STATUS_OK);
    child = queue_another(ready, go);
    assert_int_equal(ledger_reserve(other, &room, "small", 100 * MIB, &small, &err), STATUS_BUSY);
    assert_non_null(strstr(err.text, "gpu: large (process "));
    assert_non_null(strstr(err.text, ") waits for 500.0 MiB and came before"));
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
    assert_int_equal(write(go[1], &c, 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ledger_close(other);
    ledger_close(ledger);
}

/* A reservation stays, but a place in the queue ends with its process or its ledger. */
TEST_CASE(a_process_that_stops_waiting_leaves_the_queue)
{
    struct err err = {0};
    int64_t id, small;
    int ready[2], go[2];
    struct ledger *ledger = opened("queue"), *other = opened("queue");
    assert_int_equal(ledger_reserve(ledger, &room, "first", 600 * MIB, &id, &err), STATUS_OK);
    pid_t child = queue_another(ready, go);
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

/* ---- memory that a waiting process holds ---- */

/* Both would wait for ever: the first for memory of the second, the second for its turn. */
TEST_CASE(a_process_that_would_block_the_queue_may_not_wait)
{
    struct err err = {0};
    struct ledger_room context = room;
    struct ledger *first = opened("standing"), *second = opened("standing"), *third = opened("standing");
    context.taken = 60 * MIB;
    assert_int_equal(ledger_wait(first, &context, "large", 800 * MIB, &err), STATUS_OK);
    assert_int_equal(ledger_wait(second, &context, "small", 100 * MIB, &err), STATUS_OK);
    assert_int_equal(ledger_wait(third, &context, "another", 100 * MIB, &err), STATUS_BUSY);
    assert_non_null(strstr(err.text, "large (process "));
    assert_non_null(strstr(err.text, ") waits for 800.0 MiB and needs memory that this"));
    ledger_close(second);
    assert_int_equal(ledger_wait(third, &context, "another", 100 * MIB, &err), STATUS_OK);
    ledger_close(third);
    ledger_close(first);
}

/* ---- the file ---- */

/* The clock was set back after the first had come, and far ahead after the second. */
TEST_CASE(the_order_is_that_of_arrival_whatever_the_clock_says)
{
    struct err err = {0};
    struct reservation *rows;
    size_t count;
    struct ledger *ledgers[3];
    static const char *const names[] = {"one", "two", "three"};
    for (int i = 0; i < 3; i++) {
        ledgers[i] = opened("clock");
        for (int again = 0; again < 2; again++) /* keeps its place */
            assert_int_equal(ledger_wait(ledgers[i], &room, names[i], (i + 1) * 100 * MIB, &err), STATUS_OK);
    }
    change("clock", "update waiting set since = case id when 1 then 9e9 when 2 then 0 else since end");
    assert_int_equal(ledger_list(ledgers[0], "gpu", &rows, &count, &err), STATUS_OK);
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(rows[i].waits);
        assert_string_equal(rows[i].holder, names[i]);
        assert_int_equal(rows[i].bytes, (i + 1) * 100 * MIB);
    }
    free(rows);
    assert_int_equal(ledger_reserve(ledgers[1], &room, "two", 200 * MIB, &(int64_t){0}, &err), STATUS_BUSY);
    assert_int_equal(ledger_reserve(ledgers[0], &room, "one", 100 * MIB, &(int64_t){0}, &err), STATUS_OK);
    for (int i = 0; i < 3; i++) ledger_close(ledgers[i]);
}

/* The rows in a file of the very first version belong to processes that ended long ago. */
TEST_CASE(a_ledger_of_the_first_version_opens_and_one_of_the_last_keeps_what_it_holds)
{
    struct err err = {0};
    int64_t id, bytes;
    for (int old = 0; old < 2; old++) {
        struct ledger *ledger = opened("old");
        assert_int_equal(ledger_reserve(ledger, &room, "long-running", 600 * MIB, &id, &err), STATUS_OK);
        ledger_close(ledger);
        if (old)
            change("old", "alter table reservations drop column home; alter table waiting drop column home;"
                          "pragma user_version = 2");
        ledger = opened("old");
        assert_int_equal(held(ledger, &bytes), !old);
        if (!old) assert_int_equal(ledger_release(ledger, id, &err), STATUS_OK);
        assert_int_equal(ledger_reserve(ledger, &room, "new", 600 * MIB, &id, &err), STATUS_OK);
        assert_int_equal(ledger_release(ledger, id, &err), STATUS_OK);
        ledger_close(ledger);
    }
}

TEST_MAIN()
