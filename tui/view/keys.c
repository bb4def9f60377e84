/* See keys.h. */
#include "tui/view/keys.h"

#include <limits.h>
#include <string.h>

#include "tui/widget/layout.h"

const struct key keys[] = {
#define KEY(context, action, code, other, label, hint, help)                                                 \
    {CONTEXT_##context, ACTION_##action, (uint32_t)(code), (uint32_t)(other), label, hint, help},
#include "tui/keymap.def"
#undef KEY
};
const size_t key_count = sizeof keys / sizeof *keys;

static const char *const context_titles[CONTEXT_COUNT] = {
    [CONTEXT_ANY] = "Everywhere",         [CONTEXT_RUNS] = "List of runs",        [CONTEXT_RUN] = "One run",
    [CONTEXT_MEMORY] = "Memory of a run", [CONTEXT_PROFILE] = "Profile of a run", [CONTEXT_FORM] = "New run",
    [CONTEXT_CONFIRM] = "Questions",
};

enum action key_action(enum key_context context, uint32_t code)
{
    if (code == K_NONE) return ACTION_NONE;
    for (int pass = 0; pass < 2; pass++) {
        enum key_context wanted = pass == 0 ? context : CONTEXT_ANY;
        for (size_t i = 0; i < key_count; i++)
            if (keys[i].context == wanted && (keys[i].code == code || keys[i].other == code))
                return keys[i].action;
    }
    return ACTION_NONE;
}

bool keys_move(enum action action, size_t *at, size_t count, size_t page)
{
    size_t last = count ? count - 1 : 0, up = action == ACTION_UP ? 1 : page;
    switch (action) {
    case ACTION_UP:
    case ACTION_PAGE_UP:
        *at -= *at < up ? *at : up;
        return true;
    case ACTION_DOWN:
    case ACTION_PAGE_DOWN:
        *at += action == ACTION_DOWN ? 1 : page;
        break;
    case ACTION_FIRST:
        *at = 0;
        break;
    case ACTION_LAST:
        *at = last;
        break;
    default:
        return false;
    }
    if (*at > last) *at = last;
    return true;
}

void keys_print_markdown(FILE *out)
{
    for (int context = 0; context < CONTEXT_COUNT; context++) {
        fprintf(out, "%s| %s | |\n| --- | --- |\n", context ? "\n" : "", context_titles[context]);
        for (size_t i = 0; i < key_count; i++) {
            if (keys[i].context != (enum key_context)context) continue;
            fputs("| ", out);
            int first = (int)strcspn(keys[i].label, " "); /* each word is one key */
            const char *second = keys[i].label[first] ? keys[i].label + first + 1 : NULL;
            fprintf(out, "`%.*s`", first, keys[i].label);
            if (second) fprintf(out, " `%s`", second);
            fprintf(out, " | %s |\n", keys[i].help);
        }
    }
}

/* --- hints --- */

/* The key a hint shows, and its length: the first of the label, or the function key where characters are
 * text. */
static const char *hint_word(const struct key *key, enum key_context context, int *length)
{
    const char *function = strstr(key->label, " F");
    const char *word = context == CONTEXT_FORM && function ? function + 1 : key->label;
    *length = (int)strcspn(word, " ");
    return word;
}

static int hint_width(const struct key *key, enum key_context context)
{
    int length;
    (void)hint_word(key, context, &length);
    return length + 1 + (int)strlen(key->hint);
}

static bool is_hint(const struct key *key, enum key_context context)
{
    return key->hint &&
           (key->context == context || (key->context == CONTEXT_ANY && context != CONTEXT_CONFIRM));
}

static bool is_way_out(const struct key *key)
{
    return key->action == ACTION_HELP || key->action == ACTION_BACK;
}

void keys_draw_hints(struct grid *grid, struct rect row, enum key_context context)
{
    enum { GAP = 2 };
    int end = row.x + row.w, out_x = end + GAP;
    for (size_t i = 0; i < key_count; i++)
        if (is_hint(&keys[i], context) && is_way_out(&keys[i])) out_x -= hint_width(&keys[i], context) + GAP;
    struct pen hints = {grid, row.x + 1, row.y, out_x - GAP}, out = {grid, out_x, row.y, end};
    for (size_t i = 0; i < key_count; i++) {
        struct pen *pen = is_way_out(&keys[i]) ? &out : &hints;
        int length;
        if (!is_hint(&keys[i], context)) continue;
        const char *word = hint_word(&keys[i], context, &length);
        if (pen->x + hint_width(&keys[i], context) > pen->end) {
            pen->end = 0; /* nor do those after it: the most wanted come first */
            continue;
        }
        pen_print(pen, STYLE_ACCENT, ATTR_BOLD, "%.*s", length, word);
        pen_print(pen, STYLE_DIM, 0, " %s", keys[i].hint);
        pen->x += GAP;
    }
}

/* --- the help --- */

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

/* A row of the box's inside, unless that is scrolled out of sight. */
static void help_text(struct grid *grid, struct rect inside, int row, int x, enum style style, int attr,
                      const char *text, int length)
{
    struct pen pen = {grid, inside.x + x, inside.y + row, inside.x + inside.w - 1};
    if (row >= 0 && row < inside.h) pen_print(&pen, style, attr, "%.*s", length, text);
}

/* From `row` on, which may lie out of sight. Returns the row after the group. */
static int draw_group(struct grid *grid, struct rect inside, int row, enum key_context context)
{
    help_text(grid, inside, row++, 1, STYLE_TEXT, ATTR_BOLD | ATTR_UNDERLINE, context_titles[context],
              INT_MAX);
    for (size_t i = 0; i < key_count; i++) {
        if (keys[i].context != context) continue;
        help_text(grid, inside, row, LABEL_X, STYLE_ACCENT, ATTR_BOLD, keys[i].label, INT_MAX);
        for (const char *line = keys[i].help, *next; *line; line = next) {
            int length = (int)(wrap_line(line, inside.w - TEXT_X - 1, &next) - line);
            help_text(grid, inside, row++, TEXT_X, STYLE_TEXT, ATTR_NONE, line, length);
        }
    }
    return row;
}

/* As wide as its text needs; on a narrow screen the text is wrapped. */
void keys_draw_help(struct grid *grid, enum key_context context, size_t *scroll)
{
    int w = group_width(context), any_w = group_width(CONTEXT_ANY);
    w = any_w > w ? any_w : w;
    w = w + 2 < BOX_LEAST ? BOX_LEAST : w + 2;
    if (w > grid->w) w = grid->w;
    struct rect unseen = {0, 0, w - 2, 0}; /* drawing there only counts the rows */
    int rows = draw_group(grid, unseen, draw_group(grid, unseen, 0, context) + 1, CONTEXT_ANY);
    struct rect box = layout_centre(grid->w, grid->h - 1, w, rows + 2);
    struct rect inside = grid_box(grid, box, STYLE_ACCENT, "Keys");
    int most = rows > inside.h ? rows - inside.h : 0;
    if (*scroll > (size_t)most) *scroll = (size_t)most;
    int from = (int)*scroll;
    draw_group(grid, inside, draw_group(grid, inside, -from, context) + 1, CONTEXT_ANY);
    grid_text(grid, box.x + 2, box.y + box.h - 1, box.w - 4, STYLE_DIM, ATTR_NONE,
              most ? " Up Down scroll, others close " : " any key closes ");
    inside.w++; /* the marks lie on the frame */
    grid_scroll_marks(grid, inside, from > 0, from < most);
}
