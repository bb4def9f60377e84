/* The workbench without a terminal: a stack of views of which the topmost is drawn and gets the keys. A view
 * is a table of functions and a state. Views know the store and the grid, never the terminal, so tests and
 * benchmarks run them on a grid alone; tui/view/screen.h runs them on a terminal. */
#ifndef ANNEAL_TUI_VIEW_WORKBENCH_H
#define ANNEAL_TUI_VIEW_WORKBENCH_H

#include <stdbool.h>

#include "runs/run.h"
#include "runs/series.h"
#include "runs/store.h"
#include "tui/view/keys.h"
#include "tui/view/launch.h"
#include "tui/widget/grid.h"

/* --- the form of a new run --- */

/* One line of it: a configuration key as `anneal train --section.key=value` takes it. */
struct form_field {
    const char *key;      /* "train.batch_size"; "name" and "device" are options of their own */
    const char *label;    /* "batch size" */
    const char *fallback; /* the default, shown when the field is empty */
    const char *hint;     /* one line: meaning, unit, limits */
    const char *choices;  /* "adamw|lion"; NULL: free text */
};

/* The run that the form describes. Views may not include the configuration, so the workbench is opened with a
 * function that reads it. */
enum { FORM_PREVIEW_POINTS = 512 };
struct form_preview {
    char problem[256]; /* an error in the settings; "": none, and the rest is filled */
    char facts[160];   /* one sentence: size, steps, tokens */
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
    /* `state` comes zeroed; `argument` is a run's id or NULL. It is closed after a failure, too. */
    enum status (*open)(struct workbench *workbench, void *state, const char *argument, struct err *err);
    /* Reads new data. `store_changed`: somebody committed; else only time has passed (once a second).
     * True: something on the screen may have changed. Failures go to workbench_did; old data stays. */
    bool (*read)(struct workbench *workbench, void *state, bool store_changed);
    void (*draw)(struct workbench *workbench, void *state, struct grid *grid);
    /* `code` is given with ACTION_NONE too: text being typed. K_CONFIRMED: the user answered yes to the
     * question that the view asked about `action`. */
    void (*key)(struct workbench *workbench, void *state, enum action action, uint32_t code);
    void (*close)(void *state); /* releases what the state holds, not the state itself */
};

extern const struct view_ops runs_view, run_view, memory_view, profile_view, form_view;

struct workbench_options {
    const char *home;                /* the state folder; borrowed */
    const struct view_ops *list;     /* the view that opens first */
    const struct view_ops *run;      /* and then this one, of run_id */
    const char *run_id;              /* NULL: none */
    const struct form_field *fields; /* the form of a new run; borrowed */
    size_t field_count;
    form_preview_function *preview; /* of that form */
};

enum { WORKBENCH_DEPTH = 4 };

struct workbench {
    /* for views */
    struct workbench_options options;
    struct store *store;
    double now;                /* Unix seconds of this wake-up */
    bool typing;               /* set by the topmost view: characters are text, not keys */
    char compared[RUN_ID_MAX]; /* the run whose loss is drawn beside that of the run looked at; "": none */
    struct err err;            /* of a call that workbench_did checks */
    char visited[RUN_ID_MAX];  /* the run that was looked at last, for the list to select; "": none */
    /* for the screen: the grid shows an older state; the user has left; every cell is to be written anew */
    bool dirty, left, redraw;

    /* private */
    struct {
        const struct view_ops *ops;
        void *state;
    } stack[WORKBENCH_DEPTH];
    int depth;
    int64_t version, second; /* when the view last read */
    struct launch resuming;  /* the trainer of the run that was resumed last, until it is at work */
    bool helping;
    size_t help_scroll;
    char message[516]; /* in the last rows; "": none */
    enum style message_style;
    enum action asked; /* what the message asks about; ACTION_NONE: it asks nothing */
};

enum status workbench_open(const struct workbench_options *options, struct workbench **out, struct err *err);
void workbench_close(struct workbench *workbench);

/* One wake-up at `now` (Unix seconds): asks the store whether anything changed and lets the view read. */
void workbench_tick(struct workbench *workbench, double now);
void workbench_key(struct workbench *workbench, uint32_t code);
void workbench_draw(struct workbench *workbench, struct grid *grid); /* clears `dirty` */

/* The number of runs that are training. */
size_t workbench_live_runs(struct workbench *workbench);

/* --- what the workbench does for views --- */

/* Puts a view on top. A failure goes to the last row. */
void workbench_push(struct workbench *workbench, const struct view_ops *ops, const char *argument);
void workbench_back(struct workbench *workbench); /* from the last view: leaves */

/* The last row, or as many as it takes, shows a sentence until the next key. */
void workbench_say(struct workbench *workbench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* workbench_did(workbench, f(..., &workbench->err)): whether f did; if not, the last row shows its error. */
bool workbench_did(struct workbench *workbench, enum status status);

/* Orders a run's trainer to do what ACTION_PAUSE, STOP, CHECKPOINT, EVALUATE, SAMPLE or TRACE say; to stop it
 * asks first, unless the user has `confirmed`. The last row says what was asked, or why nothing was. Returns
 * the order's id; 0 when none was sent. */
int64_t workbench_order(struct workbench *workbench, const struct run_info *run, enum action action,
                        bool confirmed);
/* The same for the scheduled learning rate times `factor`. */
int64_t workbench_order_lr(struct workbench *workbench, const struct run_info *run, double factor);

/* Resumes a run that has ended, in the background; one that has done all its steps gets as many again. Asks
 * first, unless the user has `confirmed`. The last row says what the trainer does, and when it trains. */
void workbench_resume(struct workbench *workbench, const struct run_info *run, bool confirmed);

/* Asks a yes/no question about `action` in the last row. */
void workbench_ask(struct workbench *workbench, enum action action, const char *question);

#endif
