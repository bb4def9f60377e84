/* The folder of the ledger of device memory: all runs of a user share it, and no other user can replace
 * it. */
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/reservations/ledger.h"
#include "tests/cmocka.h"

/* A stand-in for /dev/shm, and the folder of this user in it. */
struct memory {
    char root[500], own[600];
};

static struct memory make_memory(const char *name)
{
    struct memory m;
    struct err err = {0};
    snprintf(m.root, sizeof m.root, "%s/%s", getenv("ANNEAL_TEST_DIR"), name);
    snprintf(m.own, sizeof m.own, "%s/anneal-%u", m.root, (unsigned)geteuid());
    if (file_remove_tree(m.root, &err) || file_make_folders(m.root, &err)) fail_msg("%s", err.text);
    assert_int_equal(chmod(m.root, 01777), 0);
    unsetenv("ANNEAL_LEDGER");
    return m;
}

static const char *find(const struct memory *m, const char *home, bool create)
{
    static char folder[PATH_MAX];
    struct err err = {0};
    if (ledger_folder(m->root, home, create, folder, &err)) fail_msg("%s", err.text);
    return folder;
}

/* For a process that reserves and for one that only reads. */
static void expect_mistrust(const struct memory *m)
{
    assert_string_equal(find(m, "/home-a", false), "/home-a");
    assert_string_equal(find(m, "/home-a", true), "/home-a");
}

static unsigned mode_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 07777;
}

TEST_CASE(all_homes_of_a_user_meet_in_a_folder_of_this_user_alone)
{
    struct memory m = make_memory("meet");
    mode_t umask_before = umask(0);
    assert_string_equal(find(&m, "/home-a", true), m.own);
    umask(umask_before);
    assert_string_equal(find(&m, "/home-b", true), m.own);
    assert_string_equal(find(&m, NULL, true), m.own);
    assert_int_equal(mode_of(m.own), 0700);
}

TEST_CASE(who_only_looks_finds_the_same_place_and_creates_nothing)
{
    struct memory m = make_memory("looks");
    assert_string_equal(find(&m, "/home-a", false), m.own);
    assert_false(file_exists(m.own));
}

TEST_CASE(a_link_a_file_and_a_folder_that_others_may_write_are_not_trusted)
{
    struct memory m = make_memory("mistrust");
    char real[600];
    snprintf(real, sizeof real, "%s/real", m.root);
    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(symlink(real, m.own), 0);
    expect_mistrust(&m);
    assert_int_equal(unlink(m.own), 0);
    FILE *file = fopen(m.own, "w");
    assert_non_null(file);
    fclose(file);
    expect_mistrust(&m);
    assert_int_equal(unlink(m.own), 0);
    assert_int_equal(mkdir(m.own, 0700), 0);
    assert_string_equal(find(&m, "/home-a", true), m.own);
    static const mode_t open_to[] = {0720, 0702, 0777};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(chmod(m.own, open_to[i]), 0);
        expect_mistrust(&m);
    }
}

TEST_CASE(another_user_s_folder_is_not_trusted)
{
    struct memory m = make_memory("foreign");
    assert_int_equal(mkdir(m.own, 0700), 0);
    if (chown(m.own, geteuid() + 1, (gid_t)-1) != 0) {
        print_message("SKIP: only root can give a folder away\n");
        skip();
    }
    expect_mistrust(&m);
}

TEST_CASE(a_place_that_others_may_rename_or_that_is_not_there_is_not_trusted)
{
    struct memory m = make_memory("parent");
    assert_int_equal(chmod(m.root, 0777), 0);
    expect_mistrust(&m);
    assert_int_equal(rmdir(m.root), 0);
    expect_mistrust(&m);
}

TEST_CASE(without_a_home_there_is_nothing_to_fall_back_on)
{
    struct memory m = make_memory("homeless");
    char folder[PATH_MAX];
    struct err err = {0};
    assert_int_equal(rmdir(m.root), 0);
    assert_int_equal(ledger_folder(m.root, NULL, true, folder, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "set ANNEAL_LEDGER to a folder"));
}

TEST_CASE(the_folder_that_is_named_goes_before_all_and_must_not_depend_on_where_a_run_starts)
{
    struct memory m = make_memory("named");
    char folder[PATH_MAX];
    struct err err = {0};
    setenv("ANNEAL_LEDGER", "/srv/ours", 1);
    assert_string_equal(find(&m, "/home-a", true), "/srv/ours");
    assert_false(file_exists(m.own));
    setenv("ANNEAL_LEDGER", "ours", 1);
    assert_int_equal(ledger_folder(m.root, "/home-a", true, folder, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "ANNEAL_LEDGER: \"ours\" depends on where a run is started"));
    setenv("ANNEAL_LEDGER", "", 1);
    assert_string_equal(find(&m, "/home-a", true), m.own);
}

TEST_CASE(two_homes_share_what_is_left_and_each_is_reported)
{
    static const struct ledger_room room = {"gpu", "gpu", 1000, 0, 0.1, 0, false};
    struct memory m = make_memory("share");
    struct err err = {0};
    struct ledger *a, *b, *before;
    struct reservation *rows;
    size_t count;
    int64_t id;
    setenv("ANNEAL_LEDGER", m.own, 1);
    assert_int_equal(ledger_open_own("/home-b", true, &before, &err), STATUS_OK);
    assert_null(before); /* nobody keeps one yet */
    assert_false(file_exists(m.own));
    assert_int_equal(ledger_list(before, NULL, &rows, &count, &err), STATUS_OK);
    assert_int_equal(count, 0);
    assert_int_equal(ledger_open_own("/home-a", false, &a, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(a, &room, "run-a", 600, &id, &err), STATUS_OK);
    assert_int_equal(ledger_open_own("/home-b", true, &b, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(b, &room, "run-b", 301, &id, &err), STATUS_BUSY);
    assert_int_equal(ledger_reserve(b, &room, "run-b", 300, &id, &err), STATUS_OK);
    assert_int_equal(ledger_list(b, "gpu", &rows, &count, &err), STATUS_OK);
    assert_int_equal(count, 2);
    assert_string_equal(rows[0].home, "/home-a");
    assert_string_equal(rows[1].home, "/home-b");
    free(rows);
    ledger_close(a);
    ledger_close(b);
}

/* SQLite alone would take this process's umask, and the others of the group could not write. */
TEST_CASE(whoever_may_write_the_folder_may_write_the_file)
{
    static const struct {
        mode_t folder, file;
    } cases[] = {{02770, 0660}, {0755, 0644}, {0700, 0600}};
    struct err err = {0};
    char path[700], host[65];
    assert_int_equal(gethostname(host, sizeof host), 0);
    for (int i = 0; i < 3; i++) {
        struct memory m = make_memory("rights");
        struct ledger *ledger;
        assert_int_equal(mkdir(m.own, 0700), 0);
        assert_int_equal(chmod(m.own, cases[i].folder), 0);
        mode_t umask_before = umask(077);
        assert_int_equal(ledger_open(m.own, LEDGER_BUSY_MS, &ledger, &err), STATUS_OK);
        umask(umask_before);
        ledger_close(ledger);
        snprintf(path, sizeof path, "%s/ledger-%s.db", m.own, host);
        assert_int_equal(mode_of(path), cases[i].file);
    }
}

TEST_MAIN()
