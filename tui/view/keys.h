/* Keys and what they do: the table made from tui/keymap.def. No curses: codes are Unicode code points, or K_
 * values beyond them for keys that are no characters. */
#ifndef ANNEAL_TUI_KEYS_H
#define ANNEAL_TUI_KEYS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define K_CTRL(letter) ((letter)&0x1F)

enum key_code {
    K_NONE = 0,
    K_TAB = '\t',
    K_ENTER = '\r',
    K_ESCAPE = 27,
    K_BACKSPACE = 127,
    K_UP = 0x110000, /* beyond Unicode */
    K_DOWN,
    K_LEFT,
    K_RIGHT,
    K_HOME,
    K_END,
    K_PAGE_UP,
    K_PAGE_DOWN,
    K_DELETE,
    K_BACK_TAB,
    K_F1,
    K_F5,
    K_OTHER,     /* a key we have no use for */
    K_CONFIRMED, /* no key: a question was answered with yes */
};

enum key_context {
    CONTEXT_ANY,
    CONTEXT_RUNS,
    CONTEXT_RUN,
    CONTEXT_MEMORY,
    CONTEXT_PROFILE,
    CONTEXT_FORM,
    CONTEXT_CONFIRM,
    CONTEXT_COUNT
};

enum action {
    ACTION_NONE,
    ACTION_HELP,
    ACTION_REDRAW,
    ACTION_LEAVE,
    ACTION_OPEN,
    ACTION_UP,
    ACTION_DOWN,
    ACTION_PAGE_UP,
    ACTION_PAGE_DOWN,
    ACTION_FIRST,
    ACTION_LAST,
    ACTION_NEW,
    ACTION_FILTER,
    ACTION_SORT,
    ACTION_REVERSE,
    ACTION_PAUSE,
    ACTION_STOP,
    ACTION_CHECKPOINT,
    ACTION_DELETE,
    ACTION_COMPARE,
    ACTION_EVALUATE,
    ACTION_TRACE,
    ACTION_LR_LOWER,
    ACTION_LR_HIGHER,
    ACTION_EVENT_NEXT,
    ACTION_EVENT_PREVIOUS,
    ACTION_SAMPLE,
    ACTION_BACK,
    ACTION_FOCUS_NEXT,
    ACTION_FOCUS_PREVIOUS,
    ACTION_ENLARGE,
    ACTION_CURSOR_LEFT,
    ACTION_CURSOR_RIGHT,
    ACTION_ZOOM_IN,
    ACTION_ZOOM_OUT,
    ACTION_ZOOM_ALL,
    ACTION_LOG,
    ACTION_SMOOTH,
    ACTION_SAMPLE_OLDER,
    ACTION_SAMPLE_NEWER,
    ACTION_MEMORY,
    ACTION_PROFILE,
    ACTION_UNFOLD,
    ACTION_FOLD,
    ACTION_FOLD_ALL,
    ACTION_TOGETHER,
    ACTION_NEXT,
    ACTION_PREVIOUS,
    ACTION_ENTER,
    ACTION_CHOICE_LEFT,
    ACTION_CHOICE_RIGHT,
    ACTION_CLEAR,
    ACTION_START,
    ACTION_YES,
    ACTION_NO,
};

struct key {
    enum key_context context;
    enum action action;
    uint32_t code, other; /* other: 0 for none */
    const char *label;    /* "Tab", "q Esc" */
    const char *hint;     /* for the last row; NULL: only in the help */
    const char *help;
};

extern const struct key keys[];
extern const size_t key_count;

const char *key_context_title(enum key_context context); /* "List of runs" */

/* What `code` does in `context`: its own keys first, then those of CONTEXT_ANY; ACTION_NONE otherwise. */
enum action key_action(enum key_context context, uint32_t code);

/* The whole map as a Markdown table for the README. */
void keys_print_markdown(FILE *out);

#endif
