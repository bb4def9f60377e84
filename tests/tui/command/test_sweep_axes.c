/* The values that a sweep tries, as read from the settings of its command line. */
#include "tests/cmocka.h"
#include "tests/kept.h"
#include "tui/command/sweep_axes.h"

struct combined {
    struct sweep_axes axes;
    struct sweep sweep;
    struct err err;
    enum status status;
};

static void release(void *combined)
{
    struct combined *c = combined;
    sweep_axes_release(&c->axes);
    arena_release(&c->sweep.arena);
    free(c);
}

/* Combines the settings, NULL at the end; belongs to the test. */
static struct combined *combine(const char *const *settings, int samples)
{
    struct combined *c = kept(calloc(1, sizeof *c), release);
    int count = 0;
    while (settings[count]) count++;
    c->status = sweep_axes_read(&c->axes, settings, count, &c->err);
    if (!c->status) c->status = sweep_axes_combine(&c->axes, samples, 1, &c->sweep, &c->err);
    return c;
}

/* Fails the test unless they are refused with this sentence. */
static void expect_refused(const char *const *settings, const char *sentence)
{
    struct combined *c = combine(settings, 0);
    if (c->status != STATUS_USAGE || !strstr(c->err.text, sentence))
        fail_msg("%s: %d, %s", sentence, c->status, c->err.text);
}

TEST_CASE(commas_separate_values_and_two_numbers_with_dots_are_a_range)
{
    static const struct {
        const char *setting;
        int count; /* 0: it is a range */
        const char *last;
    } cases[] = {
        {"--a.b=1,2", 2, "2"},           {"a.b=1,2", 2, "2"},
        {"--a.b=x\\,y,z", 2, "z"},       {"--a.b=z,x\\,y", 2, "x,y"},
        {"--a.b=z,x\\y\\", 2, "x\\y\\"}, /* a backslash elsewhere is part of the value */
        {"--a.b=, a b", 2, " a b"},      {"--a.b=1,", 2, ""},
        {"--a.b=../x,1..x", 2, "1..x"},  {"--a.b=1,x..2", 2, "x..2"},
        {"--a.b=1..inf,1", 2, "1"},      {"--a.b=1..9", 0, NULL},
        {"--a.b=-1..1e-3", 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sweep_axes axes;
        struct err err = {0};
        assert_int_equal(sweep_axes_read(&axes, &cases[i].setting, 1, &err), STATUS_OK);
        const struct sweep_axis *axis = &axes.axes[0];
        assert_int_equal(axes.count, 1);
        assert_string_equal(axis->key, "a.b");
        if (axis->count != cases[i].count || axis->range == (cases[i].count > 0) ||
            (axis->count && strcmp(axis->values[axis->count - 1], cases[i].last) != 0))
            fail_msg("%s: %d, %d", cases[i].setting, axis->count, axis->range);
        sweep_axes_release(&axes);
    }
}

TEST_CASE(settings_of_one_value_are_fixed_and_bad_ones_refused)
{
    static const struct {
        const char *settings[18], *sentence;
    } cases[] = {
        {{"--a.b=1\n,2", NULL}, "--a.b: a value of a sweep is one line"},
        {{"--a.b=1,2", "--a.b=3,4", NULL}, "--a.b is there twice"},
        {{"--a.b=1", NULL}, "needs a key with several values"},
        {{"--a=1,2", "--b=1,2", "--c=1,2", "--d=1,2", "--e=1,2", "--f=1,2", "--g=1,2", "--h=1,2", "--i=1,2",
          "--j=1,2", "--k=1,2", "--l=1,2", "--m=1,2", "--n=1,2", "--o=1,2", "--p=1,2", "--q=1,2", NULL},
         "at most 16 keys"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(cases[i].settings, cases[i].sentence);
    struct sweep_axes axes;
    struct err err = {0};
    assert_int_equal(sweep_axes_read(&axes, (const char *[]){"x.y=one value", "--a.b=1,2"}, 2, &err), 0);
    assert_int_equal(axes.fixed_count, 1);
    assert_string_equal(axes.fixed[0], "--x.y=one value");
    sweep_axes_release(&axes);
}

/* "--KEY=0,1,…" of `count` values. */
static char *list(const char *key, int count)
{
    char *text = kept(malloc(16 + 8 * (size_t)count), free);
    int n = sprintf(text, "--%s=0", key);
    for (int i = 1; i < count; i++) n += sprintf(text + n, ",%d", i);
    return text;
}

TEST_CASE(a_sweep_has_at_most_a_thousand_runs)
{
    const char *settings[] = {list("a", 10), list("b", 100), NULL, NULL, NULL};
    struct combined *c = combine(settings, 0);
    assert_int_equal(c->sweep.run_count, 1000);
    assert_string_equal(c->sweep.runs[999].values[0], "9");
    assert_string_equal(c->sweep.runs[101].values[1], "1"); /* the last key changes fastest */
    expect_refused((const char *[]){list("a", 1001), NULL},
                   "these are 1001 runs, and a sweep has at most 1000 (try --samples N)");
    for (int i = 0; i < 3; i++) settings[i] = list((const char *[]){"a", "b", "c"}[i], 1000);
    expect_refused(settings, "these are 1000000000 runs");
    settings[3] = list("d", 1000);
    expect_refused(settings, "these are more than 1000000000 runs");
}

/* Uniform in the logarithm only where it has one. */
TEST_CASE(samples_lie_in_their_range)
{
    static const struct {
        const char *setting;
        double from, to;
        int below; /* of 100 samples, those below 1: between this and 15 more */
    } cases[] = {
        {"--a=0.01..100", .01, 100, 43}, {"--a=-50..50.5", -50, 50.5, 43}, {"--a=0..2.5", 0, 2.5, 33},
        {"--a=-9.5..-1", -9.5, -1, 86},  {"--a=0..999", 0, 999, 0},        {"--a=-200..199", -200, 199, 43},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct combined *c = combine((const char *[]){cases[i].setting, NULL}, 100);
        int below = 0;
        assert_int_equal(c->sweep.run_count, 100);
        for (int k = 0; k < 100; k++) {
            char *end;
            double value = strtod(c->sweep.runs[k].values[0], &end);
            below += value < 1;
            if (*end || !(value >= cases[i].from && value <= cases[i].to))
                fail_msg("%s: %s", cases[i].setting, c->sweep.runs[k].values[0]);
        }
        if (below < cases[i].below || below > cases[i].below + 15)
            fail_msg("%s: %d", cases[i].setting, below);
    }
}

TEST_MAIN()
