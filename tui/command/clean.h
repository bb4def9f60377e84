/* Recorded texts on their way to a terminal. Samples, names, messages and results come from a database that
 * anybody may have written; printed raw they could move the cursor, change colours or retitle the window.
 *
 * Always: the result is valid UTF-8 in which each control character and each byte that is no UTF-8 is U+FFFD
 * (generate.h). JSON and CSV have rules of their own and do not pass here. */
#ifndef ANNEAL_TUI_COMMAND_CLEAN_H
#define ANNEAL_TUI_COMMAND_CLEAN_H

#include <stddef.h>

#include "core/base/arena.h"

/* One line of at most size - 1 bytes: newlines and tabs become spaces. */
void clean_line(char *buf, size_t size, const char *text);

/* The same as long as it needs to be, in `arena`; "?" when memory is short. */
const char *clean_line_new(struct arena *arena, const char *text);
/* Newlines and tabs stay. */
const char *clean_block_new(struct arena *arena, const char *text);

#endif
