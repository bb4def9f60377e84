/* Recipes: corpora that anneal prepares by itself from what the distribution installs. No network, ever. */
#ifndef ANNEAL_DATASETS_RECIPE_H
#define ANNEAL_DATASETS_RECIPE_H

#include <stddef.h>
#include <stdio.h>

#include "core/base/err.h"
#include "datasets/progress.h"

struct recipe {
    const char *name;
    const char *summary; /* one line */
    const char *package; /* what apt must have installed */
    /* *text is yours to free; STATUS_NOT_FOUND with the remedy where the program that it runs is missing */
    enum status (*make)(const struct progress *progress, char **text, size_t *n, struct err *err);
};

/* All recipes, ending with one whose name is NULL. */
extern const struct recipe recipes[];

const struct recipe *recipe_find(const char *name); /* NULL: none of that name */

/* Makes sure the recipe's text lies in `folder`/NAME.txt (folder is made when missing) and puts that path
 * into `path`. A text that is there already is left as it is: STATUS_CORRUPT when it is not the one that was
 * made, by the checksum in NAME.txt.xxh3 (one made before checksums were kept has none, and is taken as it
 * is). The file appears whole or not at all. It is a copy of ../share/anneal/NAME.txt of the program's
 * folder, where a bundle has that, else it is made. */
enum status recipe_fetch(const struct recipe *recipe, const char *folder, const struct progress *progress,
                         char *path, size_t size, struct err *err);

/* The recipe "kjv" reads `raw`, lines such as "Ge1:1 In the beginning …" as the program "bible" prints them,
 * and lays them out for learning the structure: each chapter begins with its name on a line of its own
 * between empty lines ("Genesis 1", "1 Corinthians 13"), then one verse a line, without references. *text is
 * yours to free. STATUS_FAILED for anything but the whole Bible. */
enum { KJV_VERSES = 31102, KJV_CHAPTERS = 1189, KJV_BOOKS = 66 };
enum status recipe_kjv_layout(FILE *raw, const struct progress *progress, char **text, size_t *n,
                              struct err *err);

#endif
