/* The values that a sweep tries: every combination of them, or samples. */
#ifndef ANNEAL_TUI_COMMAND_SWEEP_AXES_H
#define ANNEAL_TUI_COMMAND_SWEEP_AXES_H

#include "tui/session/sweep.h"

/* One key and its values: a list, or a range. */
struct sweep_axis {
    const char *key;
    const char **values;
    int count;
    bool range, whole; /* whole: both ends are whole numbers, and so are the samples */
    double from, to;   /* of a range */
};

struct sweep_axes {
    struct sweep_axis axes[SWEEP_KEYS_MAX];
    int count;
    const char *fixed[64]; /* settings with one value, "--key=value" */
    int fixed_count;
    struct arena arena;
};

/* Sorts the settings of a command line ("--section.key=value") into axes and fixed ones. Commas separate
 * values, a backslash before a comma makes it part of one; "A..B" between two numbers is a range. Release it
 * also after a failure. */
enum status sweep_axes_read(struct sweep_axes *axes, const char *const *settings, int count, struct err *err);
void sweep_axes_release(struct sweep_axes *axes);

/* Fills in the sweep's keys and its runs' values, in the sweep's arena. samples 0: every combination of the
 * lists, the last key changing fastest; STATUS_USAGE for a range. Else so many different combinations, drawn
 * with `seed`: an entry of a list, or a number of a range, uniform in its logarithm if both ends are
 * positive. */
enum status sweep_axes_combine(const struct sweep_axes *axes, int samples, int64_t seed, struct sweep *sweep,
                               struct err *err);

#endif
