/* The text files that words on a command line or in a configuration stand for: a file, a folder (all regular
 * files below it in sorted order; names with a leading dot are passed over), or a recipe's name. */
#ifndef ANNEAL_DATASETS_TEXT_INPUTS_H
#define ANNEAL_DATASETS_TEXT_INPUTS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/file.h"
#include "datasets/progress.h"

struct text_inputs {
    char **paths; /* count of them */
    size_t count, capacity;
};

/* A recipe comes before a file of the same name ("./kjv" is the file); its text is kept in `cache`. */
enum status text_inputs_open(const char *const *words, size_t count, const char *cache,
                             const struct progress *progress, struct text_inputs *out, struct err *err);
/* STATUS_USAGE when `path` is one of the files, under this or another name: writing it would destroy the
 * text. */
enum status text_inputs_refuse_output(const struct text_inputs *inputs, const char *path, struct err *err);
void text_inputs_close(struct text_inputs *inputs); /* harmless on a zeroed struct */

/* Tells `progress` how many files there are and which, when more than one, and warns of those that look
 * binary: a NUL, or more than 30 % that is not UTF-8, in their first 64 KiB. They are read all the same,
 * every byte is a token. */
void text_inputs_note(const struct text_inputs *inputs, const struct progress *progress);

/* Maps the files one after the other. `visit` gets each text, the bytes of the files before it and of all
 * files. STATUS_FAILED when all files together are empty. */
typedef enum status (*text_visitor)(void *context, const char *path, const char *text, size_t n,
                                    uint64_t before, uint64_t total, struct err *err);
enum status text_inputs_each(const struct text_inputs *inputs, text_visitor visit, void *context,
                             struct err *err);

/* A part of a larger piece of work: reports of [0, part] become reports of [before, before + part] of total.
 */
struct progress_part {
    const struct progress *whole;
    uint64_t before, total;
    struct progress progress; /* what the part is given */
};
void progress_part_init(struct progress_part *part, const struct progress *whole, uint64_t before,
                        uint64_t total);

#endif
