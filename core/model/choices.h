/* The options with fixed words, as enums: those that core/model/config.def lists with CHOICES. For a
 * constant, optimizer_kind_word(kind) and the like return its word. */
#ifndef ANNEAL_CORE_MODEL_CHOICES_H
#define ANNEAL_CORE_MODEL_CHOICES_H

/* clang-format off */
#define WORD(constant, word) constant,
#define CHOICES(type, count, words) enum type { words count };
#include "core/model/config.def"
#define WORD(constant, word) [constant] = word,
#define CHOICES(type, count, ...) \
    static inline const char *type##_word(enum type choice) { static const char *const words[] = {__VA_ARGS__}; return words[choice]; }
#include "core/model/config.def"
/* clang-format on */

#endif
