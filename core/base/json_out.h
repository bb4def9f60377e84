/* Writes JSON to a file member by member, so that a large document needs no memory.
 *
 * The output is always valid JSON and UTF-8. Bytes that are not UTF-8 become U+FFFD; control characters are
 * escaped, also DEL and U+0080 to U+009F, which a terminal would obey; a number that is not finite becomes
 * null. Reals are the shortest decimals that read back as the same double, and keep a point (5.0). The first
 * write error is kept until json_out_finish. */
#ifndef ANNEAL_CORE_BASE_JSON_OUT_H
#define ANNEAL_CORE_BASE_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { JSON_OUT_DEPTH_MAX = 32 };

/* How the members of an object or a list are laid out. */
enum json_out_layout {
    JSON_OUT_LINES,   /* each on its own line, two blanks deeper than the enclosing JSON_OUT_LINES */
    JSON_OUT_FLAT,    /* on one line: {"a": 1, "b": 2} */
    JSON_OUT_COMPACT, /* on one line without blanks: {"a":1,"b":2} */
};

struct json_out {
    FILE *file; /* borrowed */
    int depth;  /* containers that are open */
    int lines;  /* those of them with JSON_OUT_LINES */
    struct {
        unsigned char layout;
        char close; /* '}' or ']' */
        bool started;
    } open[JSON_OUT_DEPTH_MAX + 1]; /* [0]: the document itself */
    int error;                      /* errno of the first failure; 0: none */
};

void json_out_begin(struct json_out *out, FILE *file);

/* `open` is '{' or '['. Here and below `name` is NULL in a list and for the document itself. */
void json_out_open(struct json_out *out, const char *name, char open, enum json_out_layout layout);
void json_out_close(struct json_out *out); /* the innermost one */

void json_out_text(struct json_out *out, const char *name, const char *value);            /* NULL: null */
void json_out_bytes(struct json_out *out, const char *name, const char *value, size_t n); /* may hold NULs */
void json_out_int(struct json_out *out, const char *name, int64_t value);
void json_out_whole(struct json_out *out, const char *name, int64_t value); /* below 0 (unknown): null */
void json_out_real(struct json_out *out, const char *name, double value);
void json_out_bool(struct json_out *out, const char *name, bool value);
void json_out_raw(struct json_out *out, const char *name, const char *json); /* valid JSON, copied */

/* clang-format off */
/* Writes a member by its type: text, real or bool (a comparison is an int: cast it), else a whole number. */
#define JSON_OUT(out, name, value)                                                                           \
    _Generic((value), bool: json_out_bool, float: json_out_real, double: json_out_real,                      \
             char *: json_out_text, const char *: json_out_text, default: json_out_int)(out, name, value)

/* Up to eight members at once: JSON_MEMBERS(out, "run", id, "step", step, "loss", loss); */
#define JSON_MEMBERS(...) JSON_PAIRS(JSON_OUT, __VA_ARGS__)

/* Calls put(out, name, value) for up to eight pairs. */
#define JSON_PAIRS(put, ...) JSON_PICK(__VA_ARGS__, 8, -, 7, -, 6, -, 5, -, 4, -, 3, -, 2, -, 1, -)(put, __VA_ARGS__)
#define JSON_PICK(out, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) JSON_PAIRS_##count
#define JSON_PAIRS_1(put, out, name, value)      put(out, name, value)
#define JSON_PAIRS_2(put, out, name, value, ...) (put(out, name, value), JSON_PAIRS_1(put, out, __VA_ARGS__))
#define JSON_PAIRS_3(put, out, name, value, ...) (put(out, name, value), JSON_PAIRS_2(put, out, __VA_ARGS__))
#define JSON_PAIRS_4(put, out, name, value, ...) (put(out, name, value), JSON_PAIRS_3(put, out, __VA_ARGS__))
#define JSON_PAIRS_5(put, out, name, value, ...) (put(out, name, value), JSON_PAIRS_4(put, out, __VA_ARGS__))
#define JSON_PAIRS_6(put, out, name, value, ...) (put(out, name, value), JSON_PAIRS_5(put, out, __VA_ARGS__))
#define JSON_PAIRS_7(put, out, name, value, ...) (put(out, name, value), JSON_PAIRS_6(put, out, __VA_ARGS__))
#define JSON_PAIRS_8(put, out, name, value, ...) (put(out, name, value), JSON_PAIRS_7(put, out, __VA_ARGS__))
/* clang-format on */

/* Ends the line and flushes the file; 0, or the errno of the first failure. */
int json_out_finish(struct json_out *out);

#endif
