/* See input.h. */
#include "tui/widget/input.h"

#include <string.h>

#include "core/base/utf8.h"
#include "tui/widget/glyph.h"

static bool is_middle(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

void input_set(struct input *input, const char *text)
{
    size_t n = strlen(text);
    if (n >= sizeof input->text) n = utf8_cut(text, sizeof input->text - 1);
    memcpy(input->text, text, n);
    input->text[n] = '\0';
    input->cursor = n;
}

bool input_type(struct input *input, uint32_t code_point)
{
    char bytes[5];
    size_t n, length = strlen(input->text);
    if (utf8_is_control(code_point) || code_point > 0x10FFFF) return false;
    n = glyph_encode(code_point, bytes, sizeof bytes);
    if (n == 0 || length + n >= sizeof input->text) return false;
    memmove(input->text + input->cursor + n, input->text + input->cursor, length - input->cursor + 1);
    memcpy(input->text + input->cursor, bytes, n);
    input->cursor += n;
    return true;
}

void input_left(struct input *input)
{
    if (input->cursor == 0) return;
    do input->cursor--;
    while (input->cursor > 0 && is_middle(input->text[input->cursor]));
}

void input_right(struct input *input)
{
    if (input->text[input->cursor] == '\0') return;
    do input->cursor++;
    while (is_middle(input->text[input->cursor]));
}

bool input_delete(struct input *input)
{
    size_t from = input->cursor;
    input_right(input);
    size_t to = input->cursor;
    input->cursor = from;
    memmove(input->text + from, input->text + to, strlen(input->text + to) + 1);
    return to > from;
}

bool input_backspace(struct input *input)
{
    if (input->cursor == 0) return false;
    input_left(input);
    return input_delete(input);
}

void input_home(struct input *input)
{
    input->cursor = 0;
}

void input_end(struct input *input)
{
    input->cursor = strlen(input->text);
}
