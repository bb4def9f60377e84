/* A training session: where trainer, run store and terminal meet. Used by `train`, `resume` and `fork`. */
#ifndef ANNEAL_TUI_SESSION_TRAINING_H
#define ANNEAL_TUI_SESSION_TRAINING_H

#include "core/model/config.h"
#include "runs/run.h"
#include "tui/command/train_report.h"

/* Where a fork goes out from. */
struct fork_origin {
    const char *run;         /* id */
    const char *checkpoint;  /* folder */
    const char *config;      /* of that run, as text */
    const char *passed_over; /* a sentence about that run's newer one that is damaged; "": there is none */
};

/* What the words of the commands say. */
struct training_options {
    struct config config; /* finished */
    const char *name;     /* NULL: from the preset */
    const char *device;   /* "auto", "cpu", "cuda" */
    enum report_mode progress;
    bool wait;                      /* for device memory that other processes hold */
    bool check_allocations;         /* see struct train_setup */
    const struct fork_origin *fork; /* NULL: none */
};

/* Trains a new run, from fresh weights or as a fork. Returns the exit status; errors have been printed. */
int training_start(const struct training_options *options);

/* Opens all that training needs, on the device and in its memory, says what it would be (dry_run.h), and
 * closes it: no step is made, no run left. What is prepared of the corpus stays for the run to come. */
int training_try(const struct training_options *options, bool json);

/* Goes on with `run` from its newest checkpoint as a new segment. */
int training_resume(const struct training_options *options, const struct run_info *run);

#endif
