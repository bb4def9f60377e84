/* config.json, the description by which Hugging Face's transformers opens a model: written beside our
 * weights, read back to know what a folder holds. Llama, Qwen2 and Qwen3. */
#ifndef ANNEAL_CORE_MODEL_HUGGING_FACE_H
#define ANNEAL_CORE_MODEL_HUGGING_FACE_H

#include "core/model/model.h"

/* Atomic. */
enum status hugging_face_write_config(const struct model_config *config, const char *path, struct err *err);

/* A missing or impossible key, an architecture or rotary scaling that we do not compute: one sentence. */
enum status hugging_face_read_config(const char *path, struct model_config *out, struct err *err);

/* Models that were imported: folders of $ANNEAL_HOME/models, which go by their names wherever the folder of a
 * model is asked for. Where the model of that name is, or would be. */
enum status imported_model_folder(const char *name, char *folder, size_t size, struct err *err);

/* Whether `word` is the name of one; then its folder. */
bool imported_model_find(const char *word, char *folder, size_t size);

#endif
