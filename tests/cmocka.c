/* See cmocka.h. */
#include "tests/cmocka.h"

static int compare_lines(const void *a, const void *b)
{
    return ((const struct test_entry *)a)->line - ((const struct test_entry *)b)->line;
}

int test_run(const struct test_entry *first, const struct test_entry *end, CMFixtureFunction setup,
             CMFixtureFunction teardown)
{
    size_t count = (size_t)(end - first);
    struct test_entry entries[count];
    struct CMUnitTest tests[count];
    memcpy(entries, first, sizeof entries);
    qsort(entries, count, sizeof *entries, compare_lines);
    for (size_t i = 0; i < count; i++) tests[i] = entries[i].test;
    return cmocka_run_group_tests(tests, setup, teardown);
}
