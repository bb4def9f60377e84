/* The fields of a run by themselves: how values are shown, ordered and read, and when they are read again. */
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "runs/field.h"
#include "tests/cmocka.h"
#include "tests/runs/store_fixture.h"

TEST_CASE(values_are_shown_in_the_unit_of_their_field)
{
    static const struct {
        const char *field;
        double number;
        const char *shown;
    } cases[] = {
        {"parameters", 12345, "12.3k"}, {"trained_parameters", 12345, "12.3k"},
        {"tok/s", 1500, "1.50k"},       {"disk", 2048, "2.0 KiB"},
        {"elapsed", 3700, "1h 01m"},    {"progress", 0.999, "99%"},
        {"created_at", 1e13, "?"},      {"started", 1e13, "?"},
        {"loss", NAN, "nan"},           {"loss", 12345, "12345"},
        {"no.column", 1.5, "1.5"},
    };
    char text[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct field field;
        struct field_value value = {true, NULL, cases[i].number};
        assert_true(field_find(cases[i].field, &field));
        assert_string_equal(field_show(&field, &value, text, sizeof text), cases[i].shown);
    }
}

/* An unknown value comes last, whichever way the runs are sorted. */
TEST_CASE(a_nan_is_larger_than_all_numbers)
{
    static const struct field_value values[] = {{true, NULL, -1}, {true, NULL, INFINITY}, {true, NULL, NAN}};
    const struct field_value unknown = {false, NULL, NAN};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            assert_int_equal(field_compare(&values[i], &values[k], false), (i > k) - (i < k));
            assert_int_equal(field_compare(&values[i], &values[k], true), (i < k) - (i > k));
            assert_true(field_compare(&values[i], &unknown, k) < 0);
        }
}

TEST_CASE(a_percentage_is_the_part_of_the_steps)
{
    struct field progress;
    double number;
    bool seconds;
    assert_true(field_find("progress", &progress));
    for (int i = 0; i <= 100; i++) {
        char word[8], shown[8];
        snprintf(word, sizeof word, "%d%%", i);
        assert_true(field_parse_number(&progress, word, &number, &seconds));
        assert_true(number == i / 100.0);
        struct field_value value = {true, NULL, number};
        assert_string_equal(field_show(&progress, &value, shown, sizeof shown), word);
    }
}

TEST_CASE(a_number_has_at_most_63_letters)
{
    struct field steps;
    double number;
    bool seconds;
    assert_true(field_find("steps", &steps));
    assert_true(field_parse_number(&steps, strcat(memset((char[100]){0}, '1', 62), "k"), &number, &seconds));
    assert_false(field_parse_number(&steps, strcat(memset((char[100]){0}, '1', 63), "k"), &number, &seconds));
}

/* Of the sizes on disk that were read before, those of ended runs count whose folders have not changed. */
TEST_CASE(a_size_on_disk_is_read_again_where_the_run_may_have_written)
{
    static const struct {
        enum run_status before, now;
        bool again;
    } cases[] = {
        {RUN_FINISHED, RUN_FINISHED, false}, {RUN_STOPPED, RUN_STOPPED, false},
        {RUN_CREATED, RUN_CREATED, true},    {RUN_RUNNING, RUN_RUNNING, true},
        {RUN_PAUSED, RUN_PAUSED, true},      {RUN_PAUSED, RUN_STOPPED, true},
        {RUN_STOPPED, RUN_RUNNING, true},    {RUN_FAILED, RUN_FAILED, false},
    };
    enum { COUNT = sizeof cases / sizeof *cases };
    static struct run_info before[COUNT], now[COUNT + 1];
    struct field_value old[COUNT], *values;
    const struct timespec past[] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    char home[1024], path[1200];
    struct arena arena = {0};
    struct field field;
    struct err err = {0};
    store_fixture_home("sizes", home, sizeof home);
    struct store *store = store_fixture_open(home);
    for (int i = 0; i <= COUNT; i++) {
        struct run_info *run = &now[COUNT - i]; /* newer runs have come before the others */
        snprintf(run->id, sizeof run->id, "run-%d", i);
        snprintf(path, sizeof path, "%s/runs/run-%d/checkpoints", home, i);
        assert_int_equal(file_make_folders(path, &err), STATUS_OK);
        assert_int_equal(utimensat(AT_FDCWD, path, past, 0), 0);
        *strrchr(path, '/') = '\0';
        assert_int_equal(utimensat(AT_FDCWD, path, past, 0), 0);
        if (i == COUNT) continue; /* which was not there before */
        run->status = cases[i].now;
        before[COUNT - 1 - i] = *run;
        before[COUNT - 1 - i].status = cases[i].before;
        old[COUNT - 1 - i] = (struct field_value){true, NULL, 7};
    }
    struct field_past earlier = {before, old, COUNT, clock_wall()};
    assert_true(field_find("disk", &field));
    assert_int_equal(field_read(store, &field, now, COUNT + 1, &earlier, &arena, &values, &err), STATUS_OK);
    for (int i = 0; i < COUNT; i++)
        if ((values[COUNT - i].number != 7) != cases[i].again)
            fail_msg("case %d: %g", i, values[COUNT - i].number);
    assert_true(values[0].number != 7);
    arena_release(&arena);
    store_close(store);
}

TEST_CASE(a_key_that_a_damaged_row_lacks_is_no_field)
{
    char home[PATH_MAX];
    struct arena arena = {0};
    struct err err = {0};
    const char *const *names;
    size_t count;
    store_fixture_home("no-key", home, sizeof home);
    store_close(store_fixture_open(home));
    store_fixture_sql(home, "drop table params; create table params(run_id, name, value);"
                            " insert into params values('a', null, '1'), ('a', 'train.seed', '2')");
    struct store *store = store_fixture_open(home);
    if (field_names_read(store, &arena, &names, &count, &err)) fail_msg("%s", err.text);
    assert_string_equal(names[count - 1], "train.seed");
    assert_string_not_equal(names[count - 2], "");
    arena_release(&arena);
    store_close(store);
}

TEST_MAIN()
