/* cmocka, behind the headers that it needs before it, and those that nearly every test needs. */
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

/* Begins a test that needs no state, for cmocka_unit_test. */
#define TEST_CASE(name) static void name(__attribute__((unused)) void **state)

#endif
