/* See input.h. */
#include "tui/view/input.h"

#include <string.h>

#include "core/base/text.h"
#include "tui/view/keys.h"
#include "tui/widget/grid.h"

void input_set(struct input *input, const char *text)
{
    size_t n = strlen(text);
    if (n >= sizeof input->text) n = utf8_cut(text, sizeof input->text - 1);
    memcpy(input->text, text, n);
    input->text[n] = '\0';
    input->cursor = n;
}

static bool is_middle(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/* The start of the character before byte `at`, or of that after it; `at` itself where there is none. */
static size_t before(const struct input *input, size_t at)
{
    while (at > 0 && is_middle(input->text[--at])) continue;
    return at;
}

static size_t after(const struct input *input, size_t at)
{
    if (input->text[at]) at++;
    while (is_middle(input->text[at])) at++;
    return at;
}

static void erase(struct input *input, size_t from, size_t to)
{
    memmove(input->text + from, input->text + to, strlen(input->text + to) + 1);
    input->cursor = from;
}

static void type(struct input *input, uint32_t code_point)
{
    char bytes[5];
    size_t n = glyph_encode(code_point, bytes, sizeof bytes), length = strlen(input->text);
    if (utf8_is_control(code_point) || code_point > 0x10FFFF || length + n >= sizeof input->text) return;
    memmove(input->text + input->cursor + n, input->text + input->cursor, length - input->cursor + 1);
    memcpy(input->text + input->cursor, bytes, n);
    input->cursor += n;
}

void input_key(struct input *input, uint32_t code)
{
    size_t at = input->cursor;
    if (code == K_LEFT)
        input->cursor = before(input, at);
    else if (code == K_RIGHT)
        input->cursor = after(input, at);
    else if (code == K_HOME)
        input->cursor = 0;
    else if (code == K_END)
        input->cursor = strlen(input->text);
    else if (code == K_BACKSPACE)
        erase(input, before(input, at), at);
    else if (code == K_DELETE)
        erase(input, at, after(input, at));
    else if (code == K_CTRL('u'))
        input_set(input, "");
    else
        type(input, code);
}
