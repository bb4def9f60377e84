/* A training session: connects the trainer, the run store and the memory reservations. Used by `train`,
 * `resume` and `fork`. Prints only warnings, on standard error: a watcher receives everything. */
#ifndef ANNEAL_TUI_SESSION_TRAINING_H
#define ANNEAL_TUI_SESSION_TRAINING_H

#include "core/base/record.h"
#include "core/checkpoint/hold.h"
#include "core/model/config.h"
#include "core/train/trainer.h"
#include "datasets/progress.h"
#include "runs/run.h"
#include "tui/session/ranks.h"

struct training_session; /* training_session.h */

/* The observer that shows a session. All functions are mandatory, called from the training thread, and return
 * at once. `begin` comes before everything below it, `end` after. Strings are borrowed for the call. */
struct training_watcher {
    void *context;
    const struct progress *progress; /* of the preparation, which has phases */
    void (*prepared)(void *context); /* a phase has ended */
    void (*begin)(void *context, const struct training_session *session); /* valid until `end` is called */
    void (*step)(void *context, const struct step_record *record);
    /* `measures`: those that have no field in the record */
    void (*eval)(void *context, const struct eval_record *record, const struct measures *measures,
                 const struct stopping_record *stopping);
    void (*sample)(void *context, const struct sample_record *record);
    void (*checkpoint)(void *context, const struct checkpoint_record *record);
    void (*event)(void *context, const struct event_record *record);
    void (*order)(void *context, const char *verb, int64_t step, const char *result);
    void (*paused)(void *context, int64_t step, enum train_pause pause);
    /* how the run ended ("finished"), after how many steps, and why ("": nothing to say) */
    void (*end)(void *context, const char *status, int64_t step, const char *message);
};

/* The origin of a fork. */
struct fork_origin {
    const char *run;              /* id */
    const char *checkpoint;       /* folder */
    const char *config;           /* of that run, as text */
    const char *passed_over;      /* a sentence about a newer, damaged one of that run; "": there is none */
    struct checkpoint_hold *hold; /* on `checkpoint`; ends when the new run has it */
};

/* A watcher that shows nothing. */
extern const struct training_watcher training_watcher_silent;

/* For a training whose weights nobody wants, only its steps: of training_start, or of training_try, whose
 * `show` then trains (trainer_run). It saves no checkpoints. */
struct training_probe {
    void *context;
    /* false: the training ends early and counts as finished, with `why` as its message */
    bool (*step)(void *context, const struct step_record *record);
    const char *why;
};

struct training_options {
    struct config config; /* finished */
    const char *name;     /* NULL: from the preset */
    const char *device;   /* "auto", "cpu", "cuda", "cuda:1" */
    const char *tags;     /* of a new run, with blanks between; NULL: none */
    int64_t until;        /* steps after which the run is stopped, to be resumed later; 0: none */
    struct ranks *ranks;  /* of which this is rank 0; borrowed */
    struct training_watcher watcher;
    bool silent;                        /* the watcher shows no events: warnings go to standard error, too */
    bool wait;                          /* wait for device memory that others hold */
    bool check_allocations;             /* see struct train_setup */
    const struct fork_origin *fork;     /* NULL: none */
    const struct config *before;        /* that of the run that is resumed or forked; NULL: a new run */
    const struct training_probe *probe; /* NULL: none; training_try then makes no step */
};

/* Trains a new run, from fresh weights or as a fork. Being stopped by a signal is no error. */
enum status training_start(const struct training_options *options, struct err *err);

/* Continues `run` from its newest checkpoint as a new segment. */
enum status training_resume(const struct training_options *options, const struct run_info *run,
                            struct err *err);

/* Opens everything that training needs, including device memory, shows it, and closes it: leaves no run and
 * no checkpoint. The prepared corpus is kept for later runs. */
enum status training_try(const struct training_options *options,
                         enum status (*show)(const struct training_session *session, void *context,
                                             struct err *err),
                         void *context, struct err *err);

#endif
