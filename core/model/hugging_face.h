/* config.json, which Hugging Face's transformers needs to open a model: written next to exported weights,
 * read to learn the sizes of a model in a folder. Llama, Mistral, Qwen2 and Qwen3. */
#ifndef ANNEAL_CORE_MODEL_HUGGING_FACE_H
#define ANNEAL_CORE_MODEL_HUGGING_FACE_H

#include "core/model/model.h"

/* Replaces the file atomically. `classes` are those of a classifier, named or not; else they do not matter.
 */
enum status hugging_face_write_config(const struct model_config *config, const struct classes *classes,
                                      const char *path, struct err *err);

/* The sizes of the model in a folder. STATUS_CORRUPT or STATUS_USAGE: a missing or impossible key, an
 * unsupported model or rotary scaling, a key that could change what the model computes and that
 * hugging_face_keys.h does not list. */
enum status hugging_face_read_config(const char *folder, struct model_config *out, struct err *err);

/* Reads model_type alone, of any model, also of an unsupported one; false: there is no config.json that can
 * be read, or it has none that fits. */
bool hugging_face_read_type(const char *folder, char *type, size_t size);

/* Reads the classes of the classifier in a folder into `model`, which has its sizes: names from
 * id2label, LABEL_0 and so on where it has none. */
enum status hugging_face_read_classes(const char *folder, struct model *model, struct err *err);

/* The folder of an imported model, existing or not: $ANNEAL_HOME/models/NAME. Wherever a model's folder is
 * expected, its name will do. */
enum status imported_model_folder(const char *name, char *folder, size_t size, struct err *err);

/* Whether `word` is the name of an imported model; if so, sets `folder`. */
bool imported_model_find(const char *word, char *folder, size_t size);

#endif
