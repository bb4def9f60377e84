/* Settings as INI text: what is a section, a pair, a comment and none of them, and text that is taken to the
 * letter. */
#include "core/base/ini.h"
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

TEST_MAIN()
