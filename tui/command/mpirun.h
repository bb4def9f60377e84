/* Several ranks on this host, started by mpirun. */
#ifndef ANNEAL_TUI_COMMAND_MPIRUN_H
#define ANNEAL_TUI_COMMAND_MPIRUN_H

#include <stdint.h>

#include "core/base/err.h"

/* Runs this program again as `ranks` ranks, with the same command and arguments, and returns how they ended,
 * which they have reported themselves. Ctrl-C, SIGTERM and SIGUSR1 are passed on: rank 0 saves and ends as
 * one process would; a second Ctrl-C ends all at once. */
enum status mpirun_start(const char *command, int64_t ranks, char **argv, struct err *err);

/* In one of these ranks, before it waits for the others: catches what mpirun passes on, and takes a starter
 * that has been killed meanwhile as a request to stop. Standard error becomes that of the starter, if that is
 * a terminal. So its width is known, a bar is drawn as for one process, and mpirun holds nothing up. */
void mpirun_join(void);

/* Called by rank 0: tells the starter, if there is one, how the command has ended. Call it with a failure
 * when the command begins, because a process that is killed cannot call it. */
void mpirun_tell(enum status status);

#endif
