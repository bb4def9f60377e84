/* Starting a trainer that outlives the workbench: fork, setsid, exec of our own binary with `train`, `resume`
 * or `fork`. What it writes to standard error goes to a file in the state folder, not to a pipe: a pipe
 * nobody reads would kill it later. The last line says what the trainer does (--progress=start), or why the
 * start failed; once the trainer is at work on its run the file becomes the run's stderr.log. */
#ifndef ANNEAL_TUI_LAUNCH_H
#define ANNEAL_TUI_LAUNCH_H

#include <sys/types.h>

#include "runs/run.h"

struct launch {
    pid_t pid;                /* 0: nothing was started, or it is decided what became of it */
    double started;           /* Unix seconds, before the trainer lived: an older run is never its run */
    char resumed[RUN_ID_MAX]; /* the run that it goes on with; "": it makes a new one */
    int segment;              /* the newest of that run before */
    char log[4096];
};

/* Options of a trainer in the background: it reports how far its preparation is, and after that nothing. */
#define LAUNCH_PROGRESS "--progress=start"

/* `arguments` is the argv of the new process, which runs this same binary, without the program's name: the
 * command, its words, NULL; at most LAUNCH_WORDS_MAX of them. `resumed` is the run that the command goes on
 * with, NULL for a new one. `home` is the state folder, which must exist. */
enum { LAUNCH_WORDS_MAX = 512 };
enum status launch_start(struct launch *launch, const char *home, const char *const *arguments,
                         const struct run_info *resumed, struct err *err);

/* STATUS_OK and *run_id filled: our trainer is at work on the run, or has ended already. STATUS_BUSY: not
 * yet; err says what it does, "encoding: 45% ...". Anything else: it ended without having begun, and err is
 * the trainer's own last sentence. */
enum status launch_poll(struct launch *launch, struct store *store, char run_id[RUN_ID_MAX], struct err *err);

/* Lets go: a trainer that lives goes on. The file of a trainer whose run was not seen is removed; what it
 * still writes is lost. Harmless on a zeroed struct, and twice. */
void launch_release(struct launch *launch);

/* Collects trainers that have ended, so that no zombies pile up. */
void launch_reap(void);

#endif
