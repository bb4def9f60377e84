/* Companions: the files next to a model's weights that say how its text begins, ends and is formatted.
 * Training does not use them: each checkpoint passes them on as they were. A model that was trained on from a
 * Hugging Face folder so keeps its end tokens and its chat template.
 *
 * They name tokens by id, so they are only right for the tokenizer in the same folder. */
#ifndef ANNEAL_CORE_CHECKPOINT_COMPANIONS_H
#define ANNEAL_CORE_CHECKPOINT_COMPANIONS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "datasets/tokenizer.h"

struct json_t; /* of Jansson */

enum companion {
    COMPANION_GENERATION_CONFIG,
    COMPANION_TOKENIZER_CONFIG,
    COMPANION_SPECIAL_TOKENS,
    COMPANION_CHAT_TEMPLATE,
    COMPANION_TOKENIZER, /* only where the tokenizer in use is not known */
    COMPANIONS
};

struct companions {
    struct companion_file {
        char *bytes; /* owned; NULL: there is no such file */
        size_t size;
    } files[COMPANIONS];
    struct json_t *ids; /* "eos_token_id" and others of config.json; NULL: it names none; owned */
};

/* Reads the companions in `folder`, if its tokenizer.json defines the same tokens as `tokenizer`; else there
 * are none. tokenizer NULL: the token files in use name none, so the folder's is taken to be theirs.
 * STATUS_IO, STATUS_CORRUPT or STATUS_NO_MEMORY: a file cannot be read. */
enum status companions_read(const char *folder, const struct tokenizer *tokenizer, struct companions *out,
                            struct err *err);
/* Replaces one by n bytes, which are copied. */
enum status companions_put(struct companions *companions, enum companion which, const char *bytes, size_t n,
                           struct err *err);
/* Makes the token one of those that end a text, in generation_config.json, beside those that do so already.
 */
enum status companions_add_end(struct companions *companions, uint32_t token, struct err *err);
/* Writes them into `folder`, the ids into its config.json where that has none. */
enum status companions_write(const struct companions *companions, const char *folder, struct err *err);
void companions_release(struct companions *companions); /* harmless on a zeroed struct */

#endif
