/* The keys of config.json, and of peft's adapter_config.json, that anneal understands, or that change
 * nothing: a list, so that a file which means something else is refused and never computed as if it said
 * less. */
#ifndef ANNEAL_CORE_MODEL_HUGGING_FACE_KEYS_H
#define ANNEAL_CORE_MODEL_HUGGING_FACE_KEYS_H

#include "core/base/err.h"
#include "core/model/choices.h"

struct json_t; /* of Jansson */

/* STATUS_USAGE names all keys of the object that could change what a model of this kind computes: those that
 * are not in the list, and those with another value than the one that changes nothing. null is the same as no
 * key; keys that begin with _ are notes. `path` is for the message. */
enum status hugging_face_check_keys(const struct json_t *config, enum model_kind kind, const char *path,
                                    struct err *err);

/* The same for the object that describes the rotary positions, called `name` in the file. */
enum status hugging_face_check_rope_keys(const struct json_t *rope, enum rope_scaling scaling,
                                         const char *name, const char *path, struct err *err);

/* The same for the description of adapters. */
enum status hugging_face_check_adapter_keys(const struct json_t *config, const char *path, struct err *err);

#endif
