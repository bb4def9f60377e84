/* The process of a command: its environment for libraries, and the signals that end it. */
#ifndef ANNEAL_TUI_SESSION_PROCESS_H
#define ANNEAL_TUI_SESSION_PROCESS_H

#include <stdbool.h>

/* Opens closed standard streams, so that no file of ours is opened in their place: reading finds nothing,
 * writing fails. Call before any file is opened. */
void standard_streams_reserve(void);

/* Blocks no signal, and lets children be waited for: a process may inherit both the other way from what has
 * started it. Then no request to stop would arrive, and no child would be seen to end.
 * A file at its size limit becomes an error with a sentence, like a full disk. */
void signals_reset(void);

/* Restarts the program once to set environment variables that libraries read before main or that preload a
 * library. Variables that the user has set stay. Returns if none is missing or the restart fails. Call it
 * before any thread is made: it also gives this one all processors that OpenMP may use. */
void second_start(char **argv);

/* From now on a mapped file that is cut while it is in use, or that its disk no longer gives, ends the
 * process with a sentence that names the file and status 1, and not with SIGBUS. */
void lost_pages_report(void);

/* Catches Ctrl-C and SIGTERM from now on: the first one asks the work to stop where it can, and the same one
 * more than a second later ends the process at once. A signal handler can reach no other state than this
 * flag, so there is one per process. */
void interrupt_catch(void);
bool interrupt_requested(void);
int interrupt_signal(void); /* SIGINT, SIGTERM, SIGUSR1, or 0 */
/* From now on SIGUSR1, too, asks the work to stop. Schedulers send it before they take the machine, and may
 * do so several times: no later one ends the process. */
void interrupt_catch_preemption(void);
/* From now on SIGUSR2 counts as SIGTERM, however often it comes, and then a later SIGINT or SIGTERM ends the
 * process: what starts several ranks can pass it on (tui/command/mpirun.c). */
void interrupt_catch_launcher(void);
/* Forgets a Ctrl-C that has stopped the work: the next one is the first again. */
void interrupt_forget(void);

#endif
