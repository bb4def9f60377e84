/* Axes: round tick values inside a range, and numbers written short. */
#ifndef ANNEAL_TUI_AXIS_H
#define ANNEAL_TUI_AXIS_H

#include <stdbool.h>
#include <stddef.h>

enum { AXIS_TICKS_MAX = 16, AXIS_LABEL_MAX = 16 };

struct axis {
    double lo, hi; /* lo < hi, both finite */
    bool log;      /* position is linear in log10; lo > 0 */
    int count;
    double tick[AXIS_TICKS_MAX]; /* rising, inside [lo, hi] */
    char label[AXIS_TICKS_MAX][AXIS_LABEL_MAX];
};

/* An axis over [lo, hi] with at most max_ticks (capped at AXIS_TICKS_MAX) round values: multiples of 1, 2 or
 * 5 times a power of ten; on a log axis decades, then their 2s and 5s where there is room. Widens an empty
 * range; replaces a reversed or non-finite one with [0, 1]; a log axis needs hi > 0. */
void axis_init(struct axis *axis, double lo, double hi, bool log, int max_ticks);

/* axis_init for whole numbers (steps); a log axis begins at 1 or later. */
void axis_init_steps(struct axis *axis, double lo, double hi, bool log, int max_ticks);

/* Where the labels read alike, or one has no room in `width` columns, makes the first one the short form of
 * its value and the others their distances from it: "1.000", "+2e-7", "+4e-7". One that has no room even then
 * is empty. */
void axis_shorten(struct axis *axis, int width);

/* The place of `value`: 0 at lo, 1 at hi, outside beyond; NaN for NaN, and for values <= 0 on a log axis. */
double axis_position(const struct axis *axis, double value);
/* The value at a place: the inverse of axis_position. */
double axis_value(const struct axis *axis, double position);

/* Four significant digits in at most 8 columns: "3.124", "12.3k", "3.00e-4", "NaN", "-inf". Returns buf. */
char *axis_format(double value, char *buf, size_t size);
/* The same in at most `width` columns, with fewer digits where there is an exponent; an exponent is never cut
 * while 4 columns remain ("7e-4"). */
char *axis_format_within(double value, int width, char *buf, size_t size);
/* axis_format into an array of the enclosing block: for an argument of printf. */
#define AXIS_TEXT(value) axis_format(value, (char[32]){0}, 32)

#endif
