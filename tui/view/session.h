/* The workbench on a terminal: one thread that wakes on a key, a signal or a tick of 10 Hz. A tick in which
 * nothing changed costs two system calls and draws nothing. */
#ifndef ANNEAL_TUI_SESSION_H
#define ANNEAL_TUI_SESSION_H

#include "tui/view/workbench.h"

/* Returns when the user leaves or SIGINT, SIGTERM or SIGHUP arrives, with the terminal as it was. Standard
 * input and output must be terminals: STATUS_FAILED says so otherwise, before anything is written. Runs go
 * on. */
enum status session_run(const struct workbench_options *options, struct err *err);

#endif
