/* A view is a table of functions and a state; the workbench keeps a stack of them and draws the topmost.
 * Views know the store and the grid, never the terminal, so they run headless in tests and benchmarks. */
#ifndef ANNEAL_TUI_VIEW_H
#define ANNEAL_TUI_VIEW_H

#include <stdbool.h>

#include "runs/run.h"
#include "runs/series.h"
#include "runs/store.h"
#include "tui/view/keys.h"
#include "tui/widget/grid.h"

struct workbench;

struct view_ops {
    const char *name;
    enum key_context context;
    /* `argument` is a run's id or NULL. On failure nothing is left to close. */
    enum status (*open)(struct workbench *workbench, const char *argument, void **state, struct err *err);
    /* Reads what is new. `store_changed`: somebody committed; else only time has passed (once a second).
     * True: something on the screen may have changed. Failures go to workbench_fail; old data stays. */
    bool (*read)(struct workbench *workbench, void *state, bool store_changed);
    void (*draw)(struct workbench *workbench, void *state, struct grid *grid);
    /* `code` is given with ACTION_NONE too: text being typed. */
    void (*key)(struct workbench *workbench, void *state, enum action action, uint32_t code);
    /* The question asked with workbench_ask was answered with yes. */
    void (*confirmed)(struct workbench *workbench, void *state, enum action action);
    /* True while characters are text: then only keys that are no characters are looked up. */
    bool (*typing)(const void *state);
    void (*close)(void *state);
};

extern const struct view_ops runs_view, run_view, memory_view, profile_view, form_view;

/* --- what the workbench does for views --- */
struct store *workbench_store(struct workbench *workbench);
double workbench_now(const struct workbench *workbench); /* Unix seconds of this wake-up */

/* One line of the form of a new run: a configuration key as `anneal train --section.key=value` takes it. */
struct form_field {
    const char *key;      /* "train.batch_size"; "name" and "device" are options of their own */
    const char *label;    /* "batch size" */
    const char *fallback; /* the default, shown when the field is empty */
    const char *hint;     /* one line: meaning, unit, limits */
    const char *choices;  /* "adamw|lion"; NULL: free text */
};
const struct form_field *workbench_fields(const struct workbench *workbench, size_t *count);

/* What has been typed into the form would train. Only who knows the configuration can say: views may not
 * include it, so the workbench is opened with a function that does. */
enum { FORM_PREVIEW_POINTS = 512 };
struct form_preview {
    char problem[256]; /* what is wrong with it; "": nothing, and the rest is filled */
    char facts[160];   /* one sentence: size, steps, tokens */
    int64_t total_steps;
    struct series_point lr[FORM_PREVIEW_POINTS]; /* the planned learning rate, count points in step order */
    size_t count;
};
/* `settings`: count words "section.key=value"; fills all of `out`. */
typedef void form_preview_function(const char *const *settings, size_t count, struct form_preview *out);
void workbench_preview(const struct workbench *workbench, const char *const *settings, size_t count,
                       struct form_preview *out);

/* The run whose loss is drawn beside that of the run looked at; NULL: none. Chosen in the list of runs. */
const char *workbench_compared(const struct workbench *workbench);
void workbench_compare(struct workbench *workbench, const char *run_id);

/* The run looked at last: a view of it says so, and the list, when it is seen again, takes and selects it. */
void workbench_visit(struct workbench *workbench, const char *run_id);
bool workbench_take_visited(struct workbench *workbench, char run_id[RUN_ID_MAX]); /* false: none */

/* Puts a view on top, or in place of the topmost. A failure goes to the last row. */
void workbench_push(struct workbench *workbench, const struct view_ops *ops, const char *argument);
void workbench_replace(struct workbench *workbench, const struct view_ops *ops, const char *argument);
void workbench_back(struct workbench *workbench); /* from the last view: leaves */
void workbench_leave(struct workbench *workbench);

/* The last row, or as many as it takes, shows a sentence until the next key. */
void workbench_say(struct workbench *workbench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void workbench_fail(struct workbench *workbench, const struct err *err);

/* Asks a yes/no question; on yes the view's `confirmed` is called with `action`. */
void workbench_ask(struct workbench *workbench, enum action action, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
