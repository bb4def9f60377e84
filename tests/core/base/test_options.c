/* The parser of the command line, and the help that is written from the same table. */
#include "core/base/options.h"
#include "tests/cmocka.h"

struct record {
    bool fast;
    const char *name, *text, *fit, *device;
    int64_t count;
    double rate;
    int color;
};
#define AT(field) offsetof(struct record, field)

static const struct option_spec table[] = {
    OPTION("fast", OPTION_FLAG, AT(fast), NULL, "is quick", .letter = 'f'),
    OPTION("name", OPTION_TEXT, AT(name), "NAME", "what it is called", .letter = 'n'),
    OPTION("text", OPTION_ANY_TEXT, AT(text), "TEXT", "any text"),
    OPTION("fit", OPTION_MAYBE, AT(fit), "MEMORY", "fits"),
    OPTION("count", OPTION_WHOLE, AT(count), "N", "how many", .least = 1, .most = 10),
    OPTION("rate", OPTION_NUMBER, AT(rate), "R", "how fast", .most = 1),
    OPTION("color", OPTION_CHOICE, AT(color), "red|green|blue", "which", .required = true),
    {0},
};

static const struct command_line line = {.name = "paint",
                                         .words = "WALL [WALL]",
                                         .least = 1,
                                         .most = 2,
                                         .settings = true,
                                         .options = table,
                                         .about = "Paints walls.\n  kept   as it is",
                                         .notes = "Notes."};

struct parsed {
    struct record record;
    struct words words;
    struct err err;
    enum status status;
};

/* The words of `text`, separated by blanks; '_' alone is an empty word. */
static struct parsed parse(const struct command_line *of, const char *text)
{
    static char copy[400];
    static char *argv[32];
    int argc = 0;
    struct parsed p = {.record = {.count = 5, .rate = 0.5}};
    snprintf(copy, sizeof copy, "paint %s", text);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = strcmp(word, "_") == 0 ? (char *)"" : word;
    argv[argc] = NULL;
    p.status = options_parse(of, argc, argv, &p.record, &p.words, &p.err);
    return p;
}

TEST_CASE(words_options_and_settings_come_in_any_order)
{
    struct parsed p =
        parse(&line, "--color=blue a --a.b=1 -f --name me --count 7 b --a.c=2 --rate=0.25 --text=");
    if (p.status) fail_msg("%s", p.err.text);
    assert_true(p.record.fast);
    assert_string_equal(p.record.name, "me");
    assert_string_equal(p.record.text, "");
    assert_null(p.record.fit);
    assert_int_equal(p.record.count, 7);
    assert_true(p.record.rate == 0.25);
    assert_int_equal(p.record.color, 2);
    assert_int_equal(p.words.count, 2);
    assert_string_equal(p.words.words[0], "a");
    assert_string_equal(p.words.words[1], "b");
    assert_null(p.words.words[2]);
    assert_int_equal(p.words.setting_count, 2);
    assert_string_equal(p.words.settings[1], "--a.c=2");
    assert_null(p.words.settings[2]);
    assert_string_equal(p.words.argv[0], "--color=blue");
    words_release(&p.words);
    p = parse(&line, "a --color red");
    assert_int_equal(p.status, STATUS_OK);
    assert_int_equal(p.record.color, 0);
    assert_int_equal(p.record.count, 5); /* options that are not given keep their values */
    words_release(&p.words);
}

TEST_CASE(a_value_may_stick_to_its_letter_and_numbers_below_zero_are_words)
{
    struct parsed p = parse(&line, "-nme --color red -1 -");
    assert_int_equal(p.status, STATUS_OK);
    assert_string_equal(p.record.name, "me");
    assert_string_equal(p.words.words[0], "-1");
    assert_string_equal(p.words.words[1], "-");
    words_release(&p.words);
    p = parse(&line, "--color red -- --fast");
    assert_int_equal(p.status, STATUS_OK);
    assert_false(p.record.fast);
    assert_string_equal(p.words.words[0], "--fast");
    words_release(&p.words);
}

TEST_CASE(a_value_that_may_be_missing_begins_with_a_digit_or_follows_equals)
{
    static const struct {
        const char *text, *fit, *word;
    } cases[] = {{"--color red --fit 8GiB a", "8GiB", "a"},
                 {"--color red --fit a", "", "a"},
                 {"--color red a --fit", "", "a"},
                 {"--color red --fit=much a", "much", "a"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct parsed p = parse(&line, cases[i].text);
        assert_int_equal(p.status, STATUS_OK);
        assert_string_equal(p.record.fit, cases[i].fit);
        assert_string_equal(p.words.words[0], cases[i].word);
        words_release(&p.words);
    }
}

TEST_CASE(what_cannot_be_meant_is_named)
{
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        {"a --colour red", "unknown option --colour (did you mean --color?)"},
        {"a --color red --hepl", "unknown option --hepl (did you mean --help?)"},
        {"a --color red -x", "unknown option -x"},
        {"a --color pink", "--color pink: must be red|green|blue"},
        {"a --color re", "--color re: must be red|green|blue"},
        {"a --color", "--color: needs a value, red|green|blue"},
        {"a --color red --name _", "--name: needs a value, NAME"},
        {"a --color red --count 0", "--count 0: must be a whole number from 1 to 10"},
        {"a --color red --count 11", "--count 11: must be a whole number from 1 to 10"},
        {"a --color red --count 2.5", "--count 2.5: must be a whole number from 1 to 10"},
        {"a --color red --rate nan", "--rate nan: must be a number from 0 to 1"},
        {"a --color red --rate -0.1", "--rate -0.1: must be a number from 0 to 1"},
        {"a --color red --fast=1", "--fast: takes no value"},
        {"a --color red --color red", "--color: is given twice"},
        {"a --color red --fast -f", "--fast: is given twice"},
        {"a --color red --a.b", "--a.b: must be --section.key=value"},
        {"a b c --color red", "takes WALL [WALL], \"c\" is one argument too many"},
        {"_ --color red", "argument is empty"},
        {"--color red", "needs WALL [WALL]"},
        {"a", "needs --color red|green|blue"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct parsed p = parse(&line, cases[i].text);
        assert_int_equal(p.status, STATUS_USAGE);
        assert_string_equal(p.err.text, cases[i].sentence);
        words_release(&p.words);
    }
    struct parsed p = parse(&line, "a --color red --xyzzy b c d"); /* perhaps a key: the caller knows */
    assert_int_equal(p.status, STATUS_OK);
    assert_string_equal(p.words.unknown, "--xyzzy");
    words_release(&p.words);
    struct command_line plain = line;
    plain.settings = false;
    p = parse(&plain, "a --color red --xyzzy");
    assert_string_equal(p.err.text, "unknown option --xyzzy");
    words_release(&p.words);
    p = parse(&plain, "a --color red --a.b=1");
    assert_string_equal(p.err.text, "unknown option --a.b=1");
    words_release(&p.words);
    plain.least = plain.most = 0;
    p = parse(&plain, "a --color red");
    assert_string_equal(p.err.text, "takes no argument, but \"a\" is given");
    words_release(&p.words);
    plain.most = -1;
    plain.blank = true;
    p = parse(&plain, "a _ b --color red");
    assert_int_equal(p.status, STATUS_OK);
    assert_int_equal(p.words.count, 3);
    words_release(&p.words);
}

TEST_CASE(a_device_has_a_number_of_at_most_three_digits)
{
    static const char *const good[] = {"auto", "cuda:0", "cuda:12", "cuda:999"}, *const bad[] = {
                                                                                     "cuda",      "cuda:",
                                                                                     "cuda:1000", "cuda:1x",
                                                                                     "cuda:N",    "cuda:-1",
                                                                                     "aut"};
    const struct option_spec options[] = {OPTION("device", OPTION_DEVICE, AT(device), "auto|cuda:N", "where"),
                                          {0}};
    const struct command_line of = {.name = "paint", .words = "", .options = options, .about = "Paints."};
    char text[60];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(text, sizeof text, "--device %s", good[i]);
        struct parsed p = parse(&of, text);
        if (p.status) fail_msg("%s", p.err.text);
        assert_string_equal(p.record.device, good[i]);
        words_release(&p.words);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "--device %s", bad[i]);
        struct parsed p = parse(&of, text);
        assert_int_equal(p.status, STATUS_USAGE);
        snprintf(text, sizeof text, "--device %s: must be auto|cuda:N", bad[i]);
        assert_string_equal(p.err.text, text);
        words_release(&p.words);
    }
}

TEST_CASE(an_option_without_help_is_kept_out_of_it)
{
    const struct option_spec options[] = {OPTION("secret", OPTION_FLAG, AT(fast), NULL, NULL), {0}};
    const struct command_line of = {.name = "paint", .words = "", .options = options, .about = "Paints."};
    char *page = NULL;
    size_t size;
    FILE *out = open_memstream(&page, &size);
    options_print_help(&of, out);
    fclose(out);
    assert_non_null(strstr(page, "usage: anneal paint\n"));
    assert_null(strstr(page, "secret"));
    free(page);
    struct parsed p = parse(&of, "--secret");
    assert_int_equal(p.status, STATUS_OK);
    assert_true(p.record.fast);
    words_release(&p.words);
}

TEST_CASE(help_ends_the_reading)
{
    static const char *const texts[] = {"--help", "-h", "a b --fast --help --frobnicate"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct parsed p = parse(&line, texts[i]);
        assert_int_equal(p.status, STATUS_OK);
        assert_true(p.words.help);
        words_release(&p.words);
    }
    struct parsed p = parse(&line, "--name -h --color red a"); /* here it is a value */
    assert_false(p.words.help);
    assert_string_equal(p.record.name, "-h");
    words_release(&p.words);
}

TEST_CASE(the_help_lists_every_option_within_a_hundred_columns)
{
    char *page = NULL;
    size_t size;
    char about[1000] = "";
    for (int i = 0; i < 60; i++) strcat(about, "fifteen letters ");
    struct command_line wordy = line;
    wordy.notes = about;
    FILE *out = open_memstream(&page, &size);
    options_print_help(&wordy, out);
    fclose(out);
    assert_non_null(strstr(page,
                           "usage: anneal paint WALL [WALL] --color red|green|blue "
                           "[--section.key=value ...] [options]\n\nPaints walls.\n  kept   as it is\n"));
    assert_non_null(strstr(page, "\n  -f, --fast              is quick\n"));
    assert_non_null(strstr(page, "\n  --fit [MEMORY]          fits\n"));
    for (const struct option_spec *o = table; o->kind; o++) {
        char name[40];
        snprintf(name, sizeof name, "--%s", o->name);
        assert_non_null(strstr(page, name));
    }
    for (const char *c = page; *c; c += strcspn(c, "\n") + 1) assert_true(strcspn(c, "\n") <= 100);
    free(page);
}

TEST_CASE(the_help_breaks_long_choices_into_lines)
{
    char *page = NULL;
    size_t size;
    const struct option_spec many[] = {OPTION("metal", OPTION_CHOICE, AT(color),
                                              "iron|copper|silver|gold|platinum|tin|lead|zinc|nickel|cobalt|"
                                              "chromium|titanium|tungsten|mercury|none",
                                              "which"),
                                       {0}};
    struct command_line of_many = line;
    of_many.options = many;
    FILE *out = open_memstream(&page, &size);
    options_print_help(&of_many, out);
    fclose(out);
    assert_non_null(strstr(page, "\n  --metal iron|copper|silver|gold|platinum|tin|lead|zinc|nickel|cobalt|\n"
                                 "                          chromium|titanium|tungsten|mercury|none\n"
                                 "                          which\n"));
    free(page);
}

TEST_MAIN()
