/* `anneal complete [WORD...]`: the candidates for the last word of a command line, for the shells. The words
 * are those after `anneal`, up to the cursor; the last one is "" where none has begun. The command is for the
 * files in packaging/completion alone, so no help lists it.
 *
 * Each candidate is a line: the whole word, a tab and what it means. One that ends with "=", "." or ":" is
 * not complete yet, so no blank follows it. The lines ":files" and ":folders" ask the shell to complete a
 * path itself, behind the "=" of "--name=".
 *
 * Always: it reads only. Where there is no run store, or one that cannot be read at once, there are no runs
 * to offer. It prints no message, for that would end up in the line that is being typed. */
#ifndef ANNEAL_TUI_COMMAND_COMPLETE_H
#define ANNEAL_TUI_COMMAND_COMPLETE_H

#include <stdio.h>

/* Returns the exit status: 0. */
int complete_print(int count, char **words, FILE *out);

#endif
