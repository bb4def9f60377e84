/* Starting a trainer that outlives the workbench: fork, setsid, exec of our own binary with `train`. What it
 * writes to standard error goes to a file in the state folder, not to a pipe: a pipe nobody reads would kill
 * it later. Its last line says why a start failed; once the run exists it becomes its stderr.log. */
#ifndef ANNEAL_TUI_LAUNCH_H
#define ANNEAL_TUI_LAUNCH_H

#include <sys/types.h>

#include "runs/run.h"

struct launch {
    pid_t pid;      /* 0: nothing was started, or it is decided what became of it */
    double started; /* Unix seconds, before the trainer lived: an older run is never its run */
    char log[4096];
};

/* `arguments` is the whole argv of the new process, which runs this same binary: "anneal", the command, its
 * words, NULL. `home` is the state folder, which must exist. */
enum status launch_start(struct launch *launch, const char *home, const char *const *arguments,
                         struct err *err);

/* STATUS_OK and *run_id filled: the run exists, made since the start by our trainer, which holds its lock or
 * has ended already. STATUS_BUSY: not yet. Anything else: it ended without making a run, and err is the
 * trainer's own last sentence. */
enum status launch_poll(struct launch *launch, struct store *store, char run_id[RUN_ID_MAX], struct err *err);

/* Lets go: a trainer that lives goes on. The file of a trainer whose run was not seen is removed; what it
 * still writes is lost. Harmless on a zeroed struct, and twice. */
void launch_release(struct launch *launch);

/* Collects trainers that have ended, so that no zombies pile up. */
void launch_reap(void);

#endif
