/* Key bindings: the table made from tui/keymap.def, shown as hints in the last row, as help over a view and
 * in the manual. Key codes are Unicode code points, or K_ values beyond them. */
#ifndef ANNEAL_TUI_KEYS_H
#define ANNEAL_TUI_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tui/widget/grid.h"

#define K_CTRL(letter) ((letter)&0x1F)

enum { K_NONE = 0, K_TAB = '\t', K_ENTER = '\r', K_ESCAPE = 27, K_BACKSPACE = 127 };

/* Codes beyond Unicode. K_OTHER: a key without use; K_CONFIRMED and K_ENTERED: no keys, but a question
 * answered with yes, and one answered with a line of text. */
enum { K_UP = 0x110000, K_DOWN, K_LEFT, K_RIGHT, K_HOME, K_END, K_PAGE_UP, K_PAGE_DOWN };
enum { K_DELETE = K_PAGE_DOWN + 1, K_BACK_TAB, K_F1, K_F5, K_OTHER, K_CONFIRMED, K_ENTERED };

/* The actions that keys request; keymap.def binds each to its keys in each context. */
/* clang-format off */
#define ACTIONS(A)                                                                                        \
    A(NONE) A(HELP) A(REDRAW) A(LEAVE) A(OPEN) A(UP) A(DOWN) A(PAGE_UP) A(PAGE_DOWN) A(FIRST) A(LAST)     \
    A(NEW) A(FILTER) A(SORT) A(REVERSE) A(PAUSE) A(STOP) A(CHECKPOINT) A(DELETE) A(COMPARE) A(EVALUATE)   \
    A(TRACE) A(LR_LOWER) A(LR_HIGHER) A(EVENT_NEXT) A(EVENT_PREVIOUS) A(SAMPLE) A(RESUME) A(BACK) A(FOCUS_NEXT)     \
    A(FOCUS_PREVIOUS) A(ENLARGE) A(CURSOR_LEFT) A(CURSOR_RIGHT) A(ZOOM_IN) A(ZOOM_OUT) A(ZOOM_ALL) A(LOG) \
    A(NEXT_QUANTITY) A(SMOOTH) A(SAMPLE_OLDER) A(SAMPLE_NEWER) A(MEMORY) A(PROFILE) A(UNFOLD) A(FOLD) A(FOLD_ALL)          \
    A(TOGETHER) A(NEXT) A(PREVIOUS) A(ENTER) A(CHOICE_LEFT) A(CHOICE_RIGHT) A(CLEAR) A(START) A(YES)      \
    A(MARK) A(MARK_ALL) A(TAGS) A(NOTE) A(RENAME) A(ARCHIVE) A(UNDO) A(COLUMNS) A(SORT_BY) A(TOGGLE) A(COMPLETE)      \
    A(EARLIER) A(LATER) A(LOG_STEPS) A(PAN_LEFT) A(PAN_RIGHT) A(OUTLIERS) A(NO)

/* Contexts in which keys have meanings, and their help titles. */
#define CONTEXTS(C)                                                                                       \
    C(ANY, "Everywhere") C(RUNS, "List of runs") C(COLUMNS, "Columns of the list") C(RUN, "One run") C(MEMORY, "Memory of a run")           \
    C(PROFILE, "Profile of a run") C(FORM, "New run") C(CONFIRM, "Questions")
/* clang-format on */

#define ACTION(name)         ACTION_##name,
#define CONTEXT(name, title) CONTEXT_##name,
enum action { ACTIONS(ACTION) ACTION_COUNT };
enum key_context { CONTEXTS(CONTEXT) CONTEXT_COUNT };

struct key {
    enum key_context context;
    enum action action;
    uint32_t code, other; /* other: 0 for none */
    const char *label;    /* "Tab", "q Esc" */
    const char *hint;     /* for the last row; NULL: shown only in the help */
    const char *help;
};

extern const struct key keys[];
extern const size_t key_count;

/* The action of `code` in `context`, whose own keys override those of CONTEXT_ANY; else ACTION_NONE. */
enum action key_action(enum key_context context, uint32_t code);

/* Moves *at, the selected row in a list of `count` rows shown `page` at a time, for ACTION_UP … ACTION_LAST.
 * False: the action is no movement. */
bool keys_move(enum action action, size_t *at, size_t count, size_t page);

/* Draws as many hints of the context as fit, "? help" and the way back first. `without`: for each action
 * whether it is of no use now, so that its hint is left out. */
void keys_draw_hints(struct grid *grid, struct rect row, enum key_context context,
                     const bool without[ACTION_COUNT]);

/* Draws a box with the keys of the context and of everywhere; limits *scroll to the last page. */
void keys_draw_help(struct grid *grid, enum key_context context, size_t *scroll);

/* --- a line of typed text: whole UTF-8 characters, edited at a cursor --- */

enum { INPUT_MAX = 256 };

struct input {
    char text[INPUT_MAX]; /* UTF-8, NUL-terminated */
    size_t cursor;        /* byte offset, at a character's start */
};

void input_set(struct input *input, const char *text);

/* Inserts a character, moves (Left, Right, Home, End) or removes (Backspace, Delete, Ctrl-U); ignores other
 * keys. */
void input_key(struct input *input, uint32_t code);

/* Completes the word before the cursor, which any of `ends` separates from the text before it, by what all
 * names that begin with it share. Writes those names, as many as fit, to buf; returns how many there are. */
size_t input_complete(struct input *input, const char *const *names, size_t count, const char *ends,
                      char *buf, size_t size);

/* Draws the text in `width` columns, so that the cursor is in sight; the bytes from..to are underlined, and
 * the cursor is marked if the text is being typed. Returns the columns used. */
int input_draw(struct grid *grid, int x, int y, int width, const struct input *input, bool typing,
               size_t from, size_t to);

#endif
