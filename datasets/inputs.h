/* The files that a value of data.train or data.val, or a command line, stands for: token files, or texts.
 *
 *     value  = name { "," name }      blanks around a name are passed over
 *     name   = a path, a recipe, or a pattern with * ? [ ] (as in a shell, sorted by bytes)
 *
 * A value, or a name, that exists as a path is that path, whatever signs it has; only a recipe comes before a
 * file of its name ("./kjv" is the file). A folder stands for all regular files below it in sorted order;
 * names with a leading dot are passed over. A file whose name ends with ".tok" or ".bin" is a token file, any
 * other is a text; a folder of token files may also hold .json, which is passed over. Among texts that a
 * folder or a pattern brings, binary files are skipped: those with a NUL in their first 8,000 bytes. Token
 * files and texts are not mixed, and no token file is named twice: its tokens would be trained on and held
 * out at the same time. */
#ifndef ANNEAL_DATASETS_INPUTS_H
#define ANNEAL_DATASETS_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/progress.h"

struct inputs {
    char **paths; /* count of them, at least one; owned */
    size_t count, capacity;
    bool tokens;         /* they are token files, which need not be there; else texts */
    size_t skipped;      /* binary files that are left out */
    char *first_skipped; /* one of them; NULL: there is none; owned */
};

/* Recipes' texts are kept in `cache`; NULL: only names are wanted, recipes stay theirs and no text is looked
 * at. STATUS_NOT_FOUND for what is not there and for a pattern that nothing matches, STATUS_USAGE for an
 * empty name and for what is said above. */
enum status inputs_open(const char *value, const char *cache, const struct progress *progress,
                        struct inputs *out, struct err *err);
/* The same for words that are neither lists nor patterns; whatever they name is text. */
enum status inputs_open_texts(const char *const *words, size_t count, const char *cache,
                              const struct progress *progress, struct inputs *out, struct err *err);
void inputs_close(struct inputs *inputs); /* harmless on a zeroed struct */

/* STATUS_USAGE when `path` is one of the files, under this or another name: writing it would destroy it. */
enum status inputs_refuse_output(const struct inputs *inputs, const char *path, struct err *err);

/* Reports to `progress` how many texts there are, when more than one, and warns of binary files that were
 * skipped, and of texts that look binary: a NUL, or more than 30 % that is not UTF-8, in their first 64 KiB.
 * Those are read all the same, whatever their bytes are. */
void inputs_note(const struct inputs *texts, const struct progress *progress);

/* Maps the texts one after the other. `visit` gets each, the bytes of those before it and of all.
 * STATUS_FAILED when all together are empty. */
typedef enum status (*text_visitor)(void *context, const char *path, const char *text, size_t n,
                                    uint64_t before, uint64_t total, struct err *err);
enum status inputs_each(const struct inputs *texts, text_visitor visit, void *context, struct err *err);

/* Puts the current folder before every relative name in `value` that leads somewhere, so that it means the
 * same from any folder; a recipe's name stays. False, and nothing changed, when that needs more than `size`
 * bytes. */
bool inputs_make_absolute(char *value, size_t size);

#endif
