/* Private to runs/: a file that an export writes, whole or not at all.
 *
 * Always: what is written goes to "path.tmp-PID" beside it, which takes the file's place in out_file_close
 * when all went well, else is removed: a full disk leaves no half file and an old one untouched. A device or
 * a pipe (/dev/stdout) is written to as it is; to put a file in its place would destroy it. The path "-" is
 * standard output. */
#ifndef ANNEAL_RUNS_EXCHANGE_OUT_FILE_H
#define ANNEAL_RUNS_EXCHANGE_OUT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/base/err.h"

struct out_file {
    FILE *stream;
    const char *path;         /* borrowed */
    char temporary[PATH_MAX]; /* "": `path` itself is written to */
};

enum status out_file_open(struct out_file *out, const char *path, struct err *err);

/* Ends it: `status` and `err` are what became of the writing, `error` its errno (0: none). Returns the final
 * status; a write error becomes STATUS_IO. */
enum status out_file_close(struct out_file *out, enum status status, int error, struct err *err);

#endif
