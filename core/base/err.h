/* Errors are values: a function that can fail returns enum status (0 is ok) and takes a struct err last,
 * which it fills with one sentence a user can act on: "what: why (what to do)". */
#ifndef ANNEAL_CORE_BASE_ERR_H
#define ANNEAL_CORE_BASE_ERR_H

#include <stdarg.h>

enum status {
    STATUS_OK = 0,
    STATUS_FAILED,      /* anything not named below */
    STATUS_USAGE,       /* the caller's words are off: unknown option, key, value */
    STATUS_NOT_FOUND,   /* no such run, file, column */
    STATUS_BUSY,        /* somebody else holds it: a lock, a run, a database */
    STATUS_CORRUPT,     /* a file is not what it says it is */
    STATUS_IO,          /* the system refused: permissions, full disk */
    STATUS_NO_MEMORY,   /* host or device memory */
    STATUS_DEVICE,      /* a GPU failed, or cannot do what this model needs: another device may */
    STATUS_INTERRUPTED, /* a signal asked us to leave; nothing is lost */
};

struct err {
    enum status status;
    int system;     /* errno of a STATUS_IO, so that causes can be compared; else 0 */
    char text[512]; /* one line, no newline, UTF-8, cut at a character's boundary */
};

/* Fills `err` (which may be NULL) and returns `status`, so that a failure is one line:
 *     return err_set(err, STATUS_IO, "%s: cannot open: %s", path, strerror(errno)); */
enum status err_set(struct err *err, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* STATUS_NO_MEMORY, "no memory for …": the text says for what. */
enum status err_no_memory(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "context: " before the text that is already there; returns err's status. */
enum status err_prefix(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
