/* The workbench without a terminal: a stack of views, of which the topmost is drawn and gets the keys. A view
 * is a table of functions and a state. Views use the store and the grid, never the terminal, so tests and
 * benchmarks run them on a grid alone; tui/view/screen.h runs them on a terminal. */
#ifndef ANNEAL_TUI_VIEW_WORKBENCH_H
#define ANNEAL_TUI_VIEW_WORKBENCH_H

#include <stdbool.h>

#include "runs/run.h"
#include "runs/series.h"
#include "runs/store.h"
#include "tui/view/form.h"
#include "tui/view/keys.h"
#include "tui/view/launch.h"
#include "tui/view/mouse.h"
#include "tui/view/notice.h"
#include "tui/view/pending.h"
#include "tui/view/run_set.h"
#include "tui/view/settings.h"
#include "tui/widget/grid.h"

/* --- the form of a new run --- */

/* The run that the form describes. Views may not include the configuration, so the options of the workbench
 * provide a function that reads it. */
enum { FORM_PREVIEW_POINTS = 512 };
struct form_preview {
    char problem[256]; /* an error in the settings; "": none, and the rest is filled */
    char facts[160];   /* one sentence: size, steps, tokens */
    char warning[200]; /* a setting that has no effect; "": none */
    int64_t parameters, frozen_parameters;
    double total_tokens;                         /* to train on; NaN: not known before the data are read */
    int64_t total_steps;                         /* 0: not known, as they follow from train.epochs */
    struct series_point lr[FORM_PREVIEW_POINTS]; /* the planned learning rate, count points in step order */
    size_t count;                                /* 0: the steps are not known */
};
/* `settings`: count words "section.key=value"; fills all of `out`. */
typedef void form_preview_function(const char *const *settings, size_t count, struct form_preview *out);

/* The memory of the training that the form describes, as `anneal estimate --json --fit` prints it. */
struct form_estimate {
    char device[96]; /* "cpu", "cuda:0" */
    double bytes;    /* of the plan */
    double room;     /* that a plan can have now */
    int64_t batch;   /* the largest that fits; 0: none */
};
/* False: `json` is no such page. */
typedef bool form_estimate_function(const char *json, struct form_estimate *out);

/* --- the configuration of a run --- */

/* One line of it. */
struct config_row {
    const char *key, *value;    /* "train.batch_size" */
    const char *fallback;       /* the default beside its preset and optimizer */
    const char *help, *choices; /* a sentence; "adamw|lion", or "" */
    bool differs;               /* from the default */
    bool kept;                  /* a fork cannot change it */
};
/* `text`: a stored configuration. Rows and texts in `arena`, in the order of the text. */
typedef enum status config_rows_function(const char *text, struct arena *arena, struct config_row **out,
                                         size_t *count, struct err *err);

/* --- views --- */

struct workbench;

struct view_ops {
    enum key_context context;
    size_t state_bytes;
    /* `state` is zeroed; `argument` is a run's id, with what else the view's comment says, or NULL. After a
     * failure `close` is called, too. */
    enum status (*open)(struct workbench *workbench, void *state, const char *argument, struct err *err);
    /* Reads new data. `store_changed`: the store has a new commit; else only time has passed (once a second).
     * True: the screen may have changed. Failures go to workbench_did; old data stays. */
    bool (*read)(struct workbench *workbench, void *state, bool store_changed);
    void (*draw)(struct workbench *workbench, void *state, struct grid *grid);
    /* Also called with ACTION_NONE, for a `code` typed as text. K_CONFIRMED: the user answered yes to the
     * view's question about `action`. K_ENTERED: `answer` is the line of text that it asked for, or that the
     * command line gives. ACTION_COMPLETE while `prompted`: Tab in that line. False: the view has no use for
     * it; then ACTION_BACK goes back, and so does an ACTION_INTERRUPT. */
    bool (*key)(struct workbench *workbench, void *state, enum action action, uint32_t code);
    void (*close)(void *state); /* releases the contents of the state, not the state itself */
};

extern const struct view_ops runs_view, columns_view, charts_view, run_view, memory_view, profile_view,
    form_view, log_view, configuration_view, compare_view, sweep_view, stopping_view, checkpoints_view,
    output_view, playground_view, rate_view;

struct workbench_options {
    const char *home;                /* the state folder; borrowed */
    const struct view_ops *list;     /* the view that opens first */
    const struct view_ops *run;      /* opens on top, for run_id */
    const char *run_id;              /* NULL: none */
    const char *greeting;            /* in the last row at first, for a minute or until a key; NULL: none */
    const struct form_field *fields; /* the form of a new run; borrowed */
    size_t field_count;
    form_preview_function *preview; /* of that form */
    form_estimate_function *estimate;
    config_rows_function *config_rows;
};

enum { WORKBENCH_DEPTH = 12, COMMANDS_KEPT = 16 };

struct workbench {
    /* for views */
    struct workbench_options options;
    struct store *store;
    double now;                 /* Unix seconds of this wake-up */
    double uptime;              /* seconds, for what waits: it stays where the clock is set back */
    bool no_hint[ACTION_COUNT]; /* set by the topmost view's draw, for keys of no use now */
    char remark[200]; /* set by the topmost view's draw: in the last row instead of hints; "": none */
    bool typing;      /* set by the topmost view: characters are text, not actions */
    bool working; /* set by the topmost view: Ctrl-C is ACTION_INTERRUPT, and does not leave the workbench */
    bool eager;   /* set by the topmost view: it reads at every wake-up, ten times a second */
    struct settings settings; /* remembered between starts */
    struct keymap keymap;     /* of the settings */
    struct input answer;      /* of workbench_prompt */
    struct pointer pointer;   /* with a key of the mouse */
    struct run_set compared;  /* the runs that compare_view opens */
    struct run_set deleted;   /* the runs that workbench_finish deletes */
    bool abandoned;       /* no key has ended it but a signal, or its terminal is gone: nothing is deleted */
    size_t removed;       /* runs that workbench_finish has deleted */
    struct err err;       /* for calls that workbench_did checks */
    bool unreadable_now;  /* something could not be read just now */
    char unreadable[512]; /* the last error of reading the view, which is said once */
    char visited[RUN_ID_MAX]; /* the run shown last, for the list to select; "": none */
    /* for the screen: the grid is out of date; the user has left; every cell must be written again */
    bool dirty, left, redraw;
    bool recolour;           /* for the screen: the setting "palette" or "mouse" has changed */
    enum notice_kind notify; /* the setting of that name */
    char notice[256];        /* for the screen: to be told once in that way; "": nothing */

    /* private */
    struct {
        const struct view_ops *ops;
        void *state;
    } stack[WORKBENCH_DEPTH];
    int depth;
    int64_t version, second; /* of the view's last read */
    struct notice noticed;
    struct pending pending; /* what waits for the database */
    bool reading, unread;   /* a view reads; it has found the database locked, so that it reads again */
    struct launch resuming; /* the trainer of the run resumed last, until it is at work */
    double ended;           /* when what Ctrl-C would have stopped ended, in uptime; 0: before the last key */
    bool helping;
    size_t help_scroll;
    char message[516]; /* in the last rows; "": none */
    enum style message_style;
    bool pasting;         /* what comes is pasted text */
    bool pasted_key;      /* some of it would have been a key */
    double pasted;        /* uptime when it last came */
    double greeting_end;  /* uptime when the message goes by itself; 0: it waits for a key */
    enum action asked;    /* subject of the question in `message`; ACTION_NONE: none */
    enum action prompted; /* subject of the line of text that is asked for; ACTION_NONE: none */
    char label[80];       /* before that line */
    char commands[COMMANDS_KEPT][INPUT_MAX]; /* lines of the command line, the newest first */
    size_t command_at;                       /* of them the one shown is command_at - 1; 0: a new line */
};

enum status workbench_open(const struct workbench_options *options, struct workbench **out, struct err *err);
void workbench_close(struct workbench *workbench);

/* Makes the changes that still wait for the database, now with patience, and deletes runs. Returns how many
 * changes were not made, such as the deletion of a run that has been resumed meanwhile; err has the reason of
 * the last one. */
size_t workbench_finish(struct workbench *workbench, struct err *err);

/* Handles a wake-up at `now` (Unix seconds): checks the store for changes and lets the view read. */
void workbench_tick(struct workbench *workbench, double now);
void workbench_key(struct workbench *workbench, uint32_t code);
void workbench_mouse(struct workbench *workbench, uint32_t code, const struct pointer *at);
void workbench_draw(struct workbench *workbench, struct grid *grid); /* clears `dirty` */

/* The number of runs that are training. */
size_t workbench_live_runs(struct workbench *workbench);

/* --- what the workbench does for views --- */

/* Puts a view on top. The last row shows any failure. */
void workbench_push(struct workbench *workbench, const struct view_ops *ops, const char *argument);
void workbench_back(struct workbench *workbench); /* leaves from the last view */
/* Goes back and gives the view there `text` as the answer about `action`, with K_ENTERED. */
void workbench_answer(struct workbench *workbench, enum action action, const char *text);

/* For draw: leaves out the hints of keys that are of no use on a run of this status. */
void workbench_hint(struct workbench *workbench, const struct run_info *run);
/* The same for charts that are `zoomed` or not, of a run with or without events. */
void workbench_hint_charts(struct workbench *workbench, bool zoomed, bool events);
/* The same for the list; `run` NULL: no row is selected. `marked`, `deleted`: whether some runs are. */
void workbench_hint_list(struct workbench *workbench, const struct run_info *run, bool marked, bool deleted);

/* The key of an action in the topmost view, for sentences: "u". */
#define WORKBENCH_KEY(workbench, action) workbench_key_name(workbench, action, (char[KEY_NAME_MAX]){0})
char *workbench_key_name(const struct workbench *workbench, enum action action, char buf[KEY_NAME_MAX]);

/* Shows a sentence in the last row, or as many as it takes, until the next key. */
void workbench_say(struct workbench *workbench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same, below what the last rows show already. */
void workbench_add(struct workbench *workbench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* workbench_did(workbench, f(..., &workbench->err)): whether f succeeded; else the last row shows why. */
bool workbench_did(struct workbench *workbench, enum status status);

/* Makes a change of the store, see pending.h. STATUS_BUSY: the last row says that it waits; other failures
 * are for workbench_did. */
enum status workbench_change(struct workbench *workbench, const struct change *change, int64_t *order_id);

/* Sends a run's trainer the order of `action`: ACTION_PAUSE, STOP, CHECKPOINT, EVALUATE, SAMPLE or TRACE.
 * Asks before a stop, unless the user has `confirmed`. The last row reports the order or why none was sent.
 * Returns the order's id; 0 when none was sent. */
int64_t workbench_order(struct workbench *workbench, const struct run_info *run, enum action action,
                        bool confirmed);
/* Whether the trainer has carried out an order, or will not any more; the last row then says what came of it,
 * and of which run if it is to be `named`. */
bool workbench_order_done(struct workbench *workbench, const char *run_id, int64_t id, bool named);
/* Like workbench_order orders a factor of the learning rate: ACTION_LR_LOWER half of the one ordered last,
 * ACTION_LR_HIGHER twice, ACTION_LR one that is asked for. Asks first; `code` is the key's, K_CONFIRMED or
 * K_ENTERED. */
int64_t workbench_order_lr(struct workbench *workbench, const struct run_info *run, enum action action,
                           uint32_t code);

/* Resumes a run that has ended, in the background; a run that has done all its steps gets as many again. Asks
 * first, unless the user has `confirmed`. The last row reports the trainer's progress and the start. */
void workbench_resume(struct workbench *workbench, const struct run_info *run, bool confirmed);

/* Asks a yes/no question about `action` in the last row. */
void workbench_ask(struct workbench *workbench, enum action action, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Asks for a line of text about `action` in the last row, with `text` to begin with, after the label that
 * `format` gives. Esc gives none. */
void workbench_prompt(struct workbench *workbench, enum action action, const char *text, const char *format,
                      ...) __attribute__((format(printf, 4, 5)));

#endif
