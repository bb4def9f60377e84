/* The workbench without a terminal: a stack of views, of which the topmost is drawn and gets the keys. A view
 * is a table of functions and a state. Views use the store and the grid, never the terminal, so tests and
 * benchmarks run them on a grid alone; tui/view/screen.h runs them on a terminal. */
#ifndef ANNEAL_TUI_VIEW_WORKBENCH_H
#define ANNEAL_TUI_VIEW_WORKBENCH_H

#include <stdbool.h>

#include "runs/run.h"
#include "runs/series.h"
#include "runs/store.h"
#include "tui/view/keys.h"
#include "tui/view/launch.h"
#include "tui/view/settings.h"
#include "tui/widget/grid.h"

/* --- the form of a new run --- */

/* One line of the form: a configuration key as `anneal train --section.key=value` takes it. */
struct form_field {
    const char *key;      /* "train.batch_size"; "name" and "device" are options of their own */
    const char *label;    /* "batch size" */
    const char *fallback; /* the default, shown when the field is empty */
    const char *hint;     /* one line: meaning, unit, limits */
    const char *choices;  /* "adamw|lion"; NULL: free text */
};

/* The run that the form describes. Views may not include the configuration, so the options of the workbench
 * provide a function that reads it. */
enum { FORM_PREVIEW_POINTS = 512 };
struct form_preview {
    char problem[256]; /* an error in the settings; "": none, and the rest is filled */
    char facts[160];   /* one sentence: size, steps, tokens */
    char warning[200]; /* a setting that has no effect; "": none */
    int64_t total_steps;
    struct series_point lr[FORM_PREVIEW_POINTS]; /* the planned learning rate, count points in step order */
    size_t count;
};
/* `settings`: count words "section.key=value"; fills all of `out`. */
typedef void form_preview_function(const char *const *settings, size_t count, struct form_preview *out);

/* --- views --- */

struct workbench;

struct view_ops {
    enum key_context context;
    size_t state_bytes;
    /* `state` is zeroed; `argument` is a run's id or NULL. After a failure `close` is called, too. */
    enum status (*open)(struct workbench *workbench, void *state, const char *argument, struct err *err);
    /* Reads new data. `store_changed`: the store has a new commit; else only time has passed (once a second).
     * True: the screen may have changed. Failures go to workbench_did; old data stays. */
    bool (*read)(struct workbench *workbench, void *state, bool store_changed);
    void (*draw)(struct workbench *workbench, void *state, struct grid *grid);
    /* Also called with ACTION_NONE, for a `code` typed as text. K_CONFIRMED: the user answered yes to the
     * view's question about `action`. K_ENTERED: `answer` is the line of text that it asked for. */
    void (*key)(struct workbench *workbench, void *state, enum action action, uint32_t code);
    void (*close)(void *state); /* releases the contents of the state, not the state itself */
};

extern const struct view_ops runs_view, columns_view, run_view, memory_view, profile_view, form_view;

struct workbench_options {
    const char *home;                /* the state folder; borrowed */
    const struct view_ops *list;     /* the view that opens first */
    const struct view_ops *run;      /* opens on top, for run_id */
    const char *run_id;              /* NULL: none */
    const char *greeting;            /* in the last row at first, for a minute or until a key; NULL: none */
    const struct form_field *fields; /* the form of a new run; borrowed */
    size_t field_count;
    form_preview_function *preview; /* of that form */
};

enum { WORKBENCH_DEPTH = 4 };

struct workbench {
    /* for views */
    struct workbench_options options;
    struct store *store;
    double now;                 /* Unix seconds of this wake-up */
    bool no_hint[ACTION_COUNT]; /* set by the topmost view's draw, for keys of no use now */
    char remark[200];         /* set by the topmost view's draw: in the last row instead of hints; "": none */
    bool typing;              /* set by the topmost view: characters are text, not actions */
    struct settings settings; /* remembered between starts */
    struct input answer;      /* of workbench_prompt */
    char compared[RUN_ID_MAX]; /* the run whose loss is drawn for comparison; "": none */
    struct err err;            /* for calls that workbench_did checks */
    char visited[RUN_ID_MAX];  /* the run shown last, for the list to select; "": none */
    /* for the screen: the grid is out of date; the user has left; every cell must be written again */
    bool dirty, left, redraw;

    /* private */
    struct {
        const struct view_ops *ops;
        void *state;
    } stack[WORKBENCH_DEPTH];
    int depth;
    int64_t version, second; /* of the view's last read */
    struct launch resuming;  /* the trainer of the run resumed last, until it is at work */
    bool helping;
    size_t help_scroll;
    char message[516]; /* in the last rows; "": none */
    enum style message_style;
    double greeting_end;  /* Unix seconds when the message goes by itself; 0: it waits for a key */
    enum action asked;    /* subject of the question in `message`; ACTION_NONE: none */
    enum action prompted; /* subject of the line of text that is asked for; ACTION_NONE: none */
    char label[80];       /* before that line */
};

enum status workbench_open(const struct workbench_options *options, struct workbench **out, struct err *err);
void workbench_close(struct workbench *workbench);

/* Handles a wake-up at `now` (Unix seconds): checks the store for changes and lets the view read. */
void workbench_tick(struct workbench *workbench, double now);
void workbench_key(struct workbench *workbench, uint32_t code);
void workbench_draw(struct workbench *workbench, struct grid *grid); /* clears `dirty` */

/* The number of runs that are training. */
size_t workbench_live_runs(struct workbench *workbench);

/* --- what the workbench does for views --- */

/* Puts a view on top. The last row shows any failure. */
void workbench_push(struct workbench *workbench, const struct view_ops *ops, const char *argument);
void workbench_back(struct workbench *workbench); /* leaves from the last view */

/* For draw: leaves out the hints of keys that are of no use on a run of this status. */
void workbench_hint(struct workbench *workbench, enum run_status status);

/* Shows a sentence in the last row, or as many as it takes, until the next key. */
void workbench_say(struct workbench *workbench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* workbench_did(workbench, f(..., &workbench->err)): whether f succeeded; else the last row shows why. */
bool workbench_did(struct workbench *workbench, enum status status);

/* Sends a run's trainer the order of `action`: ACTION_PAUSE, STOP, CHECKPOINT, EVALUATE, SAMPLE or TRACE.
 * Asks before a stop, unless the user has `confirmed`. The last row reports the order or why none was sent.
 * Returns the order's id; 0 when none was sent. */
int64_t workbench_order(struct workbench *workbench, const struct run_info *run, enum action action,
                        bool confirmed);
/* Likewise orders twice (`higher`) or half the factor of the learning rate that was ordered last. */
int64_t workbench_order_lr(struct workbench *workbench, const struct run_info *run, bool higher);

/* Resumes a run that has ended, in the background; a run that has done all its steps gets as many again. Asks
 * first, unless the user has `confirmed`. The last row reports the trainer's progress and the start. */
void workbench_resume(struct workbench *workbench, const struct run_info *run, bool confirmed);

/* Asks a yes/no question about `action` in the last row. */
void workbench_ask(struct workbench *workbench, enum action action, const char *question);

/* Asks for a line of text about `action` in the last row, with `text` to begin with. Esc gives none. */
void workbench_prompt(struct workbench *workbench, enum action action, const char *label, const char *text);

#endif
