/* See key_names.h. */
#include "core/model/key_names.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

/* clang-format off */
static const char *const keys[] = {
#define KEY(section, name, ...) #section "." #name,
#include "core/model/config.def"
}, *const group_keys[] = {
#define GROUP_KEY(name, ...) #name,
#include "core/model/config.def"
};
static const struct {
    const char *key, *words; /* each word between blanks */
} aliases[] = {
#define ALIASES(key, words) {key, " " words " "},
#include "core/model/config.def"
};
/* clang-format on */
static const char of_group[] = "param_group.";
enum { KEYS = sizeof keys / sizeof *keys, GROUP_KEYS = sizeof group_keys / sizeof *group_keys };

static bool is_of_group(const char *full)
{
    return strncmp(full, of_group, sizeof of_group - 1) == 0;
}

static const char *find_alias(const char *name, bool group)
{
    char word[80];
    snprintf(word, sizeof word, " %.70s ", name);
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (is_of_group(aliases[i].key) == group && strstr(aliases[i].words, word))
            return aliases[i].key + (group ? sizeof of_group - 1 : 0);
    return NULL;
}

const char *key_name_suggest(const char *full)
{
    const char *dot = strrchr(full, '.'), *last = dot ? dot + 1 : full;
    bool group = is_of_group(full);
    const char *key = find_alias(full, group);
    if (!key) key = find_alias(last, group);
    if (!key) key = group ? text_nearest(last, group_keys, GROUP_KEYS) : text_nearest(full, keys, KEYS);
    for (size_t i = 0; !key && i < KEYS; i++)
        if (strcmp(strchr(keys[i], '.') + 1, last) == 0) key = keys[i];
    return key;
}
