/* See run_cells.h. */
#include "tui/view/run_cells.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "tui/view/labels.h"
#include "tui/widget/axis.h"
#include "tui/widget/bars.h"

enum { CURVE_POINTS = 128 };

/* ---- small curves ---- */

void run_curves_release(struct run_curves *curves)
{
    for (int i = 0; i < CURVES; i++) series_release(&curves->of[i].series);
}

const struct series *run_curve(struct run_curves *curves, struct store *store, const struct run_info *run,
                               struct err *err)
{
    enum status status = STATUS_OK;
    size_t i = 0;
    if (run->steps <= 0) return NULL;
    while (i < CURVES && strcmp(curves->of[i].id, run->id) != 0) i++;
    bool found = i < CURVES;
    if (!found) i = curves->oldest++ % CURVES;
    struct curve *curve = &curves->of[i];
    if (!found)
        status = series_read(store, run->id, METRIC_LOSS, 0, -1, CURVE_POINTS, &curve->series, err);
    else if (curve->steps != run->steps)
        status = series_update(store, run->id, &curve->series, err);
    memcpy(curve->id, run->id, sizeof curve->id);
    curve->steps = run->steps;
    if (!status) return &curve->series;
    curve->id[0] = '\0';
    return NULL;
}

/* ---- stamps ---- */

static int compare_names(const void *left, const void *right, void *opaque)
{
    const struct run_info *runs = opaque;
    return strcmp(runs[*(const size_t *)left].name, runs[*(const size_t *)right].name);
}

static void stamp_run(const struct run_info *run, char stamp[STAMP_MAX])
{
    enum { DATE = 15 }; /* YYYYMMDD-HHMMSS */
    char text[2 * RUN_ID_MAX];
    size_t n = strlen(run->name);
    bool ours = strlen(run->id) > DATE + n && strncmp(run->id + DATE + 1, run->name, n) == 0;
    snprintf(text, sizeof text, "%.*s%s", ours ? DATE : RUN_ID_MAX, run->id,
             ours ? run->id + DATE + 1 + n : "");
    clean_line(stamp, STAMP_MAX, text);
}

enum status run_stamps_make(struct run_stamps *stamps, const struct run_info *runs, size_t count,
                            struct err *err)
{
    struct run_stamps made = {.count = count};
    size_t *by_name = arena_alloc_array(&made.arena, count + 1, sizeof *by_name);
    made.of = arena_alloc_array(&made.arena, count + 1, sizeof *made.of);
    if (!by_name || !made.of) {
        arena_release(&made.arena);
        return err_no_memory(err, "a list of %zu runs", count);
    }
    for (size_t i = 0; i < count; i++) by_name[i] = i;
    if (count) qsort_r(by_name, count, sizeof *by_name, compare_names, (void *)runs);
    for (size_t i = 0; i < count; i++) {
        const char *name = runs[by_name[i]].name;
        char *stamp = made.of[by_name[i]];
        if ((i && strcmp(runs[by_name[i - 1]].name, name) == 0) ||
            (i + 1 < count && strcmp(runs[by_name[i + 1]].name, name) == 0))
            stamp_run(&runs[by_name[i]], stamp);
        if (glyph_text_width(stamp) > made.width) made.width = glyph_text_width(stamp);
    }
    run_stamps_release(stamps);
    *stamps = made;
    return STATUS_OK;
}

void run_stamps_release(struct run_stamps *stamps)
{
    arena_release(&stamps->arena);
    *stamps = (struct run_stamps){0};
}

/* ---- cells ---- */

static void draw_progress(struct pen pen, const struct run_cell *cell)
{
    enum { PERCENT = 5, STEPS = 12 };
    const struct run_info *run = cell->run;
    double fraction = run_progress(run);
    bool steps = pen.end - pen.x >= 28;
    int gauge = pen.end - pen.x - PERCENT - (steps ? STEPS : 0);
    char text[48];
    gauge_draw(pen.grid, pen.x, pen.y, gauge, label_state(run, cell->now).style, fraction);
    pen.x += gauge;
    if (isnan(fraction))
        pen_print(&pen, STYLE_DIM, 0, "   ?%%");
    else
        pen_print(&pen, STYLE_TEXT, 0, "%4d%%", text_percent(fraction));
    snprintf(text, sizeof text, "%s/%s", TEXT_COUNT(run->steps > 0 ? run->steps : 0),
             run->total_steps > 0 ? TEXT_COUNT(run->total_steps) : "?");
    if (steps) pen_print_right(&pen, STYLE_DIM, 0, text);
}

/* A run whose newest loss is no number has diverged, whatever its trainer does. */
static void draw_status(struct pen pen, const struct run_cell *cell)
{
    struct status_label status = label_state(cell->run, cell->now);
    if (cell->run->loss_recorded && !isfinite(cell->run->final_loss))
        status = (struct status_label){'!', "diverged", STYLE_BAD};
    grid_put(pen.grid, pen.x, pen.y, status.symbol, status.style, ATTR_BOLD);
    pen.x += 2;
    pen_print(&pen, status.style, 0, "%s", status.word);
}

static void draw_name(struct pen pen, const struct run_cell *cell)
{
    int stamp_w = glyph_text_width(cell->stamp), name_w = pen.end - pen.x - (stamp_w ? stamp_w + 1 : 0);
    pen.x += grid_name(pen.grid, pen.x, pen.y, name_w, STYLE_TEXT, ATTR_BOLD, cell->run->name) + 1;
    pen_print(&pen, STYLE_DIM, 0, "%s", cell->stamp);
}

static void draw_loss(struct pen pen, const struct run_cell *cell)
{
    double loss = cell->run->final_loss;
    char text[32];
    if (cell->run->loss_recorded)
        pen_print_right(&pen, isfinite(loss) ? STYLE_TEXT : STYLE_BAD, 0,
                        axis_format_within(loss, pen.end - pen.x, text, sizeof text));
    else
        pen_print_right(&pen, STYLE_DIM, 0, "--");
}

static void draw_best(struct pen pen, const struct run_cell *cell)
{
    const struct run_info *run = cell->run;
    bool any = run->best_step >= 0, wide = pen.end - pen.x >= 15;
    char text[64] = "--";
    if (any) axis_format_within(run->best_val_loss, pen.end - pen.x, text, sizeof text);
    if (any && wide && !*run->best_metric) text_add(text, sizeof text, " ", "@%-6" PRId64, run->best_step);
    pen_print_right(&pen, any ? STYLE_BEST : STYLE_DIM, 0, text);
}

static void draw_speed(struct pen pen, const struct run_cell *cell)
{
    double speed = label_stands_still(cell->run, cell->now) ? NAN : cell->run->tokens_per_sec;
    pen_print_right(&pen, status_is_live(cell->run->status) ? STYLE_SPEED : STYLE_DIM, 0,
                    speed > 0 ? TEXT_COUNT(speed) : "--");
}

/* The time left, or how long ago the run ended or gave its last sign of life. */
static void draw_time(struct pen pen, const struct run_cell *cell)
{
    const struct run_info *run = cell->run;
    double eta = label_eta(run, cell->now), since = isnan(run->ended_at) ? run->heartbeat : run->ended_at;
    char text[64] = "--";
    if (!isnan(eta))
        snprintf(text, sizeof text, pen.end - pen.x >= 11 ? "ETA %s" : "in %s", CLOCK_DURATION(eta));
    else if (run->status != RUN_PAUSED || run->suspended)
        label_age(since > 0 ? since : run->created_at, cell->now, text, sizeof text);
    pen_print_right(&pen, isnan(eta) ? STYLE_DIM : STYLE_TEXT, 0, text);
}

static void draw_curve(struct pen pen, const struct run_cell *cell)
{
    const struct series *curve = cell->curve;
    if (curve)
        sparkline_draw(pen.grid, pen.x, pen.y, pen.end - pen.x, STYLE_TRAIN, curve->points, curve->count);
}

static void draw_plain(struct pen pen, const struct run_cell *cell)
{
    const struct field *field = cell->field;
    const struct field_value *value = cell->value;
    char text[RUN_NOTE_MAX];
    bool bad = value->known && !value->text && !isfinite(value->number);
    enum style style = !value->known ? STYLE_DIM : bad ? STYLE_BAD : STYLE_TEXT;
    field_show(field, value, text, sizeof text);
    if (field->unit == UNIT_TEXT || field->unit == UNIT_WORDS || field->unit == UNIT_TIME)
        pen_print(&pen, style, 0, "%s", text);
    else
        pen_print_right(&pen, style, 0, *text ? text : "--");
}

/* The columns with a look of their own. */
static const struct look {
    void (*draw)(struct pen pen, const struct run_cell *cell);
    struct table_column column; /* its title is the name of the field */
} looks[] = {
    {draw_status, {"status", 12, 12, 0, false}},     {draw_name, {"name", 12, 40, 0, false}},
    {draw_progress, {"progress", 10, 36, 2, false}}, {draw_loss, {"loss", 6, 7, 1, true}},
    {draw_best, {"best", 6, 16, 3, true}},           {draw_speed, {"tok/s", 6, 7, 5, true}},
    {draw_time, {"time", 10, 11, 4, true}},          {draw_curve, {"curve", 8, 48, 6, false}},
};

/* NULL: it has none. */
static const struct look *look_of(const struct field *field)
{
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        if (strcmp(looks[i].column.title, field->name) == 0) return &looks[i];
    return NULL;
}

void run_cell_draw(struct pen pen, const struct run_cell *cell)
{
    const struct look *look = look_of(cell->field);
    (look ? look->draw : draw_plain)(pen, cell);
}

/* ---- columns ---- */

/* Title, least and greatest width, rank and alignment of a column for this field. */
static struct table_column column_of(const struct field *field, int place)
{
    const struct look *look = look_of(field);
    if (look) return look->column;
    const char *dot = strrchr(field->name, '.');
    bool text = field->unit == UNIT_TEXT || field->unit == UNIT_WORDS, time = field->unit == UNIT_TIME;
    /* a key keeps its last part, which tells the most where there is little room */
    struct table_column column = {dot ? dot + 1 : field->name,
                                  time   ? 16
                                  : text ? 8
                                         : 7,
                                  time ? 16 : 24, 7 + place, !text && !time};
    int title = (int)strlen(column.title);
    if (title > column.min) column.min = title < 12 ? title : 12;
    if (!text && !time) column.max = title > 10 ? title : 10;
    return column;
}

/* Tags and notes take no room while no run has any. */
static bool is_unused(const struct listing *listing, int column)
{
    const struct field *field = &listing->fields[column].field;
    if (field->made != MADE_TAGS && field->column != COLUMN(RUNS, note)) return false;
    for (size_t i = 0; i < listing->shown_count; i++)
        if (listing_value(listing, column, listing->shown[i])->known) return false;
    return true;
}

/* Widens the column of the names to the longest one, as far as its limit and the room beside the columns that
 * are shown allow: a longer curve tells less than the end of a name. */
static void widen_names(const struct listing *listing, int stamp, int room, struct table_column *column)
{
    int most = column->max < column->min + room ? column->max : column->min + room;
    for (size_t i = 0; i < listing->shown_count && column->min < most; i++) {
        int w = glyph_text_width(listing->runs[listing->shown[i]].name) + (stamp ? 1 + stamp : 0);
        if (w > column->min) column->min = w < most ? w : most;
    }
}

void run_cells_fit(const struct listing *listing, const struct run_stamps *stamps, int width, int gap,
                   struct table_column columns[LISTING_COLUMNS_MAX], int widths[LISTING_COLUMNS_MAX])
{
    enum { NAME_LEAST = 6 };
    int least = stamps->width ? NAME_LEAST + 1 + stamps->width : 0, name = -1, room = width + gap;
    for (int c = 0; c < listing->column_count; c++) {
        columns[c] = column_of(&listing->fields[c].field, c);
        if (is_unused(listing, c)) columns[c].min = 0;
        if (strcmp(listing->fields[c].field.name, "name") != 0) continue;
        name = c;
        if (least > columns[c].min) columns[c].min = least;
    }
    table_fit(columns, listing->column_count, width, gap, widths);
    if (name < 0) return;
    for (int c = 0; c < listing->column_count; c++)
        if (widths[c]) room -= columns[c].min + gap;
    widen_names(listing, stamps->width, room, &columns[name]);
    table_fit(columns, listing->column_count, width, gap, widths);
}
