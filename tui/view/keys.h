/* Key bindings: the table made from tui/keymap.def, shown as hints in the last row, as help over a view and
 * in the manual. Key codes are Unicode code points, or K_ values beyond them. */
#ifndef ANNEAL_TUI_KEYS_H
#define ANNEAL_TUI_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tui/widget/grid.h"
#include "tui/widget/pager.h"

#define K_CTRL(letter) ((letter)&0x1F)

enum { K_NONE = 0, K_TAB = '\t', K_ENTER = '\r', K_ESCAPE = 27, K_BACKSPACE = 127 };

/* Codes beyond Unicode. K_OTHER: a key without use. No keys are K_CONFIRMED and K_ENTERED, a question
 * answered with yes or with a line of text, K_PASTE and K_PASTE_END, between which text is pasted, and
 * K_REPORT, which nobody has asked for: of the terminal's background or size, of a button without use. */
enum { K_UP = 0x110000, K_DOWN, K_LEFT, K_RIGHT, K_HOME, K_END, K_PAGE_UP, K_PAGE_DOWN };
enum {
    K_DELETE = K_PAGE_DOWN + 1,
    K_BACK_TAB,
    K_F1,
    K_F2,
    K_F4 = K_F1 + 3,
    K_F5 = K_F1 + 4,
    K_F6,
    K_F12 = K_F1 + 11
};
enum { K_OTHER = K_F12 + 1, K_CONFIRMED, K_ENTERED, K_PASTE, K_PASTE_END, K_REPORT };
/* The mouse, at workbench.pointer: moved, pressed, moved while pressed, wheel turned. */
enum { K_MOVE = K_REPORT + 1, K_CLICK, K_DRAG, K_WHEEL };

static inline bool key_is_mouse(uint32_t code)
{
    return code >= K_MOVE && code <= K_WHEEL;
}

/* Whether the key is a character, where text is typed. */
static inline bool key_is_text(uint32_t code)
{
    return code >= ' ' && code != K_BACKSPACE && code < K_UP;
}

/* The actions that keys request; keymap.def binds each to its keys in each context. */
/* clang-format off */
#define ACTIONS(A)                                                                                        \
    A(NONE) A(HELP) A(REDRAW) A(LEAVE) A(OPEN) A(UP) A(DOWN) A(PAGE_UP) A(PAGE_DOWN) A(FIRST) A(LAST)     \
    A(NEW) A(FILTER) A(SORT) A(REVERSE) A(PAUSE) A(STOP) A(CHECKPOINT) A(DELETE) A(COMPARE) A(EVALUATE)   \
    A(TRACE) A(LR_LOWER) A(LR_HIGHER) A(EVENT_NEXT) A(EVENT_PREVIOUS) A(SAMPLE) A(RESUME) A(BACK) A(FOCUS_NEXT)     \
    A(FOCUS_PREVIOUS) A(ENLARGE) A(CURSOR_LEFT) A(CURSOR_RIGHT) A(ZOOM_IN) A(ZOOM_OUT) A(ZOOM_ALL) A(LOG) \
    A(CHARTS) A(SMOOTH) A(SAMPLE_OLDER) A(SAMPLE_NEWER) A(MEMORY) A(PROFILE) A(UNFOLD) A(FOLD) A(FOLD_ALL)          \
    A(TOGETHER) A(NEXT) A(PREVIOUS) A(ENTER) A(CHOICE_LEFT) A(CHOICE_RIGHT) A(CLEAR) A(START) A(YES)      \
    A(MARK) A(MARK_ALL) A(DISMISS) A(TAGS) A(NOTE) A(RENAME) A(ARCHIVE) A(UNDO) A(COLUMNS) A(SORT_BY) A(TOGGLE) A(COMPLETE)      \
    A(EARLIER) A(LATER) A(LOG_STEPS) A(COMMAND) A(LR) A(PALETTE) A(NOTIFY) A(PAN_LEFT) A(PAN_RIGHT) A(OUTLIERS) A(CONFIGURATION)   \
    A(RUN_LOG) A(AXIS) A(TARGET) A(SAVE)    \
    A(FOLD_RUNS) A(FOLD_KEYS) A(CURSOR_OFF) A(BASELINE) A(SWEEP) A(STOPPING) A(BEST)    \
    A(MOUSE) A(CLICK) A(ZOOM_AT) A(DRAG) A(POINT) A(AGAIN) A(CHECKPOINTS) A(FORK) A(EXPORT) A(PROMPT) A(INTERRUPT) A(FIND_RATE) A(NO)

/* Contexts in which keys have meanings, and their help titles. */
#define CONTEXTS(C)                                                                                       \
    C(ANY, "Everywhere") C(RUNS, "List of runs") C(COLUMNS, "Choosing columns or charts") C(RUN, "One run") C(COMPARE, "Comparison of runs") C(MEMORY, "Memory of a run")           \
    C(PROFILE, "Profile of a run") C(CONFIGURATION, "Configuration of a run") C(LOG, "Log of a run")                           \
    C(SWEEP, "A sweep") C(STOPPING, "Evaluations of a run") C(CHECKPOINTS, "Checkpoints of a run") C(OUTPUT, "Output of a command") C(PLAYGROUND, "Playground") C(FORM, "New run") C(RATE, "Search for a learning rate") C(CONFIRM, "Questions")
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
enum {
    KEY_COUNT = 0
#define KEY(...) +1
#include "tui/keymap.def"
#undef KEY
};

/* The keys that request the actions now, see keymap.h; of[i] belongs to keys[i]. */
struct keymap {
    struct key_binding {
        uint32_t code, other; /* 0 for none */
        char label[24];
    } of[KEY_COUNT];
};

/* The name of an action on the command line: ACTION_ZOOM_IN is "zoom-in". Returns buf. */
enum { COMMAND_NAME_MAX = 24 };
char *command_name(enum action action, char buf[COMMAND_NAME_MAX]);

/* The key that requests an action in a context, for sentences: its first key or, without one, its command.
 * Returns buf. */
enum { KEY_NAME_MAX = 32 };
char *key_word(const struct keymap *keymap, enum key_context context, enum action action,
               char buf[KEY_NAME_MAX]);
/* The same in an array of the enclosing block: for an argument of printf. */
#define KEY_WORD(keymap, context, action) key_word(keymap, context, action, (char[KEY_NAME_MAX]){0})

/* The action of `code` in `context`, whose own keys override those of CONTEXT_ANY; else ACTION_NONE. */
enum action key_action(const struct keymap *keymap, enum key_context context, uint32_t code);

/* Moves *at, the selected row in a list of `count` rows shown `page` at a time, for ACTION_UP … ACTION_LAST.
 * False: the action is no movement. */
bool keys_move(enum action action, size_t *at, size_t count, size_t page);

/* Likewise scrolls a text. */
bool keys_scroll(enum action action, struct pager *pager);

/* Draws as many hints of the context as fit, "? help" and the way back first. `without`: for each action
 * whether it is of no use now, so that its hint is left out. */
void keys_draw_hints(struct grid *grid, struct rect row, const struct keymap *keymap,
                     enum key_context context, const bool without[ACTION_COUNT]);

/* Draws a box with the keys of the context and of everywhere, those of no use now dimmed; limits *scroll to
 * the last page. */
void keys_draw_help(struct grid *grid, const struct keymap *keymap, enum key_context context,
                    const bool without[ACTION_COUNT], size_t *scroll);

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

/* Draws the text at the pen, so that the cursor is in sight; the bytes from..to are underlined, and the
 * cursor is marked if the text is being typed; else longer text ends in an ellipsis. */
void input_draw(struct pen *pen, const struct input *input, bool typing, size_t from, size_t to);

#endif
