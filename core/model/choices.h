/* The options with fixed words, as enums: those that core/model/config.def lists with CHOICES.
 * optimizer_kind_word(kind) and its likes give the word of a constant. */
#ifndef ANNEAL_CORE_MODEL_CHOICES_H
#define ANNEAL_CORE_MODEL_CHOICES_H

/* clang-format off */
#define WORD(constant, word) constant,
#define CHOICES(type, count, words) enum type { words count }; const char *type##_word(enum type choice);
#include "core/model/config.def"
/* clang-format on */

#endif
