/* See keys.h. */
#include "tui/view/keys.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

const struct key keys[] = {
#define KEY(context, action, code, other, label, hint, help)                                                 \
    {CONTEXT_##context, ACTION_##action, (uint32_t)(code), (uint32_t)(other), label, hint, help},
#include "tui/keymap.def"
#undef KEY
};

#define TITLE(name, title) [CONTEXT_##name] = (title),
static const char *const context_titles[CONTEXT_COUNT] = {CONTEXTS(TITLE)};

#define ACTION_NAME(name) #name,
static const char *const action_names[ACTION_COUNT] = {ACTIONS(ACTION_NAME)};

char *command_name(enum action action, char buf[COMMAND_NAME_MAX])
{
    snprintf(buf, COMMAND_NAME_MAX, "%s", action_names[action]);
    for (char *c = buf; *c; c++) *c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
    return buf;
}

char *key_word(const struct keymap *keymap, enum key_context context, enum action action,
               char buf[KEY_NAME_MAX])
{
    size_t i = 0;
    while (i < KEY_COUNT && (keys[i].context != context || keys[i].action != action)) i++;
    const char *label = i < KEY_COUNT ? keymap->of[i].label : "";
    snprintf(buf, KEY_NAME_MAX, "%.*s", (int)strcspn(label, " "), label);
    if (!*buf) {
        buf[0] = ':';
        command_name(action, buf + 1);
    }
    return buf;
}

enum action key_action(const struct keymap *keymap, enum key_context context, uint32_t code)
{
    if (code == K_NONE) return ACTION_NONE;
    for (int pass = 0; pass < 2; pass++) {
        enum key_context wanted = pass == 0 ? context : CONTEXT_ANY;
        for (size_t i = 0; i < KEY_COUNT; i++)
            if (keys[i].context == wanted && (keymap->of[i].code == code || keymap->of[i].other == code))
                return keys[i].action;
    }
    return ACTION_NONE;
}

bool keys_move(enum action action, size_t *at, size_t count, size_t page)
{
    size_t last = count ? count - 1 : 0, by = action == ACTION_UP || action == ACTION_DOWN ? 1 : page;
    if (action == ACTION_UP || action == ACTION_PAGE_UP)
        *at -= *at < by ? *at : by;
    else if (action == ACTION_DOWN || action == ACTION_PAGE_DOWN)
        *at = last - *at < by || *at > last ? last : *at + by;
    else if (action == ACTION_FIRST || action == ACTION_LAST)
        *at = action == ACTION_FIRST ? 0 : last;
    else
        return false;
    return true;
}

bool keys_scroll(enum action action, struct pager *pager)
{
    int page = pager->rows > 1 ? pager->rows - 1 : 1;
    if (action == ACTION_UP || action == ACTION_DOWN)
        pager_scroll(pager, action == ACTION_UP ? -1 : 1);
    else if (action == ACTION_PAGE_UP || action == ACTION_PAGE_DOWN)
        pager_scroll(pager, action == ACTION_PAGE_UP ? -page : page);
    else if (action == ACTION_FIRST || action == ACTION_LAST)
        pager_go(pager, action == ACTION_LAST);
    else
        return false;
    return true;
}

/* --- hints --- */

void keys_draw_hints(struct grid *grid, struct rect row, const struct keymap *keymap,
                     enum key_context context, const bool without[ACTION_COUNT])
{
    struct pen pen = {grid, row.x + 1, row.y, row.x + row.w};
    for (size_t n = 0; n < 2 * KEY_COUNT; n++) {
        const struct key *key = &keys[n % KEY_COUNT];
        const char *label = keymap->of[n % KEY_COUNT].label;
        bool first =
            key->action == ACTION_HELP || key->action == ACTION_BACK || key->action == ACTION_DISMISS;
        bool here = key->context == context || key->context == CONTEXT_ANY;
        if (without[key->action]) continue;
        if (!key->hint || !*label || !here || first != (n < KEY_COUNT)) continue;
        /* use the label's first word or, where characters are text, the function key */
        const char *function = context == CONTEXT_FORM ? strstr(label, " F") : NULL;
        const char *word = function ? function + 1 : label;
        int length = (int)strcspn(word, " ");
        if (pen.x + length + 1 + (int)strlen(key->hint) > pen.end) return;
        pen_print(&pen, STYLE_ACCENT, ATTR_BOLD, "%.*s", length, word);
        pen_word(&pen, STYLE_DIM, 0, " %s", key->hint);
    }
}

/* --- the help --- */

enum { LABEL_X = 2, TEXT_X = 15, BOX_W = 79 }; /* columns from the frame; width of the box if it fits */

/* Draws a row inside the box, unless the row is scrolled out of sight. */
static void help_text(struct grid *grid, struct rect inside, int row, int x, enum style style, int attr,
                      const char *text, int length)
{
    struct pen pen = {grid, inside.x + x, inside.y + row, inside.x + inside.w - 1};
    if (row >= 0 && row < inside.h) pen_print(&pen, style, attr, "%.*s", length, text);
}

/* Draws a group from `row` on, which may be out of sight. Returns the row after it. */
static int draw_group(struct grid *grid, struct rect inside, int row, const struct keymap *keymap,
                      enum key_context context, const bool without[ACTION_COUNT])
{
    char command[COMMAND_NAME_MAX + 1] = ":";
    help_text(grid, inside, row++, 1, STYLE_TEXT, ATTR_BOLD | ATTR_UNDERLINE, context_titles[context],
              INT_MAX);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (keys[i].context != context) continue;
        bool used = !without[keys[i].action];
        const char *label = keymap->of[i].label;
        if (!*label) command_name(keys[i].action, command + 1);
        help_text(grid, inside, row, LABEL_X, used ? STYLE_ACCENT : STYLE_DIM, used ? ATTR_BOLD : ATTR_NONE,
                  *label ? label : command, INT_MAX);
        for (const char *line = keys[i].help, *next; *line; line = next) {
            int length = (int)(wrap_line(line, inside.w - TEXT_X - 1, &next) - line);
            help_text(grid, inside, row++, TEXT_X, used ? STYLE_TEXT : STYLE_DIM, ATTR_NONE, line, length);
        }
    }
    return row;
}

void keys_draw_help(struct grid *grid, const struct keymap *keymap, enum key_context context,
                    const bool without[ACTION_COUNT], size_t *scroll)
{
    int w = grid->w < BOX_W ? grid->w : BOX_W; /* a narrow grid wraps the text */
    struct rect unseen = {0, 0, w - 2, 0};     /* drawing here only counts the rows */
    int rows = draw_group(grid, unseen, 0, keymap, context, without) + 1;
    rows = draw_group(grid, unseen, rows, keymap, CONTEXT_ANY, without);
    int h = rows + 2 < grid->h - 1 ? rows + 2 : grid->h - 1;
    struct rect box = {(grid->w - w) / 2, (grid->h - 1 - h) / 2, w, h};
    struct rect inside = grid_box(grid, box, STYLE_ACCENT, "Keys");
    int most = rows > inside.h ? rows - inside.h : 0;
    if (*scroll > (size_t)most) *scroll = (size_t)most;
    int from = (int)*scroll;
    int row = draw_group(grid, inside, -from, keymap, context, without) + 1;
    draw_group(grid, inside, row, keymap, CONTEXT_ANY, without);
    grid_text(grid, box.x + 2, box.y + box.h - 1, box.w - 4, STYLE_DIM, ATTR_NONE,
              most ? " Up Down scroll, another key closes " : " any key closes ");
    inside.w++; /* the scroll marks lie on the frame */
    grid_scroll_marks(grid, inside, from > 0, from < most);
}

/* --- text input --- */

void input_set(struct input *input, const char *text)
{
    size_t n = strlen(text);
    if (n >= sizeof input->text) n = utf8_cut(text, sizeof input->text - 1);
    memcpy(input->text, text, n);
    input->text[n] = '\0';
    input->cursor = n;
}

/* The start of the character before byte `at`, or after it; `at` itself where there is none. */
static size_t before(const struct input *input, size_t at)
{
    return at > 0 ? utf8_cut(input->text, at - 1) : 0;
}

static size_t after(const struct input *input, size_t at)
{
    if (input->text[at]) at++;
    while (((unsigned char)input->text[at] & 0xC0) == 0x80) at++;
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

size_t input_complete(struct input *input, const char *const *names, size_t count, const char *ends,
                      char *buf, size_t size)
{
    size_t from = input->cursor, found = 0, shared = 0, used = 0;
    const char *first = NULL;
    while (from > 0 && !strchr(ends, input->text[from - 1])) from--;
    size_t length = input->cursor - from;
    buf[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (strncmp(names[i], input->text + from, length) != 0) continue;
        if (!first) first = names[i], shared = strlen(first);
        for (size_t k = 0; k < shared; k++)
            if (names[i][k] != first[k]) shared = k;
        if (used + strlen(names[i]) + 2 < size)
            used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? " " : "", names[i]);
        found++;
    }
    if (first) shared = utf8_cut(first, shared); /* é and è */
    for (const char *at = first ? first + length : ""; at && *at && at < first + shared;)
        type(input, glyph_next(&at));
    return found;
}

void input_draw(struct pen *pen, const struct input *input, bool typing, size_t from, size_t to)
{
    char before_cursor[INPUT_MAX] = "", character[8];
    const char *text = input->text;
    int width = pen->end - pen->x;
    memcpy(before_cursor, text, input->cursor);
    for (int left = glyph_text_width(before_cursor); typing && left > width - 2 && *text;)
        left -= glyph_width(glyph_next(&text)); /* begin later */
    bool cut = !typing && glyph_text_width(text) > width;
    while (*text) {
        size_t at = (size_t)(text - input->text);
        uint32_t code_point = glyph_next(&text);
        int w = glyph_width(code_point), attr = ATTR_BOLD;
        if (w > pen->end - pen->x - cut) break;
        if (at >= from && at < to) attr |= ATTR_UNDERLINE;
        if (typing && at == input->cursor) attr |= ATTR_REVERSE;
        if (!glyph_encode(code_point, character, sizeof character)) continue;
        pen_print(pen, at >= from && at < to ? STYLE_WARN : STYLE_TEXT, attr, "%s", character);
    }
    if (cut && width > 0) pen_print(pen, STYLE_TEXT, ATTR_BOLD, "\u2026");
    if (typing && !input->text[input->cursor]) pen_print(pen, STYLE_TEXT, ATTR_REVERSE, " ");
}
