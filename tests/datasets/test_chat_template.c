/* Chat templates render as in jinja2 (tests/fixtures/chat_template), or are refused by name; no template can
 * do harm. */
#include <jansson.h>
#include <stdbool.h>

#include "datasets/chat_template.h"
#include "tests/cmocka.h"
#include "tests/datasets/datasets_help.h"

/* Parses and renders; the text is to be freed, NULL after an error. */
static char *render(const char *source, size_t length, const json_t *variables, size_t *n, struct err *err)
{
    struct chat_template *chat = NULL;
    char *text = NULL;
    if (!chat_template_parse(source, length, "t.jinja", &chat, err))
        chat_template_render(chat, variables, &text, n, err);
    chat_template_free(chat);
    return text;
}

static json_t *load_cases(void)
{
    const char *own = getenv("ANNEAL_CHAT_CASES"); /* of make_chat_template.py FILE... */
    json_t *document = json_load_file(own ? own : "tests/fixtures/chat_template/cases.json", 0, NULL);
    assert_non_null(document);
    return document;
}

TEST_CASE(templates_render_as_in_jinja2)
{
    json_t *document = load_cases(), *item, *templates = json_object_get(document, "templates");
    size_t index, wrong = 0;
    json_array_foreach(json_object_get(document, "cases"), index, item) {
        const char *name = json_string_value(json_object_get(item, "template"));
        json_t *known = json_object_get(templates, name), *wanted = json_object_get(item, "text");
        const char *variables = json_string_value(json_object_get(item, "variables"));
        const char *source = known ? json_string_value(known) : name;
        struct err err = {0};
        size_t n = 0;
        char *text = render(source, strlen(source),
                            json_object_get(json_object_get(document, "variables"), variables), &n, &err);
        bool same =
            wanted && text && n == json_string_length(wanted) && !memcmp(text, json_string_value(wanted), n);
        if (!same && (wanted || text)) {
            wrong++;
            print_error("%s (%s)\n  jinja2: %s\n  anneal: %s\n", name, variables,
                        wanted ? json_string_value(wanted) : "(refused)", text ? text : err.text);
        }
        free(text);
    }
    assert_true(index > 0);
    assert_int_equal(wrong, 0);
    json_decref(document);
}

TEST_CASE(what_is_not_supported_is_named_with_its_line)
{
    static const struct {
        const char *source, *words;
    } cases[] = {
        {"a\n{% include 'x' %}", "t.jinja: line 2: the tag {% include %} is not supported"},
        {"\n\n{{ 'a' | wordcount }}", "t.jinja: line 3: the filter 'wordcount' is not supported"},
        {"{{ 1 is divisibleby 2 }}", "the test 'divisibleby' is not supported"},
        {"{{ 'a'.zfill(3) }}", "the method 'zfill' of a string is not supported"},
        {"{{ [].append(1) }}", "the method 'append' of a list is not supported"},
        {"{{ {}.update({}) }}", "the method 'update' of a dictionary is not supported"},
        {"{{ (1).real }}", "'real' of a number is not supported"},
        {"{{ {}.keys().mapping }}", "'mapping' of a range or a view of a dictionary is not supported"},
        {"{{ {} | dictsort(by='x') }}", "dictsort: by is"},
        {"{{ cycler }}", "'cycler' is not supported"},
        {"{{ ''.__class__ }}", "'__class__' of a string is not supported"},
        {"{% for x in [1] recursive %}{% endfor %}", "a recursive loop is not supported"},
        {"{% macro f() %}{{ varargs }}{% endmacro %}{{ f() }}", "'varargs' is not supported"},
        {"{{ 'a'.startswith('a', 1) }}", "startswith: too many arguments"},
        {"{{ 1 / 2 }}", "the operator '/' is not supported"},
        {"{{ 1 < 2 < 3 }}", "several comparisons in a row are not supported"},
        {"{{ x.0.5 + 0.5 }}", "'x' is undefined"},
        {"{{ 0.5 + 0.5 }}", "the operator is not supported between a real number and a real number"},
        {"{{ 'a.b' | title }}", "title: U+002E is not supported"},
        {"{{ 'a_b' | title }}", "title: U+005F is not supported"},
        {"{{ 'é' | title }}", "title: U+00E9 is not supported"},
        {"{{ ('i' + ('b' | safe)) + '<i>' }}", "'<' added to a text marked as safe is not supported"},
        {"{{ ('b' | safe) * 2 }}", "not supported between a string and a number"},
        {"{{ ('<b>' | safe) + '<i>' }}", "'<' added to a text marked as safe is not supported"},
        {"{% set x | trim %}{% endset %}", "filters of {% set %} are not supported"},
        {"{{ 'ß' | upper }}", "the upper and lower case of U+00DF is not supported"},
        {"{{ '\u0149' | upper }}", "the upper and lower case of U+0149 is not supported"},
        {"{{ '\u01F0' | upper }}", "the upper and lower case of U+01F0 is not supported"},
        {"{{ '\u0390' | upper }}", "the upper and lower case of U+0390 is not supported"},
        {"{{ '\u03B0' | upper }}", "the upper and lower case of U+03B0 is not supported"},
        {"{{ '\u0587' | upper }}", "the upper and lower case of U+0587 is not supported"},
        {"{{ '\u1E96' | upper }}", "the upper and lower case of U+1E96 is not supported"},
        {"{{ '\u1E9A' | upper }}", "the upper and lower case of U+1E9A is not supported"},
        {"{{ '\u1F50' | upper }}", "the upper and lower case of U+1F50 is not supported"},
        {"{{ '\uFB00' | upper }}", "the upper and lower case of U+FB00 is not supported"},
        {"{{ '\u1FFC' | upper }}", "the upper and lower case of U+1FFC is not supported"},
        {"{{ '\uFB17' | upper }}", "the upper and lower case of U+FB17 is not supported"},
        {"{{ '\u0130' | lower }}", "the upper and lower case of U+0130 is not supported"},
        {"{{ '\u03A3' | lower }}", "the upper and lower case of U+03A3 is not supported"},
        {"{{ 9223372036854775807 + 1 }}", "a number has more than 64 bits"},
        {"{{ 99999999999999999999 }}", "the number '99999999999999999999"},
        {"{{ '%s' % 1 }}", "the operator is not supported between a string and a number"},
        {"{% set x = [1] | map('string') %}{{ x | join }}{{ x | join }}", "used a second time"},
        {"{% if true %}\n{{ x.y }}\n{% endif %}", "line 2: 'x' is undefined, so it has no 'y'"},
        {"{{ raise_exception('only\n\033[1m' ~ 'users') }}", "the template refuses this conversation: only"},
        {"{{ raise_exception('for\tusers') }}", "refuses this conversation: for users"},
        {"{% for", "line 1: "},
        {"{{ 'a' | replace('', 'b') }}", "replace: the text to replace is empty"},
        {"{{ 'a'.split('') }}", "split: the separator is empty"},
        {"{{ [] | tojson(separators=(',',)) }}", "tojson: separators are two strings"},
        {"{{ [1] | map }}", "map: needs a filter or an attribute"},
        {"{% set a, b = [1, 2, 3] %}", "3 values cannot be assigned to 2 names"},
        {"{% set a, b = [1] %}", "1 values cannot be assigned to 2 names"},
        {"{{ x + 1 }}", "'x' is undefined"},
        {"{{ 5[1:] }}", "a number cannot be sliced"},
        {"{{ range(3)[1:] }}", "a range or a view of a dictionary cannot be sliced"},
        {"{{ 'a' < 1 }}", "a string cannot be ordered with a number"},
        {"{{ 5 | length }}", "a number cannot be iterated"},
        {"{% for x in 5 %}{% endfor %}", "a number cannot be iterated"},
        {"{{ [1] | map('string') | length }}", "has no length"},
        {"{{ x() }}", "'x' is undefined, so it cannot be called"},
        {"{{ 5() }}", "a number cannot be called"},
        {"{{ range(1, 2, 0) }}", "range: "},
        {"{{ -'a' }}", "a string"},
        {"{{ '\xff' }}", "the template is not valid UTF-8"},
        {"{{ '\\xZ1' }}", "an escape in a string is not a character"},
        {"{{ '\\ud800' }}", "an escape in a string is not a character"},
        {"{{ '\\UFFFFFFFF' }}", "an escape in a string is not a character"},
        {"{{ '\\N{DASH}' }}", "the escape \\N in a string is not supported"},
        {"{{ '\\1' }}", "the escape \\1 in a string is not supported"},
        {"{{ 'a\\\nb' }}", "the escape \\  in a string is not supported"},
        {"{{ 'abc }}", "a string has no end: ''abc }}'"},
        {"{{ abc", "a tag has no end; expected '}}'"},
        {"{# abc", "a comment has no end; expected '#}'"},
        {"{{ (1] }}", "unexpected ']'"},
        {"{{ ?12345678 }}", "unexpected '?1234567'"},
        {"{% endif %}", "nothing to end here: 'endif'"},
        {"{% end %}", "the tag {% end %} is not supported"},
        {"{% for 1 in x %}", "expected a name, found '1'"},
        {"{{ f(*x) }}", "* and ** among arguments"},
        {"{{ f(**x) }}", "* and ** among arguments"},
        {"{{ 'a' * 'b' }}", "the operator is not supported between a string and a string"},
        {"{{ x[] }}", "expected an index, found ']'"},
        {"{{ 1 is odd is even }}", "tests cannot follow each other: 'is'"},
        {"{% break %}", "outside of a loop: 'break'"},
        {"{{ 1 % 0 }}", "a division by 0"},
        {"{{ 'abc'[::0] }}", "the step of a slice is not supported"},
        {"{{ 'abc'[::2147483648] }}", "the step of a slice is not supported"},
        {"{{ 'abc'[::'x'] }}", "a string stands where a whole number is needed"},
        {"{{ 'a'.split(sep='a', 'b') }}", "an argument without a name follows one with a name"},
        {"{% macro f(a) %}{% endmacro %}{{ f(b=1) }}", "the macro 'f' has no such argument"},
        {"{% macro f() %}{% endmacro %}{{ f(1) }}", "the macro 'f' has no such argument"},
        {"{% for x in [1] %}{{ loop.depth }}{% endfor %}", "loop.depth is not supported"},
        {"{% for x in [1] %}{{ loop['index'] }}{% endfor %}", "'index' of the loop is not supported"},
        {"{{ {[1]: 2} }}", "a list as the key of a dictionary is not supported"},
        {"{% set x = 1 %}{% set x.y = 2 %}", "set x.y: this is a number, not a namespace"},
        {"{{ ['a' | safe] }}", "a list with a text marked as safe cannot be printed"},
        {"{{ range }}", "cannot be written as text"},
        {"{{ range | tojson }}", "cannot be written as JSON"},
        {"{{ ('a' | safe) | upper }}", "a text marked as safe can only be printed"},
        {"{{ [] | int }}", "int: a list is not supported"},
        {"{{ '1_0' | int }}", "int: '1_0' is not supported"},
        {"{{ 'a1' | int }}", "int: 'a1' is not supported"},
        {"{{ '\u0661' | int }}", "int: '\u0661' is not supported"},
        {"{{ 10000000000000000000.0 | int }}", "int: a real number is not supported"},
        {"{{ 5 | items }}", "items: a number is not a dictionary"},
        {"{{ [] | sort(attribute='a,b') }}", "sort: several attributes are not supported"},
        {"{{ strftime_now('\\x00') }}", "strftime_now: the format is not supported"},
        {"{{ 'a' | trim(x=1) }}", "trim: the argument 'x' is not supported"},
        {"{{ 'a' | replace('a') }}", "replace: an argument is missing"},
        {"{{ {}.keys()[0] }}", "an index of a range or a view of a dictionary is not supported"},
        {"{{ {}.keys() is sequence }}", "sequence: a range or a view of a dictionary is not supported"},
        {"{{ range == range }}", "comparing a function is not supported"},
        {"{{ 'a' | replace('a', 'b', 'c') }}", "a string stands where a whole number is needed"},
        {"{{ 'a'.startswith(1) }}", "a number stands where a string is needed"},
        {"{{ 1 < 'a' }}", "a number cannot be ordered with a string"},
        {"{{ ([1] | map('string'))[0] }}", "an index of the result of a filter"},
        {"{{ 1_000 }}", "the number '1"},
        {"{{ '\u01C6' | upper }}", "the upper and lower case of U+01C6 is not supported"},
        {"{{ '000000000000000000000012' | int }}", "int: '000000000000000000000012' is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        size_t n;
        assert_null(render(cases[i].source, strlen(cases[i].source), NULL, &n, &err));
        if (!strstr(err.text, cases[i].words)) fail_msg("%s: %s", cases[i].source, err.text);
        assert_null(strchr(err.text, '\n'));
        assert_null(strchr(err.text, '\033'));
    }
}

/* As Python writes them. */
TEST_CASE(numbers_are_plain_up_to_ten_quadrillions)
{
    struct err err = {0};
    size_t n;
    const char *source = "{{ a }} {{ b }} {{ 0.0001 }} {{ 0.00001 }}";
    json_t *variables = json_pack("{s:f, s:f}", "a", 1e15, "b", 1e16);
    char *text = render(source, strlen(source), variables, &n, &err);
    json_decref(variables);
    if (!text) fail_msg("%s", err.text);
    assert_string_equal(text, "1000000000000000.0 1e+16 0.0001 1e-05");
    free(text);
}

/* `count` times `part`, between `head` and `tail`. */
static char *repeated(const char *head, const char *part, size_t count, const char *tail)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    fputs(head, out);
    while (count--) fputs(part, out);
    fputs(tail, out);
    fclose(out);
    return text;
}

TEST_CASE(what_grows_without_end_is_stopped)
{
    enum { MANY = 50000 };
    static const struct {
        const char *head, *part, *tail, *words;
    } cases[] = {
        {"{{ ", "(", "", "nested more than"},
        {"{{ ", "[", "", "nested more than"},
        {"{{ ", "not ", "1 }}", "nested more than"},
        {"{{ ", "-", "1 }}", "nested more than"},
        {"{{ 1", " + 1", " }}", "nested more than"},
        {"{{ 1", " if 1 else 1", " }}", "nested more than"},
        {"{{ x", "|d(1)", " }}", "nested more than"},
        {"", "{% if 1 %}", "", "nested more than"},
        {"{% if 0 %}", "{% elif 0 %}", "{% endif %}", NULL},
        {"{% set ", "(", "", "nested more than"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "", "", "nested more than"},
        {"{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
         "", "", "nested more than"},
        {"{% set n = namespace(x=[]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x "
         "== [n.x] }}"
         "{{ n.x }}",
         "", "", "the template"},
        {"{% set r = range(99999) %}{% for i in r %}{% for j in r %}{% endfor %}{% endfor %}", "", "",
         "the template"},
        {"{% set s = 'x' * 1000000 %}{% for i in range(99999) %}{{ 'y' in s }}{% endfor %}", "", "",
         "the template runs for more than"},
        {"{% set n = namespace(x='x') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}", "",
         "", "the template needs more than"},
        {"{{ 'x' * 9999999999 }}", "", "", "the template"},
        /* no text of these is too long, but all together are */
        {"{% set n = namespace(x='x') %}{% for i in range(26) %}{% set n.x = n.x + n.x %}{% endfor %}"
         "{% set y = n.x + '1' %}{% set z = n.x + '2' %}",
         "", "", "the template needs more than"},
        {"{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}", "",
         "", "the template"},
        {"{{ 'a' | indent(9999999999) }}", "", "", "the template"},
        {"{{ 'a\xE2\x80\xA8z' | indent }}", "", "", "indent: line breaks other than"},
        {"{{ 'a\xC2\x85z' | indent }}", "", "", "indent: line breaks other than"},
        {"{{ 'a\u2029z' | indent }}", "", "", "indent: line breaks other than"},
        {"{{ 'a\vz' | indent }}", "", "", "indent: line breaks other than"},
        {"{{ 'a\fz' | indent }}", "", "", "indent: line breaks other than"},
        {"{{ 'a\\rz' | indent }}", "", "", "indent: line breaks other than"},
        {"{{ 'a\x1Cz' | indent }}", "", "", "indent: line breaks other than"},
        {"{{ 'a\x1Ez' | indent }}", "", "", "indent: line breaks other than"},
        {"{{ 'a\xE2\x80\xA6\xC2\xA0z' | indent }}", "", "", NULL},
        {"{{ range(-9223372036854775807, 9223372036854775807) }}", "", "", "range: more than"},
        {"", "{# 123456789012345678901234567890 #}", "", "larger than"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        size_t n;
        char *source = repeated(cases[i].head, cases[i].part, *cases[i].part ? MANY : 0, cases[i].tail);
        char *text = render(source, strlen(source), NULL, &n, &err);
        if (cases[i].words ? text || !strstr(err.text, cases[i].words) : !text)
            fail_msg("%s%s: %s", cases[i].head, cases[i].part, err.text);
        free(text);
        free(source);
    }
}

/* Pieces are cut out, doubled, swapped, and bytes changed: each result renders or is refused with a sentence.
 */
TEST_CASE(damaged_templates_do_no_harm)
{
    json_t *document = load_cases(), *source;
    json_t *variables = json_object_get(json_object_get(document, "variables"), "system and turns");
    static const char bytes[] = "{}%#-+|.,:'\"\\()[]~=<> \n019azN\xc3";
    const char *name;
    uint64_t noise = 7;
    size_t rendered = 0, refused = 0;
    json_object_foreach(json_object_get(document, "templates"), name, source) {
        for (int round = 0; round < 300; round++) {
            size_t n = json_string_length(source), out_n;
            char *text = malloc(2 * n + 1), *out;
            struct err err = {0};
            memcpy(text, json_string_value(source), n);
            for (uint64_t left = 1 + noise_next(&noise) % 4; left && n; left--) {
                size_t at = noise_next(&noise) % n, piece = noise_next(&noise) % 24;
                if (piece > n - at) piece = n - at;
                if (noise_next(&noise) % 3 == 0)
                    memmove(text + at, text + at + piece, n - at - piece), n -= piece;
                else if (noise_next(&noise) % 2)
                    text[at] = bytes[noise_next(&noise) % (sizeof bytes - 1)];
                else if (n + piece < 2 * json_string_length(source))
                    memmove(text + at + piece, text + at, n - at), n += piece;
            }
            out = render(text, n, variables, &out_n, &err);
            rendered += out != NULL, refused += !out;
            if (!out) assert_true(strstr(err.text, "t.jinja: line ") == err.text && strlen(err.text) > 20);
            free(out);
            free(text);
        }
    }
    assert_true(rendered > 100 && refused > 100);
    json_decref(document);
}

TEST_CASE(texts_may_hold_nuls_and_any_letters)
{
    static const char content[] = "a\0b\u2003\U0001F600";
    json_t *variables = json_pack("{s: o}", "x", json_stringn(content, sizeof content - 1));
    struct err err = {0};
    size_t n = 0;
    const char *source = "{{ x | trim }}{{ x | length }}{{ x[1:2] | tojson }}";
    char *text = render(source, strlen(source), variables, &n, &err);
    assert_non_null(text);
    static const char wanted[] = "a\0b\u2003\U0001F6005\"\\u0000\"";
    assert_int_equal(n, sizeof wanted - 1);
    assert_memory_equal(text, wanted, n);
    free(text);
    json_decref(variables);
}

/* A format of 255 bytes, a template of 1 MiB; one more is refused. */
TEST_CASE(a_format_and_a_template_have_a_limit)
{
    struct err err = {0};
    size_t n = 0;
    static const char *const formats[] = {"{{ strftime_now('x' * 255) | length }}",
                                          "{{ strftime_now('x' * 256) }}"};
    char *text = render(formats[0], strlen(formats[0]), NULL, &n, &err);
    assert_non_null(text);
    assert_string_equal(text, "255");
    free(text);
    assert_null(render(formats[1], strlen(formats[1]), NULL, &n, &err));
    assert_non_null(strstr(err.text, "strftime_now: the format is not supported"));
    for (size_t more = 0; more < 2; more++) {
        char *source = repeated("", "x", (1 << 20) + more, "");
        text = render(source, strlen(source), NULL, &n, &err);
        assert_int_equal(text != NULL, !more);
        if (more) assert_non_null(strstr(err.text, "the template is larger than 1 MiB"));
        free(text);
        free(source);
    }
}

TEST_CASE(the_date_of_today_is_formatted)
{
    struct err err = {0};
    size_t n = 0;
    const char *source = "{{ strftime_now('%Y-%m-%d') | length }}{{ strftime_now('%Y') | int > 2000 }}";
    char *text = render(source, strlen(source), NULL, &n, &err);
    assert_non_null(text);
    assert_string_equal(text, "10True");
    free(text);
}

TEST_MAIN()
