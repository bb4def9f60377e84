/* The data of the view of one run: the run itself, the series of its charts at the resolution that the range
 * needs, and the rows of its panels. Reads only new data. A failed read leaves the old data in place. */
#ifndef ANNEAL_TUI_RUN_MODEL_H
#define ANNEAL_TUI_RUN_MODEL_H

#include "core/base/arena.h"
#include "runs/history.h"
#include "runs/memory_usage.h"
#include "runs/run.h"
#include "runs/series.h"
#include "tui/widget/chart.h"

/* TRACE_OTHER is the loss of the other run in a comparison, TRACE_MEASURE a measure of the evaluations. */
enum model_trace {
    TRACE_LOSS,
    TRACE_VAL,
    TRACE_LR,
    TRACE_GRAD,
    TRACE_SPEED,
    TRACE_OTHER,
    TRACE_MEASURE,
    TRACE_COUNT
};

enum {
    MODEL_SHORT_RUN = 4096,   /* runs up to this length keep every step: the cursor reads exact values */
    MODEL_POINTS = 1024,      /* for longer runs: enough for any screen, and mostly read from rollups */
    MODEL_RAW_POINTS = 65536, /* read for smoothing, which needs raw values */
};

struct run_model {
    struct run_info info;
    struct series series[TRACE_COUNT];
    /* while smoothing: the series smoothed as read, then merged to screen resolution; else empty */
    struct chart_trace smoothed[TRACE_COUNT];
    struct arena smooth_arena;
    struct run_info other;         /* the run of TRACE_OTHER; its id is "" for none */
    char measure[64];              /* the name of TRACE_MEASURE; "" for none */
    double decay;                  /* per step; 0: no smoothing */
    int64_t first_step, last_step; /* the range asked for; last -1: up to the newest step */
    int64_t oldest_step;           /* the first recorded one, of training or an evaluation; 0: none yet */

    struct arena arena; /* holds the rows below; replaced with them */
    bool has_last;
    struct step_record last; /* the newest step */
    struct run_history history;
    struct chart_mark *marks; /* orders that took effect, warnings and errors */
    size_t mark_count;
    struct memory_usage memory;
    char *config; /* INI text; NULL when there is none */
};

enum status run_model_open(struct run_model *model, struct store *store, const char *run_id, struct err *err);
void run_model_release(struct run_model *model);

/* Reads all commits since the last read. */
enum status run_model_update(struct run_model *model, struct store *store, struct err *err);

/* Reads the series anew for a range of steps (last -1: to the end) and a smoothing. */
enum status run_model_set_range(struct run_model *model, struct store *store, int64_t first_step,
                                int64_t last_step, double decay, struct err *err);

/* Makes TRACE_OTHER the loss of run_id; empties it if run_id is the run itself, and after a failure. */
enum status run_model_compare(struct run_model *model, struct store *store, const char *run_id,
                              struct err *err);

/* Makes TRACE_MEASURE the measure that comes after the present one, or the first, of those that the newest
 * evaluation with any has; none after the last one, and where there is none. */
enum status run_model_next_measure(struct run_model *model, struct store *store, struct err *err);

/* An exponential moving average of the points as read, before any reduction to columns: out (count) holds
 * acc_t / (1 - decay^t) with acc_t = decay·acc + (1 - decay)·x_t. The division corrects the start, as Adam
 * does for its moments, so the first output is the first value. decay in [0, 1), per step; a bucket of n
 * steps counts as n equal steps. Skips values that are not finite; out is NaN there, so that the line breaks.
 */
void smooth_points(const struct series_point *points, size_t count, double decay, double *out);

/* The points of a trace for a chart, smoothed if smoothing is on. */
struct chart_trace run_model_trace(const struct run_model *model, enum model_trace trace);

/* The event nearest to `step` among those after it (later) or before it; among several at one step the
 * earliest; NULL: none. Skips events without a step. */
const struct event_record *run_model_event_beside(const struct run_model *model, int64_t step, bool later);

/* The newest step in the charts, of training or an evaluation; -1 before the first. */
int64_t run_model_newest_step(const struct run_model *model);

/* ---- run_panels.c: the panels around the charts: header, sample text, events, and on wide screens the
 * details ---- */

void panel_draw_header(struct grid *grid, struct rect area, const struct run_model *model, double now);
/* `which`: 0 is the newest sample. Returns the number of rows used. */
int panel_draw_sample(struct grid *grid, struct rect area, const struct run_model *model, size_t which);
/* Draws the scores of a classifier's classes and, where its columns have room, its confusion matrix, below a
 * title and a line of headings. *first: the first class shown, which is lowered where blank rows would follow
 * the last one. Returns the number of rows used. */
int panel_draw_confusion(struct grid *grid, struct rect area, const struct run_model *model, size_t *first);
/* Draws a row for each of several ranks, as many as fit, below a title and a line of headings. Returns the
 * number of rows used. */
int panel_draw_ranks(struct grid *grid, struct rect area, const struct run_model *model);
/* Draws whole sentences, wrapped, newest first, as many as fit. Returns the number of rows used. */
int panel_draw_events(struct grid *grid, struct rect area, const struct run_model *model);
/* "@100 the loss rose". Returns buf. */
char *panel_event_text(const struct event_record *event, char *buf, size_t size);
void panel_draw_side(struct grid *grid, struct rect area, const struct run_model *model);

#endif
