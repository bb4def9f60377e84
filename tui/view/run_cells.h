/* The cells of the table of runs: for each field its width and how a value is drawn, the small
 * curves, and stamps that tell runs of one name apart. */
#ifndef ANNEAL_TUI_RUN_CELLS_H
#define ANNEAL_TUI_RUN_CELLS_H

#include "runs/listing.h"
#include "runs/series.h"
#include "tui/widget/layout.h"

/* The columns of a table whose user has chosen none. */
#define RUN_CELLS_DEFAULT "status,name,progress,loss,best,tok/s,time,curve,tags,note"

/* The small curves of runs: as many as a screen has rows, the ones drawn last. */
enum { CURVES = 256 };
struct run_curves {
    struct curve {
        char id[RUN_ID_MAX];
        struct series series;
        int64_t steps; /* when the curve was read */
    } of[CURVES];
    size_t oldest;
};
void run_curves_release(struct run_curves *curves);

/* The curve of a run, read if it is new or the run has more steps. NULL and the failure in `err`, or NULL for
 * a run without steps. */
const struct series *run_curve(struct run_curves *curves, struct store *store, const struct run_info *run,
                               struct err *err);

/* A stamp distinguishes a run from others of its name: its id without the name ("20260909-140231", a prefix
 * that commands accept for the run), cut if long; "" if no other run has the name. */
enum { STAMP_MAX = 24 };
struct run_stamps {
    struct arena arena;
    char (*of)[STAMP_MAX]; /* one per run */
    size_t count;
    int width; /* columns of the longest; 0: all names differ */
};
/* On failure the old stamps stay. */
enum status run_stamps_make(struct run_stamps *stamps, const struct run_info *runs, size_t count,
                            struct err *err);
void run_stamps_release(struct run_stamps *stamps);

/* Chooses the columns that fit in `width`, with their widths (0: left out); the name has room for stamps
 * and, before the others share what is left, for the longest name; tags and notes take none while no run has
 * any. */
void run_cells_fit(const struct listing *listing, const struct run_stamps *stamps, int width, int gap,
                   struct table_column columns[LISTING_COLUMNS_MAX], int widths[LISTING_COLUMNS_MAX]);

struct run_cell {
    const struct field *field;
    const struct field_value *value;
    const struct run_info *run;
    const char *stamp;          /* distinguishes runs of one name; "": there is none other */
    const struct series *curve; /* NULL: none */
    double now;                 /* Unix seconds */
};
void run_cell_draw(struct pen pen, const struct run_cell *cell);

#endif
