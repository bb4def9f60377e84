/* Lines that a person types or pastes, or that come through a pipe.
 *
 * On a terminal a line is edited while it is typed: arrow keys, Home and End, Backspace and Delete, Ctrl-A,
 * E, K, U and W, earlier lines with Up and Down. A pasted text of several lines is one line here, with
 * newlines, where the terminal marks what is pasted ("bracketed paste"). The terminal is in that mode only
 * while a line is awaited. A terminal that cannot move its cursor (TERM=dumb) passes lines on as it edits
 * them itself. */
#ifndef ANNEAL_TUI_COMMAND_LINE_INPUT_H
#define ANNEAL_TUI_COMMAND_LINE_INPUT_H

#include <stddef.h>

#include "core/base/err.h"

struct line_input;

/* Of standard input; the prompt goes to standard output. *prompt is borrowed and not shown for a pipe. */
enum status line_input_open(const char *prompt, struct line_input **out, struct err *err);
void line_input_close(struct line_input *input); /* NULL is harmless */

/* The next line without its end; valid until the next call. STATUS_NOT_FOUND: there is none;
 * STATUS_INTERRUPTED: a signal came, and what was typed is dropped; STATUS_USAGE: the line is too long. */
enum status line_input_next(struct line_input *input, char **line, size_t *n, struct err *err);

#endif
