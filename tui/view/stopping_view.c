/* The evaluations of a run that were due, the newest first, with what early stopping made of each; above them
 * the best one, and how much patience is left. */
#include <math.h>
#include <stdio.h>

#include "core/base/text.h"
#include "runs/columns.h"
#include "runs/history.h"
#include "tui/view/labels.h"
#include "tui/view/list.h"
#include "tui/view/workbench.h"
#include "tui/widget/axis.h"
#include "tui/widget/bars.h"

enum { ROWS_MOST = 5000, READ_SECONDS = 2, GAUGE_W = 20, BAR_W = 10 };

struct stopping_state {
    struct run_info run;
    struct arena arena; /* of the rows */
    struct stopping_row *rows;
    size_t best; /* the row of the best evaluation; list.count: it is not among them */
    struct list list;
    double read_at; /* like workbench->uptime */
};

/* ---- reading ---- */

static enum status load(struct workbench *workbench, struct stopping_state *state, struct err *err)
{
    struct stopping_state next = {.list = state->list, .read_at = workbench->uptime};
    size_t count = 0;
    state->read_at = workbench->uptime;
    enum status status = run_get(workbench->store, state->run.id, &next.run, err);
    if (!status)
        status =
            run_stopping_read(workbench->store, next.run.id, ROWS_MOST, &next.arena, &next.rows, &count, err);
    arena_release(status ? &next.arena : &state->arena);
    if (status) return status;
    if (state->list.at > 0 && count > state->list.count) /* the same evaluation stays selected */
        next.list.at += count - state->list.count;
    *state = next;
    list_set_count(&state->list, count);
    for (state->best = 0; state->best < count; state->best++)
        if (state->rows[state->best].record.step == state->rows[0].record.best_step) break;
    return STATUS_OK;
}

static enum status stopping_open(struct workbench *workbench, void *opaque, const char *argument,
                                 struct err *err)
{
    struct stopping_state *state = opaque;
    enum status status = run_find(workbench->store, argument, &state->run, err);
    return status ? status : load(workbench, state, err);
}

static void stopping_close(void *opaque)
{
    arena_release(&((struct stopping_state *)opaque)->arena);
}

static bool stopping_read(struct workbench *workbench, void *opaque, bool store_changed)
{
    struct stopping_state *state = opaque;
    bool live = status_is_live(state->run.status);
    if (live ? workbench->uptime - state->read_at < READ_SECONDS : !store_changed) return false;
    workbench_did(workbench, load(workbench, state, &workbench->err));
    return true;
}

/* ---- the summary ---- */

/* "3.0121 at step 400   now 3.1 (+0.0879)". */
static void draw_best(const struct stopping_state *state, struct pen *pen)
{
    const struct stopping_record *now = &state->rows[0].record;
    pen_print(pen, STYLE_DIM, 0, "%-9s ", "best");
    if (now->best_step < 0 || !isfinite(now->best_val_loss)) {
        pen_print(pen, STYLE_WARN, 0, "none yet: no evaluation has given a finite number");
        return;
    }
    pen_print(pen, STYLE_BEST, ATTR_BOLD, "%s at step %lld", TEXT_LOSS(now->best_val_loss),
              (long long)now->best_step);
    if (state->best == state->list.count && state->list.count < ROWS_MOST)
        pen_print(pen, STYLE_DIM, 0, " (not one that was due)");
    if (isfinite(now->val_loss) && now->step != now->best_step)
        pen_print(pen, STYLE_DIM, 0, "   now %s (%s%s)", TEXT_LOSS(now->val_loss),
                  now->val_loss >= now->best_val_loss ? "+" : "",
                  AXIS_TEXT(now->val_loss - now->best_val_loss));
}

/* Steps between the two newest evaluations; 0: not known. */
static double interval(const struct stopping_state *state)
{
    if (state->list.count < 2) return 0;
    double steps = (double)state->rows[0].record.step - (double)state->rows[1].record.step;
    return steps > 0 ? steps : 0;
}

static void draw_patience(const struct stopping_state *state, struct pen *pen)
{
    const struct stopping_record *now = &state->rows[0].record;
    double used = (double)now->patience_used / (double)now->patience,
           left = (double)now->patience - (double)now->patience_used, every = interval(state);
    enum style style = used >= 1 ? STYLE_BAD : used >= 0.5 ? STYLE_WARN : STYLE_GOOD;
    pen_print(pen, STYLE_DIM, 0, "%-9s ", "patience");
    if (now->patience <= 0) {
        pen_print(pen, STYLE_DIM, 0, "early stopping is off (eval.early_stopping_patience = 0)");
        return;
    }
    if (pen->x + GAUGE_W < pen->end) {
        gauge_draw(pen->grid, pen->x, pen->y, GAUGE_W, style, used);
        pen->x += GAUGE_W + 1;
    }
    pen_print(pen, style, ATTR_BOLD, "%lld of %lld", (long long)now->patience_used, (long long)now->patience);
    pen_print(pen, STYLE_TEXT, 0, " used up");
    if (left > 0 && every > 0 && status_is_live(state->run.status))
        pen_print(pen, STYLE_DIM, 0, "   stops at step %.0f if nothing improves",
                  (double)now->step + left * every);
    else if (now->verdict == VERDICT_STOP)
        pen_print(pen, STYLE_BAD, 0, "   stopped at step %lld", (long long)now->step);
    if (now->min_delta > 0) pen_print(pen, STYLE_DIM, 0, "   min_delta %s", AXIS_TEXT(now->min_delta));
}

/* ---- the table ---- */

enum column {
    COLUMN_BEST,
    COLUMN_STEP,
    COLUMN_VALUE,
    COLUMN_CHANGE,
    COLUMN_SO_FAR,
    COLUMN_VERDICT,
    COLUMN_GAUGE,
    COLUMN_USED,
    COLUMNS
};

static const struct table_column columns[COLUMNS] = {
    [COLUMN_BEST] = {"", 1, 1, 0, false},
    [COLUMN_STEP] = {"step", 8, 12, 0, true},
    [COLUMN_VALUE] = {"value", 8, 12, 0, true},
    [COLUMN_CHANGE] = {"to the best", 11, 12, 2, true},
    [COLUMN_SO_FAR] = {"best so far", 11, 12, 4, true},
    [COLUMN_VERDICT] = {"verdict", 8, 10, 0, false},
    [COLUMN_GAUGE] = {"patience", BAR_W, BAR_W, 3, false},
    [COLUMN_USED] = {"used", 7, 9, 1, true},
};

static void draw_cell(const void *view, size_t at, int column, struct pen pen)
{
    static const enum style verdicts[] = {
        [VERDICT_IMPROVED] = STYLE_GOOD, [VERDICT_WAITING] = STYLE_WARN, [VERDICT_STOP] = STYLE_BAD};
    const struct stopping_state *state = view;
    const struct stopping_record *row = &state->rows[at].record;
    bool known = row->verdict <= VERDICT_STOP, best = at == state->best, off = row->patience <= 0;
    double before = at + 1 < state->list.count ? state->rows[at + 1].record.best_val_loss : NAN,
           change = row->val_loss - before;
    enum style style = best ? STYLE_BEST : STYLE_TEXT, judged = known ? verdicts[row->verdict] : STYLE_DIM;
    char text[48] = "";
    if (column == COLUMN_BEST && best) grid_put(pen.grid, pen.x, pen.y, 0x2605, STYLE_BEST, ATTR_BOLD);
    if (column == COLUMN_STEP) snprintf(text, sizeof text, "%lld", (long long)row->step);
    if (column == COLUMN_VALUE) {
        text_format_loss(row->val_loss, text, sizeof text);
        if (!best && !isfinite(row->val_loss)) style = STYLE_BAD;
    }
    if (column == COLUMN_CHANGE && isfinite(change))
        snprintf(text, sizeof text, "%s%s", change > 0 ? "+" : "", AXIS_TEXT(change));
    if (column == COLUMN_SO_FAR) text_format_loss(row->best_val_loss, text, sizeof text);
    if (column == COLUMN_VERDICT)
        pen_print(&pen, judged, 0, "%s",
                  !known || !off  ? verdict_words[row->verdict]
                  : row->improved ? "best"
                                  : "-");
    if (column == COLUMN_GAUGE && !off)
        gauge_draw(pen.grid, pen.x, pen.y, pen.end - pen.x, judged,
                   (double)row->patience_used / (double)row->patience);
    if (column == COLUMN_USED && !off)
        snprintf(text, sizeof text, "%lld/%lld", (long long)row->patience_used, (long long)row->patience);
    pen_print_right(&pen, style, best ? ATTR_BOLD : ATTR_NONE, text);
}

static void stopping_draw(struct workbench *workbench, void *opaque, struct grid *grid)
{
    struct stopping_state *state = opaque;
    struct pen best = {grid, 1, 3, grid->w - 1}, patience = {grid, 1, 4, grid->w - 1};
    struct rect title = {0, 2, grid->w, 1};
    const char *metric = state->list.count ? state->rows[0].record.metric : NULL;
    bool named = metric && *metric;
    char detail[120];
    label_draw_run(grid, &state->run, workbench->now);
    snprintf(detail, sizeof detail, "%s%zu  by the %s %.40s",
             state->list.count == ROWS_MOST ? "the newest " : "", state->list.count,
             !named || measure_falls(metric) ? "lowest" : "highest", named ? metric : "validation loss");
    grid_title(grid, &title, "evaluations", state->list.count ? detail : NULL);
    if (!state->list.count) {
        pen_print(&best, STYLE_DIM, 0, "%s",
                  run_is_imported(&state->run)
                      ? "none with a verdict of early stopping: the run was imported"
                      : "none yet (eval.every says when, data.val_fraction from which text)");
        return;
    }
    draw_best(state, &best);
    draw_patience(state, &patience);
    list_draw_table(&state->list, grid, (struct rect){0, 6, grid->w, grid->h - 7},
                    &(struct list_table){columns, COLUMNS, draw_cell, state});
}

static bool stopping_key(struct workbench *workbench, void *opaque, enum action action, uint32_t code)
{
    struct stopping_state *state = opaque;
    if (action == ACTION_BEST && state->best < state->list.count) state->list.at = state->best;
    return action == ACTION_BEST || list_key(workbench, &state->list, action, code);
}

const struct view_ops stopping_view = {CONTEXT_STOPPING, sizeof(struct stopping_state),
                                       stopping_open,    stopping_read,
                                       stopping_draw,    stopping_key,
                                       stopping_close};
