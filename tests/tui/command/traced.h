/* A program whose system calls on files a test sees, one at a time whatever threads and processes make them,
 * and may let fail. It uses ptrace with a seccomp filter: other calls run at full speed, and those that libc
 * makes by itself (stdio, nftw) are seen, too. */
#ifndef ANNEAL_TESTS_TUI_COMMAND_TRACED_H
#define ANNEAL_TESTS_TUI_COMMAND_TRACED_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum traced_kind {
    TRACED_OPEN,
    TRACED_READ,
    TRACED_WRITE,
    TRACED_TRUNCATE,
    TRACED_SYNC,
    TRACED_RENAME,
    TRACED_LINK,
    TRACED_REMOVE,
    TRACED_FOLDER, /* mkdir */
    TRACED_MAP,    /* mmap of a file */
    TRACED_LOCK,
    TRACED_KINDS
};
extern const char *const traced_words[TRACED_KINDS];

struct traced_call {
    enum traced_kind kind;
    long number; /* SYS_… */
    pid_t thread;
    int flags;                         /* of open, renameat2, flock */
    char path[PATH_MAX], to[PATH_MAX]; /* absolute; "": no file. `to` is the second of rename and link */
    uint64_t data, size;               /* of write: address in the program, bytes; of truncate: the size */
    int64_t offset;                    /* of write, once it is done: where it began */
    int64_t result;                    /* once it is done; -errno if it failed */
};

struct traced {
    const char *const *arguments;   /* of $ANNEAL_BINARY, NULL at the end */
    const char *const *environment; /* further variables, "NAME=value", NULL at the end; NULL: none */
    const char *out, *err;          /* files that its output goes to */
    unsigned seconds;               /* after which it is killed */
    /* Called before a call: returns the errno with which it fails instead, 0: it is made. */
    int (*before)(void *context, const struct traced_call *call);
    /* Called when it is done and before any other begins; NULL: calls are made side by side. */
    void (*after)(void *context, const struct traced_call *call);
    void *context;
};

/* Runs the program to its end: its exit status, or 128 + signal. Skips the test where ptrace is not allowed.
 */
int traced_run(const struct traced *traced);

/* Copies the data of a write. */
void traced_data(const struct traced_call *call, void *buf, size_t size);

#endif
