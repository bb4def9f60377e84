/* The workbench on a terminal: shows a grid, gives keys, wakes on a key, a signal or a tick of 10 Hz, all in
 * one thread. A tick in which nothing changed costs two system calls and draws nothing. The only file that
 * includes ncurses.
 *
 * Always: the terminal is put back into its old state by screen_close, and, as far as that is possible, when
 * the process dies of a fault of its own (SIGSEGV, abort). Only cells that differ are sent. Colours are
 * the terminal's own palette: none with NO_COLOR or a monochrome terminal, else 8, 16 or 256. */
#ifndef ANNEAL_TUI_SCREEN_H
#define ANNEAL_TUI_SCREEN_H

#include <stdio.h>

#include "tui/view/workbench.h"

/* Returns when the user leaves or SIGINT, SIGTERM or SIGHUP arrives, with the terminal as it was. Where
 * standard input or output is no terminal: STATUS_FAILED, before anything is written. */
enum status screen_run(const struct workbench_options *options, struct err *err);

/* The assignment before a command that makes the workbench draw charts in Braille dots, "LANG=C.UTF-8" or of
 * another variable that overrides it here; NULL: the locale has UTF-8. */
const char *screen_locale_remedy(void);

/* --- its parts, for the benchmark --- */

struct screen;

/* STATUS_FAILED when TERM names no terminal that this system knows, or one that cannot place its cursor. */
enum status screen_open(FILE *in, FILE *out, struct screen **out_screen, struct err *err);
void screen_close(struct screen *screen); /* NULL is harmless */

/* Writes what changed. The grid may have any size; the part that fits is shown. */
void screen_show(struct screen *screen, const struct grid *grid);
/* Forgets what is on the terminal: the next screen_show writes every cell. */
void screen_forget(struct screen *screen);

#endif
