/* Which keys request which actions: those of tui/keymap.def, unless a line "key.CONTEXT.COMMAND = KEY KEY" of
 * workbench.ini names others, such as "key.runs.pause = Ctrl-P F5". Without a name after the equals sign
 * the command has no key; the command line still knows it. */
#ifndef ANNEAL_TUI_KEYMAP_H
#define ANNEAL_TUI_KEYMAP_H

#include "tui/view/keys.h"
#include "tui/view/settings.h"

/* Binds the keys of tui/keymap.def. */
void keymap_init(struct keymap *keymap);

/* Binds the keys of the settings' lines. A line that cannot hold is reported and has no effect: an unknown
 * command or key, and a key that another command of the context has. `problem` gets the first such line with
 * file, line and reason, and how many more there are; "" when there is none. */
void keymap_read(struct keymap *keymap, const struct settings *settings, char *problem, size_t size);

/* The code of a key's name: one character, or "Space", "Ctrl-P", "PgUp", "F5" as in the help; K_NONE: there
 * is no such key. */
uint32_t keymap_code(const char *name);

#endif
