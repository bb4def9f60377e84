/* A training session: where trainer, run store and terminal meet. Used by `train` and `resume`. */
#ifndef ANNEAL_TUI_TRAINING_H
#define ANNEAL_TUI_TRAINING_H

#include "core/config.h"
#include "runs/run.h"
#include "tui/command/train_report.h"

/* What the words of both commands say. */
struct training_options {
    struct config config; /* finished */
    const char *name;     /* NULL: from the preset */
    const char *device;   /* "auto", "cpu", "cuda" */
    enum report_mode progress;
    bool wait;              /* for device memory that other processes hold */
    bool check_allocations; /* see struct train_setup */
};

/* Trains a new run. Returns the exit status; errors have been printed. */
int training_start(const struct training_options *options);

/* Goes on with `run` from its newest checkpoint as a new segment. */
int training_resume(const struct training_options *options, const struct run_info *run);

#endif
