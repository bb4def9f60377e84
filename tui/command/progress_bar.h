/* A progress bar for commands: one line that redraws itself on a terminal, a plain line every few seconds
 * elsewhere.
 *
 *     encoding   45% ━━━━━━━━━━━───────────────  ETA 3s  1.9 MiB/4.1 MiB  12.3 MiB/s
 *     training    6% ━─────────────────────────  ETA 36m 52s  loss 5.13  12.3k tok/s  120/2000  0.85 step/s
 *
 * Fits the terminal's width at every redraw, draws at most ten times a second, uses colour unless NO_COLOR is
 * set, and box drawing only in a UTF-8 locale. */
#ifndef ANNEAL_TUI_PROGRESS_BAR_H
#define ANNEAL_TUI_PROGRESS_BAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "datasets/progress.h"
#include "tui/session/run_log.h"

/* In the order of the words of PROGRESS_OPTION. */
enum progress_style {
    PROGRESS_AUTO, /* BAR on a terminal, else PLAIN */
    PROGRESS_BAR,
    PROGRESS_PLAIN,
    PROGRESS_NONE,
};

/* One moment of one phase. */
struct progress_view {
    const char *what; /* the phase */
    const char *unit; /* "bytes" is written in KiB, MiB, …; anything else as a count of it */
    uint64_t done, total;
    double rate;        /* units a second, 0: not known yet */
    const char *suffix; /* free text at the end; NULL: none */
    double speed;       /* units a second to show; 0: the rate, from which the ETA always comes */
    double left;        /* units still to come, as long as those done on average; 0: total - done */
};

struct progress_bar {
    FILE *out; /* borrowed */
    enum progress_style style;
    bool color, utf8;
    const struct run_log
        *log;        /* borrowed; receives messages, and a plain line every ten seconds; NULL: none */
    bool shown;      /* there is an unfinished line on the terminal */
    char what[48];   /* the present phase; "": none yet */
    double interval; /* seconds between two plain lines */
    double started, drawn, logged; /* seconds, of the phase and the last line */
    uint64_t first;                /* units done when the phase began */
    double speed, left;            /* as in struct progress_view; the caller sets them */
    struct progress progress;      /* receives the modules' progress; notes are printed above the bar */
};

/* `out` is normally stderr, `style` an enum progress_style. From now on an interrupt is caught (see
 * process.h) and stops the work. Warnings are printed also with PROGRESS_NONE. */
void progress_bar_init(struct progress_bar *bar, FILE *out, int style);

/* Call as often as convenient; a new `what` begins a phase. suffix may be NULL. */
void progress_bar_update(struct progress_bar *bar, const char *what, const char *unit, uint64_t done,
                         uint64_t total, const char *suffix);

/* Prints a line of its own, made safe for a terminal, above the bar. */
void progress_bar_say(struct progress_bar *bar, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void progress_bar_finish(struct progress_bar *bar); /* keeps the last line */
void progress_bar_clear(struct progress_bar *bar);  /* erases the last line */

/* The line for one moment, at most `width` columns, without escapes when color is false. */
char *progress_bar_line(const struct progress_view *view, int width, bool utf8, bool color, char *buf,
                        size_t size);
/* "encoding: 45% (1.9 MiB of 4.1 MiB), 12.3 MiB/s, ETA 3s, loss 5.13" */
char *progress_bar_plain(const struct progress_view *view, char *buf, size_t size);

#endif
