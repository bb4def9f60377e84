/* A sweep: runs that differ in a few keys, compared by successive halving. All of them train up to the first
 * rung, a number of steps; those that are best there, by eval.metric, go on to the next one, the others are
 * left as they are.
 *
 * $ANNEAL_HOME/sweeps/NAME holds what was decided before the first run: sweep.ini, with the keys, their
 * values and the rungs of every run, and run-N.ini, the complete configuration of each. All else is in the
 * run store: a run of the sweep has the tag sweep:NAME and, in its id, the number N. So a sweep has no state
 * that an interruption could damage. */
#ifndef ANNEAL_TUI_SESSION_SWEEP_H
#define ANNEAL_TUI_SESSION_SWEEP_H

#include "core/base/arena.h"
#include "runs/run.h"

enum {
    SWEEP_RUNS_MAX = 1000,
    SWEEP_KEYS_MAX = 16,
    SWEEP_RUNGS_MAX = 8,
    SWEEP_NAME_MAX = 32,
    SWEEP_JOBS_MAX = 64
};

struct sweep_run {
    const char *values[SWEEP_KEYS_MAX]; /* of the sweep's keys */
    int64_t rungs[SWEEP_RUNGS_MAX];     /* steps, rising; the last is train.total_steps */
    /* from sweep_look on */
    bool begun; /* it is in the store: */
    struct run_info info;
    /* the measure, in the last evaluation up to each rung; NaN: none, or not yet there */
    double value[SWEEP_RUNGS_MAX];
    double newest; /* the measure in its newest evaluation; NaN: none */
    /* from sweep_judge on */
    int rung; /* the one that it trains for, or at which it was left */
    bool left;
    /* the caller's: its trainer has ended and will not be started again, so the others do not wait for it */
    bool given_up;
};

struct sweep {
    char name[SWEEP_NAME_MAX], folder[PATH_MAX], device[32];
    int factor; /* at a rung, one run in this many goes on, rounded up; 1: all */
    int ranks;  /* processes that train a run */
    int jobs;   /* runs that train side by side */
    int key_count, run_count, rung_count;
    int rung; /* that is reached next; sweep_judge never goes back */
    const char *keys[SWEEP_KEYS_MAX];
    struct sweep_run *runs;
    char measure[64];   /* from sweep_look on: the one that runs are compared by */
    struct arena arena; /* of runs and texts */
};

/* Finds the folder of the sweep. STATUS_USAGE for a name with other characters than letters, digits, _ and
 * hyphens. */
enum status sweep_name(struct sweep *sweep, const char *name, struct err *err);

/* Chooses rungs for `run`, whose evaluations are every `every` steps of `total`: total/factor, /factor², …,
 * rounded up to an evaluation, as many as leave one of `runs` in the end. Returns how many, the last rung
 * included; 1: there is nothing to halve at. */
int sweep_choose_rungs(int runs, int factor, int64_t every, int64_t total, int64_t rungs[SWEEP_RUNGS_MAX]);

/* Writes the sweep, whole or not at all. `configs` has the text of each run's configuration. STATUS_USAGE if
 * there is a sweep of this name. */
enum status sweep_write(const struct sweep *sweep, char *const *configs, struct err *err);

/* Reads the sweep `name`; release it also after a failure. */
enum status sweep_read(struct sweep *sweep, const char *name, struct err *err);
void sweep_release(struct sweep *sweep);

/* The names of all sweeps, as an array in `arena`. */
enum status sweep_list(struct arena *arena, const char ***out, size_t *count, struct err *err);

/* Path of run-N.`ending`, for the run with this index. */
enum status sweep_path(const struct sweep *sweep, int index, const char *ending, char path[PATH_MAX],
                       struct err *err);

/* Reads the runs of the sweep and their values at the rungs. */
enum status sweep_look(struct sweep *sweep, struct store *store, struct err *err);

/* Decides from what sweep_look has found: which rung each run trains for, and which are left. Returns the
 * rung that is reached next, from 0; rung_count at the end of the sweep. */
int sweep_judge(struct sweep *sweep);

/* Whether the run has nothing more to do for its rung. */
bool sweep_run_done(const struct sweep_run *run);

/* Whether the run was there, as others have gone on from the first rung without it, and has been deleted
 * since or lost its tag. A run that could not be started looks the same. */
bool sweep_run_missing(const struct sweep *sweep, const struct sweep_run *run);

/* The measure as people read it: "val loss". */
const char *sweep_measure_words(const struct sweep *sweep);

/* Indices of all runs, the best first: those that came farther, then by the value at their last rung. */
void sweep_sort(const struct sweep *sweep, int *order);

#endif
