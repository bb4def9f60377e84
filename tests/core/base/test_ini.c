/* Settings as INI text: what is a section, a pair, a comment and none of them, text that is taken to the
 * letter, and values in quotes, read and written. */
#include "core/base/ini.h"

#include "core/base/philox.h"
#include "core/base/text.h"
#include "tests/cmocka.h"

/* Expects the pairs of a text, "LINE:SECTION.KEY=VALUE|" each, with "LINE!|" for a bad line. */
static void expect_pairs(const char *text, bool exact, const char *expected)
{
    char got[400] = "", *copy = strdup(text);
    struct ini ini = {.rest = copy, .exact = exact};
    size_t n = 0;
    for (enum ini_line line; (line = ini_next(&ini));)
        n += (size_t)(line == INI_BAD ? snprintf(got + n, sizeof got - n, "%d!|", ini.line)
                                      : snprintf(got + n, sizeof got - n, "%d:%s.%s=%s|", ini.line,
                                                 ini.section, ini.key, ini.value));
    assert_int_equal(ini_next(&ini), INI_END); /* and stays there */
    free(copy);
    if (strcmp(got, expected) != 0) fail_msg("\"%s\" is read as %s", text, got);
}

TEST_CASE(sections_pairs_and_comments)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"a = b", "1:.a=b|"},
        {"[s]\na=b\nc : d\n", "2:s.a=b|3:s.c=d|"},
        {"[s]\n\n; a = b\n# a = b\n  ; a = b\na = b\n", "6:s.a=b|"},
        {"  [ s ] \n\ta = b \r\n   c=3", "2:s.a=b|3:s.c=3|"},
        {"[s] ; the first\na = b ; why\nc = d;e\nf = ; empty\n", "2:s.a=b|3:s.c=d;e|4:s.f=|"},
        {"a = b = c : d\ne: f = g\n", "1:.a=b = c : d|2:.e=f = g|"},
        {"\xEF\xBB\xBF[s]\na = \xEF\xBB\xBF\n", "2:s.a=\xEF\xBB\xBF|"},
        {"a = b # no comment\n", "1:.a=b # no comment|"},
        {"[s] a = b\n[t]x\nc = d\n", "1!|2!|3:.c=d|"},
        {"[s]\ra = b\rc = d\r", "1!|"},
        {"[s\na = b\nwhat is this\n = b\n[]\nc = d\n", "1!|2:.a=b|3!|4:.=b|6:.c=d|"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect_pairs(cases[i][0], false, cases[i][1]);
}

TEST_CASE(text_written_by_a_program_is_taken_to_the_letter)
{
    expect_pairs("[s]\na =  b ; c # d \ne = \n\n[t]\nf = g = h: \n", true,
                 "2:s.a= b ; c # d |3:s.e=|6:t.f=g = h: |");
    expect_pairs("[s]\na=b\n; c\nd = e\n", true, "2!|3!|4:s.d=e|");
}

TEST_CASE(a_line_may_have_any_length)
{
    enum { LONG = 100000 };
    char *text = malloc(2 * LONG + 10);
    memset(text, 'k', LONG);
    memcpy(text + LONG, " = ", 3);
    memset(text + LONG + 3, 'v', LONG);
    strcpy(text + 2 * LONG + 3, "\nx=y");
    struct ini ini = {.rest = text};
    assert_int_equal(ini_next(&ini), INI_PAIR);
    assert_int_equal(strlen(ini.key), LONG);
    assert_int_equal(strlen(ini.value), LONG);
    assert_int_equal(ini_next(&ini), INI_PAIR);
    assert_string_equal(ini.value, "y");
    free(text);
}

/* ---- values in quotes ---- */

TEST_CASE(quotes_keep_blanks_and_semicolons_in_a_value)
{
    static const char *const cases[][2] = {
        {"a = \"b ; c\"", "1:.a=b ; c|"},
        {"a: \"b ; c\" \t ; why\n", "1:.a=b ; c|"},
        {"a=\"  b\t\"\n", "1:.a=  b\t|"},
        {"a = \" \"\r\nb = \";\"\n", "1:.a= |2:.b=;|"},
        {"a = \"b ; \\\"c\\\" \\\\\" ; \"d\"\n", "1:.a=b ; \"c\" \\|"},
        {"a = \"\\\" b \\\"\"\n", "1:.a=\" b \"|"},
        {"a = \"b\\x0D\\xfF\"\nc = \"d = e : f ; g = h\"\n", "1:.a=b\r\xFF|2:.c=d = e : f ; g = h|"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect_pairs(cases[i][0], false, cases[i][1]);
}

TEST_CASE(quotes_that_a_value_does_not_need_are_part_of_it_as_they_always_were)
{
    static const char *const values[] = {"\"b\"",
                                         "\"\"",
                                         "\"",
                                         "\"b",
                                         "b\"",
                                         "\"my prog\" --x",
                                         "\"my prog\" \"  b \"",
                                         "\"my prog\" > \"$HOME/a b\"",
                                         "\"b;c\";d",
                                         "\"C:\\b\"",
                                         "\"say \\\"b\\\"\"",
                                         "\" \\d \"",
                                         "\" b \" # c",
                                         "x\" b \"",
                                         "'  b '"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[80], expected[80];
        snprintf(expected, sizeof expected, "1:.a=%s|", values[i]);
        snprintf(text, sizeof text, "a = %s\n", values[i]);
        expect_pairs(text, false, expected);
        snprintf(text, sizeof text, "a = %s ; why\n", values[i]);
        expect_pairs(text, false, expected);
    }
    expect_pairs("a = \"b ; it's\nc = \"d ; e\" f\ng = h ; \"i ; j\"\n", false, "1:.a=\"b|2:.c=\"d|3:.g=h|");
    expect_pairs("a ; b = \"c ; d\"\n[s] ; \"t ; u\"\nv = \"\n", false, "1!|3:s.v=\"|");
}

TEST_CASE(a_backslash_that_means_nothing_is_bad_only_where_a_comment_would_cut_the_quotes)
{
    static const char *const bad[] = {"b ; \\d",   "\\x1 ; b",  "b ; \\x0a",
                                      "b ; \\x00", "\\xg0 ; b", "\\X41 ; b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[80], *copy;
        snprintf(text, sizeof text, "[s]\na = \"%s\" ; why\nc = d\n", bad[i]);
        struct ini ini = {.rest = copy = strdup(text)};
        assert_int_equal(ini_next(&ini), INI_BAD_ESCAPE);
        assert_int_equal(ini.line, 2);
        assert_string_equal(ini.key, "a");
        assert_int_equal(ini_next(&ini), INI_PAIR);
        assert_string_equal(ini.value, "d");
        free(copy);
    }
    expect_pairs("a = \" \\d\\x00\"\n", false, "1:.a=\" \\d\\x00\"|");
}

/* The line of a value as it is written. */
static char *line_of(const char *value)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    fprintf(out, "a = ");
    ini_print_value(out, value);
    fprintf(out, "\n");
    assert_true(text_stream_end(out, &text));
    return text;
}

/* Also that quotes are written only where they are needed. */
static void expect_read_back(const char *value)
{
    char *line = line_of(value), *copy = strdup(line), *raw = malloc(strlen(value) + 8), shown[400];
    struct ini ini = {.rest = copy};
    if (ini_next(&ini) != INI_PAIR || strcmp(ini.value, value) != 0 || ini_next(&ini) != INI_END)
        fail_msg("\"%s\" is written as %s", value, line);
    clean_block(shown, sizeof shown, line, strlen(line));
    assert_string_equal(shown, line);
    sprintf(raw, "a = %s\n", value);
    bool quoted = strcmp(line, raw) != 0;
    clean_block(shown, sizeof shown, raw, strlen(raw));
    bool is_shown = strcmp(shown, raw) == 0;
    ini = (struct ini){.rest = raw};
    if (quoted && is_shown && ini_next(&ini) == INI_PAIR && strcmp(ini.value, value) == 0)
        fail_msg("\"%s\" needs no quotes: %s", value, line);
    free(line);
    free(copy);
    free(raw);
}

TEST_CASE(values_are_written_as_they_are_unless_they_need_quotes)
{
    static const char *const cases[][2] = {
        {"", "a = \n"},
        {"b c;d", "a = b c;d\n"},
        {"\"b\" --c='\\n'", "a = \"b\" --c='\\n'\n"},
        {"\"b\"", "a = \"b\"\n"},
        {"# b = [c]: d\te", "a = # b = [c]: d\te\n"},
        {"na\xC3\xAFve", "a = na\xC3\xAFve\n"},
        {"cat ; true", "a = \"cat ; true\"\n"},
        {" b", "a = \" b\"\n"},
        {"; \"\\", "a = \"; \\\"\\\\\"\n"},
        {"\" b \"", "a = \"\\\" b \\\"\"\n"},
        {"b\r\x1B[m\xFF", "a = \"b\\x0D\\x1B[m\\xFF\"\n"},
        {"\xE2\x80\xAE", "a = \"\\xE2\\x80\\xAE\"\n"}, /* U+202E, right-to-left override */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *line = line_of(cases[i][0]);
        assert_string_equal(line, cases[i][1]);
        free(line);
        expect_read_back(cases[i][0]);
    }
}

TEST_CASE(any_value_reads_back_as_it_was_written)
{
    static const char *const pieces[] = {
        " ",    ";",    "\"",    "\\", "\"", "\\",   " ;",       "a",       "x",        "\t",
        "#",    "=",    ":",     "[",  "]",  "\r",   "'",        "\x01",    "\xC3\xA4", "\xE2\x98\x83",
        "\xC3", "\xA4", "\\x41", "\v", "0d", "\xFF", "\xC2\x85", "\xC2\xA0"};
    enum { PIECES = sizeof pieces / sizeof *pieces };
    for (uint32_t i = 0; i < 200000; i++) {
        char value[80] = "";
        uint32_t count = philox4x32_10(i, 0, 0, 0, 1, 2).word[0] % 10, few = i % 3 ? PIECES : 9;
        for (uint32_t k = 0; k < count; k++)
            strcat(value, pieces[philox4x32_10(i, k, 1, 0, 1, 2).word[0] % few]);
        expect_read_back(value);
    }
}

TEST_CASE(a_text_for_exact_readers_is_rewritten_for_all)
{
    char stored[] = "[s]\na =  b ; c\nd = e\n\n[t]\nf = \"g\" = h\ni = \nno pair\n", *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    ini_print_exact(out, stored);
    assert_true(text_stream_end(out, &text));
    assert_string_equal(text, "[s]\na = \" b ; c\"\nd = e\n\n[t]\nf = \"g\" = h\ni = \nno pair\n");
    free(text);
}

TEST_MAIN()
