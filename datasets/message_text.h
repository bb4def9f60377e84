/* The text of a message as chat templates get it. */
#ifndef ANNEAL_DATASETS_MESSAGE_TEXT_H
#define ANNEAL_DATASETS_MESSAGE_TEXT_H

#include <jansson.h>
#include <stddef.h>

#include "datasets/tokenizer.h"

/* The special token that begins at text[0..n), or NULL. */
const struct added_token *message_special_at(const struct tokenizer *tokenizer, const char *text, size_t n);

/* The text as a JSON string: with U+FFFD for what is not UTF-8, as transformers decodes it, and with a
 * zero-width space in each name of a special token, so that it stays text, unless `tokenizer` is NULL. NULL:
 * no memory. */
json_t *message_text_new(const struct tokenizer *tokenizer, const char *text, size_t n);

#endif
