/* JSON in files: objects are read, and reals written with no more digits than they need. */
#include "core/base/file.h"
#include "datasets/json_file.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

TEST_CASE(reals_have_the_fewest_digits_that_keep_all_of_them)
{
    static const struct {
        double values[2];
        const char *text;
    } cases[] = {
        {{0.1, 1e-5}, "[0.1,1e-5]\n"}, /* 15 digits */
        {{0.1, 0.12345678901234566}, "[0.10000000000000001,0.12345678901234566]\n"},
        {{1.0 / 3, 2}, "[0.3333333333333333,2.0]\n"},
        {{0.1 + 0.2, 1}, "[0.30000000000000004,1.0]\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *list = json_pack("[f, f]", cases[i].values[0], cases[i].values[1]);
        char *text = json_file_text(list, JSON_COMPACT);
        assert_non_null(text);
        json_t *again = json_loads(text, 0, NULL);
        assert_true(json_equal(list, again));
        assert_string_equal(text, cases[i].text);
        json_decref(again);
        json_decref(list);
        free(text);
    }
}

TEST_CASE(a_file_holds_an_object_or_is_refused_by_its_line)
{
    const char *path = scratch_path("object.json");
    json_t *json = NULL;
    struct err err = {0};
    assert_ok(json_file_write(path, json_pack("{s: f}", "a", 0.5), JSON_COMPACT, &err), &err);
    char *text = scratch_read(path, NULL);
    assert_string_equal(text, "{\"a\":0.5}\n");
    free(text);
    assert_ok(json_file_read(path, 0, &json, &err), &err);
    assert_true(json_real_value(json_object_get(json, "a")) == 0.5);
    json_decref(json);
    scratch_write(path, "{\n\"a\" 1}", 8);
    assert_int_equal(json_file_read(path, 0, &json, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "object.json:2: "));
    assert_null(json);
    scratch_write(path, "[1]", 3);
    assert_int_equal(json_file_read(path, 0, &json, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "object.json: not a JSON object"));
    assert_null(json);
    assert_int_equal(json_file_read(scratch_path("absent.json"), 0, &json, &err), STATUS_NOT_FOUND);
    assert_null(json);
}

TEST_CASE(a_file_of_a_folder_need_not_be_there)
{
    const char *folder = scratch_path("folder");
    json_t *json = NULL;
    struct err err = {0};
    assert_ok(file_make_folders(folder, &err), &err);
    assert_ok(json_file_find(folder, "a.json", 0, &json, &err), &err);
    assert_null(json);
    scratch_write(scratch_path("folder/a.json"), "{\"b\": 1}", 8);
    assert_ok(json_file_find(folder, "a.json", 0, &json, &err), &err);
    assert_int_equal(json_integer_value(json_object_get(json, "b")), 1);
    json_decref(json);
    scratch_write(scratch_path("folder/a.json"), "{", 1);
    assert_int_equal(json_file_find(folder, "a.json", 0, &json, &err), STATUS_CORRUPT);
    assert_null(json);
}

TEST_MAIN()
