/* See form.h. */
#include "tui/view/form.h"

#include <stdio.h>
#include <string.h>

#include "tui/widget/layout.h"

/* Columns of the labels: as many as the longest needs, from LABEL_W to half of the width. */
static int label_width(const struct form *form, int width)
{
    enum { LABEL_W = 18 };
    int longest = 0;
    for (size_t i = 0; i < form->count; i++) {
        int w = glyph_text_width(form->fields[i].label) + 1;
        if (w > longest) longest = w;
    }
    if (longest > width / 2) longest = width / 2;
    return longest < LABEL_W ? LABEL_W : longest;
}

const struct form_field *form_at(const struct form *form)
{
    return form->at < form->count ? &form->fields[form->at] : NULL;
}

const char *form_value(const struct form *form, size_t field)
{
    return *form->input[field].text ? form->input[field].text : form->fields[field].fallback;
}

size_t form_find(const struct form *form, const char *key)
{
    size_t i = 0;
    while (i < form->count && strcmp(form->fields[i].key, key) != 0) i++;
    return i;
}

/* ---- what is kept ---- */

static const char *setting_of(const struct form *form, size_t field, const char *prefix, char buf[128])
{
    snprintf(buf, 128, "%s.%s", prefix, form->fields[field].key);
    return buf;
}

void form_keep(const struct form *form, struct settings *settings, const char *prefix, bool drop)
{
    char key[128];
    for (size_t i = 0; i < form->count; i++)
        settings_set(settings, setting_of(form, i, prefix, key), drop ? "" : form->input[i].text);
}

bool form_recall(struct form *form, const struct settings *settings, const char *prefix)
{
    char key[128];
    bool any = false;
    for (size_t i = 0; i < form->count; i++)
        any = any || *settings_get(settings, setting_of(form, i, prefix, key));
    for (size_t i = 0; any && i < form->count; i++)
        input_set(&form->input[i], settings_get(settings, setting_of(form, i, prefix, key)));
    return any;
}

/* ---- keys ---- */

/* Selects the next or previous choice, wrapping around. */
static void turn_choice(const struct form_field *field, struct input *input, bool after)
{
    enum { CHOICES_MAX = 16 };
    char words[256], *rest = words, *word[CHOICES_MAX];
    int count = 0, at = 0;
    snprintf(words, sizeof words, "%s", field->choices);
    while (count < CHOICES_MAX && (word[count] = strsep(&rest, "|")) != NULL) {
        if (strcmp(word[count], *input->text ? input->text : field->fallback) == 0) at = count;
        count++;
    }
    const char *next = word[(at + (after ? 1 : count - 1)) % count];
    input_set(input, strcmp(next, field->fallback) == 0 ? "" : next);
}

/* The key of a text field that does what the action says, whatever key it is bound to. */
static uint32_t text_code(enum action action, uint32_t code)
{
    return action == ACTION_CLEAR          ? K_CTRL('u')
           : action == ACTION_CHOICE_LEFT  ? K_LEFT
           : action == ACTION_CHOICE_RIGHT ? K_RIGHT
                                           : code;
}

static void edit(const struct form_field *field, struct input *input, enum action action, uint32_t code)
{
    if (!field->choices)
        input_key(input, text_code(action, code));
    else if (action == ACTION_CHOICE_LEFT || action == ACTION_CHOICE_RIGHT || code == ' ')
        turn_choice(field, input, action != ACTION_CHOICE_LEFT);
    else if (action == ACTION_CLEAR || code == K_BACKSPACE)
        input_set(input, "");
}

bool form_key(struct form *form, enum action action, uint32_t code)
{
    const struct form_field *field = form_at(form);
    if (action == ACTION_NEXT)
        form->at = field ? form->at + 1 : 0;
    else if (action == ACTION_PREVIOUS)
        form->at = form->at > 0 ? form->at - 1 : form->count;
    else if (action == ACTION_ENTER && field)
        form->at++;
    else if (action == ACTION_ENTER || action == ACTION_START || !field)
        return false;
    else
        edit(field, &form->input[form->at], action, code);
    return true;
}

/* ---- drawing ---- */

static void draw_field(const struct form *form, struct grid *grid, struct rect row, int label_w,
                       size_t number, bool wrong)
{
    enum { VALUE_W = 40 };
    const struct form_field *field = &form->fields[number];
    const struct input *input = &form->input[number];
    const char *was = form->was ? form->was[number] : NULL;
    bool focused = number == form->at, changed = was && strcmp(form_value(form, number), was) != 0;
    int x = row.x + 2 + label_w, w = row.w - label_w - 4 < VALUE_W ? row.w - label_w - 4 : VALUE_W;
    struct pen pen = {grid, x, row.y, x + w};
    enum style style = wrong ? STYLE_BAD : *input->text ? STYLE_TEXT : STYLE_DIM;
    grid_text(grid, row.x + 2, row.y, label_w - 1, focused ? STYLE_ACCENT : STYLE_TEXT,
              focused ? ATTR_BOLD : 0, field->label);
    if (focused) grid_put(grid, row.x, row.y, 0x25B8, STYLE_ACCENT, ATTR_BOLD);
    if (field->choices && focused) { /* arrows in the margins, so that all values line up */
        grid_put(grid, x - 2, row.y, 0x2190, STYLE_ACCENT, 0);
        grid_put(grid, x + w, row.y, 0x2192, STYLE_ACCENT, 0);
    }
    if (wrong || changed)
        grid_put(grid, x - 1, row.y, wrong ? '!' : '*', wrong ? STYLE_BAD : STYLE_VAL, ATTR_BOLD);
    if (focused && !field->choices && *input->text) {
        input_draw(&pen, input, true, 0, 0);
        pen.x++;
    } else {
        pen_print(&pen, style, *input->text ? ATTR_BOLD : 0, "%s", form_value(form, number));
        const char *empty = form->note && form->note[number] ? form->note[number] : form->empty;
        if (!*input->text && pen.end - pen.x > glyph_text_width(empty))
            pen_print(&pen, STYLE_DIM, 0, " %s", empty);
        if (focused && !field->choices) grid_mark(grid, (struct rect){x, row.y, 1, 1}, ATTR_REVERSE);
    }
    pen.end = row.x + row.w - 1;
    pen.x++;
    if (changed && pen.end - pen.x > 5) pen_print(&pen, STYLE_VAL, 0, "was %s", *was ? was : "-");
}

void form_draw(struct form *form, struct grid *grid, struct rect area, const char *button, size_t wrong)
{
    bool focused = form->at == form->count, fit = (int)form->count + 2 <= area.h;
    bool start = focused || area.h > 1;
    int label_w = label_width(form, area.w);
    size_t page = fit ? form->count : (size_t)(area.h - start);
    if (area.h <= 0) return;
    table_scroll(&form->scroll, focused && form->count ? form->count - 1 : form->at, form->count, page);
    for (size_t i = form->scroll; i < form->count && i - form->scroll < page; i++)
        draw_field(form, grid, (struct rect){area.x, area.y + (int)(i - form->scroll), area.w, 1}, label_w, i,
                   i == wrong);
    grid_scroll_marks(grid, (struct rect){area.x, area.y, area.w, (int)page}, form->scroll > 0,
                      form->scroll + page < form->count);
    struct rect last = {area.x + 1, area.y + (fit ? (int)form->count + 1 : area.h - 1), area.w, 1};
    if (focused) grid_put(grid, area.x, last.y, 0x25B8, STYLE_ACCENT, ATTR_BOLD);
    if (start) grid_line(grid, &last, STYLE_GOOD, ATTR_BOLD | (focused ? ATTR_REVERSE : 0), " %s ", button);
}
