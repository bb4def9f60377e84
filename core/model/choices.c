/* See choices.h. */
#include "core/model/choices.h"

/* clang-format off */
#define WORD(constant, word) [constant] = word,
#define CHOICES(type, count, ...) \
    const char *type##_word(enum type choice) { static const char *const words[] = {__VA_ARGS__}; return words[choice]; }
#include "core/model/config.def"
/* clang-format on */
