/* How long tests of endurance go on: `make test` runs a short version, `make test-long` all of it. */
#ifndef ANNEAL_TESTS_LONG_H
#define ANNEAL_TESTS_LONG_H

#include <stdlib.h>

static inline int long_or(int all, int some)
{
    const char *wish = getenv("ANNEAL_TEST_LONG");
    return wish && *wish ? all : some;
}

/* How many processes to kill: ANNEAL_TEST_KILLS says it for a night of them. */
static inline int long_kills(int all, int some)
{
    const char *asked = getenv("ANNEAL_TEST_KILLS");
    return asked && *asked ? atoi(asked) : long_or(all, some);
}

#endif
