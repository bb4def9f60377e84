/* The checks of gpu-check as they run: which ones are wanted, how much time is left, and what came of them.
 * Each check ends with one line, written at once: ok, FAIL, or SKIP with the reason. */
#ifndef ANNEAL_TESTS_GPU_CHECK_H
#define ANNEAL_TESTS_GPU_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/device/backend.h"

struct check {
    const struct backend *cuda; /* NULL: every check is skipped */
    uint32_t shapes;            /* of each operation */
    const char *only;           /* NULL: all */
    const char *folder;         /* of this run alone, for the algorithms of matrix products */
    const char *torch;          /* path of torch_step.py; NULL: PyTorch is not run */
    bool large;                 /* also shapes that fill a chip, ranks, and CUPTI */
    bool results, timing;       /* compares results; judges speeds */
    double end;                 /* of clock_monotonic: nothing begins after it */
    int passed, failed, skipped;
};

bool check_wanted(const struct check *check, const char *name);

/* Whether the time is over. */
bool check_is_late(const struct check *check);

/* Whether to run the check of this name: not if --only excludes it; without a GPU or time left it is
 * skipped. */
bool check_begins(struct check *check, const char *name);

void check_ends(struct check *check, const char *name, bool good, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void check_skips(struct check *check, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
