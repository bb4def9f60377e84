/* One JSON object on one line of standard output, written member by member: how `--progress json` speaks.
 *
 * Always: a line is valid JSON and UTF-8 whatever it is given (a number that is not finite becomes null,
 * bytes that are not UTF-8 become U+FFFD), reals read back as the same double, and every line is flushed. */
#ifndef ANNEAL_TUI_JSON_LINE_H
#define ANNEAL_TUI_JSON_LINE_H

#include <stdbool.h>
#include <stdint.h>

/* {"type":TYPE */
void json_line_begin(const char *type);
/* ,"name":value. Names are ours: plain letters. */
void json_line_int(const char *name, int64_t value);
void json_line_real(const char *name, double value);
void json_line_bool(const char *name, bool value);
void json_line_text(const char *name, const char *value);
/* Closes and flushes it. 0, or the errno of a standard output that cannot be written. */
int json_line_end(void);

#endif
