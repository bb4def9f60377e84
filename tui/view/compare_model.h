/* The data of the comparison: the runs, their series of one metric, and the curves that the chart shows, over
 * any axis. Runs of a group (runs/grouping.h) are one curve: the mean of their values, and their range.
 * Reads only new data; after a failure the curves are those that could be read. */
#ifndef ANNEAL_TUI_COMPARE_MODEL_H
#define ANNEAL_TUI_COMPARE_MODEL_H

#include "runs/comparison.h"
#include "runs/reach.h"
#include "runs/series.h"
#include "tui/view/run_charts.h"
#include "tui/view/run_set.h"
#include "tui/widget/chart.h"

enum compare_axis {
    COMPARE_STEPS,
    COMPARE_TOKENS,
    COMPARE_WALL,
    COMPARE_ACTIVE,
    COMPARE_RELATIVE, /* steps since the run's own first one */
    COMPARE_AXES
};
extern const char *const compare_axis_words[COMPARE_AXES + 1]; /* "step", … NULL */
/* The places on an axis as a column is called: "step", "tokens", "wall_time_ms", … */
extern const char *const compare_axis_columns[COMPARE_AXES];

enum { COMPARE_CURVES_MAX = CHART_TRACES_MAX, COMPARE_RUNS_MAX = 64, COMPARE_POINTS = 1024 };

/* The choice to show; the caller changes it, then calls compare_model_show. */
struct compare_request {
    struct quantity quantity;
    struct chart_look look; /* of the quantity */
    enum compare_axis axis;
    double decay;          /* of the moving average; 0: none */
    double target;         /* a value of the quantity, as shown, to reach; NaN: none */
    const char *folds;     /* keys in which the runs of one curve may differ; NULL: a curve for each run */
    char base[RUN_ID_MAX]; /* the run that comes first, and that others are measured against; "": the oldest,
                            or of more than have room the first listed */
    int64_t first, last;   /* the range of the axis that is looked at; last < first: all of it */
    bool newest;           /* the range follows the newest step */
    bool log_steps;        /* the axis is logarithmic */
};

struct compare_run {
    struct run_info info;
    struct series series;
    struct pace pace;
    struct arena pace_arena;
    size_t place;       /* its curve */
    int64_t first_step; /* its own first step, for the relative axis; -1: not known yet */
    struct reach reach; /* of the target */
};

struct compare_curve {
    struct series_point *points; /* at places on the axis instead of steps */
    size_t count;
    int64_t fork; /* where a fork begins; 0: nowhere */
};

struct compare_model {
    struct compare_run *runs;
    size_t run_count, left_out;   /* runs beyond COMPARE_RUNS_MAX or COMPARE_CURVES_MAX curves */
    struct comparison comparison; /* a place for each curve */
    struct compare_curve curves[COMPARE_CURVES_MAX];
    size_t curve_count;
    int64_t first, last; /* the range of all curves on the axis, when all of it was last read */
    /* private */
    struct compare_request shown;    /* the request for which the series were read */
    bool behind;                     /* runs have new data that the comparison lacks */
    struct run_info *infos;          /* for the comparison, in the order of `runs` */
    struct arena arena, curve_arena; /* of the runs; of the curves */
};

/* Opens the comparison of runs; those that are gone are left out. Release it also after a failure. */
enum status compare_model_open(struct compare_model *model, struct store *store, const struct run_set *ids,
                               const struct compare_request *request, struct err *err);
void compare_model_release(struct compare_model *model);

/* Lists in `arena` the quantities that any of the curves has, the losses first. */
enum status compare_model_quantities(const struct compare_model *model, struct store *store,
                                     struct arena *arena, struct quantity **out, size_t *count,
                                     struct err *err);

/* Reads all commits since the last read; *changed: any run has new data. */
enum status compare_model_update(struct compare_model *model, struct store *store,
                                 const struct compare_request *request, bool *changed, struct err *err);

/* Reads and makes the curves anew after a change of `request`. */
enum status compare_model_show(struct compare_model *model, struct store *store,
                               const struct compare_request *request, struct err *err);

/* How many numbers of the axis are one of the unit that suits its range, for a chart; *unit is its name, ""
 * for a plain number. 0: they are shown as steps are. */
double compare_model_scale(const struct compare_model *model, enum compare_axis axis, const char **unit);

/* The value of a curve at the newest step that a place holds, as it was recorded; of several runs the mean
 * over those that have come so far and have a finite one, with a moving average the mean of theirs. */
struct compare_value {
    bool known;
    double value, average; /* average: of a single run; NaN: none */
    double low, high;      /* of several runs */
    size_t runs;           /* of which it is the mean; 0: of none */
};

/* Reads the value of a curve at a place on the axis; -1: its newest. */
enum status compare_model_value(const struct compare_model *model, struct store *store,
                                const struct compare_request *request, size_t curve, int64_t place,
                                struct compare_value *out, struct err *err);

/* The point of a curve at a place on the axis; -1: its newest. NULL: it has none there. */
const struct series_point *compare_curve_at(const struct compare_curve *curve, int64_t place);

#endif
