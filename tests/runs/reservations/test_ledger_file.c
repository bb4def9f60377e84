/* The ledger's file when something is wrong with it: no memory is reserved that may not exist, no process
 * waits for ever, and the message names the file and what to do. */
#include <linux/capability.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/err.h"
#include "runs/reservations/ledger.h"
#include "tests/cmocka.h"

enum { MIB = 1 << 20 };

static const struct ledger_room room = {"gpu", "gpu", (int64_t)1000 * MIB, 0, 0.1, 0, false};

static const char *home(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", getenv("ANNEAL_TEST_DIR"), name);
    return path;
}

static const char *file(const char *name)
{
    static char path[1000];
    char host[65];
    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(path, sizeof path, "%s/ledger-%s.db", home(name), host);
    return path;
}

static struct ledger *opened(const char *name)
{
    struct ledger *ledger = NULL;
    struct err err = {0};
    if (ledger_open(home(name), LEDGER_BUSY_MS, &ledger, &err)) fail_msg("%s", err.text);
    return ledger;
}

static void expect_words(const struct err *err, const char *path, const char *remedy)
{
    if (!strstr(err->text, path)) fail_msg("no %s in: %s", path, err->text);
    if (!strstr(err->text, remedy)) fail_msg("no %s in: %s", remedy, err->text);
}

TEST_CASE(a_file_that_is_no_ledger_is_reported)
{
    struct ledger *ledger;
    struct err err = {0};
    mkdir(home("garbage"), 0777);
    FILE *f = fopen(file("garbage"), "w");
    for (int i = 0; i < 1000; i++) fputs("this is not a database ", f);
    fclose(f);
    assert_int_equal(ledger_open(home("garbage"), LEDGER_BUSY_MS, &ledger, &err), STATUS_IO);
    expect_words(&err, file("garbage"), "so it may be deleted while no run trains");
}

/* Whoever made the link would choose which file of ours is written. */
TEST_CASE(a_symbolic_link_is_not_followed)
{
    struct ledger *ledger;
    struct err err = {0};
    mkdir(home("linked"), 0777);
    assert_int_equal(symlink(home("elsewhere"), file("linked")), 0);
    assert_int_equal(ledger_open(home("linked"), LEDGER_BUSY_MS, &ledger, &err), STATUS_IO);
    expect_words(&err, file("linked"), "is a symbolic link");
    assert_int_not_equal(access(home("elsewhere"), F_OK), 0);
}

static void change(const char *name, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(file(name), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

TEST_CASE(a_file_with_another_name_or_that_every_user_may_write_is_refused)
{
    struct ledger *ledger;
    struct err err = {0};
    char other[700];
    ledger_close(opened("two-names"));
    snprintf(other, sizeof other, "%s-other", home("two-names"));
    assert_int_equal(link(file("two-names"), other), 0);
    assert_int_equal(ledger_open(home("two-names"), LEDGER_BUSY_MS, &ledger, &err), STATUS_IO);
    expect_words(&err, file("two-names"), "has another name, too");
    assert_int_equal(unlink(other), 0);
    assert_int_equal(chmod(file("two-names"), 0666), 0);
    assert_int_equal(ledger_open(home("two-names"), LEDGER_BUSY_MS, &ledger, &err), STATUS_IO);
    expect_words(&err, file("two-names"), "every user of this machine may write it");
    assert_int_equal(chmod(file("two-names"), 0660), 0);
    ledger_close(opened("two-names"));
}

TEST_CASE(any_version_in_the_file_and_any_number_in_its_rows_is_survived)
{
    static const char *const versions[] = {"-2000000", "-1", "2147483647"};
    struct err err = {0};
    char sql[100];
    int64_t id, left;
    for (int i = 0; i < 3; i++) {
        snprintf(sql, sizeof sql, "pragma user_version = %s", versions[i]);
        mkdir(home("hostile"), 0755);
        change("hostile", sql); /* at first a database without tables */
        struct ledger *ledger = opened("hostile");
        assert_int_equal(ledger_reserve(ledger, &room, "run", MIB, &id, &err), STATUS_OK);
        for (int row = 0; row < 3; row++) /* sums of such numbers would overflow */
            change("hostile",
                   "insert into reservations(boot, pid, started, device, holder, bytes, used, since)"
                   " select boot, pid, started, device, 'x', 9223372036854775807, -1, 0 from"
                   " reservations where bytes = 1048576");
        assert_int_equal(ledger_left(ledger, &room, &left, &err), STATUS_OK);
        assert_int_equal(left, (int64_t)899 * MIB);
        change("hostile", "update reservations set used = 9223372036854775807 where bytes = 1048576");
        struct reservation *rows;
        size_t count;
        assert_int_equal(ledger_list(ledger, room.device, &rows, &count, &err), STATUS_OK);
        assert_int_equal(count, 4);
        for (size_t row = 0; row < count; row++) assert_true(rows[row].used <= rows[row].bytes);
        free(rows);
        change("hostile", "delete from reservations");
        ledger_close(ledger);
    }
}

TEST_CASE(a_folder_that_every_user_may_write_is_refused)
{
    char folder[PATH_MAX];
    struct err err = {0};
    setenv("ANNEAL_LEDGER", home("open"), 1);
    mkdir(home("open"), 0777);
    assert_int_equal(chmod(home("open"), 01777), 0);
    assert_int_equal(ledger_folder("/dev/shm", NULL, true, folder, &err), STATUS_USAGE);
    expect_words(&err, home("open"), "chmod o-w,g+w");
    assert_int_equal(chmod(home("open"), 0770), 0);
    assert_int_equal(ledger_folder("/dev/shm", NULL, true, folder, &err), STATUS_OK);
    unsetenv("ANNEAL_LEDGER");
}

/* The header is good but the rows are damaged, which must not look like the end of the list. */
TEST_CASE(rows_that_cannot_be_read_are_not_taken_for_none)
{
    struct err err = {0};
    struct reservation *rows;
    size_t count;
    int64_t id, left;
    struct ledger *ledger = opened("torn");
    assert_int_equal(ledger_reserve(ledger, &room, "run", 800 * (int64_t)MIB, &id, &err), STATUS_OK);
    ledger_close(ledger);
    struct stat info;
    assert_int_equal(stat(file("torn"), &info), 0);
    FILE *f = fopen(file("torn"), "r+");
    assert_int_equal(fseek(f, 4096, SEEK_SET), 0);
    for (long i = 4096; i < info.st_size; i++) fputc(0xff, f);
    fclose(f);
    ledger = opened("torn");
    assert_int_equal(ledger_list(ledger, "gpu", &rows, &count, &err), STATUS_IO);
    expect_words(&err, file("torn"), "so it may be deleted while no run trains");
    assert_int_equal(ledger_left(ledger, &room, &left, &err), STATUS_IO);
    assert_int_equal(ledger_reserve(ledger, &room, "run", MIB, &id, &err), STATUS_IO);
    assert_int_equal(ledger_wait(ledger, &room, "run", MIB, &err), STATUS_IO);
    ledger_close(ledger);
}

/* A process is stopped within a transaction: the others get an error, and continue when it does. */
TEST_CASE(a_process_that_hangs_with_the_file_locked_is_not_waited_for)
{
    struct err err = {0};
    int64_t id;
    int status;
    struct ledger *ledger;
    if (ledger_open(home("locked"), 300, &ledger, &err)) fail_msg("%s", err.text);
    pid_t child = fork();
    if (child == 0) {
        sqlite3 *db;
        if (sqlite3_open(file("locked"), &db) ||
            sqlite3_exec(db, "begin immediate; update waiting set used = 0", NULL, NULL, NULL))
            _exit(1);
        raise(SIGSTOP);
        _exit(sqlite3_exec(db, "rollback", NULL, NULL, NULL) ? 2 : 0);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(ledger_reserve(ledger, &room, "run", MIB, &id, &err), STATUS_IO);
    expect_words(&err, file("locked"), "`fuser` shows the process that keeps it locked");
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(ledger_reserve(ledger, &room, "run", MIB, &id, &err), STATUS_OK);
    ledger_close(ledger);
}

/* Runs `work` in a child, and fails with what it says. */
static void expect_of_a_child(const char *(*work)(void))
{
    int said[2], status;
    char text[600] = "";
    assert_int_equal(pipe(said), 0);
    pid_t child = fork();
    if (child == 0) {
        const char *wrong = work();
        if (wrong && write(said[1], wrong, strlen(wrong)) < 0) _exit(2);
        _exit(wrong ? 1 : 0);
    }
    close(said[1]);
    ssize_t n = read(said[0], text, sizeof text - 1);
    close(said[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status) fail_msg("%.*s", (int)(n > 0 ? n : 0), text);
}

/* An error as what went wrong with the test; NULL: as it should be. */
static const char *refused(enum status status, const struct err *err, const char *name, const char *remedy)
{
    static char text[600];
    snprintf(text, sizeof text, "status %d: %s", status, err->text);
    return status == STATUS_IO && strstr(err->text, file(name)) && strstr(err->text, remedy) ? NULL : text;
}

static const char *reserve_without_disk(void)
{
    struct err err = {0};
    struct ledger *ledger;
    int64_t id;
    struct rlimit none = {0, RLIM_INFINITY};
    if (ledger_open(home("disk"), LEDGER_BUSY_MS, &ledger, &err)) return "cannot open";
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
    enum status status = ledger_reserve(ledger, &room, "late", 200 * (int64_t)MIB, &id, &err);
    const char *wrong = refused(status, &err, "disk", "disk");
    none.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &none);
    if (!wrong && ledger_reserve(ledger, &room, "late", 201 * (int64_t)MIB, &id, &err) != STATUS_BUSY)
        wrong = "what was reserved before is forgotten";
    if (!wrong && ledger_reserve(ledger, &room, "late", 200 * (int64_t)MIB, &id, &err))
        wrong = "it does not go on when there is room again";
    ledger_close(ledger);
    return wrong;
}

TEST_CASE(a_disk_without_room_leaves_what_is_reserved_as_it_is)
{
    struct err err = {0};
    int64_t id;
    struct ledger *ledger = opened("disk");
    assert_int_equal(ledger_reserve(ledger, &room, "early", 700 * (int64_t)MIB, &id, &err), STATUS_OK);
    expect_of_a_child(reserve_without_disk);
    ledger_close(ledger);
}

/* As any other user: root may write everywhere. */
static void give_up_privileges(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    syscall(SYS_capset, &header, none);
}

static const char *reserve_where_nothing_may_be_written(void)
{
    struct err err = {0};
    struct ledger *ledger;
    int64_t id;
    give_up_privileges();
    enum status status = ledger_open(home("sealed"), LEDGER_BUSY_MS, &ledger, &err);
    if (!status) status = ledger_reserve(ledger, &room, "run", MIB, &id, &err);
    return refused(status, &err, "sealed", "(make it and its folder writable");
}

TEST_CASE(a_file_that_may_not_be_written_is_reported)
{
    ledger_close(opened("sealed"));
    assert_int_equal(chmod(file("sealed"), 0444), 0);
    assert_int_equal(chmod(home("sealed"), 0555), 0);
    expect_of_a_child(reserve_where_nothing_may_be_written);
    assert_int_equal(chmod(home("sealed"), 0755), 0);
}

TEST_MAIN()
