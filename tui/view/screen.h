/* The workbench on a terminal: shows a grid, reads keys, and wakes on a key, a signal or a tick of 10 Hz, all
 * in one thread. A tick without a change costs two system calls and draws nothing. The only file that
 * includes ncurses.
 *
 * Always: screen_close restores the terminal's old state, and a crash of the process (SIGSEGV, abort) does so
 * as far as possible. Only cells that differ are sent. Colours are those of tui/widget/palette.h: none with
 * NO_COLOR or a monochrome terminal, else 8, 16 or 256. */
#ifndef ANNEAL_TUI_SCREEN_H
#define ANNEAL_TUI_SCREEN_H

#include <stdio.h>

#include "tui/view/workbench.h"

/* Returns when the user leaves or SIGINT, SIGTERM or SIGHUP arrives, with the terminal restored. If standard
 * input or output is no terminal, returns STATUS_FAILED before it writes anything. */
enum status screen_run(const struct workbench_options *options, struct err *err);

/* The assignment to put before a command so that the workbench draws charts in Braille dots: "LANG=C.UTF-8",
 * or another variable that overrides LANG here; NULL: the locale has UTF-8. */
const char *screen_locale_remedy(void);

/* --- its parts, for the benchmark --- */

struct screen;

/* STATUS_FAILED when this system does not know the terminal in TERM, or it cannot place its cursor. */
enum status screen_open(FILE *in, FILE *out, struct screen **out_screen, struct err *err);
void screen_close(struct screen *screen); /* NULL is harmless */

/* Writes the changed cells. The grid may have any size; the part that fits is shown. */
void screen_show(struct screen *screen, const struct grid *grid);
/* Forgets the terminal's contents: the next screen_show writes every cell. */
void screen_forget(struct screen *screen);

#endif
