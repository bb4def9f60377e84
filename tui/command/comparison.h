/* Several runs side by side: in which keys of their configuration they differ, and what came of each. The
 * data of `anneal compare`, which is shown as a page (compare.c) or as JSON (compare_json.c). */
#ifndef ANNEAL_TUI_COMMAND_COMPARISON_H
#define ANNEAL_TUI_COMMAND_COMPARISON_H

#include <jansson.h>
#include <stdbool.h>

#include "core/base/arena.h"
#include "runs/run.h"
#include "runs/run_params.h"

/* The numbers of an outcome, in the order in which they are shown. */
enum outcome {
    STEPS,
    FINAL_LOSS,
    BEST_VAL_LOSS,
    BEST_STEP,
    TOKENS_PER_SEC,
    PEAK_MEMORY,
    WALL_TIME,
    OUTCOMES
};

struct outcome_kind {
    const char *label, *json;
    int better;   /* -1: less, 1: more, 0: neither */
    bool percent; /* how far from the first run: in percent of it, else in its own unit */
};
extern const struct outcome_kind outcomes[OUTCOMES];

struct compared {
    struct run_info info;
    struct run_param *params;
    size_t param_count;
    double values[OUTCOMES]; /* NaN: absent, or that is what it is */
    bool present[OUTCOMES];
};

/* A key in which the runs differ; a value is NULL where a run does not have it. */
struct difference {
    const char *key;
    const char **values;
};

struct comparison {
    struct arena arena;
    struct compared *runs;
    size_t count;
    struct difference *differences;
    size_t difference_count, key_count; /* of all keys that any run has */
};

/* Reads the runs that `words` mean. Twice the same one is STATUS_USAGE. Release `out` in any case. */
enum status comparison_read(struct store *store, char *const *words, size_t count, struct comparison *out,
                            struct err *err);
void comparison_release(struct comparison *comparison); /* harmless on a zeroed struct */

/* Whether the run's value is the best of at least two that differ. */
bool comparison_is_best(const struct comparison *comparison, size_t run, enum outcome which);

/* A new JSON object as `anneal compare --help` describes it; NULL when memory is short. */
json_t *comparison_json(const struct comparison *comparison);

#endif
