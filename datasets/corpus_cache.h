/* What corpus_open keeps of texts it has encoded (see corpus.h): to list it, and to be rid of it. An entry is
 * a folder with a 32-digit key for a name; anything else in the cache, as the texts of recipes, is not looked
 * at. */
#ifndef ANNEAL_DATASETS_CORPUS_CACHE_H
#define ANNEAL_DATASETS_CORPUS_CACHE_H

#include <stdint.h>

#include "core/base/err.h"

struct corpus_cache_entry {
    const char *path, *key;
    const char *tokenizer; /* "bytes", "bpe:2048", a path; "" for an entry that cannot be read */
    uint64_t tokens;       /* 0 likewise */
    uint64_t bytes;        /* of its files */
};

/* Calls visit for every entry, in no order; what it borrows is gone after the call. It may remove the entry.
 * A status other than STATUS_OK ends the walk and is its result. A cache that is not there has no entries. */
enum status corpus_cache_each(const char *cache,
                              enum status (*visit)(void *context, const struct corpus_cache_entry *entry,
                                                   struct err *err),
                              void *context, struct err *err);

/* Removes an entry: at once for whoever looks for it. A process that has it open keeps reading it. */
enum status corpus_cache_remove(const char *path, struct err *err);

#endif
