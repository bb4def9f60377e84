/* The real binary as a child process: captures its standard output and error, sends signals and waits for its
 * end. Tests wait for a condition, never for a time; the deadline only ends a test that has failed, with the
 * child's whole output in the message. A process and its output belong to the test (kept.h), whose teardown
 * closes and frees them. */
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
/* The same of another program (NULL: anneal) or with another environment, as in struct process_options. */
struct process *process_start_in(const char *program, const char *const *environment, const char *argument,
                                 ...) __attribute__((sentinel));
/* Kills it if it is still running, and frees its output, before the teardown does. */
void process_close(struct process *process);

pid_t process_pid(const struct process *process);
void process_signal(struct process *process, int number);
/* Waits until it blocks because its standard output is not read. */
void process_wait_blocked(struct process *process);
/* Closes our end of its standard output: its writes fail from now on. */
void process_stop_reading(struct process *process);

/* Waits until `condition` holds; fails if the child ends before that. */
void process_wait(struct process *process, bool (*condition)(struct process *, void *context), void *context);
/* Waits until one of its streams contains `text`. */
void process_wait_text(struct process *process, const char *text);
/* Waits until standard output has that many lines. */
void process_wait_lines(struct process *process, size_t lines);
/* Reads a piece of its output; returns whether it has ended. */
bool process_poll(struct process *process);
/* Waits until it has ended and reads all its output; returns its exit status, or 128 + the signal. */
int process_wait_exit(struct process *process);

/* Its output so far; NUL-terminated. */
const char *process_stdout(const struct process *process);
const char *process_stderr(const struct process *process);

/* Fails the test unless it ends with `status`; returns it, ended, with its output. */
struct process *process_expect(int status, struct process *process);
/* The same with a deadline of its own, in seconds, for long work. */
struct process *process_expect_within(int seconds, int status, struct process *process);
/* Runs anneal with these arguments; it must end with `status`. The last argument is NULL. */
struct process *process_run(int status, const char *argument, ...) __attribute__((sentinel));
/* The same of "COMMAND WORD", by one who needs permission to read or write a file, which root does not. */
struct process *process_run_permitted(int status, const char *command, const char *word);
/* The same, but it must end with 0, and only the output is returned. */
char *process_output(const char *argument, ...) __attribute__((sentinel));
/* Fails the test unless standard error is exactly one line "anneal: ..." that contains `sentence`. */
void process_expect_sentence(const struct process *process, const char *sentence);
/* The same of several ranks: their MPI may add lines of its own. */
void process_expect_said_once(const struct process *process, const char *sentence);

#endif
