/* See help.h. */
#include "tui/view/help.h"

#include <stdio.h>
#include <string.h>

#include "tui/widget/layout.h"

/* The key a hint shows: the first word of the label, or the last where characters are text. */
static const char *key_word(const struct key *key, bool typing, char *buf, size_t size)
{
    const char *last = strrchr(key->label, ' ');
    const char *word = typing && last && strncmp(last, " F", 2) == 0 ? last + 1 : key->label;
    size_t n = strcspn(word, " ");
    if (n >= size) n = size - 1;
    memcpy(buf, word, n);
    buf[n] = '\0';
    return buf;
}

static int hint_width(const struct key *key, bool typing)
{
    char word[16];
    return (int)strlen(key_word(key, typing, word, sizeof word)) + 1 + (int)strlen(key->hint);
}

static void draw_hint(struct grid *grid, int x, int y, const struct key *key, bool typing)
{
    char word[16];
    x += grid_text(grid, x, y, 15, STYLE_ACCENT, ATTR_BOLD, key_word(key, typing, word, sizeof word));
    grid_text(grid, x + 1, y, (int)strlen(key->hint), STYLE_DIM, ATTR_NONE, key->hint);
}

static bool is_way_out(const struct key *key)
{
    return key->action == ACTION_HELP || key->action == ACTION_BACK;
}

void help_draw_hints(struct grid *grid, struct rect row, enum key_context context)
{
    int right = row.x + row.w;
    bool typing = context == CONTEXT_FORM;
    for (size_t i = key_count; i > 0; i--) { /* from the right: the way back, then help */
        const struct key *key = &keys[i - 1];
        bool here = key->context == context || (key->context == CONTEXT_ANY && context != CONTEXT_CONFIRM);
        if (!here || !key->hint || !is_way_out(key)) continue;
        if (right - hint_width(key, typing) < row.x) break;
        right -= hint_width(key, typing);
        draw_hint(grid, right, row.y, key, typing);
        right -= 2;
    }
    int x = row.x + 1;
    for (size_t i = 0; i < key_count; i++) {
        const struct key *key = &keys[i];
        if (key->context != context || !key->hint || is_way_out(key)) continue;
        if (x + hint_width(key, typing) > right) break;
        draw_hint(grid, x, row.y, key, typing);
        x += hint_width(key, typing) + 2;
    }
}

enum {
    LABEL_X = 2,
    TEXT_X = 15,
    BOX_LEAST = 56
}; /* columns from the frame; of the box where there is room */

/* Columns of the box's inside in which no text of a group is wrapped. */
static int group_width(enum key_context context)
{
    int most = 0;
    for (size_t i = 0; i < key_count; i++) {
        int w = glyph_text_width(keys[i].help);
        if (keys[i].context == context && w > most) most = w;
    }
    return TEXT_X + most + 1;
}

/* A text in row `row` of the box's inside, unless that is scrolled out of sight. */
static void help_text(struct grid *grid, struct rect inside, int row, int x, enum style style, int attr,
                      const char *text)
{
    if (row >= 0 && row < inside.h)
        grid_text(grid, inside.x + x, inside.y + row, inside.w - x - 1, style, attr, text);
}

/* From `row` on, which may lie out of sight. Returns the row after the group. */
static int draw_group(struct grid *grid, struct rect inside, int row, enum key_context context)
{
    help_text(grid, inside, row++, 1, STYLE_TEXT, ATTR_BOLD | ATTR_UNDERLINE, key_context_title(context));
    for (size_t i = 0; i < key_count; i++) {
        if (keys[i].context != context) continue;
        help_text(grid, inside, row, LABEL_X, STYLE_ACCENT, ATTR_BOLD, keys[i].label);
        for (const char *line = keys[i].help, *next; *line; line = next) {
            char text[128];
            snprintf(text, sizeof text, "%.*s", (int)(wrap_line(line, inside.w - TEXT_X - 1, &next) - line),
                     line);
            help_text(grid, inside, row++, TEXT_X, STYLE_TEXT, ATTR_NONE, text);
        }
    }
    return row;
}

/* As wide as its text needs; on a narrow screen the text is wrapped. */
void help_draw(struct grid *grid, enum key_context context, int *scroll)
{
    static const char *const scrolls[] = {" Up Down scroll, any other key closes ",
                                          " Up Down scroll, others close ", NULL};
    static const char *const closes[] = {" any key closes ", NULL};
    int w = group_width(context), any_w = group_width(CONTEXT_ANY);
    w = any_w > w ? any_w : w;
    w = w + 2 < BOX_LEAST ? BOX_LEAST : w + 2;
    if (w > grid->w) w = grid->w;
    struct rect unseen = {0, 0, w - 2, 0}; /* drawing there only counts the rows */
    int rows = draw_group(grid, unseen, draw_group(grid, unseen, 0, context) + 1, CONTEXT_ANY);
    struct rect box = layout_centre(grid->w, grid->h - 1, w, rows + 2);
    grid_fill(grid, box, ' ', STYLE_TEXT, ATTR_NONE);
    struct rect inside = grid_box(grid, box, STYLE_ACCENT, "Keys");
    if (*scroll > rows - inside.h) *scroll = rows > inside.h ? rows - inside.h : 0;
    draw_group(grid, inside, draw_group(grid, inside, -*scroll, context) + 1, CONTEXT_ANY);
    grid_text_fitting(grid, box.x + 2, box.y + box.h - 1, box.w - 4, STYLE_DIM, ATTR_NONE,
                      rows > inside.h ? scrolls : closes);
    inside.w++; /* the marks lie on the frame */
    grid_scroll_marks(grid, inside, *scroll > 0, rows - *scroll > inside.h);
}
