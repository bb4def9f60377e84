/* Fills a run store for the tests of the workbench: runs with curves that are the same every time. */
#ifndef ANNEAL_TESTS_TUI_VIEW_FILL_H
#define ANNEAL_TESTS_TUI_VIEW_FILL_H

#include "runs/run.h"
#include "runs/writer.h"

struct fill {
    const char *name;
    int64_t steps, total_steps;
    int64_t eval_every; /* 0: no evaluations */
    int64_t patience;   /* of early stopping */
    int64_t spike_step; /* a loss of `spike` there; -1: none */
    double spike;
    bool keep_alive;        /* leave the writer open and the lock held: the run is `running` */
    enum run_status status; /* else it ends so */
    const char *message;
};

/* The handles that close a live run. */
struct fill_run {
    char id[RUN_ID_MAX];
    struct run_lock lock;
    struct writer *writer; /* NULL: the run has ended */
    double start;          /* wall time of step 0 */
    double best;           /* the early-stopping story so far */
    int64_t best_step, waited;
};

/* Fails the test on any error. */
void fill_run(const char *home, const struct fill *fill, struct fill_run *out);
/* Makes the empty folder of a checkpoint, as if there were one. */
void fill_checkpoint(const char *home, const char *run_id, int64_t step);
/* Appends steps [from, to) and waits until they are committed. */
void fill_steps(struct fill_run *run, const struct fill *fill, int64_t from, int64_t to);
void fill_end(struct fill_run *run, enum run_status status, const char *message);

/* A fresh home named `name`, and in it "ended": 481 steps with a spike at 240, evaluations, two samples,
 * events. */
void fill_five_hundred(const char *name, char *home, size_t size);

/* A fresh home named `name` with run-00 … run-29, the first one the newest; their ids are id-00 … id-29. */
void fill_thirty(const char *name, char *home, size_t size);

/* A run whose trainer is this process, without further writes. */
struct fill_quiet {
    char home[1024];
    struct store *store;
    struct run_lock lock;
    double now; /* also its heartbeat */
};

/* A fresh home named `name`, and in it "mortal", 20 of 200 steps, which runs until its lock is released, at
 * the latest when what is kept is. */
struct fill_quiet *fill_quiet(const char *name);

double fill_loss(int64_t step); /* the curve */

#endif
