/* Private to runs/: a JSON document on its way to a file, member by member, so that its size costs no memory.
 *
 * Always: what comes out is valid JSON and UTF-8 whatever is given (bytes that are not UTF-8 become U+FFFD,
 * control characters are escaped, also DEL and U+0080 to U+009F; a number that is not finite becomes null);
 * reals are the shortest that read back as the same double and stay reals (5.0). Errors are kept until
 * json_out_finish. */
#ifndef ANNEAL_RUNS_JSON_OUT_H
#define ANNEAL_RUNS_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json_out {
    FILE *file; /* borrowed */
    int depth, flat_depth;
    bool started; /* the innermost object or list has a member */
    int error;    /* errno of the first failure; 0: none */
};

void json_out_begin(struct json_out *out, FILE *file);

/* `name` is NULL in a list and for the document itself. `open` is '{' or '['; flat ones stay on one line,
 * with all that is in them. */
void json_out_open(struct json_out *out, const char *name, char open, bool flat);
void json_out_close(struct json_out *out, char close);

void json_out_text(struct json_out *out, const char *name, const char *value, size_t n); /* NULL: null */
void json_out_int(struct json_out *out, const char *name, int64_t value);
void json_out_real(struct json_out *out, const char *name, double value);
void json_out_bool(struct json_out *out, const char *name, bool value);
void json_out_null(struct json_out *out, const char *name);

/* Ends the line, flushes the file; 0 or the errno of what went wrong first. */
int json_out_finish(struct json_out *out);

#endif
