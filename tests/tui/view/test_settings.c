/* The file of settings: what it preserves, two workbenches that write it, forms that are kept in it, and
 * files that are no settings. */
#include <sys/stat.h>

#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"
#include "tui/view/form.h"
#include "tui/view/settings.h"

static void write_settings(const char *home, const char *bytes, size_t size)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/workbench.ini", home);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void expect_file(const char *home, const char *text)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/workbench.ini", home);
    char *got = store_fixture_slurp(path, NULL);
    assert_string_equal(got, text);
    free(got);
}

TEST_CASE(lines_that_it_does_not_know_are_preserved)
{
    static const char before[] =
        "; a comment = kept\n\n[section]\n  key =  value with = and blanks  \nno setting\n";
    char home[1024];
    struct settings settings;
    struct err err = {0};
    store_fixture_home("kept", home, sizeof home);
    write_settings(home, before, sizeof before - 1);
    settings_open(&settings, home);
    assert_string_equal(settings_get(&settings, "key"), "value with = and blanks");
    assert_string_equal(settings_get(&settings, "; a comment"), "");
    assert_int_equal(settings_close(&settings, &err), STATUS_OK);
    expect_file(home, before); /* nothing has changed: not written */
    settings_open(&settings, home);
    settings_set(&settings, "key", "other");
    settings_set(&settings, "new", "1");
    settings_set(&settings, "never", "");
    settings_set(&settings, "two", "lines\nkey = owned");
    assert_int_equal(settings_close(&settings, &err), STATUS_OK);
    expect_file(home, "; a comment = kept\n\n[section]\nkey = other\nno setting\nnew = 1\n");
}

TEST_CASE(two_workbenches_keep_each_others_settings)
{
    char home[1024];
    struct settings one, other;
    struct err err = {0};
    store_fixture_home("two", home, sizeof home);
    settings_open(&one, home);
    settings_open(&other, home);
    settings_set(&one, "a", "1");
    settings_set(&other, "b", "2");
    assert_int_equal(settings_close(&one, &err), STATUS_OK);
    assert_int_equal(settings_close(&other, &err), STATUS_OK);
    expect_file(home, "a = 1\nb = 2\n");
}

TEST_CASE(a_form_is_recalled_with_the_fields_that_were_emptied)
{
    enum { FIELDS = 2 };
    static const struct form_field fields[FIELDS] = {{.key = "name"}, {.key = "batch"}};
    struct input input[FIELDS];
    struct form form = {.fields = fields, .input = input, .count = FIELDS};
    struct settings settings;
    char home[1024];
    store_fixture_home("recalled", home, sizeof home);
    settings_open(&settings, home);
    for (int emptied = 0; emptied < 2; emptied++) {
        input_set(&input[0], "mine"), input_set(&input[1], emptied ? "" : "8");
        form_keep(&form, &settings, emptied ? "first" : "second", false);
        input_set(&input[0], "base-2"), input_set(&input[1], "2"); /* as the form of a run begins */
        assert_true(form_recall(&form, &settings, emptied ? "first" : "second"));
        assert_string_equal(input[0].text, "mine");
        assert_string_equal(input[1].text, emptied ? "" : "8");
    }
    form_keep(&form, &settings, "second", true);
    input_set(&input[1], "2");
    assert_false(form_recall(&form, &settings, "second")); /* it was dropped */
    assert_false(form_recall(&form, &settings, "never"));
    assert_string_equal(input[1].text, "2");
    assert_int_equal(settings_close(&settings, NULL), STATUS_OK);
}

TEST_CASE(lines_and_files_may_be_long_but_not_too_long)
{
    enum { FILE_MOST = 64 << 10, LINE_MOST = 4096 };
    char home[1024], *text = malloc(FILE_MOST + 2);
    struct settings settings;
    struct err err = {0};
    assert_non_null(text);
    store_fixture_home("long", home, sizeof home);
    for (int more = 0; more < 2; more++) { /* a file of just the size, and one byte more */
        memset(text, '\n', FILE_MOST + 1);
        memcpy(text, "a = 1", 5);
        write_settings(home, text, (size_t)(FILE_MOST + more));
        settings_open(&settings, home);
        assert_int_equal(settings_has(&settings, "a", "1"), !more);
        assert_int_equal(settings_close(&settings, &err), STATUS_OK);
    }
    write_settings(home, "a = 1\n", 6);
    for (size_t n = LINE_MOST - 12; n < LINE_MOST + 12; n++) { /* what is too long is not kept */
        memset(text, 'x', n);
        text[n] = '\0';
        settings_open(&settings, home);
        settings_set(&settings, "b", text);
        settings_set(&settings, "a", n % 2 ? "2" : "3");
        assert_int_equal(settings_close(&settings, &err), STATUS_OK); /* and never harms the others */
    }
    free(text);
}

TEST_CASE(files_that_are_no_settings_do_no_harm)
{
    char home[1024], path[1100];
    struct settings settings;
    struct err err = {0};
    size_t size = 200000;
    char *bytes = malloc(size);
    assert_non_null(bytes);
    store_fixture_home("harm", home, sizeof home);
    for (size_t i = 0; i < size; i++) bytes[i] = (char)(i * 37 + (i >> 8));
    for (size_t n = 0; n < 60000; n = n * 3 + 1) {
        write_settings(home, bytes, n);
        settings_open(&settings, home);
        settings_get(&settings, "a");
        assert_int_equal(settings_close(&settings, &err), STATUS_OK);
    }
    write_settings(home, bytes, size);
    settings_open(&settings, home);
    assert_int_equal(settings.count, 0); /* too long */
    settings_set(&settings, "a", "1");
    assert_int_equal(settings_close(&settings, &err), STATUS_CORRUPT); /* and left alone */
    memset(bytes, 'x', 9000);                                          /* a line too long, a byte 0 */
    write_settings(home, bytes, 9000);
    settings_open(&settings, home);
    settings_set(&settings, "a", "1");
    assert_int_equal(settings_close(&settings, &err), STATUS_CORRUPT);
    write_settings(home, "a = \0\nb = 2\n", 12);
    settings_open(&settings, home);
    settings_set(&settings, "a", "1");
    assert_int_equal(settings_close(&settings, &err), STATUS_CORRUPT);
    snprintf(path, sizeof path, "%s/workbench.ini", home);
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    settings_open(&settings, home);
    settings_set(&settings, "a", "1");
    assert_int_not_equal(settings_close(&settings, &err), STATUS_OK);
    free(bytes);
}

TEST_MAIN()
