/* Files of multiple-choice questions: what is read, and the line that is named when something is wrong. */
#include "datasets/question_file.h"
#include "tests/cmocka.h"

/* Opens a file with these bytes. */
static void open_bytes(struct question_file *file, const char *bytes, size_t n)
{
    static char path[512];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/questions.jsonl", getenv("ANNEAL_TEST_DIR"));
    assert_int_equal(file_write_atomic(path, bytes, n, &err), STATUS_OK);
    if (question_file_open(path, file, &err)) fail_msg("%s", err.text);
}

TEST_CASE(each_line_is_a_question_and_empty_lines_are_none)
{
    static const char text[] =
        "{\"context\": \"a\\u00e9\", \"choices\": [\" b\", \"c\"], \"answer\": 1, \"id\": [1, {}]}\r\n"
        "\n  \t\r\n"
        "{\"choices\": [\"1\", \"2\", \"3\"], \"answer\": 0, \"context\": \"\"}"; /* no newline at the end */
    struct question_file file;
    struct question q;
    bool more;
    open_bytes(&file, text, sizeof text - 1);
    for (int time = 0; time < 2; time++) {
        assert_int_equal(question_file_next(&file, &q, &more, NULL), STATUS_OK);
        assert_true(more);
        assert_string_equal(q.context, "a\xc3\xa9");
        assert_int_equal(q.count, 2);
        assert_string_equal(q.choices[0], " b");
        assert_string_equal(q.choices[1], "c");
        assert_int_equal(q.answer, 1);
        assert_int_equal(question_file_next(&file, &q, &more, NULL), STATUS_OK);
        assert_int_equal(file.lines.line, 4);
        assert_string_equal(q.context, "");
        assert_int_equal(q.count, 3);
        assert_int_equal(question_file_next(&file, &q, &more, NULL), STATUS_OK);
        assert_false(more);
        question_file_rewind(&file);
    }
    question_file_close(&file);
    question_file_close(&file); /* harmless twice */
}

/* Each as the second line of a file. */
TEST_CASE(a_mistake_is_named_by_line_and_member)
{
    static const struct {
        const char *line;
        size_t n; /* 0: up to the NUL */
        const char *why;
    } bad[] = {
        {"{", 0, "line 2 column"},
        {"{\"context\": \"a\\u0000b\", \"choices\": [\"a\", \"b\"], \"answer\": 0}", 0, "line 2 column"},
        {"{\"context\": \"\xff\", \"choices\": [\"a\", \"b\"], \"answer\": 0}", 0, "line 2 column"},
        {"{\"context\": \"a\", \"context\": \"b\", \"choices\": [\"a\", \"b\"], \"answer\": 0}", 0,
         "duplicate object key"},
        {"{}\0{}", 5, "line 2 column"},
        {"\0", 1, "line 2 column"},
        {"{} {}", 0, "line 2 column"},
        {"[1]", 0, "line 2: is not a JSON object"},
        {"7", 0, "line 2: is not a JSON object"},
        {"{\"choices\": [\"a\", \"b\"], \"answer\": 0}", 0, "\"context\" must be a text"},
        {"{\"context\": 1, \"choices\": [\"a\", \"b\"], \"answer\": 0}", 0, "\"context\" must be a text"},
        {"{\"context\": \"a\", \"answer\": 0}", 0, "\"choices\" must be a list of 2 to 1024 texts"},
        {"{\"context\": \"a\", \"choices\": \"ab\", \"answer\": 0}", 0, "\"choices\" must be a list"},
        {"{\"context\": \"a\", \"choices\": [\"a\"], \"answer\": 0}", 0, "\"choices\" must be a list"},
        {"{\"context\": \"a\", \"choices\": [\"a\", null], \"answer\": 0}", 0,
         "\"choices\"[1] must be a text"},
        {"{\"context\": \"a\", \"choices\": [\"\", \"b\"], \"answer\": 0}", 0,
         "\"choices\"[0] must be a text"},
        {"{\"context\": \"a\", \"choices\": [\"a\", \"  \"], \"answer\": 0}", 0, "\"choices\"[1] must be"},
        {"{\"context\": \"a\", \"choices\": [\"a\", \"b\"]}", 0, "a whole number from 0 to 1"},
        {"{\"context\": \"a\", \"choices\": [\"a\", \"b\"], \"answer\": 2}", 0, "from 0 to 1"},
        {"{\"context\": \"a\", \"choices\": [\"a\", \"b\"], \"answer\": -1}", 0, "from 0 to 1"},
        {"{\"context\": \"a\", \"choices\": [\"a\", \"b\"], \"answer\": 4294967296}", 0, "from 0 to 1"},
        {"{\"context\": \"a\", \"choices\": [\"a\", \"b\"], \"answer\": \"0\"}", 0, "from 0 to 1"},
        {"{\"context\": \"a\", \"choices\": [\"a\", \"b\"], \"answer\": 0.0}", 0, "from 0 to 1"},
    };
    static const char good[] = "{\"context\": \"a\", \"choices\": [\"a\", \"b\"], \"answer\": 0}\n";
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct question_file file;
        struct question q;
        struct err err = {0};
        char text[512];
        bool more;
        size_t n = bad[i].n ? bad[i].n : strlen(bad[i].line);
        memcpy(text, good, sizeof good - 1);
        memcpy(text + sizeof good - 1, bad[i].line, n);
        open_bytes(&file, text, sizeof good - 1 + n);
        assert_int_equal(question_file_next(&file, &q, &more, NULL), STATUS_OK);
        assert_int_equal(question_file_next(&file, &q, &more, &err), STATUS_CORRUPT);
        if (!strstr(err.text, bad[i].why) || !strstr(err.text, "questions.jsonl: line 2"))
            fail_msg("%s: %s", bad[i].line, err.text);
        question_file_close(&file);
    }
}

TEST_CASE(the_longest_choice_counts_wherever_it_stands)
{
    struct question question = {.context = "1234", .choices = {"a", "bcd", "ef"}, .count = 3};
    size_t most = 0;
    question_count_bytes(&question, &most);
    assert_int_equal(most, 7);
    question.choices[2] = "efghi";
    question_count_bytes(&question, &most);
    assert_int_equal(most, 9);
    question.count = 1;
    question_count_bytes(&question, &most);
    assert_int_equal(most, 9);
}

TEST_CASE(a_list_with_more_choices_than_there_is_room_is_refused)
{
    enum { COUNT = QUESTION_CHOICES_MAX + 1 };
    char *text = malloc(COUNT * 4 + 100);
    size_t n = (size_t)sprintf(text, "{\"context\": \"a\", \"answer\": 0, \"choices\": [\"x\"");
    for (int i = 1; i < COUNT; i++) n += (size_t)sprintf(text + n, ",\"x\"");
    n += (size_t)sprintf(text + n, "]}");
    struct question_file file;
    struct question q;
    struct err err = {0};
    bool more;
    open_bytes(&file, text, n);
    assert_int_equal(question_file_next(&file, &q, &more, &err), STATUS_CORRUPT);
    question_file_close(&file);
    free(text);
}

TEST_CASE(a_kept_file_may_change)
{
    static const char line[] = "{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 1}\n";
    struct question_file file, other;
    struct question q;
    struct err err = {0};
    bool more;
    open_bytes(&file, line, sizeof line - 1);
    assert_int_equal(question_file_keep(&file, &err), STATUS_OK);
    open_bytes(&other, "", 0); /* in its place */
    for (int time = 0; time < 2; time++) {
        assert_int_equal(question_file_next(&file, &q, &more, NULL), STATUS_OK);
        assert_true(more);
        assert_string_equal(q.choices[1], "c");
        assert_int_equal(question_file_next(&file, &q, &more, NULL), STATUS_OK);
        assert_false(more);
        question_file_rewind(&file);
    }
    question_file_close(&file);
    question_file_close(&other);
}

TEST_CASE(an_empty_file_has_no_question_and_a_missing_one_is_named)
{
    struct question_file file;
    struct question q;
    struct err err = {0};
    bool more;
    open_bytes(&file, "", 0);
    assert_int_equal(question_file_next(&file, &q, &more, NULL), STATUS_OK);
    assert_false(more);
    question_file_close(&file);
    assert_int_equal(question_file_open("/nowhere/q.jsonl", &file, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "/nowhere/q.jsonl"));
}

TEST_MAIN()
