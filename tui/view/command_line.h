/* The line that ":" opens: the name of a key's action, which does as the key does, and for some the argument
 * that the key would ask for: "pause", "sort-by -best", "lr 0.5". The beginning of a name is enough where no
 * other one begins so. */
#ifndef ANNEAL_TUI_COMMAND_LINE_H
#define ANNEAL_TUI_COMMAND_LINE_H

#include "tui/view/keys.h"

struct typed_command {
    const struct key *key;
    const char *argument; /* points into the line; NULL: none is given */
};

/* Finds the command that `line` gives in `context` or everywhere. Returns false for a line that gives none;
 * `why` then is a sentence about it, "" for an empty line. */
bool command_line_find(enum key_context context, const char *line, struct typed_command *out, char *why,
                       size_t size);

/* Completes a command's name or, of an argument, a word of a list. False: the view may know more. `without`:
 * for each action whether it is of no use now. */
bool command_line_complete(enum key_context context, const bool without[ACTION_COUNT], struct input *input);

/* The words of which the argument of `action` is one, with | between; NULL: it may be any text, or there is
 * none. */
const char *command_line_words(enum action action);

/* Tells what may be typed: the names that begin with the line or, of a single one, its help. Returns buf. */
char *command_line_describe(const struct keymap *keymap, enum key_context context,
                            const bool without[ACTION_COUNT], const char *line, char *buf, size_t size);

#endif
