/* The commands that `anneal estimate --fit` recommends, as a user would copy them into a shell. */
#ifndef ANNEAL_TESTS_TUI_COMMAND_RECOMMENDED_H
#define ANNEAL_TESTS_TUI_COMMAND_RECOMMENDED_H

/* The indented line of `text` that is a command with `train` and sets `key`. Fails the test where there is
 * none. */
char *recommended_command(const char *text, const char *key);

/* Runs it through the shell with `more` appended, discards the output and returns its exit status. */
int recommended_run(const char *command, const char *more);

#endif
