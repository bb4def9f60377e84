/* adapter_config.json and the names in adapter_model.safetensors, as the Python library peft writes and reads
 * them. A file that means something that anneal does not compute is refused. */
#ifndef ANNEAL_CORE_MODEL_ADAPTER_FILE_H
#define ANNEAL_CORE_MODEL_ADAPTER_FILE_H

#include "core/base/err.h"
#include "core/model/model.h"
#include "core/model/safetensors.h"

/* Before the name of each parameter in the file. */
#define ADAPTER_FILE_PREFIX "base_model.model."

/* Identifies a model's weights: XXH64 over names, types and shapes of the tensors, in the order of their
 * names, and over up to 4 KiB from the beginning and the middle of each. So it does not depend on shards,
 * takes no time, and another model or another training gives another hash; it is no check for damage. Never
 * 0. */
uint64_t adapter_base_hash(const struct safetensors *weights);

/* Writes adapter_config.json for a model with adapters. */
enum status adapter_file_write(const struct model *model, const char *path, struct err *err);

/* Whether the folder holds adapters: there is an adapter_config.json. */
bool adapter_file_exists(const char *folder);
/* STATUS_USAGE: it holds none. */
enum status adapter_file_require(const char *folder, struct err *err);

/* Reads what the adapters in FOLDER are: rank, scale and dropout from adapter_config.json, the matrices that
 * have one from the names in adapter_model.safetensors. base->folder: the base model as the file names it,
 * the folder of an imported model of that name, or ""; base->hash: as anneal has noted it, or 0. STATUS_USAGE
 * names a key or tensor that anneal does not know, or that has another value than it computes. */
enum status adapter_file_read(const char *folder, struct adapter_config *out, struct adapter_base *base,
                              struct err *err);

/* Whether adapter_config.json of FOLDER is for this model, as far as it says, which matters without a hash of
 * the base: that the base has the same model_type, and that a head that is the embedding stays so.
 * STATUS_USAGE: it is not. */
enum status adapter_file_check(const char *folder, const struct model *model, struct err *err);

#endif
