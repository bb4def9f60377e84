/* Starts a trainer that outlives the workbench: fork, setsid, exec of our own binary with `train`, `resume`
 * or `fork`. Its standard error goes to a file in the state folder, since a pipe without a reader would kill
 * the trainer later. The file's last line reports the trainer's progress (--progress=start) or why the start
 * failed; once the trainer is at work on its run the file becomes the run's stderr.log. */
#ifndef ANNEAL_TUI_LAUNCH_H
#define ANNEAL_TUI_LAUNCH_H

#include <sys/types.h>

#include "runs/run.h"

struct launch {
    pid_t pid;                /* 0: no trainer was started, or its outcome is known */
    double started;           /* Unix seconds, before the fork: an older run is never this trainer's */
    char resumed[RUN_ID_MAX]; /* the run that the trainer resumes; "": it makes a new one */
    int segment;              /* newest segment of that run before */
    char log[4096];
};

/* The option of a background trainer: report the progress of its preparation, and then nothing more. */
#define LAUNCH_PROGRESS "--progress=start"

/* `arguments` is the argv of the new process, which runs this same binary, without the program's name: the
 * command, its words, NULL; at most LAUNCH_WORDS_MAX of them. `resumed` is the run to resume, NULL for a new
 * one. `home` is the state folder, which must exist. */
enum { LAUNCH_WORDS_MAX = 512 };
enum status launch_start(struct launch *launch, const char *home, const char *const *arguments,
                         const struct run_info *resumed, struct err *err);

/* STATUS_OK and *run_id filled: our trainer is at work on the run or has already ended. STATUS_BUSY: not yet;
 * err holds its progress, "encoding: 45% ...". Anything else: the trainer ended before it began, and err
 * holds its last error. */
enum status launch_poll(struct launch *launch, struct store *store, char run_id[RUN_ID_MAX], struct err *err);

/* Stops following the trainer, which keeps running. If launch_poll has not seen its run yet, removes its
 * file, so later output is lost. Harmless on a zeroed struct, and twice. */
void launch_release(struct launch *launch);

/* The same, and asks a trainer that has no run yet to end without one. */
void launch_cancel(struct launch *launch);

/* Reaps trainers that have ended, so that no zombies pile up. */
void launch_reap(void);

#endif
