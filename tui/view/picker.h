/* A choice of items in an order of the user's: those chosen come first. The views in which the columns of the
 * list of runs and the charts of a run are chosen are pickers: their states begin with one, and all but
 * opening is done here. Each change goes to a setting, from which others take the choice. */
#ifndef ANNEAL_TUI_PICKER_H
#define ANNEAL_TUI_PICKER_H

#include "core/base/arena.h"
#include "tui/view/list.h"

struct picker {
    const char *title, *noun; /* "Columns", "column" */
    size_t most;              /* of chosen items */
    char setting[32];         /* the names of the chosen ones with commas between; "": the usual ones */
    void (*choose_usual)(struct picker *picker);
    struct arena arena;
    struct pick {
        const char *name, *detail; /* in the arena; borrowed */
        size_t place;              /* in the usual order, in which they were added */
    } * items;                     /* the first `chosen` are chosen, in their order */
    size_t count, chosen;
    size_t *shown; /* numbers of the items that have the letters typed */
    struct list list;
};

enum { PICKER_TEXT_MAX = 2048 /* of that setting */ };

/* Makes room for `room` items; false when memory is short. What stands before the arena is set before. */
bool picker_init(struct picker *picker, size_t room);

/* Appends an item, as far as there is room. */
void picker_add(struct picker *picker, const char *name, const char *detail);
/* The number of the item of this name; count: none. */
size_t picker_find(const struct picker *picker, const char *name);
/* Chooses an item as the last one; nothing if it is chosen already, or does not exist. */
void picker_choose(struct picker *picker, size_t item);

/* The functions of the view. */
bool picker_read(struct workbench *workbench, void *picker, bool store_changed);
void picker_draw(struct workbench *workbench, void *picker, struct grid *grid);
bool picker_key(struct workbench *workbench, void *picker, enum action action, uint32_t code);
void picker_close(void *picker);

#endif
