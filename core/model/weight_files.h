/* The safetensors files that hold the weights of a model in a folder: one model.safetensors, or, as Hugging
 * Face splits large models, the shards that model.safetensors.index.json lists. After opening, every tensor
 * is in exactly one file, and index and shards agree about which.
 *
 * An index is as little trusted as any file: a shard is a plain name in the same folder. Its total_size is
 * not looked at: writers disagree about what it counts, and shapes and dtypes say it all. */
#ifndef ANNEAL_CORE_MODEL_WEIGHT_FILES_H
#define ANNEAL_CORE_MODEL_WEIGHT_FILES_H

#include "core/model/safetensors.h"

struct weight_file {
    char *path;
    struct safetensors content;
};

struct weight_files {
    char *path; /* what speaks for all: of the one file, or of the index */
    struct weight_file *files;
    size_t count;
    struct arena arena; /* owns files and paths */
};

/* STATUS_NOT_FOUND where there is neither; STATUS_CORRUPT for an index or a file that cannot be trusted. */
enum status weight_files_open(const char *folder, struct weight_files *out, struct err *err);
/* Of one file of any name. */
enum status weight_files_open_one(const char *path, struct weight_files *out, struct err *err);
void weight_files_close(struct weight_files *files); /* harmless on a zeroed struct */

/* The tensor of that name, and which file holds it; NULL when absent. */
const struct safetensor *weight_files_find(const struct weight_files *files, const char *name,
                                           const struct weight_file **file);

#endif
