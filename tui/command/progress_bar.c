/* See progress_bar.h. */
#include "tui/command/progress_bar.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "tui/command/command.h"
#include "tui/session/interrupt.h"

enum { LINE_BYTES = 2048, BAR_MIN = 10, BAR_MAX = 60, LABEL_COLUMNS = 10, WIDTH_DEFAULT = 80 };

#define REDRAW_SECONDS 0.1
#define PLAIN_SECONDS  5.0

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

void progress_bar_init(struct progress_bar *bar, FILE *out, enum progress_style style)
{
    const char *term = getenv("TERM");
    bool terminal = isatty(fileno(out)) && term && *term && strcmp(term, "dumb") != 0;
    if (style == PROGRESS_AUTO) style = terminal ? PROGRESS_BAR : PROGRESS_PLAIN;
    *bar = (struct progress_bar){
        .out = out,
        .style = style,
        .color = terminal && !is_set("NO_COLOR"),
        .utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
    };
}

/* ---- the parts of a line ---- */

/* Columns of UTF-8 text, one a character: what this line is made of has no wide ones. */
static int columns(const char *text)
{
    int count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

/* Cuts text after `width` columns. */
static void cut(char *text, int width)
{
    for (; *text; text++) {
        if (((unsigned char)*text & 0xC0) == 0x80) continue;
        if (width-- <= 0) break;
    }
    *text = '\0';
}

static bool in_bytes(const struct progress_view *view)
{
    return strcmp(view->unit, "bytes") == 0;
}

static void format_amount(const struct progress_view *view, uint64_t amount, char *buf, size_t size)
{
    if (in_bytes(view))
        text_format_bytes(amount, buf, size);
    else
        snprintf(buf, size, "%llu", (unsigned long long)amount);
}

static void format_rate(const struct progress_view *view, char *buf, size_t size)
{
    int unit = (int)strlen(view->unit);
    if (unit && view->unit[unit - 1] == 's') unit--; /* steps, but step/s */
    buf[0] = '\0';
    if (!(view->rate > 0 && view->rate < 1e18)) return;
    if (in_bytes(view))
        snprintf(buf, size, "%s/s", TEXT_BYTES(view->rate));
    else if (view->rate < 100)
        snprintf(buf, size, "%.*f %.*s/s", view->rate < 10 ? 2 : 1, view->rate, unit, view->unit);
    else
        snprintf(buf, size, "%s %.*s/s", TEXT_COUNT(view->rate), unit, view->unit);
}

static void format_eta(const struct progress_view *view, char *buf, size_t size)
{
    uint64_t left = view->total > view->done ? view->total - view->done : 0;
    buf[0] = '\0';
    if (!(view->rate > 0) || !left) return;
    snprintf(buf, size, "ETA %s", CLOCK_DURATION((double)left / view->rate));
}

static double fraction_of(const struct progress_view *view)
{
    if (!view->total) return 0;
    return view->done < view->total ? (double)view->done / (double)view->total : 1;
}

/* ---- the two kinds of line ---- */

static char *draw_bar(double fraction, int width, bool utf8, bool color, char *to, char *end)
{
    int halves = (int)(fraction * 2 * width + 1e-9), full = halves / 2;
    const char *const marks[3] = {utf8 ? "━" : "#", utf8 ? "╸" : "#", utf8 ? "─" : "-"};
    for (int i = 0; i < width && end - to > 32; i++) {
        int mark = i < full ? 0 : i == full && halves % 2 ? 1 : 2;
        if (color && i == 0) to = stpcpy(to, "\033[36m");
        if (color && mark == 2 && (i == 0 || i == full + halves % 2)) to = stpcpy(to, "\033[90m");
        to = stpcpy(to, marks[mark]);
    }
    if (color) to = stpcpy(to, "\033[0m");
    *to = '\0';
    return to;
}

char *progress_bar_line(const struct progress_view *view, int width, bool utf8, bool color, char *buf,
                        size_t size)
{
    char head[128], part[4][512], done[32], total[32];
    enum { AMOUNT, RATE, ETA, SUFFIX, PARTS };
    snprintf(head, sizeof head, "%-*.48s %3d%%", LABEL_COLUMNS, view->what, (int)(100 * fraction_of(view)));
    format_amount(view, view->done, done, sizeof done);
    format_amount(view, view->total, total, sizeof total);
    snprintf(part[AMOUNT], sizeof part[AMOUNT], "%s/%s", done, total);
    format_rate(view, part[RATE], sizeof part[RATE]);
    format_eta(view, part[ETA], sizeof part[ETA]);
    snprintf(part[SUFFIX], sizeof part[SUFFIX], "%s", view->suffix ? view->suffix : "");
    /* Parts that do not fit are dropped, the least needed first. */
    static const int dispensable[] = {RATE, AMOUNT, SUFFIX, ETA};
    int used = columns(head), next = 0;
    for (int i = 0; i < PARTS; i++) used += part[i][0] ? 2 + columns(part[i]) : 0;
    for (; used + 1 + BAR_MIN > width && next < PARTS; next++) {
        char *gone = part[dispensable[next]];
        used -= *gone ? 2 + columns(gone) : 0;
        *gone = '\0';
    }
    int bar = width - used - 1;
    if (bar > BAR_MAX) bar = BAR_MAX;
    if (bar < BAR_MIN) cut(head, width);
    char *to = buf, *end = buf + size;
    to += snprintf(to, size, "%s%s", head, bar < BAR_MIN ? "" : " ");
    if (bar >= BAR_MIN) to = draw_bar(fraction_of(view), bar, utf8, color, to, end);
    for (int i = 0; i < PARTS && bar >= BAR_MIN; i++)
        if (part[i][0] && to < end) to += snprintf(to, (size_t)(end - to), "  %s", part[i]);
    return buf;
}

char *progress_bar_plain(const struct progress_view *view, char *buf, size_t size)
{
    char done[32], total[32], rate[64], eta[64];
    format_amount(view, view->done, done, sizeof done);
    format_amount(view, view->total, total, sizeof total);
    format_rate(view, rate, sizeof rate);
    format_eta(view, eta, sizeof eta);
    snprintf(buf, size, "%s: %d%% (%s of %s)%s%s%s%s%s%s", view->what, (int)(100 * fraction_of(view)), done,
             total, *rate ? ", " : "", rate, *eta ? ", " : "", eta, view->suffix ? ", " : "",
             view->suffix ? view->suffix : "");
    return buf;
}

/* ---- the bar ---- */

static void wipe(struct progress_bar *bar)
{
    if (bar->shown) fputs("\r\033[K", bar->out);
    bar->shown = false;
}

void progress_bar_update(struct progress_bar *bar, const char *what, const char *unit, uint64_t done,
                         uint64_t total, const char *suffix)
{
    char line[LINE_BYTES];
    if (bar->style == PROGRESS_NONE) return;
    double now = clock_monotonic();
    bool new_phase = strncmp(bar->what, what, sizeof bar->what - 1) != 0;
    if (new_phase) {
        snprintf(bar->what, sizeof bar->what, "%s", what);
        bar->started = now;
        bar->first = done;
        if (bar->style == PROGRESS_PLAIN) bar->drawn = now; /* short work says nothing */
    }
    double every = bar->style == PROGRESS_BAR ? REDRAW_SECONDS : PLAIN_SECONDS;
    bool due = now - bar->drawn >= every || (bar->style == PROGRESS_BAR && (new_phase || done == total));
    if (!due) return;
    double elapsed = now - bar->started;
    struct progress_view view = {what, unit, done, total, 0, suffix};
    if (elapsed > 0 && done > bar->first) view.rate = (double)(done - bar->first) / elapsed;
    bar->drawn = now;
    if (bar->style == PROGRESS_BAR) {
        /* The last column stays free: a character there makes some terminals wrap. */
        int width = command_columns(bar->out);
        progress_bar_line(&view, (width ? width : WIDTH_DEFAULT) - 1, bar->utf8, bar->color, line,
                          sizeof line);
        fprintf(bar->out, "\r%s\033[K", line);
        bar->shown = true;
    } else {
        fprintf(bar->out, "%s\n", progress_bar_plain(&view, line, sizeof line));
    }
    fflush(bar->out);
}

void progress_bar_say(struct progress_bar *bar, const char *format, ...)
{
    if (bar->style == PROGRESS_NONE) return;
    wipe(bar);
    va_list args;
    va_start(args, format);
    vfprintf(bar->out, format, args);
    va_end(args);
    fputc('\n', bar->out);
    fflush(bar->out);
    bar->drawn = 0; /* the bar comes back at once */
}

void progress_bar_finish(struct progress_bar *bar)
{
    if (bar->shown) fputc('\n', bar->out);
    bar->shown = false;
    fflush(bar->out);
}

void progress_bar_clear(struct progress_bar *bar)
{
    wipe(bar);
    fflush(bar->out);
}

static bool report(void *context, const char *what, const char *unit, uint64_t done, uint64_t total)
{
    progress_bar_update(context, what, unit, done, total, NULL);
    return !interrupt_requested();
}

/* A warning is no progress: it comes also where no progress is wanted. */
static void note(void *context, bool warning, const char *sentence)
{
    struct progress_bar *bar = context;
    if (!warning) {
        progress_bar_say(bar, "%s", sentence);
        return;
    }
    wipe(bar);
    fprintf(bar->out, "anneal: warning: %s\n", sentence);
    fflush(bar->out);
    bar->drawn = 0;
}

struct progress progress_bar_observer(struct progress_bar *bar)
{
    return (struct progress){report, bar, note};
}
