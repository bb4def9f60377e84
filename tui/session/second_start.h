/* Libraries that read the environment before main, and must find something there, or are to be preloaded: the
 * program starts itself once more. */
#ifndef ANNEAL_TUI_SESSION_SECOND_START_H
#define ANNEAL_TUI_SESSION_SECOND_START_H

/* Returns where nothing is missing in the environment, or the second start cannot be. What the user has set
 * stays. */
void second_start(char **argv);

#endif
