/* Everything that a training session holds open, and the observer that connects trainer, run store and
 * watcher: passes the trainer's reports to the run's record and the watcher, and orders to the trainer.
 * Private to training.c, which decides what is opened when, and on which device. */
#ifndef ANNEAL_TUI_SESSION_TRAINING_SESSION_H
#define ANNEAL_TUI_SESSION_TRAINING_SESSION_H

#include <limits.h>
#include <stdbool.h>

#include "core/train/trainer.h"
#include "datasets/corpus.h"
#include "runs/order.h"
#include "runs/store.h"
#include "runs/writer.h"
#include "tui/session/device_choice.h"
#include "tui/session/hook.h"
#include "tui/session/memory_share.h"
#include "tui/session/metrics.h"
#include "tui/session/run_log.h"
#include "tui/session/training.h"

enum { SESSION_ORDERS_MAX = 8 };

struct training_session {
    const struct training_options *options;
    struct config config; /* now in force: that of the options, changed if a GPU is lost */
    const char *weights;  /* the folder of a new run's weights; NULL: fresh ones, or a checkpoint's */
    char home[PATH_MAX], id[RUN_ID_MAX];
    char folder[PATH_MAX - 16], checkpoints[PATH_MAX], traces[PATH_MAX]; /* of the run */
    struct store *store;
    struct run_lock lock;
    struct writer *writer;
    struct device_choice choice;
    bool took_over; /* the CPU, from a GPU that failed */
    struct corpus corpus;
    struct memory_share share;
    struct metrics *metrics; /* NULL: none are taken */
    struct trainer *trainer;
    const struct training_watcher *watcher; /* from the options */
    const char
        *continue_with; /* the command that continues from this run's checkpoints: "resume", or "fork" */
    struct run_log log;
    struct hook *hook;          /* NULL: none */
    char origin[PATH_MAX];      /* the checkpoint that a resumed run continues from */
    struct needed_steps needed; /* of its checkpoints, to which other runs refer */
    int64_t *needed_steps;      /* its array, owned */
    char passed_over[160];      /* a sentence about a newer one that cannot be used; "": there is none */
    char full[4096];            /* lines about a device without room, until there is a log to hold them */
    bool tries;                 /* makes no step: the other ranks do not take part */
    bool fresh;                 /* a fork of weights alone */
    bool anew;                  /* resumed without a checkpoint: from the beginning */
    int64_t adopted_bytes;      /* size of the checkpoint that a fork began with */
    struct eval_record last_eval;
    struct measures last_measures; /* those without a column in it */
    uint64_t saving;               /* the writer's mark of all rows to record before the newest checkpoint */
    double started, asked_at, saving_at; /* of the session, the last question, the newest checkpoint */
    double longest_gap, longest_save; /* seconds between two questions, and until a checkpoint was written */
    bool out_of_time;                 /* train.time_limit is reached */
    bool enough;                      /* the options' probe wants no more steps */
    struct order unanswered[SESSION_ORDERS_MAX]; /* taken up by the trainer, not carried out */
    int unanswered_count;
    bool paused, stopping;                    /* by order */
    struct order carried[SESSION_ORDERS_MAX]; /* the trainer takes these up first; id 0: answered before */
    int carried_count;
    struct arena recalled_memory;
    struct order_row *recalled; /* rates ordered before a resume, by the applied_step to set them again */
    size_t recalled_count;
};

/* Opens the trainer on the chosen device, with fresh weights. A precision that the device lacks is replaced
 * where that is allowed. */
enum status training_session_open_trainer(struct training_session *s, struct err *err);
void training_session_close_trainer(struct training_session *s);
/* Records in the ledger that the trainer has allocated its memory, and for which run. */
void training_session_hold(struct training_session *s);

/* The source of the validation text: "blocks", "tail", "labels", "data.val" or "none"; and the same in words.
 */
const char *training_session_validation(const struct training_session *s);
const char *training_validation_words(const char *validation);

/* Writes what is doubtful about the data and what the run does with them, one sentence each; returns how
 * many. */
enum { SESSION_WARNINGS_MAX = 3 };
int training_session_warnings(const struct training_session *s,
                              char out[SESSION_WARNINGS_MAX][TASK_NOTE_SIZE]);

/* Ends the device's metrics. A device that hangs does not hold up the end: an event reports it. */
void training_session_stop_metrics(struct training_session *s);

/* Adds a line to the run's history and the report. step -1: before the first one. */
void training_session_event(struct training_session *s, int64_t step, const char *level, const char *format,
                            ...) __attribute__((format(printf, 4, 5)));

/* Before a trainer is replaced in the same session: carries over to the next one the orders that are in
 * force, or were taken up and not carried out. */
void training_session_carry_orders(struct training_session *s);

/* ---- training_origin.c: a session that begins with a checkpoint: the newest of its own run (resume), or any
 * of another run (fork) ---- */

/* Opens the trainer with the newest full checkpoint. A run that never had one starts over (`anew`); a fork of
 * weights alone without a checkpoint of its own continues from those weights (`fresh`). Fails with a remedy
 * if the checkpoints are gone or hold weights alone, or if no steps are left. */
enum status training_open_resumed(struct training_session *s, struct err *err);

/* Reports a newer checkpoint that was passed over, if any: on standard error unless the report shows it, and
 * once the run is `resumed`, in its history. Then also sets damaged ones aside. */
void training_report_passed_over(struct training_session *s, bool resumed);

/* Called next: finds in the store the learning rates ordered and applied since the checkpoint, to set them
 * again at the same steps and repeat the same training. A later order that was applied at an earlier step
 * (after another resume) cancels them. */
enum status training_recall_orders(struct training_session *s, struct err *err);

/* Stores the configuration with the keys that the command line has changed; `changes` lists them for the
 * run's history, "": none. */
enum status training_keep_changes(struct training_session *s, char *changes, size_t size, struct err *err);

/* Opens the trainer with the options' checkpoint. */
enum status training_open_forked(struct training_session *s, struct err *err);
/* Writes the first line of the new run's history. */
void training_report_fork(struct training_session *s);
/* Warns where another length or schedule than before raises the learning rate. */
void training_report_rate(struct training_session *s);

/* Says when train.epochs, from which the steps follow, is no longer how much the run reads: steps before the
 * checkpoint had another batch. */
void training_report_length(struct training_session *s);

#endif
