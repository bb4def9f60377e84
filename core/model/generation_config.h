/* The files next to a model's weights that say how it begins, ends and formats text: generation_config.json,
 * config.json, tokenizer_config.json, chat_template.jinja. All of them are optional. */
#ifndef ANNEAL_CORE_MODEL_GENERATION_CONFIG_H
#define ANNEAL_CORE_MODEL_GENERATION_CONFIG_H

#include <stdint.h>

#include "core/base/err.h"
#include "core/model/config.h"
#include "datasets/chat_template.h"

struct json_t; /* of Jansson */

enum { END_TOKENS_MAX = 16 };

/* Ids of the tokens that have a meaning for generation; -1: the model's files name none. */
struct special_tokens {
    int64_t bos, pad;
    int64_t eos[END_TOKENS_MAX]; /* each of them ends a text */
    int eos_count;
};

/* Reads the ids of the model in `folder`: each from generation_config.json or, if that does not name it, from
 * config.json. STATUS_CORRUPT: a file is not JSON, or an id is not a whole number from 0 to 2^31 - 1. */
enum status special_tokens_read(const char *folder, struct special_tokens *out, struct err *err);

/* The same with the files in the other order: what the config.json of a copy of the model should name. */
enum status special_tokens_of_config(const char *folder, struct special_tokens *out, struct err *err);

/* The chat template of the model in `folder`, which the caller frees: the file chat_template.jinja or, if
 * there is none, "chat_template" of tokenizer_config.json, of several the one named "default". NULL: the
 * model has none. STATUS_CORRUPT: a file is not UTF-8, not JSON, or contains a NUL. */
enum status chat_template_read(const char *folder, char **out, struct err *err);

/* The format of conversations with the model in `folder`, with the chat template of the file `path`; NULL:
 * the model's own. STATUS_NOT_FOUND: it has none. On failure there is nothing to release. */
enum status chat_format_read(const char *folder, const char *path, struct chat_format *out, struct err *err);

/* The same for a configuration: of model.from or, without one, of the folder of data.tokenizer, and with the
 * chat template of data.template, if that is set. */
enum status chat_format_of_config(const struct config *config, struct chat_format *out, struct err *err);

/* The texts of the special tokens of the model in `folder`, as chat templates use them: an object of strings
 * such as "bos_token", from special_tokens_map.json and, before that, tokenizer_config.json. Empty: the model
 * names none. The caller decrefs it. STATUS_CORRUPT: a file is not JSON. */
enum status special_texts_read(const char *folder, struct json_t **out, struct err *err);

#endif
