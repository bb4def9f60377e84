/* The language of filters, the same in the workbench and in `anneal runs --filter`:
 *
 *     filter:  terms joined by `and` (or a comma, or nothing) and by `or`, which binds less; `not` before a
 *              term; parentheses
 *     term:    FIELD OP VALUE with OP one of = == != < <= > >= ~ !~, or a word
 *
 * FIELD is the name of a field (field.h). VALUE ends at a blank or comma, unless it is in quotes; a number
 * may have a unit. Of a field with a time, a duration is the moment that long ago: created_at>2h. `~`
 * searches for a regular expression (PCRE2). A word passes runs that have it in name, id, status, device,
 * tags or note. Words and expressions match capital and small letters alike; (?-i) in an expression ends
 * that. A run without a value passes only != and !~.
 *
 * A text that is not understood is no failure: the part around the problem passes every run, and the problem
 * is told with its place, so that a filter works while it is typed. */
#ifndef ANNEAL_RUNS_FILTER_H
#define ANNEAL_RUNS_FILTER_H

#include "runs/field.h"

enum { FILTER_FIELDS_MAX = 32 };

struct filter_problem {
    size_t from, to; /* bytes of the text */
    char why[200];   /* one sentence; "": there is no problem */
};

struct filter {
    struct field fields[FILTER_FIELDS_MAX]; /* whose values filter_run wants */
    int field_count;
    struct filter_problem problem; /* the first one */
    struct filter_node *nodes;     /* private from here on */
    int node_count, root;
    void *match, *limits;
    char *words;
};

/* Zero `out` before; `text` is not kept. `names` and `count`: as for field_check. STATUS_NO_MEMORY is the
 * only error; a problem is none. */
enum status filter_parse(const char *text, const char *const *names, size_t count, struct filter *out,
                         struct err *err);
void filter_release(struct filter *filter); /* zeroes it */

/* STATUS_USAGE: the filter of an option --filter, with this text, has a problem. */
enum status filter_check(const struct filter *filter, const char *text, struct err *err);

/* Writes the numbers of the runs that pass, in their order, to `passed` (room for `count`); returns how many.
 * values[i][r] is fields[i] of runs[r]. A regular expression that takes too long on a run becomes the
 * problem, and passes no run from then on. */
size_t filter_run(struct filter *filter, const struct run_info *runs, size_t count,
                  const struct field_value *const *values, size_t *passed);

#endif
