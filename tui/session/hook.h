/* The command of hooks.on_event: what the trainer runs when something has happened to the run, such as its
 * end. It gets the event as one line of JSON on its standard input, and its output goes to the run's log.txt.
 *
 * Always: a thread of its own starts the command and waits for it, so that no step does; one command runs at
 * a time, none longer than hooks.timeout. The command has no files of the trainer. What goes wrong is a line
 * in the log, and nothing else. */
#ifndef ANNEAL_TUI_SESSION_HOOK_H
#define ANNEAL_TUI_SESSION_HOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "tui/session/run_log.h"

struct hook;

struct hook_options {
    const char *command;             /* for the shell */
    double timeout;                  /* seconds */
    double stall;                    /* seconds without a step that are the event "stall"; 0: never */
    const struct run_log *log;       /* outlives the hook */
    const char *run, *name, *folder; /* in each event; copied */
};

/* *out is NULL for an empty command. */
enum status hook_start(const struct hook_options *options, struct hook **out, struct err *err);

/* Runs the command for "end", "failure", "divergence", "stall" or "resume". `status`: of the run, in words.
 * With too many that wait, the newest is left out. */
void hook_event(struct hook *hook, const char *event, const char *status, int64_t step, const char *message);

/* A step has ended; costs no call of the system. */
void hook_step(struct hook *hook, int64_t step);
/* Why no step may end for long, though the run has not stalled; or no longer so. */
enum hook_excuse { HOOK_PAUSED = 1, HOOK_EVALUATES = 2 };
void hook_excuse(struct hook *hook, enum hook_excuse why, bool holds);

/* Waits until the command has run for all events. Returns for how many it failed; the log says why. */
int hook_stop(struct hook *hook);

#endif
