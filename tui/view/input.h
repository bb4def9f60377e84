/* One line of text being typed: UTF-8 kept whole, edited at a cursor (no selection, no history). */
#ifndef ANNEAL_TUI_VIEW_INPUT_H
#define ANNEAL_TUI_VIEW_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INPUT_MAX = 256 };

struct input {
    char text[INPUT_MAX]; /* UTF-8, NUL-terminated */
    size_t cursor;        /* byte offset, at a character's start */
};

void input_set(struct input *input, const char *text);

/* Types a character, moves (Left, Right, Home, End) or removes (Backspace, Delete, Ctrl-U); ignores other
 * keys. */
void input_key(struct input *input, uint32_t code);

#endif
