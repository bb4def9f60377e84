/* Facts about a terminal that terminfo does not have, or that only the terminal itself can tell. */
#ifndef ANNEAL_TUI_TERMINAL_H
#define ANNEAL_TUI_TERMINAL_H

#include "tui/widget/palette.h"

/* A terminal that this system is likely to know and that does as `term` does; NULL: none is known. */
const char *terminal_stand_in(const char *term);

/* Whether the terminal answers questions, or at least ignores them without a trace on the screen. */
bool terminal_takes_questions(const char *term);

/* Asks for the colour of the background. The answer is an operating system command (OSC) among the keys. */
#define TERMINAL_ASK_BACKGROUND "\033]11;?\033\\"

/* Reads that answer, without what frames it: "11;rgb:ffff/ffff/ffff". False: it is none. */
bool terminal_read_background(const char *answer, enum background *out);

/* Reads the variable COLORFGBG, "15;0", which some terminals set. False: it says nothing. */
bool terminal_read_colorfgbg(const char *value, enum background *out);

/* Whether the locale wants UTF-8 or none is chosen, though the system gives another character set: it lacks
 * the locale, or LANG is not set. */
bool terminal_locale_is_open(void);

/* Asks a terminal whether it shows two bytes of UTF-8 as one character: writes them, asks where the cursor
 * is, and removes them. Waits a fifth of a second for the answer; without one false. `typed`: the bytes of
 * keys that came instead or before. */
enum { TERMINAL_TYPED_MAX = 256 };
bool terminal_shows_utf8(int in, int out, char typed[TERMINAL_TYPED_MAX]);

#endif
