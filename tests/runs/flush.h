/* Waits for a writer even while its storage fails; the product never waits like this. */
#ifndef ANNEAL_TESTS_RUNS_FLUSH_H
#define ANNEAL_TESTS_RUNS_FLUSH_H

#include <time.h>

#include "core/base/clock.h"
#include "runs/writer.h"

/* Until everything handed over so far is committed, or `seconds` are over (STATUS_BUSY). */
static inline enum status writer_flush(struct writer *writer, double seconds, struct err *err)
{
    uint64_t mark = writer_flush_begin(writer);
    double end = clock_monotonic() + seconds;
    for (;;) {
        double left = end - clock_monotonic();
        enum status status = writer_flush_wait(writer, mark, left > 0 ? left : 0, err);
        if (!status || left <= 0) return status;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

#endif
