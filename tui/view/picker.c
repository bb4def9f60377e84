/* See picker.h. */
#include "tui/view/picker.h"

#include <stdio.h>
#include <string.h>

/* The selected item stays selected where it is still shown. */
static void arrange(struct picker *picker)
{
    size_t n = 0, selected = picker->list.count ? picker->shown[picker->list.at] : 0;
    for (size_t i = 0; i < picker->count; i++)
        if (strcasestr(picker->items[i].name, picker->list.letters.text) ||
            strcasestr(picker->items[i].detail, picker->list.letters.text))
            picker->shown[n++] = i;
    list_set_count(&picker->list, n);
    for (size_t row = 0; row < n; row++)
        if (picker->shown[row] == selected) picker->list.at = row;
}

bool picker_init(struct picker *picker, size_t room)
{
    picker->items = arena_alloc_array(&picker->arena, room + 1, sizeof *picker->items);
    picker->shown = arena_alloc_array(&picker->arena, room + 1, sizeof *picker->shown);
    return picker->items && picker->shown;
}

void picker_add(struct picker *picker, const char *name, const char *detail)
{
    picker->items[picker->count] = (struct pick){name, detail, picker->count};
    picker->count++;
    arrange(picker);
}

size_t picker_find(const struct picker *picker, const char *name)
{
    size_t i = 0;
    while (i < picker->count && strcmp(picker->items[i].name, name) != 0) i++;
    return i;
}

/* Moves an item from place `from` to place `to`. */
static void move_item(struct picker *picker, size_t from, size_t to)
{
    struct pick item = picker->items[from];
    if (from < to)
        memmove(picker->items + from, picker->items + from + 1, (to - from) * sizeof item);
    else
        memmove(picker->items + to + 1, picker->items + to, (from - to) * sizeof item);
    picker->items[to] = item;
}

void picker_choose(struct picker *picker, size_t item)
{
    if (item < picker->chosen || item >= picker->count || picker->chosen == picker->most) return;
    move_item(picker, item, picker->chosen++);
    arrange(picker);
}

void picker_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct picker *picker = opaque;
    enum { NUMBER = 6, DETAIL = 12 /* columns, the second at least */ };
    int name = 0, room = grid->w - NUMBER - DETAIL;
    struct pen pen = {grid, 1, 0, grid->w - 1};
    for (size_t i = 0; i < picker->count; i++)
        if (glyph_text_width(picker->items[i].name) > name) name = glyph_text_width(picker->items[i].name);
    if (name > room) name = room;
    pen_word(&pen, STYLE_ACCENT, ATTR_BOLD, "%s", picker->title);
    pen_word(&pen, STYLE_TEXT, 0, "%zu of %zu", picker->chosen, picker->count);
    list_draw_letters(workbench, &picker->list, &pen);
    struct rect body = {0, 2, grid->w, grid->h - 3};
    size_t end = list_fit(&picker->list, body);
    for (size_t row = picker->list.scroll; row < end; row++) {
        const struct pick *item = &picker->items[picker->shown[row]];
        bool chosen = picker->shown[row] < picker->chosen;
        struct pen line = {grid, 1, body.y + (int)(row - picker->list.scroll), grid->w - 1};
        if (chosen)
            pen_print(&line, STYLE_ACCENT, ATTR_BOLD, "[%2zu] ", picker->shown[row] + 1);
        else
            pen_print(&line, STYLE_DIM, 0, "[  ] ");
        grid_name(grid, NUMBER, line.y, name, STYLE_TEXT, chosen ? ATTR_BOLD : 0, item->name);
        line.x = NUMBER + name + 2;
        pen_print(&line, STYLE_DIM, 0, "%s", item->detail);
    }
    list_mark(&picker->list, grid, body);
}

static void toggle(struct workbench *workbench, struct picker *picker, size_t item)
{
    if (item < picker->chosen && picker->chosen == 1)
        workbench_say(workbench, "the last %s stays", picker->noun);
    else if (item < picker->chosen)
        move_item(picker, item, --picker->chosen);
    else if (picker->chosen == picker->most)
        workbench_say(workbench, "there are %zu %ss already: hide one first", picker->most, picker->noun);
    else
        move_item(picker, item, picker->chosen++);
}

/* The same for the selected item, which stays selected. */
static void move_selected(struct picker *picker, size_t from, size_t to)
{
    move_item(picker, from, to);
    arrange(picker);
    for (size_t row = 0; row < picker->list.count; row++)
        if (picker->shown[row] == to) picker->list.at = row;
}

/* Back to the items that are chosen at first, in their order. */
static void choose_usual(struct picker *picker)
{
    picker->chosen = 0;
    for (size_t place = 0; place < picker->count; place++) {
        size_t at = place;
        while (picker->items[at].place != place) at++;
        move_item(picker, at, place);
    }
    picker->choose_usual(picker);
}

/* Writes the names of the chosen items with commas between, as many as fit. */
static void write_chosen(const struct picker *picker, char *buf, size_t size)
{
    for (size_t i = 0, n = 0; i < picker->chosen; i++)
        if (n + strlen(picker->items[i].name) + 2 < size)
            n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? "," : "", picker->items[i].name);
}

/* ---- the view ---- */

void picker_close(void *opaque)
{
    arena_release(&((struct picker *)opaque)->arena);
}

bool picker_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    (void)workbench;
    (void)opaque;
    (void)store_changed;
    return false;
}

bool picker_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct picker *picker = opaque;
    size_t at = picker->list.at, item = at < picker->list.count ? picker->shown[at] : picker->count;
    bool chosen = item < picker->chosen;
    char text[PICKER_TEXT_MAX] = ""; /* the usual items */
    if (list_key(workbench, &picker->list, action, code)) {
        arrange(picker);
        return true;
    }
    if (action == ACTION_TOGGLE && item < picker->count) {
        toggle(workbench, picker, item);
    } else if (action == ACTION_EARLIER && chosen && item > 0) {
        move_selected(picker, item, item - 1);
    } else if (action == ACTION_LATER && chosen && item + 1 < picker->chosen) {
        move_selected(picker, item, item + 1);
    } else if (action == ACTION_CLEAR) {
        choose_usual(picker);
    } else {
        return false;
    }
    arrange(picker);
    if (action != ACTION_CLEAR) write_chosen(picker, text, sizeof text);
    settings_set(&workbench->settings, picker->setting, text);
    return true;
}
