/* The data behind the view of one run: its row, the series of its charts at the resolution the range asks
 * for, the rows of its panels. Reads only what is new. A failed read leaves the old data in place. */
#ifndef ANNEAL_TUI_RUN_MODEL_H
#define ANNEAL_TUI_RUN_MODEL_H

#include "core/base/arena.h"
#include "runs/history.h"
#include "runs/memory_usage.h"
#include "runs/run.h"
#include "runs/series.h"
#include "tui/widget/chart.h"

/* TRACE_OTHER is the loss of another run, to compare with. */
enum model_trace { TRACE_LOSS, TRACE_VAL, TRACE_LR, TRACE_GRAD, TRACE_SPEED, TRACE_OTHER, TRACE_COUNT };

enum {
    MODEL_SHORT_RUN = 4096, /* up to so many steps every single one is kept: the cursor reads exact values */
    MODEL_POINTS = 1024,    /* for longer ones: enough for any screen, and mostly read from rollups */
    MODEL_RAW_POINTS = 65536, /* read when smoothing, which wants raw values */
};

struct run_model {
    struct run_info info;
    struct series series[TRACE_COUNT];
    /* while smoothing: the series smoothed as read, then merged to what a screen can show; else empty */
    struct chart_trace smoothed[TRACE_COUNT];
    struct arena smooth_arena;
    struct run_info other;         /* whose loss TRACE_OTHER is; its id is "" for none */
    double decay;                  /* per step; 0: no smoothing */
    int64_t first_step, last_step; /* the range asked for; last -1: to the end, which moves */

    struct arena arena; /* of the rows below; renewed with them */
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

/* Everything that was committed since. */
enum status run_model_update(struct run_model *model, struct store *store, struct err *err);

/* Reads the series anew for a range of steps (last -1: to the end) and a smoothing. */
enum status run_model_set_range(struct run_model *model, struct store *store, int64_t first_step,
                                int64_t last_step, double decay, struct err *err);

/* From here on TRACE_OTHER is the loss of that run; of no run for the run itself, and after a failure. */
enum status run_model_compare(struct run_model *model, struct store *store, const char *run_id,
                              struct err *err);

/* An exponential moving average of the points as read, before any reduction to columns: out (count) is
 * acc_t / (1 - decay^t) with acc_t = decay·acc + (1 - decay)·x_t, corrected for its start as Adam corrects
 * its moments, so that the first value is the first value. decay in [0, 1), per step; a bucket of n steps
 * counts as n equal steps. Values that are not finite are skipped; before the first finite one out is NaN. */
void smooth_points(const struct series_point *points, size_t count, double decay, double *out);

/* The points of a trace, smoothed where that is wanted, for a chart. */
struct chart_trace run_model_trace(const struct run_model *model, enum model_trace trace);

/* The event nearest to `step` among those after it (later) or before it, of several at one step the
 * earliest; NULL: there is none. Events without a step are skipped. */
const struct event_record *run_model_event_beside(const struct run_model *model, int64_t step, bool later);

/* The newest step in the charts, of a training step or of an evaluation; -1 before the first. */
int64_t run_model_newest_step(const struct run_model *model);

/* ---- run_panels.c: the panels around the charts: header, sample text, events, and on wide screens the
 * details ---- */

void panel_draw_header(struct grid *grid, struct rect area, const struct run_model *model, double now);
/* `which`: 0 is the newest sample. Returns the rows used. */
int panel_draw_sample(struct grid *grid, struct rect area, const struct run_model *model, size_t which);
/* Whole sentences, wrapped, the newest first, as many as there is room for. Returns the rows used. */
int panel_draw_events(struct grid *grid, struct rect area, const struct run_model *model);
/* "@100 the loss rose". Returns buf. */
char *panel_event_text(const struct event_record *event, char *buf, size_t size);
void panel_draw_side(struct grid *grid, struct rect area, const struct run_model *model);

#endif
