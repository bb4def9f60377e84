/* See progress_bar.h. */
#include "tui/command/progress_bar.h"

#include <langinfo.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "tui/command/output.h"
#include "tui/session/process.h"

enum { LINE_BYTES = 2048, BAR_MIN = 10, BAR_MAX = 60, LABEL_COLUMNS = 10, WIDTH_DEFAULT = 80 };

#define REDRAW_SECONDS 0.1
#define PLAIN_SECONDS  5.0
#define LOG_SECONDS    10.0

/* ---- the parts of a line: each character is one column ---- */

static char *format_amounts(const struct progress_view *view, const char *between, char *buf, size_t size)
{
    if (strcmp(view->unit, "bytes") == 0)
        snprintf(buf, size, "%s%s%s", TEXT_BYTES(view->done), between, TEXT_BYTES(view->total));
    else
        snprintf(buf, size, "%llu%s%llu", (unsigned long long)view->done, between,
                 (unsigned long long)view->total);
    return buf;
}

/* "12.3 MiB/s", "0.85 step/s"; "" while it is not known. */
static char *format_rate(const struct progress_view *view, char *buf, size_t size)
{
    double rate = view->speed > 0 ? view->speed : view->rate;
    int unit = (int)strlen(view->unit);
    if (unit && view->unit[unit - 1] == 's') unit--; /* steps, but step/s */
    buf[0] = '\0';
    if (!(rate > 0 && rate < 1e18)) return buf;
    if (strcmp(view->unit, "bytes") == 0)
        snprintf(buf, size, "%s/s", TEXT_BYTES(rate));
    else if (rate < 100)
        snprintf(buf, size, "%.*f %.*s/s", rate < 10 ? 2 : 1, rate, unit, view->unit);
    else
        snprintf(buf, size, "%s %.*s/s", TEXT_COUNT(rate), unit, view->unit);
    return buf;
}

static char *format_eta(const struct progress_view *view, char *buf, size_t size)
{
    double left = view->left > 0 ? view->left : (double)view->total - (double)view->done;
    buf[0] = '\0';
    if (view->rate > 0 && view->total > view->done)
        snprintf(buf, size, "ETA %s", CLOCK_DURATION(left / view->rate));
    return buf;
}

static double fraction_of(const struct progress_view *view)
{
    if (!view->total) return 0;
    return view->done < view->total ? (double)view->done / (double)view->total : 1;
}

/* ---- the two kinds of line ---- */

static char *draw_bar(double fraction, int width, bool utf8, bool color, char *to)
{
    int full = (int)(fraction * width + 1e-9);
    if (color) to = stpcpy(to, "\033[36m");
    for (int i = 0; i < width; i++) {
        if (color && i == full) to = stpcpy(to, "\033[90m");
        to = stpcpy(to, i < full ? (utf8 ? "━" : "#") : utf8 ? "─" : "-");
    }
    return color ? stpcpy(to, "\033[0m") : to;
}

char *progress_bar_line(const struct progress_view *view, int width, bool utf8, bool color, char *buf,
                        size_t size)
{
    char head[128], eta[40], amounts[80], rate[64], tail[640] = "", bar[4 * BAR_MAX + 16];
    int used = snprintf(head, sizeof head, "%-*.48s %3d%%", LABEL_COLUMNS, view->what,
                        text_percent(fraction_of(view)));
    int room = width - used - 1 - BAR_MIN;
    const char *const parts[] = {format_eta(view, eta, sizeof eta), view->suffix ? view->suffix : "",
                                 format_amounts(view, "/", amounts, sizeof amounts),
                                 format_rate(view, rate, sizeof rate)}; /* most important first */
    if (room < 0) {
        snprintf(buf, size, "%.*s", width > 0 ? width : 0, head);
        return buf;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        int columns = 2 + (int)strlen(parts[i]);
        if (!*parts[i] || columns > room || strlen(tail) + (size_t)columns >= sizeof tail) continue;
        text_add(tail, sizeof tail, "", "  %s", parts[i]);
        room -= columns;
    }
    int columns = BAR_MIN + room < BAR_MAX ? BAR_MIN + room : BAR_MAX;
    *draw_bar(fraction_of(view), columns, utf8, color, bar) = '\0';
    snprintf(buf, size, "%s %s%s", head, bar, tail);
    return buf;
}

char *progress_bar_plain(const struct progress_view *view, char *buf, size_t size)
{
    char amounts[80], rate[64], eta[40];
    const char *suffix = view->suffix ? view->suffix : "";
    format_rate(view, rate, sizeof rate);
    format_eta(view, eta, sizeof eta);
    snprintf(buf, size, "%s: %d%% (%s)%s%s%s%s%s%s", view->what, text_percent(fraction_of(view)),
             format_amounts(view, " of ", amounts, sizeof amounts), *rate ? ", " : "", rate, *eta ? ", " : "",
             eta, *suffix ? ", " : "", suffix);
    return buf;
}

/* ---- the bar ---- */

void progress_bar_clear(struct progress_bar *bar)
{
    if (bar->shown) fputs("\r\033[K", bar->out);
    bar->shown = false;
    fflush(bar->out);
}

static void draw(struct progress_bar *bar, const struct progress_view *view)
{
    char line[LINE_BYTES];
    int width = output_columns(bar->out);
    bar->shown = bar->style == PROGRESS_BAR;
    /* The last column stays free: a character there makes some terminals wrap. */
    if (bar->shown)
        fprintf(bar->out, "\r%s\033[K",
                progress_bar_line(view, (width ? width : WIDTH_DEFAULT) - 1, bar->utf8, bar->color, line,
                                  sizeof line));
    else
        fprintf(bar->out, "%s\n", progress_bar_plain(view, line, sizeof line));
    fflush(bar->out);
}

void progress_bar_update(struct progress_bar *bar, const char *what, const char *unit, uint64_t done,
                         uint64_t total, const char *suffix)
{
    char line[LINE_BYTES];
    bool is_bar = bar->style == PROGRESS_BAR;
    if (bar->style == PROGRESS_NONE && !bar->log) return;
    double now = clock_monotonic();
    bool new_phase = strncmp(bar->what, what, sizeof bar->what - 1) != 0;
    if (new_phase) {
        snprintf(bar->what, sizeof bar->what, "%s", what);
        bar->first = done;
        bar->started = bar->logged = now;
        if (!is_bar) bar->drawn = now; /* short work prints no line */
    }
    struct progress_view view = {what, unit, done, total, 0, suffix, bar->speed, bar->left};
    double elapsed = now - bar->started;
    if (elapsed > 0 && done > bar->first) view.rate = (double)(done - bar->first) / elapsed;
    if (bar->log && now - bar->logged >= LOG_SECONDS) {
        run_log_line(bar->log, progress_bar_plain(&view, line, sizeof line));
        bar->logged = now;
    }
    bool due = now - bar->drawn >= (is_bar ? REDRAW_SECONDS : bar->interval);
    if (bar->style == PROGRESS_NONE || !(due || (is_bar && (new_phase || done == total)))) return;
    draw(bar, &view);
    bar->drawn = now;
}

void progress_bar_say(struct progress_bar *bar, const char *format, ...)
{
    char line[LINE_BYTES];
    TEXT_FORMAT(line, format);
    if (bar->log) run_log_line(bar->log, line);
    if (bar->style == PROGRESS_NONE) return;
    progress_bar_clear(bar);
    fprintf(bar->out, "%s\n", CLEAN_LINE(line));
    fflush(bar->out);
    bar->drawn = 0; /* draws the bar again at once */
}

void progress_bar_finish(struct progress_bar *bar)
{
    if (bar->shown) fputc('\n', bar->out);
    bar->shown = false;
    fflush(bar->out);
}

static bool report(void *context, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    progress_bar_update(context, what, unit, done, total, NULL);
    return !interrupt_requested();
}

/* Warnings are printed even where no progress is wanted. */
static void note(void *context, bool warning, const char *sentence)
{
    struct progress_bar *bar = context;
    if (warning && bar->style == PROGRESS_NONE)
        fprintf(bar->out, "anneal: warning: %s\n", CLEAN_LINE(sentence));
    else
        progress_bar_say(bar, "%s%s", warning ? "anneal: warning: " : "", sentence);
}

void progress_bar_init(struct progress_bar *bar, FILE *out, int style)
{
    if (style == PROGRESS_AUTO) style = output_is_terminal(out) ? PROGRESS_BAR : PROGRESS_PLAIN;
    *bar = (struct progress_bar){
        .out = out,
        .style = (enum progress_style)style,
        .interval = PLAIN_SECONDS,
        .color = output_has_color(out),
        .utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
        .progress = {report, bar, note},
    };
    interrupt_catch();
}
