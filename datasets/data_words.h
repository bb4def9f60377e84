/* What the value of data.train or data.val stands for: token files, or texts that become one.
 *
 *     value  = name { "," name }      blanks around a name are passed over
 *     name   = a path, a recipe, or a pattern with * ? [ ] (as in a shell, sorted by bytes)
 *
 * A value, or a name, that exists as a path is that path, whatever signs it has. A name that ends with ".tok"
 * or
 * ".bin" is a token file. So is a folder that holds such files, at any depth, and else only .json; it stands
 * for them in sorted order. Anything else is text. Token files and texts are not mixed, and no token file is
 * named twice: its tokens would be trained on and held out at the same time. */
#ifndef ANNEAL_DATASETS_DATA_WORDS_H
#define ANNEAL_DATASETS_DATA_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"

struct data_words {
    char **names; /* count of them, at least one; owned */
    size_t count, capacity;
    bool tokens; /* the names are those of token files; else words for text_inputs_open */
};

/* STATUS_NOT_FOUND for a pattern that nothing matches, STATUS_USAGE for an empty name and what is said above.
 * Whether files that are named are there is found out by who opens them. */
enum status data_words_open(const char *value, struct data_words *out, struct err *err);
void data_words_close(struct data_words *words); /* harmless on a zeroed struct */

/* Puts the current folder before every relative name in `value` that leads somewhere, so that it means the
 * same from any folder; a recipe's name stays. False, and nothing changed, when that needs more than `size`
 * bytes. */
bool data_words_absolute(char *value, size_t size);

#endif
