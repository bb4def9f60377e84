/* Subcommands: each is one file and one entry of this table. A command parses its own words (getopt_long),
 * works against the modules, prints results on stdout and everything else on stderr, and returns the exit
 * status: 0 done; 1 failed, after one line "anneal: what: why (what to do)"; 2 usage; 130 after Ctrl-C. */
#ifndef ANNEAL_TUI_COMMAND_H
#define ANNEAL_TUI_COMMAND_H

#include <stdbool.h>

#include "core/base/err.h"

struct command {
    const char *name;
    const char *summary;               /* one line for `anneal --help` */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
};

/* All commands, in the order of the help, ending with an entry whose name is NULL. In tui/command/command.c.
 */
extern const struct command commands[];

/* Prints "anneal: TEXT" on stderr and returns the exit status that goes with err->status. */
int command_fail(const struct err *err);

/* Prints "anneal: warning: ..." on standard error, safe for a terminal. */
void command_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The words of command `name` cannot be meant so: "anneal: NAME: WHY (see anneal NAME --help)" on stderr;
 * returns 2. */
int command_usage(const char *name, const char *why);

/* `word` comes after `option`, which takes none: says so and returns 2. */
int command_surplus(const char *option, const char *word);

#endif
