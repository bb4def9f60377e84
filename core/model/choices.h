/* The options with fixed words, as enums: those that core/model/config.def lists with CHOICES. For a
 * constant, optimizer_kind_word(kind) and the like return its word; for a word, optimizer_kind_find(word) and
 * the like its constant, -1 if there is none or `word` is NULL. */
#ifndef ANNEAL_CORE_MODEL_CHOICES_H
#define ANNEAL_CORE_MODEL_CHOICES_H

#include <string.h>

/* clang-format off */
#define WORD(constant, word) constant,
#define CHOICES(type, count, words) enum type { words count };
#include "core/model/config.def"
#define WORD(constant, word) [constant] = word,
#define CHOICES(type, count, ...) \
    static inline const char *type##_word(enum type choice) { static const char *const words[] = {__VA_ARGS__}; return words[choice]; } \
    static inline int type##_find(const char *word) \
    { \
        int i = word ? 0 : count; \
        while (i < count && strcmp(word, type##_word((enum type)i)) != 0) i++; \
        return i < count ? i : -1; \
    }
#include "core/model/config.def"
/* clang-format on */

#endif
