/* Settings as INI text: `[section]`, then `key = value` or `key: value`, one a line and of any length. A line
 * that begins with ; or # is a comment, and so is the rest of a line after a blank and ;. Blanks around
 * sections, keys and values do not count, so an indented line is a key like any other.
 *
 * A value that these rules would change is written in double quotes: one that begins or ends with a blank,
 * begins with ;, or contains a blank and ; in a row. Between the quotes \" is a quote, \\ a backslash, and
 * \xHH the byte with this hexadecimal number, which is neither 0 nor a newline. Quotes have always been
 * allowed as a part of values, as in `"my program" --mail`, so they have this meaning only if both hold:
 *
 *   - the value begins with ", and the next " without a \ before it ends the line, or a comment follows;
 *   - the text between them begins or ends with a blank, begins with ; or \", contains a blank and ;, or
 *     contains \xHH.
 *
 * All other quotes and backslashes are part of the value. (A value that begins with a quote is in quotes
 * itself where it could be mistaken for this form: hence \" at the beginning.)
 *
 * Written here because the distribution's inih stops at 200 bytes, fewer than a list of data files has. */
#ifndef ANNEAL_CORE_BASE_INI_H
#define ANNEAL_CORE_BASE_INI_H

#include <stdbool.h>
#include <stdio.h>

/* Zero all but `rest`, and `exact`. */
struct ini {
    char *rest; /* the text not read yet, which is cut in place; the pieces below lie in it */
    bool exact; /* written by config_text: every line is a section, "key = value" to the letter, or empty */
    int line;   /* number of the line read last, from 1 */
    const char *section, *key, *value; /* section "": no section has begun */
};

enum ini_line {
    INI_END,
    INI_PAIR,
    INI_BAD,       /* neither a section, a pair nor a comment */
    INI_BAD_ESCAPE /* a value in quotes with a blank and ; between them, and with a \ that means nothing;
                    * without the quotes, a comment would begin in the middle */
};

/* Reads until the next pair, or the next bad line, after which reading may go on. */
enum ini_line ini_next(struct ini *ini);

/* Writes a value of one line so that ini_next reads it back to the letter: in quotes only if it needs them.
 * Control characters and bytes that are not UTF-8 need them, too, and are written as \xHH there, so that
 * clean_block has nothing to replace in what is written. */
void ini_print_value(FILE *out, const char *value);

/* Writes text for an exact reader, which is cut in place, as text for one that is not exact. */
void ini_print_exact(FILE *out, char *text);

#endif
