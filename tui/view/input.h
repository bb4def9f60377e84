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

/* A character is typed; Left, Right, Home and End move; Backspace and Delete remove one; Ctrl-U all. What has
 * no room and keys of other kinds are ignored. */
void input_key(struct input *input, uint32_t code);

#endif
