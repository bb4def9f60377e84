/* The process of a command: the environment that libraries find in it, and the signals that end it. */
#ifndef ANNEAL_TUI_SESSION_PROCESS_H
#define ANNEAL_TUI_SESSION_PROCESS_H

#include <stdbool.h>

/* Libraries that read the environment before main, and must find something there, or are to be preloaded: the
 * program starts itself once more. Returns where nothing is missing in the environment, or the second start
 * cannot be. What the user has set stays. */
void second_start(char **argv);

/* Ctrl-C and SIGTERM, from now on: the first one asks the work to stop where it can, the second ends the
 * process at once. The flag is the only state of this kind that a signal handler can reach, so there is one a
 * process. */
void interrupt_catch(void);
bool interrupt_requested(void);
int interrupt_signal(void); /* SIGINT, SIGTERM, or 0 */

#endif
