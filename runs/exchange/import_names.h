/* Private to runs/exchange: words of ours for the names that other programs give to settings. Names that
 * differ in signs or far behind have the same word, and none may be lost: the second one gets a number. */
#ifndef ANNEAL_RUNS_EXCHANGE_IMPORT_NAMES_H
#define ANNEAL_RUNS_EXCHANGE_IMPORT_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct import_names { /* zero it before its first use */
    struct import_name {
        uint64_t hash; /* of the name */
        char word[128];
    } * all;
    size_t count, capacity;
};

/* NULL: it has no word yet. */
struct import_name *import_names_find(const struct import_names *names, uint64_t hash);

/* Gives a name that has none the word, or that with a number, in fewer than `size` bytes (at most 128). NULL:
 * memory is short. */
struct import_name *import_names_add(struct import_names *names, uint64_t hash, const char *word,
                                     size_t size);

void import_names_release(struct import_names *names);

#endif
