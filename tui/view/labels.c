/* See labels.h. */
#include "tui/view/labels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/accumulation.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "tui/widget/bars.h"

struct status_label label_status(enum run_status status)
{
    static const struct status_label labels[] = {
        [RUN_CREATED] = {0x25CB, "created", STYLE_DIM},
        [RUN_RUNNING] = {0x25CF, "running", STYLE_GOOD},
        [RUN_PAUSED] = {0x2016, "paused", STYLE_WARN},
        [RUN_FINISHED] = {0x2713, "finished", STYLE_ACCENT},
        [RUN_EARLY_STOPPED] = {0x2713, "early stop", STYLE_ACCENT},
        [RUN_STOPPED] = {0x25A0, "stopped", STYLE_DIM},
        [RUN_FAILED] = {0x2717, "failed", STYLE_BAD},
        [RUN_CRASHED] = {0x2717, "crashed", STYLE_BAD},
    };
    return labels[status];
}

/* Seconds that a trainer may report nothing: as many as several of its steps take. A first step may take much
 * longer than the others, and is no measure of them. */
static double patience(const struct run_info *run)
{
    enum { STEPS = 10, LEAST = 30, FIRST = 300 };
    double step = run->step_tokens / run->tokens_per_sec;
    return step > 0 ? fmax(STEPS * step, LEAST) : FIRST;
}

bool label_stands_still(const struct run_info *run, double now)
{
    return run->suspended || (run->status == RUN_RUNNING && now - run->heartbeat > patience(run));
}

struct status_label label_state(const struct run_info *run, double now)
{
    if (run->suspended) return (struct status_label){0x2016, "suspended", STYLE_WARN};
    if (label_stands_still(run, now)) return (struct status_label){'!', "silent", STYLE_WARN};
    return label_status(run->status);
}

double label_eta(const struct run_info *run, double now)
{
    if (label_stands_still(run, now) || run->status != RUN_RUNNING || run->steps <= 0 ||
        run->total_steps < run->steps)
        return NAN;
    if (!(run->tokens_per_sec > 0) || isinf(run->tokens_per_sec) || !(run->step_tokens > 0)) return NAN;
    const char *plan = run->accumulation_plan;
    double left = accumulation_sum(plan, run->total_steps) - accumulation_sum(plan, run->steps),
           micro_batch = run->step_tokens / (double)accumulation_at(plan, run->steps - 1);
    return left * micro_batch / run->tokens_per_sec;
}

double label_elapsed(const struct run_info *run, double now)
{
    double since = status_is_live(run->status) ? now - run->heartbeat : 0;
    return run->elapsed + (since > 0 ? since : 0);
}

char *label_device(const struct gpu_record *sample, char *buf, size_t size)
{
    const struct {
        double value;
        const char *unit;
    } parts[] = {{sample->utilization_pct, sample->gpu < 0 ? "% of all processors busy" : "% busy"},
                 {sample->power_w, "W"},
                 {sample->temperature_c, "C"},
                 {sample->sm_clock_mhz, "MHz"}};
    buf[0] = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!isnan(parts[i].value)) text_add(buf, size, ", ", "%.0f %s", parts[i].value, parts[i].unit);
    return buf;
}

const char *label_checkpoint(const char *kind, bool best)
{
    if (best) return "best";
    return !kind ? "" : strcmp(kind, "best") == 0 ? "was best" : kind;
}

char *label_age(double since, double now, char *buf, size_t size)
{
    static const struct {
        double below, seconds;
        const char *format;
    } units[] = {{1, 1, "now"},
                 {60, 1, "%.0fs ago"},
                 {3600, 60, "%.0fm ago"},
                 {86400, 3600, "%.0fh ago"},
                 {30 * 86400.0, 86400, "%.0fd ago"}};
    double age = now - since;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (age < units[i].below) {
            snprintf(buf, size, units[i].format, floor(age / units[i].seconds));
            return buf;
        }
    time_t when = (time_t)since;
    struct tm date;
    snprintf(buf, size, "--");
    if (!isnan(age) && localtime_r(&when, &date))
        strftime(buf, size, age < 330 * 86400.0 ? "%d %b" : "%Y-%m", &date);
    return buf;
}

char *label_parameters(const struct run_info *run, char *buf, size_t size)
{
    const char *all = run->parameters < 0 ? "-" : TEXT_COUNT(run->parameters);
    if (run->parameters >= 0 && run->frozen_parameters > 0)
        snprintf(buf, size, "%s of %s parameters trained", TEXT_COUNT(run->trained_parameters), all);
    else
        snprintf(buf, size, "%s parameters", all);
    return buf;
}

/* --- the first two rows of every view of a run --- */

static void draw_name(struct pen pen, const struct run_info *run, double now)
{
    int screen_w = pen.grid->w;
    struct status_label status = label_state(run, now);
    int id_w = screen_w >= 100 ? glyph_text_width(run->id) : 0, name_w = screen_w - 34 - id_w;
    char text[128];
    pen.x +=
        grid_name(pen.grid, pen.x, pen.y, name_w < 20 ? 20 : name_w, STYLE_TEXT, ATTR_BOLD, run->name) + 2;
    grid_put(pen.grid, pen.x, pen.y, status.symbol, status.style, ATTR_BOLD);
    pen.x += 2;
    pen_word(&pen, status.style, ATTR_BOLD, "%s", status.word);
    if (label_stands_still(run, now)) {
        snprintf(text, sizeof text, "no sign of life for %s", CLOCK_DURATION(fmax(now - run->heartbeat, 0)));
        if (pen.x + glyph_text_width(text) <= pen.end) pen_print_right(&pen, STYLE_WARN, ATTR_BOLD, text);
        return;
    }
    pen_word(&pen, STYLE_TEXT, 0, "%s %s", run->device, run->precision);
    label_parameters(run, text, sizeof text);
    if (run->parameters > 0 && pen.x + glyph_text_width(text) < pen.end)
        pen_print(&pen, STYLE_DIM, 0, "%s  ", text);
    if (id_w && pen.x + id_w < pen.end) pen_print_right(&pen, STYLE_DIM, 0, run->id);
}

static void draw_progress(struct pen pen, const struct run_info *run, double now)
{
    char text[160], eta[48] = "", elapsed[48] = "", percent[16] = "?%";
    double fraction = run_progress(run), left = label_eta(run, now);
    if (!isnan(left)) snprintf(eta, sizeof eta, "  ETA %s", CLOCK_DURATION(left));
    if (pen.grid->w >= 100 || isnan(left)) /* "in 2m", which is shorter, is the time left in the list */
        snprintf(elapsed, sizeof elapsed, "  elapsed %s", CLOCK_DURATION(label_elapsed(run, now)));
    if (!isnan(fraction)) snprintf(percent, sizeof percent, "%.1f%%", text_percent(10 * fraction) / 10.0);
    int64_t steps = run->steps < 0 ? 0 : run->steps, total = run->total_steps;
    snprintf(text, sizeof text, "%6s  %s / %s step%s%s%s", percent, TEXT_NUMBER(steps),
             total > 0 ? TEXT_NUMBER(total) : "?", text_plural(total), eta, elapsed);
    if (glyph_text_width(text) > pen.end - pen.x)
        snprintf(text, sizeof text, "%6s  %s / %s%s%s", percent, TEXT_COUNT(steps),
                 total > 0 ? TEXT_COUNT(total) : "?", eta, elapsed);
    int gauge = pen.end - pen.x - glyph_text_width(text) - 2;
    if (gauge > 60) gauge = 60;
    if (gauge >= 6) {
        gauge_draw(pen.grid, pen.x, pen.y, gauge, label_state(run, now).style, fraction);
        pen.x += gauge + 1;
    }
    pen_print(&pen, STYLE_TEXT, 0, "%s", text);
}

void label_draw_run(struct grid *grid, const struct run_info *run, double now)
{
    draw_name((struct pen){grid, 1, 0, grid->w - 1}, run, now);
    draw_progress((struct pen){grid, 1, 1, grid->w - 1}, run, now);
}
