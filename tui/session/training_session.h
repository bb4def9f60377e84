/* All that a training session holds open, and the observer that joins trainer, run store and watcher: what
 * the trainer reports goes to the run's record and to the watcher, what is ordered comes back. Private to
 * training.c, which decides what is opened when, and on which device. */
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
#include "tui/session/memory_share.h"
#include "tui/session/metrics.h"
#include "tui/session/run_log.h"
#include "tui/session/training.h"

enum { SESSION_ORDERS_MAX = 8 };

struct training_session {
    const struct training_options *options;
    struct config config; /* what is trained by: that of the options, but for what a lost GPU changes */
    const char *weights;  /* the folder that a new run's weights come from; NULL: fresh, or a checkpoint's */
    char home[PATH_MAX], checkpoints[PATH_MAX], traces[PATH_MAX], id[RUN_ID_MAX];
    struct store *store;
    struct run_lock lock;
    struct writer *writer;
    struct device_choice choice;
    struct corpus corpus;
    struct memory_share share;
    struct metrics *metrics; /* NULL: none are taken */
    struct trainer *trainer;
    const struct training_watcher *watcher; /* of the options */
    const char *go_on_with; /* the command that goes on from this run's checkpoints: "resume", or "fork" */
    struct run_log log;
    char origin[PATH_MAX]; /* the checkpoint that a resumed run goes on from */
    char passed_over[160]; /* a sentence about a newer one, which is none to go on from; "": there is none */
    char full[4096];       /* lines about a device that had no room, until there is a log to hold them */
    bool fresh;            /* a fork of weights alone */
    bool anew;             /* resumed without a checkpoint: from the beginning */
    int64_t adopted_bytes; /* size of the checkpoint that a fork began with */
    struct eval_record last_eval;
    uint64_t saving; /* the writer's mark of what the newest checkpoint must not be ahead of */
    struct order unanswered[SESSION_ORDERS_MAX]; /* that the trainer took up and has not carried out */
    int unanswered_count;
    bool paused, stopping;                    /* by order */
    struct order carried[SESSION_ORDERS_MAX]; /* for the trainer to take up first; id 0: answered before */
    int carried_count;
    struct arena recalled_memory;
    struct order_row *recalled; /* rates ordered before a resume, by applied_step: to be set again at those */
    size_t recalled_count;
};

/* Opens the trainer on the device chosen, with fresh weights, in a precision that it has: one that it has not
 * is replaced where that is allowed. */
enum status training_session_open_trainer(struct training_session *s, struct err *err);
void training_session_close_trainer(struct training_session *s);
/* Tells the ledger that the trainer has what was reserved, and for which run. */
void training_session_hold(struct training_session *s);

/* Which text is validated on: "blocks", "tail", "data.val" or "none"; and the same in words. */
const char *training_session_validation(const struct training_session *s);
const char *training_validation_words(const char *validation);

/* Ends the device's metrics. One that hangs when it is asked does not hold up the end: an event says so. */
void training_session_stop_metrics(struct training_session *s);

/* A line of the run's history, and of the report. step -1: before the first one. */
void training_session_event(struct training_session *s, int64_t step, const char *level, const char *format,
                            ...) __attribute__((format(printf, 4, 5)));

/* Before a trainer is closed that another is to follow in the same session: what was ordered and is in force,
 * or was taken up and not carried out, is ordered of that one. */
void training_session_carry_orders(struct training_session *s);

/* ---- training_origin.c: a session that does not begin with fresh weights, but with the newest checkpoint of
 * its own run (resume), or any of another's (fork) ---- */

/* Opens the trainer with the newest full checkpoint. A run that never had one begins again (`anew`); one that
 * was forked from weights alone and has none of its own goes on from those (`fresh`). One whose checkpoints
 * are gone, or hold weights alone, or that has nothing left to do, is an error with its remedy. */
enum status training_open_resumed(struct training_session *s, struct err *err);

/* Says that a newer checkpoint was passed over, where one was: on standard error where the report does not,
 * and once the run is `resumed`, in its history. Then those that are damaged are set aside, too. */
void training_report_passed_over(struct training_session *s, bool resumed);

/* After that: the learning rates that were ordered and obeyed since the checkpoint are found in the store, to
 * be set again at the steps where they were: what is trained again is what was trained before. An order that
 * came later and was obeyed at an earlier step (after another resume) puts them out of force. */
enum status training_recall_orders(struct training_session *s, struct err *err);

/* Stores the configuration with the keys that the command line has changed; `changes` lists them for the
 * run's history, "": none. */
enum status training_keep_changes(struct training_session *s, char *changes, size_t size, struct err *err);

/* The same with the checkpoint that the options name. */
enum status training_open_forked(struct training_session *s, struct err *err);
/* The first line of the new run's history. */
void training_report_fork(struct training_session *s);

#endif
