/* Ctrl-C and SIGTERM for commands: the first one asks the work to stop where it can, the second ends the
 * process at once. The flag is the only state of this kind that a signal handler can reach, so there is one a
 * process. */
#ifndef ANNEAL_TUI_SESSION_INTERRUPT_H
#define ANNEAL_TUI_SESSION_INTERRUPT_H

#include <stdbool.h>

void interrupt_catch(void); /* from now on */
bool interrupt_requested(void);
int interrupt_signal(void); /* SIGINT, SIGTERM, or 0 */

#endif
