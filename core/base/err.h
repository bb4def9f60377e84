/* Errors are values: a function that can fail returns enum status (0 is ok) and takes a struct err last,
 * which it fills with one sentence a user can act on: "what: why (what to do)". */
#ifndef ANNEAL_CORE_BASE_ERR_H
#define ANNEAL_CORE_BASE_ERR_H

enum status {
    STATUS_OK = 0,
    STATUS_FAILED,      /* anything not named below */
    STATUS_USAGE,       /* bad input: an unknown option, key or value */
    STATUS_NOT_FOUND,   /* no such run, file, column */
    STATUS_BUSY,        /* in use by another process: a lock, a run, a database */
    STATUS_CORRUPT,     /* the content of a file is not valid */
    STATUS_IO,          /* the system refused: permissions, full disk */
    STATUS_NO_MEMORY,   /* host or device memory */
    STATUS_DEVICE,      /* a GPU failed, or lacks what this model needs: another device may work */
    STATUS_INTERRUPTED, /* stopped by a signal; nothing is lost */
    STATUS_PREEMPTED,   /* left before the work was done, to make room: the same command goes on with it */
};

struct err {
    enum status status;
    int system;     /* errno of a STATUS_IO, so that callers can tell causes apart; else 0 */
    char text[512]; /* one line, no newline, UTF-8, cut at a character's boundary */
};

/* Fills `err` (which may be NULL) and returns `status`, so that a failure is one line:
 *     return err_set(err, STATUS_IO, "%s: cannot open: %s", path, strerror(errno)); */
enum status err_set(struct err *err, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* STATUS_NO_MEMORY, "no memory for …": the text names the purpose. */
enum status err_no_memory(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "context: " before the text that is already there; returns err's status. */
enum status err_prefix(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
