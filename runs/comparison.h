/* Runs side by side: the keys of the configuration in which they differ, and the outcome of each. The page
 * and the JSON of `anneal compare`, the workbench and the Markdown (exchange/export_markdown.h) show it.
 *
 * Several runs that are looked at as one, such as those that differ in the seed alone, can stand for a single
 * run of the comparison: its numbers are then means, and its status that of the first.
 *
 * A run without a recorded configuration, such as an imported one, never counts as different. */
#ifndef ANNEAL_RUNS_COMPARISON_H
#define ANNEAL_RUNS_COMPARISON_H

#include "runs/history.h"
#include "runs/reach.h"
#include "runs/run.h"

enum comparison_section {
    COMPARED_SETTINGS, /* keys of the configuration in which the runs differ, in the order of the alphabet */
    COMPARED_OUTCOMES, /* status, numbers, and the measures of the best evaluations */
    COMPARED_STOPPING, /* the verdicts of early stopping, in the order of steps */
};

enum outcome_unit {
    IN_WORDS,
    IN_STEPS,
    IN_NATS,
    IN_SCORE,
    IN_TOKENS_PER_SEC,
    IN_BYTES,
    IN_SECONDS,
    IN_TOKENS,
    IN_FLOPS
};

/* One line of a comparison: a name, and a text for each run (comparison_text). */
struct comparison_row {
    enum comparison_section section;
    const char *name; /* "train.seed", "final loss", "accuracy", "after 100 steps" */
    /* of outcomes */
    const char *json; /* the name in JSON; a column of `runs` or more; NULL: a measure or the status */
    enum outcome_unit unit;
    int better;           /* -1: less, 1: more, 0: neither */
    bool measure, target; /* of the best evaluation; until a target was reached */
    double *values;       /* for each run; NaN: absent, or not a number */
    int *counts;          /* private: of how many runs each is the mean */
    int64_t order;        /* private; of early stopping, the step */
};

struct compared {
    const struct run_info *info; /* of the first, where it stands for several */
    size_t run_count;
    const char *title;        /* "1 base": its number among them, and its name; "1 base ×3" of three runs */
    char stem[RUN_NAME_MAX];  /* what the names of the runs share */
    struct run_param *params; /* sorted by name; "1, 2, 3" where the runs it stands for differ */
    size_t param_count;
    struct run_history history; /* of the first */
};

struct comparison {
    struct arena arena;
    struct compared *runs;
    size_t count;
    struct comparison_row *rows; /* section by section */
    size_t row_count;
    size_t key_count; /* all keys that any run has */
};

/* The runs to compare. */
struct comparison_request {
    const struct run_info *runs; /* borrowed by the comparison */
    size_t count;
    const size_t
        *places;       /* the place of each in the comparison, from 0 on and none left out; NULL: one each */
    bool with_history; /* for early stopping */
    bool has_target;   /* a validation loss to reach: */
    double target;     /* the steps, the tokens, the time of the steps themselves and the FLOPs until then */
    const struct reach *reached; /* of each run, if it is known when it reached the target; else NULL */
};

/* Reads what is compared of runs. Release it also after an error. */
enum status comparison_read(struct store *store, const struct comparison_request *request,
                            struct comparison *out, struct err *err);
void comparison_release(struct comparison *comparison);

/* The value of a key in one of the runs; NULL: it has none. */
const char *comparison_setting(const struct compared *run, const char *key);

/* "2 of 80 keys differ", with a remark where fewer than two runs have a configuration. Returns buf. */
char *comparison_count_keys(const struct comparison *c, char *buf, size_t size);

/* Whether two values of data.train name the same data, with whatever weights: "a/ : 7, b/ : 3" and "a/, b/".
 */
bool comparison_same_sources(const char *x, const char *y);

/* Why the losses of the runs cannot be compared with those of the first, such as "data.format differs"; NULL:
 * they can. A run of unknown configuration counts as alike. */
const char *comparison_loss_obstacle(const struct comparison *c);

/* A sentence for readers if the runs' validation losses may be of other texts, or of other parts of one; else
 * NULL. A run without evaluations or of unknown configuration counts as alike. */
const char *comparison_validation_note(const struct comparison *c);

/* Whether the run's value is the best of at least two that differ and can be compared. */
bool comparison_is_best(const struct comparison *c, const struct comparison_row *row, size_t run);

/* The change from the first run's value; NaN if there is none or it has no meaning. */
double comparison_delta(const struct comparison *c, const struct comparison_row *row, size_t run);

/* The cell of a run: "0.0003", "-" where it lacks the key; of numbers "2.5000 * (-0.5000)", the value, a star
 * for the best, the difference from the first run (in percent for a value with a unit); of early stopping
 * "2.6000 waiting 1/3", or "" without an evaluation. Returns buf or a text of the comparison. */
const char *comparison_text(const struct comparison *c, const struct comparison_row *row, size_t run,
                            char *buf, size_t size);

#endif
