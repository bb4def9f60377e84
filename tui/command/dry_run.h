/* The report of `anneal train --dry-run` about a session that is ready to train: model, data, memory,
 * learning rate, and the files to come. Every number comes from the opened session: nothing is estimated
 * here. */
#ifndef ANNEAL_TUI_DRY_RUN_H
#define ANNEAL_TUI_DRY_RUN_H

#include "tui/session/training_session.h"

/* Prints on standard output. `session` has device, corpus and trainer open; `context` points to a bool: as
 * JSON.
 */
enum status dry_run_print(const struct training_session *session, void *context, struct err *err);

#endif
