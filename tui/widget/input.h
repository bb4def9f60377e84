/* One line of text being typed: UTF-8 kept whole, edited at a cursor (no selection, no history). */
#ifndef ANNEAL_TUI_INPUT_H
#define ANNEAL_TUI_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INPUT_MAX = 256 };

struct input {
    char text[INPUT_MAX]; /* UTF-8, NUL-terminated */
    size_t cursor;        /* byte offset, at a character's start */
};

void input_set(struct input *input, const char *text);
bool input_type(struct input *input, uint32_t code_point); /* false: control character or full */
bool input_backspace(struct input *input);
bool input_delete(struct input *input);
void input_left(struct input *input);
void input_right(struct input *input);
void input_home(struct input *input);
void input_end(struct input *input);

#endif
