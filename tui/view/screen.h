/* The terminal: shows a grid, gives keys. The only file that includes ncurses.
 *
 * Always: the terminal is put back into its old state by screen_close, and, as far as that is possible, when
 * the process dies of a fault of its own (SIGSEGV, abort). Only cells that differ from those on the
 * screen are sent to it. Colours are the terminal's own palette: none with NO_COLOR or a monochrome terminal,
 * else 8, 16 or 256. */
#ifndef ANNEAL_TUI_SCREEN_H
#define ANNEAL_TUI_SCREEN_H

#include <stdio.h>

#include "core/base/err.h"
#include "tui/view/keys.h"
#include "tui/widget/grid.h"

struct screen;

/* STATUS_FAILED, before anything is written, when TERM names no terminal this system knows or one that cannot
 * place its cursor. Whether in and out are terminals is the caller's to check. */
enum status screen_open(FILE *in, FILE *out, struct screen **out_screen, struct err *err);
void screen_close(struct screen *screen); /* NULL is harmless */

void screen_size(const struct screen *screen, int *w, int *h);
enum glyph_level screen_glyphs(const struct screen *screen);

/* Writes what changed. The grid may have any size; the part that fits is shown. */
void screen_show(struct screen *screen, const struct grid *grid);
/* Forgets what is on the terminal: the next screen_show writes every cell. */
void screen_forget(struct screen *screen);

/* The next key, K_NONE when there is none. Does not wait (25 ms may pass to distinguish the Escape key from
 * the beginning of a sequence). */
uint32_t screen_key(struct screen *screen);

/* Asks the terminal for its size, after SIGWINCH. */
void screen_resize(struct screen *screen);

/* Gives the terminal back (Ctrl-Z) and takes it again. */
void screen_suspend(struct screen *screen);
void screen_resume(struct screen *screen);

#endif
