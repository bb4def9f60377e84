/* The files that a value of data.train or data.val, or a command line, names: token files, or texts.
 *
 *     value  = name [":" weight] { "," name [":" weight] }      blanks around both are ignored
 *     name   = a path, a recipe, or a pattern with * ? [ ] (as in a shell, sorted by bytes)
 *
 * Either all names have weights, numbers above 0, or none: with weights the names are the sources of a
 * mixture.
 *
 * A value, or a name, that exists as a path is that path, whatever characters it has; only a recipe takes
 * precedence over a file of its name ("./kjv" is the file). A folder means all regular files below it in
 * sorted order, except names with a leading dot. A file whose name ends with ".tok" or ".bin" is a token
 * file, any other is a text (text_pieces.h); a folder of token files may also contain .json files, which are
 * ignored. Binary files (a NUL in the first 8,000 bytes, decompressed where they are compressed) among the
 * texts of a folder or a pattern are skipped, also those named .bin that do not begin like a token file. Of
 * the links in a folder only those to files count.
 * Token files and texts cannot be mixed, and no token file may be named twice: its tokens would be both
 * trained on and held out. */
#ifndef ANNEAL_DATASETS_INPUTS_H
#define ANNEAL_DATASETS_INPUTS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"
#include "datasets/progress.h"

enum { INPUT_SOURCES_MAX = 24, INPUT_SOURCE_NAME = 40 };

/* The files paths[first … first + count), and their share of the training data. */
struct input_source {
    size_t first, count;
    double weight;
    char name[INPUT_SOURCE_NAME]; /* of the file or folder, without ending; another one for each source */
};

struct inputs {
    char **paths; /* count of them, at least one; owned */
    size_t count, capacity;
    bool tokens;                  /* token files, which need not exist; else texts */
    size_t skipped;               /* number of skipped binary files */
    char *first_skipped;          /* the first of them; NULL: none; owned */
    size_t dead_links;            /* number of links in folders that lead to no file */
    char *first_dead_link;        /* the first of them; NULL: none; owned */
    struct input_source *sources; /* source_count of them, owned */
    size_t source_count;          /* 0: names have no weights */
};

/* Whether both names are of one file or folder that exists. */
bool inputs_same_file(const char *a, const char *b);

/* STATUS_USAGE if names have weights: `key` is the key that takes none. */
enum status inputs_refuse_weights(const struct inputs *inputs, const char *key, struct err *err);

/* Recipes' texts are stored in `cache`; NULL: recipes are not made and stay names. STATUS_NOT_FOUND for a
 * missing file and for a pattern without a match, STATUS_USAGE for an empty name, bad weights, and for the
 * mistakes named above. */
enum status inputs_open(const char *value, const char *cache, const struct progress *progress,
                        struct inputs *out, struct err *err);
/* Whether a file is listed twice, with the sentence. Such texts would be trained on twice as often and, as
 * the parts to train on and to measure are cut from all texts together, one copy could be in each. A list
 * with another mistake does not count. inputs_open refuses repeated token files and sources, but no texts:
 * runs have begun with such a list, and go on. */
bool inputs_repeat(const char *value, struct err *err);
/* The same from names alone: recipes stay names, and it opens no file and no folder inside a folder. So it is
 * quick for whatever is typed into a form. */
enum status inputs_peek(const char *value, struct inputs *out, struct err *err);
/* inputs_open for words that are neither lists nor patterns; all files are texts. STATUS_USAGE for a word
 * that is a token file. */
enum status inputs_open_texts(const char *const *words, size_t count, const char *cache,
                              const struct progress *progress, struct inputs *out, struct err *err);
void inputs_close(struct inputs *inputs); /* harmless on a zeroed struct */

/* STATUS_USAGE if `path` is one of the files, under any name: writing it would destroy the input. */
enum status inputs_refuse_output(const struct inputs *inputs, const char *path, struct err *err);

/* Reports to `progress` the number of texts, if more than one, and warns of skipped binary files and links,
 * and of texts that look binary: a NUL, or more than 30 % invalid UTF-8, in their first 64 KiB; it still
 * reads these. */
void inputs_note(const struct inputs *texts, const struct progress *progress);

/* Makes every relative path in `value` absolute, so that it has the same meaning in any folder; recipes'
 * names stay. Returns false, with nothing changed, if that needs more than `size` bytes. */
bool inputs_make_absolute(char *value, size_t size);

#endif
