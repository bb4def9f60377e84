/* Starts another process. */
#ifndef ANNEAL_CORE_BASE_SPAWN_H
#define ANNEAL_CORE_BASE_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

/* `program` is a path. `files`: standard input, output and error of the process; -1: /dev/null. It leads
 * a group of processes, so that Ctrl-C is not for it; with `session` it is detached from the terminal, too,
 * and outlives it. `arguments`: the program's name first, NULL at the end. Returns 0 or an errno. All other
 * files are closed in it, and signals have their default effects. */
int spawn_program(const char *program, const int files[3], bool session, const char *const *arguments,
                  pid_t *pid);

#endif
