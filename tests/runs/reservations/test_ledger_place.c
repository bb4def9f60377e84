/* Where the ledger of device memory lies: all of one user's runs meet there, and nobody else can put theirs
 * in its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "runs/reservations/ledger_place.h"

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

static struct ledger_place find(const struct memory *m, const char *home, bool create)
{
    struct ledger_place place;
    struct err err = {0};
    if (ledger_place_find(m->root, home, create, &place, &err)) fail_msg("%s", err.text);
    return place;
}

/* For one who reserves and for one who only looks. */
static void expect_mistrust(const struct memory *m, const char *what, const char *why)
{
    char text[700];
    snprintf(text, sizeof text, "%s: %s (set ANNEAL_LEDGER to a folder", what, why);
    for (int create = 0; create < 2; create++) {
        struct ledger_place place = find(m, "/home-a", create);
        assert_string_equal(place.folder, "/home-a");
        if (strncmp(place.apart.text, text, strlen(text)) != 0) fail_msg("%s", place.apart.text);
        assert_int_not_equal(place.apart.status, STATUS_OK);
    }
}

static unsigned mode_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 07777;
}

static void all_homes_of_a_user_meet_in_a_folder_of_this_user_alone(void **state)
{
    (void)state;
    struct memory m = make_memory("meet");
    mode_t umask_before = umask(0);
    struct ledger_place a = find(&m, "/home-a", true);
    umask(umask_before);
    struct ledger_place b = find(&m, "/home-b", true), c = find(&m, NULL, true);
    assert_string_equal(a.folder, m.own);
    assert_string_equal(b.folder, m.own);
    assert_string_equal(c.folder, m.own);
    assert_int_equal(a.apart.status, STATUS_OK);
    assert_int_equal(mode_of(m.own), 0700);
}

static void who_only_looks_finds_the_same_place_and_creates_nothing(void **state)
{
    (void)state;
    struct memory m = make_memory("looks");
    struct ledger_place place = find(&m, "/home-a", false);
    assert_string_equal(place.folder, m.own);
    assert_int_equal(place.apart.status, STATUS_OK);
    assert_false(file_exists(m.own));
}

static void a_link_a_file_and_a_folder_that_others_may_write_are_not_trusted(void **state)
{
    (void)state;
    struct memory m = make_memory("mistrust");
    char real[600];
    snprintf(real, sizeof real, "%s/real", m.root);
    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(symlink(real, m.own), 0);
    expect_mistrust(&m, m.own, "is no folder");
    assert_int_equal(unlink(m.own), 0);
    FILE *file = fopen(m.own, "w");
    assert_non_null(file);
    fclose(file);
    expect_mistrust(&m, m.own, "is no folder");
    assert_int_equal(unlink(m.own), 0);
    assert_int_equal(mkdir(m.own, 0700), 0);
    assert_int_equal(find(&m, "/home-a", true).apart.status, STATUS_OK);
    static const mode_t open_to[] = {0720, 0702, 0777};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(chmod(m.own, open_to[i]), 0);
        expect_mistrust(&m, m.own, "others may write there");
    }
}

static void another_user_s_folder_is_not_trusted(void **state)
{
    (void)state;
    struct memory m = make_memory("foreign");
    assert_int_equal(mkdir(m.own, 0700), 0);
    if (chown(m.own, geteuid() + 1, (gid_t)-1) != 0) {
        print_message("SKIP: only root can give a folder away\n");
        skip();
    }
    expect_mistrust(&m, m.own, "belongs to another user");
}

static void a_place_that_others_may_rename_or_that_is_not_there_is_not_trusted(void **state)
{
    (void)state;
    struct memory m = make_memory("parent");
    assert_int_equal(chmod(m.root, 0777), 0);
    expect_mistrust(&m, m.root, "others may rename what is in it");
    assert_int_equal(rmdir(m.root), 0);
    expect_mistrust(&m, m.root, "No such file or directory");
}

static void without_a_home_there_is_nothing_to_fall_back_on(void **state)
{
    (void)state;
    struct memory m = make_memory("homeless");
    struct ledger_place place;
    struct err err = {0};
    assert_int_equal(rmdir(m.root), 0);
    assert_int_equal(ledger_place_find(m.root, NULL, true, &place, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "set ANNEAL_LEDGER to a folder"));
}

static void the_folder_that_is_named_goes_before_all_and_must_not_depend_on_where_a_run_starts(void **state)
{
    (void)state;
    struct memory m = make_memory("named");
    struct ledger_place place;
    struct err err = {0};
    setenv("ANNEAL_LEDGER", "/srv/ours", 1);
    place = find(&m, "/home-a", true);
    assert_string_equal(place.folder, "/srv/ours");
    assert_int_equal(place.apart.status, STATUS_OK);
    assert_false(file_exists(m.own));
    setenv("ANNEAL_LEDGER", "ours", 1);
    assert_int_equal(ledger_place_find(m.root, "/home-a", true, &place, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "ANNEAL_LEDGER: \"ours\" depends on where a run is started"));
    setenv("ANNEAL_LEDGER", "", 1);
    assert_string_equal(find(&m, "/home-a", true).folder, m.own);
}

static void two_homes_share_what_is_left_and_each_is_told(void **state)
{
    (void)state;
    static const struct ledger_room room = {"gpu", "gpu", 1000, 0, 0.1, 0, false, 0};
    struct memory m = make_memory("share");
    struct err err = {0}, apart;
    struct ledger *a, *b, *before;
    struct reservation *rows;
    size_t count;
    int64_t id;
    setenv("ANNEAL_LEDGER", m.own, 1);
    assert_int_equal(ledger_place_open("/home-b", true, &before, &apart, &err), STATUS_OK);
    assert_null(before); /* nobody keeps one yet */
    assert_false(file_exists(m.own));
    assert_int_equal(ledger_list(before, NULL, &rows, &count, &err), STATUS_OK);
    assert_int_equal(count, 0);
    assert_int_equal(ledger_place_open("/home-a", false, &a, &apart, &err), STATUS_OK);
    assert_int_equal(ledger_reserve(a, &room, "run-a", 600, &id, &err), STATUS_OK);
    assert_int_equal(ledger_place_open("/home-b", true, &b, &apart, &err), STATUS_OK);
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
static void whoever_may_write_the_folder_may_write_the_file(void **state)
{
    (void)state;
    static const struct {
        mode_t folder, file;
    } cases[] = {{02770, 0660}, {0755, 0644}, {0700, 0600}};
    struct err err = {0};
    char path[700];
    for (int i = 0; i < 3; i++) {
        struct memory m = make_memory("rights");
        struct ledger *ledger;
        struct stat info;
        assert_int_equal(mkdir(m.own, 0700), 0);
        bool given = chown(m.own, (uid_t)-1, getegid() + 1) == 0; /* root alone may */
        assert_int_equal(chmod(m.own, cases[i].folder), 0);
        mode_t umask_before = umask(077);
        assert_int_equal(ledger_open(m.own, &ledger, &err), STATUS_OK);
        umask(umask_before);
        ledger_close(ledger);
        assert_int_equal(ledger_file_path(m.own, path, sizeof path, &err), STATUS_OK);
        assert_int_equal(mode_of(path), cases[i].file);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_gid, getegid() + given);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_homes_of_a_user_meet_in_a_folder_of_this_user_alone),
        cmocka_unit_test(who_only_looks_finds_the_same_place_and_creates_nothing),
        cmocka_unit_test(a_link_a_file_and_a_folder_that_others_may_write_are_not_trusted),
        cmocka_unit_test(another_user_s_folder_is_not_trusted),
        cmocka_unit_test(a_place_that_others_may_rename_or_that_is_not_there_is_not_trusted),
        cmocka_unit_test(without_a_home_there_is_nothing_to_fall_back_on),
        cmocka_unit_test(the_folder_that_is_named_goes_before_all_and_must_not_depend_on_where_a_run_starts),
        cmocka_unit_test(two_homes_share_what_is_left_and_each_is_told),
        cmocka_unit_test(whoever_may_write_the_folder_may_write_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
