/* The recipe `kjv`: the King James Bible as the Debian package bible-kjv has it.
 *
 * The text is laid out for reading and for learning its structure: each chapter begins with its name on a
 * line of its own between empty lines ("Genesis 1", "1 Corinthians 13"), then one verse a line, without
 * references. */
#ifndef ANNEAL_DATASETS_RECIPE_KJV_H
#define ANNEAL_DATASETS_RECIPE_KJV_H

#include <stddef.h>

#include "core/base/err.h"
#include "datasets/progress.h"

enum { KJV_VERSES = 31102, KJV_CHAPTERS = 1189, KJV_BOOKS = 66 };

/* Runs `bible` and lays out what it prints. *text is yours to free. STATUS_NOT_FOUND with the remedy when the
 * program is missing, STATUS_FAILED when it prints anything but the whole Bible. */
enum status recipe_kjv_make(const struct progress *progress, char **text, size_t *n, struct err *err);

/* The second half of it: from `raw`, lines such as "Ge1:1 In the beginning …". */
enum status recipe_kjv_layout(const char *raw, size_t raw_n, char **text, size_t *n, struct err *err);

#endif
