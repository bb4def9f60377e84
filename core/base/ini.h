/* Settings as INI text: `[section]`, then `key = value` or `key: value`, one a line and of any length. A line
 * that begins with ; or # is a comment, and so is the rest of a line after a blank and ;. Blanks around
 * sections, keys and values do not count, so an indented line is a key like any other.
 *
 * Written here because the distribution's inih stops at 200 bytes, fewer than a list of data files has. */
#ifndef ANNEAL_CORE_BASE_INI_H
#define ANNEAL_CORE_BASE_INI_H

#include <stdbool.h>

/* Zero all but `rest`, and `exact`. */
struct ini {
    char *rest; /* the text not read yet, which is cut in place; the pieces below lie in it */
    bool exact; /* written by config_text: every line is a section, "key = value" to the letter, or empty */
    int line;   /* number of the line read last, from 1 */
    const char *section, *key, *value; /* section "": no section has begun */
};

enum ini_line { INI_END, INI_PAIR, INI_BAD /* neither a section, a pair nor a comment */ };

/* Reads until the next pair, or the next bad line, after which reading may go on. */
enum ini_line ini_next(struct ini *ini);

#endif
