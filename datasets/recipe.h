/* Recipes: corpora that anneal prepares from packages of the distribution. No network access, ever. */
#ifndef ANNEAL_DATASETS_RECIPE_H
#define ANNEAL_DATASETS_RECIPE_H

#include <stddef.h>
#include <stdio.h>

#include "core/base/err.h"
#include "datasets/progress.h"

struct recipe {
    const char *name;
    const char *summary; /* one line */
    const char *package; /* the apt package that it needs */
    /* The caller frees *text. STATUS_NOT_FOUND, with the remedy, if the program that it runs is missing. */
    enum status (*make)(const struct progress *progress, char **text, size_t *n, struct err *err);
};

/* All recipes, ending with one whose name is NULL. */
extern const struct recipe recipes[];

const struct recipe *recipe_find(const char *name); /* NULL: none of that name */

/* Makes sure that the recipe's text is in `folder`/NAME.txt (folder is created if missing) and sets `path` to
 * it. An existing text is not replaced: STATUS_CORRUPT if it was changed, by the checksum in NAME.txt.xxh3
 * (one without a checksum, from an older version, is accepted). The file appears whole or not at all: a copy
 * of ../share/anneal/NAME.txt of the program's folder if a bundle has that, else made by the recipe. */
enum status recipe_fetch(const struct recipe *recipe, const char *folder, const struct progress *progress,
                         char *path, size_t size, struct err *err);

/* The recipe "kjv" reads `raw`, lines such as "Ge1:1 In the beginning …" printed by the program "bible", and
 * formats them so that a model can learn the structure: each chapter begins with its name on a separate line
 * between empty lines ("Genesis 1", "1 Corinthians 13"), then one verse per line, without references. The
 * caller frees *text. STATUS_FAILED for anything but the whole Bible. */
enum { KJV_VERSES = 31102, KJV_CHAPTERS = 1189, KJV_BOOKS = 66 };
enum status recipe_kjv_layout(FILE *raw, const struct progress *progress, char **text, size_t *n,
                              struct err *err);

#endif
