/* Where a session begins that does not begin with fresh weights: the newest checkpoint of its own run
 * (resume), or any of another's (fork). Private to training.c, which decides what is opened when. */
#ifndef ANNEAL_TUI_SESSION_TRAINING_ORIGIN_H
#define ANNEAL_TUI_SESSION_TRAINING_ORIGIN_H

#include "tui/session/training_session.h"

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
