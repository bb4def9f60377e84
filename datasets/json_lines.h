/* JSONL: a text with one JSON object a line. Blank lines and a byte-order mark are ignored. */
#ifndef ANNEAL_DATASETS_JSON_LINES_H
#define ANNEAL_DATASETS_JSON_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

/* For messages about a line that is something else. */
#define JSON_LINES_RULE "each line must be one JSON object; jq -c '.[]' FILE makes such lines of a list"

struct json_t; /* of Jansson */

struct json_lines {
    const char *path;      /* borrowed, for messages */
    const char *text;      /* n bytes, borrowed */
    size_t n, at;          /* `at`: where the next line begins */
    bool any_text;         /* strings may hold U+0000 */
    uint64_t line;         /* of the newest object, from 1 */
    struct json_t *object; /* the newest one; owned, any JSON value */
};

/* Reads the next value to `object`; *more is false after the last one. STATUS_CORRUPT names line and column.
 */
enum status json_lines_next(struct json_lines *lines, bool *more, struct err *err);
/* Fills buf with the names of an object's members, for a message: `"a", "b"` or `nothing`. Returns buf. */
char *json_lines_members(const struct json_t *object, char *buf, size_t size);
void json_lines_close(struct json_lines *lines); /* harmless on a zeroed struct */

#endif
