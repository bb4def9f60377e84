/* Tests of UTF-8 and clean text in core/base/text.h: characters, where text may be cut, and the text sent to
 * a terminal. */
#include <errno.h>
#include <utf8proc.h>

#include "core/base/philox.h"
#include "core/base/text.h"
#include "tests/cmocka.h"

/* The i-th number of a round, in [0, 1). */
static double uniform(uint64_t round, uint64_t i)
{
    return philox4x32_10((uint32_t)i, (uint32_t)round, 0, 0, 7, 7).word[0] / 4294967296.0;
}

TEST_CASE(characters_are_those_of_another_library)
{
    for (uint32_t lead = 0; lead < 256; lead++)
        for (uint32_t second = 0x70; second < 0xD0; second++)
            for (size_t n = 1; n <= 4; n++) {
                static const char ends[][2] = {
                    {'\x80', '\x80'}, {'\xBF', 'a'}, {'a', '\x80'}, {'\xBF', '\xBF'}};
                for (size_t e = 0; e < 4; e++) {
                    char text[4] = {(char)lead, (char)second, ends[e][0], ends[e][1]};
                    utf8proc_int32_t want;
                    utf8proc_ssize_t length =
                        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &want);
                    uint32_t point;
                    size_t got = utf8_character(text, n, &point);
                    assert_int_equal(got, length > 0 ? length : 0);
                    if (got) assert_int_equal(point, want);
                }
            }
}

TEST_CASE(a_cut_falls_between_characters)
{
    const char *text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z"; /* 1 + 2 + 3 + 4 + 1 bytes */
    static const size_t cuts[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    for (size_t n = 0; n <= 11; n++) assert_int_equal(utf8_cut(text, n), cuts[n]);
    for (size_t n = 0; n <= 11; n++) assert_int_equal(n - utf8_incomplete_tail(text, n), cuts[n]);
}

TEST_CASE(the_last_character_is_a_whole_one)
{
    const char *text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
    static const size_t lengths[] = {0, 1, 0, 2, 0, 0, 3, 0, 0, 0, 4, 1};
    uint32_t point;
    for (size_t n = 0; n <= 11; n++) assert_int_equal(utf8_last_character(text, n, &point), lengths[n]);
    assert_int_equal(point, 'z');
    assert_int_equal(utf8_last_character("a\x80", 2, &point), 0);
}

static void expect_clean(const char *bytes, const char *want)
{
    char out[256];
    size_t n = clean_block(out, sizeof out, bytes, strlen(bytes));
    if (strcmp(out, want) != 0) fail_msg("\"%s\", expected \"%s\"", out, want);
    assert_int_equal(n, strlen(want));
}

#define BAD "\xEF\xBF\xBD"

TEST_CASE(good_text_passes_and_bad_bytes_are_replaced)
{
    expect_clean("", "");
    expect_clean("plain", "plain");
    expect_clean("na\xC3\xAFve \xE2\x98\x83 \xF0\x9F\x98\x80", "na\xC3\xAFve \xE2\x98\x83 \xF0\x9F\x98\x80");
    expect_clean("a\xFFz", "a" BAD "z");
    expect_clean("a\x80z", "a" BAD "z");
    expect_clean("\xC3z", BAD "z");
    expect_clean("\xE2\x98z", BAD "z"); /* one for each beginning of a character */
    expect_clean("\xF0\x9F\x98\xE2\x98\xC3z", BAD BAD BAD "z");
    expect_clean("\xE2\x98\x98\x98z", "\xE2\x98\x98" BAD "z");
    expect_clean("\xC0\x80z", BAD BAD "z");         /* an overlong NUL */
    expect_clean("\xED\xA0\x80z", BAD BAD BAD "z"); /* a surrogate */
    expect_clean("\xF4\x90\x80\x80z", BAD BAD BAD BAD "z");
    expect_clean("\xF5z", BAD "z");
    /* U+202E and its like show words in another order; a joiner of emoji does not */
    expect_clean("a\u061C\u200E\u200F\u202A\u202Ez", "a" BAD BAD BAD BAD BAD "z");
    expect_clean("a\u2066\u2069z\u200D\u2065\u206A", "a" BAD BAD "z\u200D\u2065\u206A");
    char out[16];
    assert_int_equal(clean_block(out, sizeof out, "a\0b", 3), 5);
    assert_string_equal(out, "a" BAD "b"); /* a NUL would end the text */
}

TEST_CASE(a_character_cut_at_the_end_is_left_out)
{
    expect_clean("a\xC3", "a");
    expect_clean("a\xE2\x98", "a");
    expect_clean("a\xE2", "a");
    expect_clean("a\xF0\x9F\x98", "a");
    expect_clean("a\xC2", "a"); /* the first and the last bytes of their kind */
    expect_clean("a\xE0\xA0", "a");
    expect_clean("a\xF4\x8F\xBF", "a");
    expect_clean("a\xF5", "a" BAD);
    expect_clean("a\x98", "a" BAD); /* the rest of a character is not a cut character */
}

/* Compares with another library. */
static bool is_utf8(const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        utf8proc_int32_t character;
        utf8proc_ssize_t length =
            utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(n - at), &character);
        if (length <= 0 || character == 0) return false;
        at += (size_t)length;
    }
    return true;
}

TEST_CASE(any_bytes_become_utf8_that_fits)
{
    static const unsigned char spice[] = {0,    'a',  'z',  0x7F, 0x80, 0xBF, 0xC0, 0xC2, 0xC3, 0xE0,
                                          0xA0, 0x9F, 0xED, 0xEF, 0xF0, 0x90, 0x8F, 0xF4, 0xF5, 0xFF};
    for (uint64_t round = 0; round < 20000; round++) {
        char bytes[40], whole[160], *out;
        size_t n = (size_t)(uniform(round, 0) * sizeof bytes), size = (size_t)(uniform(round, 1) * 130);
        for (size_t i = 0; i < n; i++) {
            double dice = uniform(round, 2 + i);
            bytes[i] = round % 2 ? (char)(dice * 256) : (char)spice[(size_t)(dice * sizeof spice)];
        }
        size_t length = clean_block(whole, sizeof whole, bytes, n);
        assert_true(length <= 3 * n && strlen(whole) == length && is_utf8(whole, length));
        out = malloc(size + 1); /* on the heap, where a sanitizer detects an access out of bounds */
        out[size] = 'X';
        size_t shorter = clean_block(out, size, bytes, n);
        assert_true(out[size] == 'X');
        if (size) {
            assert_true(shorter < size && strlen(out) == shorter && is_utf8(out, shorter));
            assert_memory_equal(out, whole, shorter); /* cut, not changed */
            assert_true(length < size ? shorter == length : shorter + 4 >= size);
        }
        free(out);
    }
}

TEST_CASE(a_line_has_no_breaks)
{
    char line[16];
    struct arena arena = {0};
    clean_line(line, sizeof line, "a\tb\nc\x1B[31m");
    assert_string_equal(line, "a b c" BAD "[31m");
    clean_line(line, 0, "nothing");
    assert_string_equal(clean_line_new(&arena, "\xFF\xFF\xFF\n"), BAD BAD BAD " ");
    assert_string_equal(clean_block_new(&arena, "\x7F\r\n\t"), BAD BAD "\n\t");
    arena_release(&arena);
}

TEST_CASE(texts_are_added_as_far_as_there_is_room)
{
    char buf[12] = "";
    text_add(buf, sizeof buf, ", ", "%d W", 7);
    assert_string_equal(buf, "7 W");
    text_add(buf, sizeof buf, ", ", "%s", "9 C");
    assert_string_equal(buf, "7 W, 9 C");
    text_add(buf, sizeof buf, ", ", "%s", "5 MHz");
    assert_string_equal(buf, "7 W, 9 C, 5");
    text_add(buf, sizeof buf, ", ", "%s", "1 %");
    assert_string_equal(buf, "7 W, 9 C, 5");
}

TEST_CASE(a_word_is_quoted_where_a_shell_needs_it)
{
    char quoted[64], small[10];
    assert_string_equal(text_quote("build/anneal", quoted, sizeof quoted), "build/anneal");
    assert_string_equal(text_quote("my builds/anneal", quoted, sizeof quoted), "'my builds/anneal'");
    assert_string_equal(text_quote("it's", quoted, sizeof quoted), "'it'\\''s'");
    assert_string_equal(text_quote("", quoted, sizeof quoted), "''");
    assert_string_equal(text_quote("a long word", small, sizeof small), "'a l'"); /* cut, and still closed */
}

TEST_CASE(the_program_is_named_as_it_was_called)
{
    char *called = program_invocation_name, name[512], endless[1000];
    program_invocation_name = "build/anneal";
    assert_string_equal(text_program(name, sizeof name), "build/anneal");
    program_invocation_name = "/opt/my builds/anneal";
    assert_string_equal(text_program(name, sizeof name), "'/opt/my builds/anneal'");
    program_invocation_name = "an"; /* found by PATH, through a link of that name */
    assert_string_equal(text_program(name, sizeof name), "an");
    program_invocation_name = "";
    assert_string_equal(text_program(name, sizeof name), "anneal");
    memset(endless, '/', sizeof endless);
    endless[sizeof endless - 1] = '\0';
    program_invocation_name = endless;
    assert_string_equal(text_program(name, sizeof name), "anneal");
    program_invocation_name = called;
}

TEST_CASE(a_plain_name_is_safe_in_any_folder)
{
    char buf[16];
    assert_string_equal(text_plain_name("a-1.b", 5, buf, sizeof buf), "a-1.b");
    assert_string_equal(text_plain_name(".hidden", 7, buf, sizeof buf), "_hidden");
    assert_string_equal(text_plain_name("../a b", 6, buf, sizeof buf), "_._a_b");
    assert_string_equal(text_plain_name("\xC3\xA4", 2, buf, sizeof buf), "__");
    assert_string_equal(text_plain_name("0123456789abcdefgh", 18, buf, sizeof buf), "0123456789abcde");
    assert_string_equal(text_plain_name("", 0, buf, sizeof buf), "");
}

TEST_MAIN()
