/* Tests of core/base/json_out.h: layout, escapes and numbers; a JSON parser reads back every value.
 *
 * */
#include <errno.h>
#include <jansson.h>
#include <math.h>

#include "core/base/json_out.h"
#include "core/base/philox.h"
#include "tests/cmocka.h"

struct scene {
    struct json_out json;
    FILE *file;
    char *text;
    size_t size;
};

static struct json_out *begin(struct scene *s)
{
    *s = (struct scene){0};
    s->file = open_memstream(&s->text, &s->size);
    assert_non_null(s->file);
    json_out_begin(&s->json, s->file);
    return &s->json;
}

static void finish(struct scene *s)
{
    assert_int_equal(json_out_finish(&s->json), 0);
    fclose(s->file);
}

static void expect(struct scene *s, const char *want)
{
    finish(s);
    assert_string_equal(s->text, want);
    free(s->text);
}

/* {"a": 1, "list": [true, null], "none": {}}, all of it in one layout. */
static void put_members(struct json_out *json, enum json_out_layout layout)
{
    json_out_open(json, NULL, '{', layout);
    json_out_int(json, "a", 1);
    json_out_open(json, "list", '[', layout);
    json_out_bool(json, NULL, true);
    json_out_text(json, NULL, NULL);
    json_out_close(json);
    json_out_open(json, "none", '{', layout);
    json_out_close(json);
    json_out_close(json);
}

TEST_CASE(members_are_laid_out_as_their_container_says)
{
    struct scene s;
    put_members(begin(&s), JSON_OUT_LINES);
    expect(&s, "{\n  \"a\": 1,\n  \"list\": [\n    true,\n    null\n  ],\n  \"none\": {}\n}\n");
    put_members(begin(&s), JSON_OUT_FLAT);
    expect(&s, "{\"a\": 1, \"list\": [true, null], \"none\": {}}\n");
    put_members(begin(&s), JSON_OUT_COMPACT);
    expect(&s, "{\"a\":1,\"list\":[true,null],\"none\":{}}\n");
    struct json_out *json = begin(&s);
    json_out_open(json, NULL, '{', JSON_OUT_COMPACT);
    json_out_open(json, "rows", '[', JSON_OUT_LINES);
    for (int i = 0; i < 2; i++) {
        json_out_open(json, NULL, '{', JSON_OUT_FLAT);
        json_out_int(json, "i", i);
        json_out_raw(json, "t", "0.500");
        json_out_close(json);
    }
    json_out_close(json);
    json_out_close(json);
    expect(&s, "{\"rows\":[\n  {\"i\": 0, \"t\": 0.500},\n  {\"i\": 1, \"t\": 0.500}\n]}\n");
}

TEST_CASE(numbers_read_back_and_keep_their_kind)
{
    struct scene s;
    static const double values[] = {5, -0.0, 0.1, 1e300, 1.0 / 3, 1e16, NAN, INFINITY, -INFINITY};
    struct json_out *json = begin(&s);
    json_out_open(json, NULL, '[', JSON_OUT_FLAT);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) json_out_real(json, NULL, values[i]);
    json_out_int(json, NULL, INT64_MIN);
    json_out_close(json);
    expect(&s,
           "[5.0, -0.0, 0.1, 1e+300, 0.3333333333333333, 1e+16, null, null, null, -9223372036854775808]\n");
}

TEST_CASE(control_characters_are_kept_and_escaped)
{
    struct scene s;
    struct json_out *json = begin(&s);
    json_out_open(json, NULL, '{', JSON_OUT_FLAT);
    json_out_bytes(json, "a\"b", "\r\n\t\0\x1B\x7F\xC2\x85\\ \xE2\x82\xAC", 13);
    json_out_text(json, "none", NULL);
    json_out_close(json);
    expect(
        &s,
        "{\"a\\\"b\": \"\\u000d\\n\\u0009\\u0000\\u001b\\u007f\\u0085\\\\ \xE2\x82\xAC\", \"none\": null}\n");
}

TEST_CASE(any_bytes_become_a_string_that_a_parser_reads)
{
    static const unsigned char spice[] = {0,    '"',  '\\', 0x7F, 0x80, 0xBF, 0xC0, 0xC2, 0xC3, 0xE0,
                                          0xA0, 0x9F, 0xED, 0xEF, 0xF0, 0x90, 0x8F, 0xF4, 0xF5, 0xFF};
    for (uint32_t round = 0; round < 5000; round++) {
        struct scene s;
        char bytes[24];
        size_t n = round % sizeof bytes;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t dice = philox4x32_10(i, round, 0, 0, 5, 5).word[0];
            bytes[i] = round % 2 ? (char)dice : (char)spice[dice % sizeof spice];
        }
        json_out_bytes(begin(&s), NULL, bytes, n);
        finish(&s);
        json_error_t error;
        json_t *value = json_loadb(s.text, s.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        if (!value) fail_msg("%s: %s", s.text, error.text);
        for (size_t i = 0; i + 1 < s.size; i++)
            assert_true((unsigned char)s.text[i] >= 0x20 && s.text[i] != 0x7F);
        json_decref(value);
        free(s.text);
    }
}

TEST_CASE(members_are_written_by_the_types_of_their_values)
{
    struct scene s;
    struct json_out *json = begin(&s);
    char name[] = "n";
    const char *none = NULL;
    json_out_open(json, NULL, '{', JSON_OUT_COMPACT);
    JSON_MEMBERS(json, "a", 1);
    JSON_MEMBERS(json, "b", name, "c", none, "d", 0.5f, "e", 2.0, "f", (bool)(name[0] == 'n'), "g", (size_t)7,
                 "h", INT64_MIN, "i", "text");
    json_out_close(json);
    expect(&s, "{\"a\":1,\"b\":\"n\",\"c\":null,\"d\":0.5,\"e\":2.0,\"f\":true,\"g\":7,"
               "\"h\":-9223372036854775808,\"i\":\"text\"}\n");
}

TEST_CASE(the_first_write_error_is_kept)
{
    struct json_out json;
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    json_out_begin(&json, full);
    json_out_open(&json, NULL, '[', JSON_OUT_LINES);
    for (int i = 0; i < 10000; i++) json_out_int(&json, NULL, i);
    json_out_close(&json);
    assert_int_equal(json.error, ENOSPC);
    assert_int_equal(json_out_finish(&json), ENOSPC);
    fclose(full);
    full = fopen("/dev/full", "w"); /* a document that the stream's buffer holds fails as it is flushed */
    json_out_begin(&json, full);
    json_out_int(&json, NULL, 1);
    assert_int_equal(json.error, 0);
    assert_int_equal(json_out_finish(&json), ENOSPC);
    fclose(full);
}

TEST_MAIN()
