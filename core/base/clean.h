/* Texts on their way to a terminal. Samples, names, messages and results come from models and from a database
 * that anybody may have written; printed raw they could move the cursor, change colours or retitle the
 * window.
 *
 * Always: the result is valid UTF-8 in which each control character and each byte that is not UTF-8 is
 * U+FFFD. JSON and CSV have rules of their own and do not pass here. */
#ifndef ANNEAL_CORE_BASE_CLEAN_H
#define ANNEAL_CORE_BASE_CLEAN_H

#include <stddef.h>

#include "core/base/arena.h"

/* Newlines and tabs stay; a character that is incomplete at the end is left out. Writes at most size - 1
 * bytes, cut between characters, and a NUL (nothing when size is 0); returns the length. 3·n + 1 bytes hold
 * any result. */
size_t clean_block(char *out, size_t size, const char *bytes, size_t n);

/* One line: newlines and tabs become spaces. */
void clean_line(char *out, size_t size, const char *text);

/* The same as long as they need to be, in `arena`; "?" when memory is short. */
const char *clean_block_new(struct arena *arena, const char *text);
const char *clean_line_new(struct arena *arena, const char *text);

#endif
