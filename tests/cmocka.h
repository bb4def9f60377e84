/* cmocka, behind the headers that it needs before it, and those that nearly every test needs; and tests that
 * enter themselves in the list of their program where they are defined, so that nobody writes that list. */
#ifndef ANNEAL_TESTS_CMOCKA_H
#define ANNEAL_TESTS_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kept.h"

/* Begins a test that needs no state. What it keeps is released at its end. */
#define TEST_CASE(name) TEST_CASE_WITH(name, NULL, kept_teardown)

/* Begins a test with a setup (NULL: none) and a teardown of its own; *state is what the setup of the test or
 * of the group has left there. */
#define TEST_CASE_WITH(name, setup, teardown) TEST_CASE_ENTRY(name, setup, teardown, NULL)

/* Begins a test whose state is its parameter. Its setup finds the test's name in *state and leaves the state
 * there: TEST_CASE_ON(name, setup, teardown, struct stage *s) { … } */
#define TEST_CASE_ON(name, setup, teardown, parameter)                                                       \
    static void name##_on(parameter);                                                                        \
    TEST_CASE_ENTRY(name, setup, teardown, (void *)(uintptr_t) #name)                                        \
    {                                                                                                        \
        name##_on(*state);                                                                                   \
    }                                                                                                        \
    static void name##_on(__attribute__((unused)) parameter)

/* The linker puts the entries of a program side by side. */
#define TEST_CASE_ENTRY(name, setup, teardown, initial)                                                      \
    static void name(void **state);                                                                          \
    static const struct test_entry name##_entry                                                              \
        __attribute__((used, section("test_entries"), aligned(sizeof(void *)))) = {                          \
            __LINE__, {#name, name, setup, teardown, initial}};                                              \
    static void name(__attribute__((unused)) void **state)

struct test_entry {
    int line; /* that of the definition: the tests run in this order */
    struct CMUnitTest test;
};
extern const struct test_entry __start_test_entries[], __stop_test_entries[];

/* Runs the tests of this file with a setup and a teardown of the whole group (NULL: none): what main returns.
 */
#define TEST_RUN(setup, teardown) test_run(__start_test_entries, __stop_test_entries, setup, teardown)
int test_run(const struct test_entry *first, const struct test_entry *end, CMFixtureFunction setup,
             CMFixtureFunction teardown);

/* The main of a program that does nothing else. */
#define TEST_MAIN()                                                                                          \
    int main(void)                                                                                           \
    {                                                                                                        \
        return TEST_RUN(NULL, NULL);                                                                         \
    }

#endif
