/* The real binary as a child process: its standard output and error captured, its signals and end waited for.
 * Tests wait for a condition, never for a time; the deadline is only there to end a test that has failed,
 * with everything the child wrote in its message. */
#ifndef ANNEAL_TESTS_TUI_COMMAND_PROCESS_H
#define ANNEAL_TESTS_TUI_COMMAND_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct process;

struct process_options {
    const char *const *arguments;   /* after the binary's name, NULL at the end */
    const char *const *environment; /* "NAME=value", or "NAME" to unset it, NULL at the end; NULL: as ours */
    const char *folder;             /* to run in; NULL: ours */
    const char *prelude;            /* shell commands run in the same process before it: "ulimit -f 8;" */
    const char *program;            /* NULL: $ANNEAL_BINARY */
};

/* Starts it with an empty standard input. Fails the test when it cannot. */
struct process *process_open(const struct process_options *options);
/* The same, the arguments listed; the last one is NULL. */
struct process *process_start(const char *argument, ...) __attribute__((sentinel));
/* Kills it if it still lives; NULL is harmless. */
void process_close(struct process *process);
/* All that are open: for a test's teardown, because a failed one closes nothing. Returns 0. */
int process_close_all(void **state);

pid_t process_pid(const struct process *process);
void process_signal(struct process *process, int number);
/* Until it is held up because nobody reads its standard output. */
void process_wait_blocked(struct process *process);
/* Closes our end of its standard output: what it writes there from now on fails. */
void process_stop_reading(struct process *process);

/* Until `condition` holds; fails when the child ends before. */
void process_wait(struct process *process, bool (*condition)(struct process *, void *context), void *context);
/* Until one of its streams holds `text`. */
void process_wait_text(struct process *process, const char *text);
/* Until standard output has that many lines. */
void process_wait_lines(struct process *process, size_t lines);
/* Reads a piece of its output; whether it has ended. */
bool process_poll(struct process *process);
/* Until it has ended, all of its output read: its exit status, or 128 + the signal. */
int process_wait_exit(struct process *process);

/* What it has written so far; NUL-terminated, the process's. */
const char *process_stdout(const struct process *process);
const char *process_stderr(const struct process *process);

/* Fails the test unless it ends with `status`; returns it, ended, with its output. */
struct process *process_expect(int status, struct process *process);
/* The same with a deadline of its own, in seconds, for long work. */
struct process *process_expect_within(int seconds, int status, struct process *process);
/* anneal with these arguments, which must end with `status`. The last argument is NULL. */
struct process *process_run(int status, const char *argument, ...) __attribute__((sentinel));
/* The same, but only the output: yours to free. */
char *process_output(const char *argument, ...) __attribute__((sentinel));
/* Fails the test unless standard error is exactly one line "anneal: ..." that holds `sentence`. */
void process_expect_sentence(const struct process *process, const char *sentence);

#endif
