/* Folders that are being made in the cache: "NAME.tmp-PID" beside the NAME they will be renamed to, locked by
 * their maker for as long as it lives, so that what a killed one has left can be told from a living one's. */
#ifndef ANNEAL_DATASETS_UNFINISHED_H
#define ANNEAL_DATASETS_UNFINISHED_H

#include "core/base/err.h"

struct unfinished {
    char path[4096]; /* "": none */
    int fd;          /* holds the lock; -1: none */
};

/* Makes the folder for `folder`, a path with a 32-digit key as its last part. */
enum status unfinished_open(const char *folder, struct unfinished *out, struct err *err);
/* Removes it, unless it has been renamed; harmless after a failed open and on {"", -1}. */
void unfinished_close(struct unfinished *making);

/* Removes from `cache` the folders of makers that are gone, and texts of recipes that one left half-written
 * an hour ago or more. A living maker's are not touched, and what cannot be removed is left. */
void unfinished_sweep(const char *cache);

#endif
