/* The data of the view of one run: the run itself, the series of its charts at the resolution that the range
 * needs, and the rows of its panels. Reads only new data, and a chart only when it is shown. A failed read
 * leaves the old data in place. */
#ifndef ANNEAL_TUI_RUN_MODEL_H
#define ANNEAL_TUI_RUN_MODEL_H

#include "core/base/arena.h"
#include "runs/history.h"
#include "runs/memory_usage.h"
#include "runs/quantity.h"
#include "runs/run.h"
#include "runs/series.h"
#include "tui/view/keys.h"
#include "tui/widget/chart.h"

/* The loss and what is drawn with it; they are read whatever the charts are. */
enum model_trace { TRACE_LOSS, TRACE_VAL, TRACE_COUNT };

enum {
    MODEL_SHORT_RUN = 4096, /* runs up to this length keep every step */
    MODEL_POINTS = 768,     /* for longer runs: enough for any screen, and mostly read from rollups */
    MODEL_CHARTS_MAX = 48,
};

struct run_model {
    struct run_info info;
    struct series series[TRACE_COUNT];
    struct model_chart {
        struct quantity quantity;
        struct series own; /* empty where one of the series above is shown: see run_model_series */
        enum model_reading { CHART_UNREAD, CHART_BEHIND, CHART_CURRENT } reading; /* private: of `own` */
        struct model_values { /* private: what run_model_values has read */
            bool read;
            int64_t step;
            struct series_value at[TRACE_COUNT];
        } values;
    } chart[MODEL_CHARTS_MAX];
    size_t chart_count;
    bool recorded[METRIC_COUNT];   /* whether the run has values of a metric */
    int64_t first_step, last_step; /* the range asked for; last -1: up to the newest step */
    bool log_steps;                /* they are finer towards the first one; set before run_model_set_range */
    int64_t oldest_step;           /* the first recorded one, of training or an evaluation; 0: none yet */

    struct arena arena; /* holds the rows below; replaced with them */
    bool has_last;
    struct step_record last;    /* the newest step */
    struct run_history history; /* of the checkpoints only those whose folders are there */
    size_t listed_checkpoints;  /* with the others */
    struct chart_mark *marks;   /* orders that took effect, warnings and errors */
    size_t mark_count;
    struct memory_usage memory;
    char *config; /* INI text; NULL when there is none */
};

enum status run_model_open(struct run_model *model, struct store *store, const char *run_id, struct err *err);
void run_model_release(struct run_model *model);

/* Reads all commits since the last read. */
enum status run_model_update(struct run_model *model, struct store *store, struct err *err);

/* Makes charts of the quantities that `names` lists, with commas between, as far as the run has them; "": of
 * all. */
enum status run_model_choose(struct run_model *model, struct store *store, const char *names,
                             struct err *err);

/* The series of a chart. */
const struct series *run_model_series(const struct run_model *model, size_t chart);

/* Reads what a chart lacks, before it is drawn: a run may have many that no screen has room for. */
enum status run_model_show(struct run_model *model, struct store *store, size_t chart, struct err *err);

/* Reads the values of a chart's series, and of the evaluations that are drawn with the loss, at `step`; -1:
 * the newest ones. (2) of them, which hold until the model changes. */
enum status run_model_values(struct run_model *model, struct store *store, size_t chart, int64_t step,
                             const struct series_value **out, struct err *err);

/* Gives a chart a moving average of this factor per step; 0: none. */
enum status run_model_smooth(struct run_model *model, struct store *store, size_t chart, double decay,
                             struct err *err);

/* Shows a range of steps (last -1: to the end). */
enum status run_model_set_range(struct run_model *model, struct store *store, int64_t first_step,
                                int64_t last_step, struct err *err);

/* The event nearest to `step` among those after it (later) or before it; among several at one step the
 * earliest; NULL: none. Skips events without a step. */
const struct event_record *run_model_event_beside(const struct run_model *model, int64_t step, bool later);

/* The newest step in the charts, of training or an evaluation; -1 before the first. */
int64_t run_model_newest_step(const struct run_model *model);

/* ---- run_panels.c: the panels around the charts: header, sample text, events, and on wide screens the
 * details; they name keys of CONTEXT_RUN ---- */

void panel_draw_header(struct grid *grid, struct rect area, const struct run_model *model,
                       const struct keymap *keymap, double now);
/* `which`: 0 is the newest sample. Returns the number of rows used. */
int panel_draw_sample(struct grid *grid, struct rect area, const struct run_model *model,
                      const struct keymap *keymap, size_t which);
/* Draws the scores of a classifier's classes and, where its columns have room, its confusion matrix, below a
 * title and a line of headings. *first: the first class shown, which is lowered where blank rows would follow
 * the last one. Returns the number of rows used. */
int panel_draw_confusion(struct grid *grid, struct rect area, const struct run_model *model,
                         const struct keymap *keymap, size_t *first);
/* Draws a row for each of several ranks, as many as fit, below a title and a line of headings. Returns the
 * number of rows used. */
int panel_draw_ranks(struct grid *grid, struct rect area, const struct run_model *model);
/* Draws whole sentences, wrapped, newest first, as many as fit. Returns the number of rows used. */
int panel_draw_events(struct grid *grid, struct rect area, const struct run_model *model);
/* "@100 the loss rose". Returns buf. */
char *panel_event_text(const struct event_record *event, char *buf, size_t size);
void panel_draw_side(struct grid *grid, struct rect area, const struct run_model *model,
                     const struct keymap *keymap);

#endif
