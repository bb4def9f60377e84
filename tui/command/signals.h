/* Signals of long commands: the first Ctrl-C or SIGTERM asks politely, a second Ctrl-C leaves at once. */
#ifndef ANNEAL_TUI_SIGNALS_H
#define ANNEAL_TUI_SIGNALS_H

/* From here on SIGINT and SIGTERM are noted; a second SIGINT ends the process with status 130. SIGHUP and
 * SIGPIPE are ignored: a closed terminal or pipe does not stop a run. */
void signals_catch(void);

/* The signal that was noted, 0 for none. */
int signals_noted(void);

#endif
