/* See import_names.h. */
#include "runs/exchange/import_names.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

struct import_name *import_names_find(const struct import_names *names, uint64_t hash)
{
    for (size_t i = 0; i < names->count; i++)
        if (names->all[i].hash == hash) return &names->all[i];
    return NULL;
}

static bool is_used(const struct import_names *names, const char *word)
{
    size_t i = 0;
    while (i < names->count && strcmp(names->all[i].word, word) != 0) i++;
    return i < names->count;
}

static void choose_word(const struct import_names *names, struct import_name *name, const char *word,
                        size_t size)
{
    char chosen[sizeof name->word];
    size_t kept = strlen(word) < size - 8 ? strlen(word) : size - 8;
    kept -= utf8_incomplete_tail(word, kept);
    snprintf(chosen, size, "%s", word);
    for (int n = 2; *word && is_used(names, chosen); n++)
        snprintf(chosen, size, "%.*s_%d", (int)kept, word, n);
    snprintf(name->word, size, "%s", chosen);
}

struct import_name *import_names_add(struct import_names *names, uint64_t hash, const char *word, size_t size)
{
    if (!list_reserve(&names->all, names->count, 1, &names->capacity, sizeof *names->all)) return NULL;
    struct import_name *name = &names->all[names->count];
    *name = (struct import_name){.hash = hash};
    choose_word(names, name, word, size);
    names->count++;
    return name;
}

void import_names_release(struct import_names *names)
{
    free(names->all);
    *names = (struct import_names){0};
}
