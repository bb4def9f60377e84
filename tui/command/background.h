/* A trainer in the background, and the workbench on its run: --watch of `train`, `resume` and `fork`. */
#ifndef ANNEAL_TUI_BACKGROUND_H
#define ANNEAL_TUI_BACKGROUND_H

#include "runs/run.h"

/* Starts `command` with the words in `argv` (NULL at the end), less --watch and --progress, in the
 * background. Shows the progress of the trainer's preparation on the terminal, then opens the workbench on
 * the run. Ctrl-C before that ends the trainer, too. `resumed`: the run that the command continues; NULL: a
 * new one. */
enum status background_watch(const char *command, char **argv, const struct run_info *resumed,
                             struct err *err);

#endif
